//! The agent's own directory in each hierarchy: found, created and locked, with controllers enabled
//! for its children.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::account::Account;
use crate::delegation::{Delegated, delegated, move_to_leaf};
use crate::dir::{Dir, checked_name};
use crate::error::{CgroupError, Unusable};
use crate::files::{Files, HierarchyDir, HierarchyDirs, Kind};
use crate::group::Cgroup;
use crate::layout::{Controller, Hierarchy, Layout, LegacyHierarchy, Version};
use crate::limits::{Limits, apply};
use crate::pressure::{PressureFile, Resource};
use crate::root_config::{RootConfig, components};
use crate::usage::{MemoryEvents, Sampler};

/// Limit on the cgroups of an earlier run that are looked for below one parent.
const LEFTOVERS_MAX: usize = 100_000;

/// Controllers that are not usable, with the reason.
#[derive(Debug)]
pub struct Missing {
    /// Controllers that were wanted. Empty if another hierarchy has all that were wanted of the
    /// failed one.
    pub controllers: Vec<Controller>,
    /// Reason why they are not usable.
    pub reason: Unusable,
}

/// The agent's directory in each hierarchy. While the value exists, no other process can open the
/// same one.
#[derive(Debug)]
pub struct Root {
    dirs: HierarchyDirs,
    version: Version,
    missing: Vec<Missing>,
    _lock: Flock<std::os::fd::OwnedFd>,
}

impl Root {
    /// Finds, creates and locks the directories. A hierarchy that cannot be used is left out and
    /// reported by [`Root::missing`].
    ///
    /// # Errors
    /// The first reason, if no hierarchy can be used: the caller has to do without cgroups.
    pub fn open(layout: &Layout, config: &RootConfig<'_>) -> Result<Self, Unusable> {
        let mut dirs = Vec::new();
        let mut missing = Vec::new();
        if let Some(unified) = &layout.unified {
            match open_unified(unified, config) {
                Ok((place, refused)) => {
                    missing.extend(refused);
                    dirs.push(place);
                }
                Err(reason) => missing.push(Missing {
                    controllers: unified_only(layout, config.wanted),
                    reason,
                }),
            }
        }
        let has_unified = !dirs.is_empty();
        for legacy in &layout.legacy {
            let controllers = wanted_from_legacy(legacy, config.wanted, has_unified);
            let (Some(path), false) = (config.hierarchy, controllers.is_empty()) else {
                continue;
            };
            match open_legacy(&legacy.hierarchy, path, &controllers) {
                Ok(place) => dirs.push(place),
                Err(reason) => missing.push(Missing {
                    controllers,
                    reason,
                }),
            }
        }
        let Some(first) = dirs.first() else {
            let first_reason = missing.into_iter().next().map(|missing| missing.reason);
            return Err(first_reason.unwrap_or_else(|| config.without_hierarchy()));
        };
        let lock = lock(&first.dir)?;
        let mut root = Self {
            dirs: dirs.into(),
            version: layout.version(),
            missing,
            _lock: lock,
        };
        let absent = unreported(config.wanted, &root.missing, |wanted| root.controls(wanted));
        root.missing.extend(absent);
        Ok(root)
    }

    /// Returns which cgroup versions the host mounts.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns whether a controller is usable.
    #[must_use]
    pub fn controls(&self, controller: Controller) -> bool {
        let files = Files::of(&self.dirs);
        let part_of_unified = controller.v2_name().is_none() && files.unified().is_some();
        part_of_unified || files.controller(controller).is_some()
    }

    /// Returns the wanted controllers that are not usable, with the reasons.
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Returns the directories, the unified hierarchy's first.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.dirs
            .iter()
            .map(|place| place.dir.path().to_path_buf())
            .collect()
    }

    /// Limits everything below together. At the top of a mount there are no files to write to.
    ///
    /// # Errors
    /// The first write that the kernel refuses; later ones are not tried.
    pub fn apply(&self, limits: &Limits) -> Result<(), CgroupError> {
        apply(Files::of(&self.dirs), limits)
    }

    /// Opens the parent `name`, creating it if needed.
    ///
    /// # Errors
    /// The kernel refuses to create it or to enable a controller.
    pub fn parent(&self, name: &str) -> Result<Parent, CgroupError> {
        checked_name(name)?;
        let mut dirs = Vec::with_capacity(self.dirs.len());
        for place in self.dirs.iter() {
            let dir = place.dir.child(name)?;
            if place.kind == Kind::V2 {
                for controller in &place.controllers {
                    enable_controller(&dir, *controller)?;
                }
            }
            dirs.push(HierarchyDir {
                kind: place.kind,
                controllers: place.controllers.clone(),
                dir,
            });
        }
        Ok(Parent { dirs: dirs.into() })
    }

    /// Removes the parent `name` and creates it again, so that no limit of an earlier run remains.
    ///
    /// # Errors
    /// `EBUSY` if the parent holds processes or cgroups; otherwise what the kernel refuses.
    pub fn recreate_parent(&self, name: &str) -> Result<Parent, CgroupError> {
        checked_name(name)?;
        for place in self.dirs.iter() {
            place.dir.remove(name)?;
        }
        self.parent(name)
    }
}

/// A cgroup that holds no processes, only the cgroups of one class.
#[derive(Clone, Debug)]
pub struct Parent {
    dirs: HierarchyDirs,
}

impl Parent {
    /// Creates a cgroup; an existing one of that name is used as it is.
    ///
    /// # Errors
    /// The kernel refuses. Directories created so far are removed again.
    pub fn create(&self, name: &str) -> Result<Cgroup, CgroupError> {
        checked_name(name)?;
        let group = Cgroup::new(Arc::clone(&self.dirs), name.to_owned());
        for place in self.dirs.iter() {
            if let Err(error) = place.dir.make(name) {
                // Removing an empty cgroup cannot fail, and the first error is the one that
                // matters.
                let _ = group.remove();
                return Err(error);
            }
        }
        Ok(group)
    }

    /// Returns the cgroup `name`, which need not exist. Touches no file.
    ///
    /// # Errors
    /// `name` cannot be the name of a cgroup.
    pub fn child(&self, name: &str) -> Result<Cgroup, CgroupError> {
        checked_name(name)?;
        Ok(Cgroup::new(Arc::clone(&self.dirs), name.to_owned()))
    }

    /// Limits everything below together.
    ///
    /// # Errors
    /// The first write that the kernel refuses; later ones are not tried.
    pub fn apply(&self, limits: &Limits) -> Result<(), CgroupError> {
        apply(Files::of(&self.dirs), limits)
    }

    /// Reads the counters of memory events of everything below.
    ///
    /// # Errors
    /// A file cannot be read or parsed.
    pub fn memory_events(&self) -> Result<MemoryEvents, CgroupError> {
        MemoryEvents::read(Files::of(&self.dirs))
    }

    /// Reads what everything below has used and holds.
    ///
    /// # Errors
    /// A file cannot be read or parsed.
    pub fn account(&self) -> Result<Account, CgroupError> {
        Account::read(Files::of(&self.dirs))
    }

    /// Opens the files that report the usage of everything below.
    ///
    /// # Errors
    /// A file cannot be opened.
    pub fn sampler(&self) -> Result<Sampler, CgroupError> {
        Sampler::open(Files::of(&self.dirs))
    }

    /// Opens the file that reports how long tasks below waited for a resource (PSI, unified
    /// hierarchy only); `None` if the kernel does not report it.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn pressure_file(&self, resource: Resource) -> Result<Option<PressureFile>, CgroupError> {
        PressureFile::open(Files::of(&self.dirs), resource)
    }

    /// Returns the cgroups below. At start these are left over from an earlier run.
    ///
    /// # Errors
    /// A directory cannot be listed.
    pub fn children(&self) -> Result<Vec<Cgroup>, CgroupError> {
        let mut names = Vec::new();
        for place in self.dirs.iter() {
            names.extend(place.dir.directories(LEFTOVERS_MAX)?);
        }
        names.sort_unstable();
        names.dedup();
        let group = |name| Cgroup::new(Arc::clone(&self.dirs), name);
        Ok(names.into_iter().map(group).collect())
    }
}

/// Returns the wanted controllers that a legacy hierarchy has to provide.
pub(crate) fn wanted_from_legacy(
    legacy: &LegacyHierarchy,
    wanted: &[Controller],
    has_unified: bool,
) -> Vec<Controller> {
    let controllers = legacy.controllers.iter().copied();
    controllers
        .filter(|controller| wanted.contains(controller))
        // Part of every cgroup of the unified hierarchy, which then provides it.
        .filter(|controller| !has_unified || controller.v2_name().is_some())
        .collect()
}

/// Returns the wanted controllers that no legacy hierarchy has: only the unified one can provide
/// them.
pub(crate) fn unified_only(layout: &Layout, wanted: &[Controller]) -> Vec<Controller> {
    let is_legacy = |controller: &Controller| {
        let mut legacy = layout.legacy.iter();
        legacy.any(|legacy| legacy.controllers.contains(controller))
    };
    let wanted = wanted.iter().copied();
    wanted.filter(|controller| !is_legacy(controller)).collect()
}

/// Returns the wanted controllers that are neither available nor in `reported`.
pub(crate) fn unreported(
    wanted: &[Controller],
    reported: &[Missing],
    is_available: impl Fn(Controller) -> bool,
) -> Option<Missing> {
    let is_reported = |controller: Controller| {
        let mut reported = reported.iter();
        reported.any(|missing| missing.controllers.contains(&controller))
    };
    let wanted = wanted.iter().copied();
    let controllers: Vec<Controller> = wanted
        .filter(|controller| !is_available(*controller) && !is_reported(*controller))
        .collect();
    (!controllers.is_empty()).then_some(Missing {
        controllers,
        reason: Unusable::NotMounted,
    })
}

fn open_unified(
    unified: &Hierarchy,
    config: &RootConfig<'_>,
) -> Result<(HierarchyDir, Vec<Missing>), Unusable> {
    let wanted = config.wanted.iter().copied();
    let wanted: Vec<Controller> = wanted
        .filter(|controller| controller.v2_name().is_some())
        .collect();
    let (dir, refused) = match delegated(unified, config)? {
        Some(Delegated { dir: given, is_own }) => {
            if is_own {
                move_to_leaf(&given, config.own_leaf)?;
            }
            checked_name(config.delegated_root)?;
            let mut refused = enable(&given, &wanted)?;
            let dir = given.child(config.delegated_root)?;
            refused.extend(enable(&dir, &wanted)?);
            (dir, refused)
        }
        None => {
            let path = config.hierarchy.ok_or(Unusable::NotDelegated)?;
            below_mount(unified, path, &wanted)?
        }
    };
    let given = enabled(&dir)?;
    let controllers: Vec<Controller> = wanted
        .into_iter()
        .filter(|controller| given.contains(controller))
        .collect();
    if controllers.is_empty() && !dir.has("cgroup.freeze") {
        // Before Linux 5.2 a v2 cgroup without controllers offers nothing beyond v1.
        return Err(Unusable::NotMounted);
    }
    let place = HierarchyDir {
        kind: Kind::V2,
        controllers,
        dir,
    };
    Ok((place, refused))
}

/// Creates the configured path below the mount, enabling controllers on the way down.
fn below_mount(
    unified: &Hierarchy,
    hierarchy: &str,
    wanted: &[Controller],
) -> Result<(Dir, Vec<Missing>), Unusable> {
    let mut dir = Dir::open(&unified.mount)?;
    let mut refused = Vec::new();
    for name in components(hierarchy)? {
        refused.extend(enable(&dir, wanted)?);
        dir = dir.child(name)?;
    }
    refused.extend(enable(&dir, wanted)?);
    Ok((dir, refused))
}

fn open_legacy(
    hierarchy: &Hierarchy,
    path: &str,
    controllers: &[Controller],
) -> Result<HierarchyDir, Unusable> {
    let mut dir = Dir::open(&hierarchy.mount)?;
    for name in components(path)? {
        dir = dir.child(name)?;
    }
    // Kernels before 5.11 do not count children with their parent unless this is set; later ones
    // ignore it.
    if controllers.contains(&Controller::Memory) && dir.has("memory.use_hierarchy") {
        let _ = dir.write("memory.use_hierarchy", "1");
    }
    Ok(HierarchyDir {
        kind: Kind::V1,
        controllers: controllers.to_vec(),
        dir,
    })
}

/// Enables the wanted controllers that a cgroup has for its children. Returns those that the kernel
/// refused.
fn enable(dir: &Dir, wanted: &[Controller]) -> Result<Vec<Missing>, CgroupError> {
    let available = read_controllers(dir, "cgroup.controllers")?;
    let already = enabled(dir)?;
    let mut refused = Vec::new();
    for controller in wanted {
        if !available.contains(controller) || already.contains(controller) {
            continue;
        }
        if let Err(error) = enable_controller(dir, *controller) {
            refused.push(Missing {
                controllers: vec![*controller],
                reason: error.into(),
            });
        }
    }
    Ok(refused)
}

fn enable_controller(dir: &Dir, controller: Controller) -> Result<(), CgroupError> {
    match controller.v2_name() {
        Some(name) => dir.write("cgroup.subtree_control", &format!("+{name}")),
        None => Ok(()),
    }
}

fn enabled(dir: &Dir) -> Result<Vec<Controller>, CgroupError> {
    read_controllers(dir, "cgroup.subtree_control")
}

/// Reads the controllers that a file of the unified hierarchy lists.
pub(crate) fn read_controllers(dir: &Dir, file: &str) -> Result<Vec<Controller>, CgroupError> {
    let text = dir.read(file)?;
    let names: Vec<&str> = text.split_ascii_whitespace().collect();
    let is_named = |controller: &Controller| {
        let name = controller.v2_name();
        name.is_some_and(|name| names.contains(&name))
    };
    Ok(Controller::ALL.into_iter().filter(is_named).collect())
}

fn lock(dir: &Dir) -> Result<Flock<std::os::fd::OwnedFd>, Unusable> {
    let handle = dir
        .as_fd()
        .try_clone_to_owned()
        .map_err(|source| CgroupError::Io {
            operation: "open",
            path: dir.path().to_path_buf(),
            source,
        })?;
    match Flock::lock(handle, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(lock),
        Err((_, Errno::EWOULDBLOCK)) => Err(Unusable::InUse {
            path: dir.path().to_path_buf(),
        }),
        Err((_, errno)) => Err(Unusable::Broken(CgroupError::Io {
            operation: "lock",
            path: dir.path().to_path_buf(),
            source: errno.into(),
        })),
    }
}

#[cfg(test)]
mod tests;
