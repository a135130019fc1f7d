//! What a caller wants of the control groups, and where.

use std::path::{Component, Path};

use crate::error::{CgroupError, Unusable};
use crate::layout::Controller;

/// Cgroup of the unified hierarchy that was delegated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delegation<'a> {
    /// Another than this process's own: its path below the mount. It outlives this process, whose
    /// own cgroup stays as it is.
    Beside(&'a str),
    /// The process's own, as decided by systemd's mark (`Delegate=yes`: attribute `user.delegate`
    /// or `trusted.delegate`).
    AsMarked,
    /// The process's own, with or without a mark.
    Given,
    /// No delegation.
    None,
}

/// Directories for the agent's cgroups, and the controllers they need.
#[derive(Clone, Copy, Debug)]
pub struct RootConfig<'a> {
    /// Path below each mount, used unless a cgroup was delegated. Leading and trailing slashes do
    /// not matter. `None`: only a delegated cgroup will do.
    pub hierarchy: Option<&'a str>,
    /// Controllers that the caller would like to use.
    pub wanted: &'a [Controller],
    /// Cgroup that counts as delegated.
    pub delegation: Delegation<'a>,
    /// Name, below a delegated cgroup that this process is in, of the leaf for the process: a
    /// cgroup that enables controllers for its children may hold no processes.
    pub own_leaf: &'a str,
    /// Name, below the delegated cgroup, of the cgroup that holds everything made here.
    pub delegated_root: &'a str,
}

impl RootConfig<'_> {
    /// Returns the reason if nothing else says why no hierarchy can be used.
    pub(crate) fn without_hierarchy(&self) -> Unusable {
        match self.hierarchy {
            Some(_) => Unusable::NotMounted,
            None => Unusable::NotDelegated,
        }
    }
}

/// Splits the configured path into names. Refuses `..`, `.`, NUL and more than 32 levels.
pub(crate) fn components(hierarchy: &str) -> Result<Vec<&str>, CgroupError> {
    let trimmed = hierarchy.trim_matches('/');
    Path::new(trimmed)
        .components()
        .map(|component| match component {
            Component::Normal(name) => name.to_str(),
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir => None,
        })
        .collect::<Option<Vec<&str>>>()
        .filter(|names| !trimmed.contains('\0') && names.len() <= 32)
        .ok_or_else(|| CgroupError::Name {
            name: hierarchy.chars().take(255).collect(),
        })
}
