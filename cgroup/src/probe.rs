//! A dry run of [`Root::open`]: reports what it would find and changes nothing.

use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use crate::delegation::delegated;
use crate::dir::Dir;
use crate::error::{CgroupError, Unusable};
use crate::layout::{Controller, Hierarchy, Layout};
use crate::root::{Missing, Root, read_controllers, unified_only, unreported, wanted_from_legacy};
use crate::root_config::{RootConfig, components};

impl Root {
    /// Returns what [`Root::open`] would lack, as far as that shows without changing anything.
    /// Whether the kernel accepts enabling a controller does not show.
    ///
    /// # Errors
    /// The reason why no hierarchy would be usable.
    pub fn probe(layout: &Layout, config: &RootConfig<'_>) -> Result<Vec<Missing>, Unusable> {
        let mut found = Vec::new();
        let mut missing = Vec::new();
        let mut is_usable = false;
        if let Some(unified) = &layout.unified {
            match probe_unified(unified, config) {
                Ok(controllers) => {
                    is_usable = true;
                    found.extend(controllers);
                }
                Err(reason) => missing.push(Missing {
                    controllers: unified_only(layout, config.wanted),
                    reason,
                }),
            }
        }
        let has_unified = is_usable;
        for legacy in &layout.legacy {
            let controllers = wanted_from_legacy(legacy, config.wanted, has_unified);
            let (Some(path), false) = (config.hierarchy, controllers.is_empty()) else {
                continue;
            };
            match writable_below(&legacy.hierarchy, path) {
                Ok(()) => {
                    is_usable = true;
                    found.extend(controllers);
                }
                Err(error) => missing.push(Missing {
                    controllers,
                    reason: error.into(),
                }),
            }
        }
        if !is_usable {
            let first_reason = missing.into_iter().next().map(|missing| missing.reason);
            return Err(first_reason.unwrap_or_else(|| config.without_hierarchy()));
        }
        let is_there = |controller| found.contains(&controller);
        let absent = unreported(config.wanted, &missing, is_there);
        missing.extend(absent);
        Ok(missing)
    }
}

/// Returns the wanted controllers that the unified hierarchy would provide.
fn probe_unified(
    unified: &Hierarchy,
    config: &RootConfig<'_>,
) -> Result<Vec<Controller>, Unusable> {
    let dir = match (delegated(unified, config)?, config.hierarchy) {
        (Some(given), _) => {
            writable(given.dir.path())?;
            given.dir
        }
        (None, Some(path)) => {
            writable_below(unified, path)?;
            Dir::open(&unified.mount)?
        }
        (None, None) => return Err(Unusable::NotDelegated),
    };
    let available = read_controllers(&dir, "cgroup.controllers")?;
    let wanted = config.wanted.iter().copied();
    let is_there =
        |controller: &Controller| controller.v2_name().is_none() || available.contains(controller);
    Ok(wanted.filter(is_there).collect())
}

fn writable_below(hierarchy: &Hierarchy, path: &str) -> Result<(), CgroupError> {
    let below: PathBuf = components(path)?.into_iter().collect();
    writable(&hierarchy.mount.join(below))
}

/// Checks that directories may be created in `path`, or in its nearest existing ancestor.
fn writable(path: &Path) -> Result<(), CgroupError> {
    let existing = path.ancestors().find(|path| path.exists()).unwrap_or(path);
    let wanted = AccessFlags::W_OK | AccessFlags::X_OK;
    access(existing, wanted).map_err(|errno| CgroupError::Io {
        operation: "write to",
        path: existing.to_path_buf(),
        source: errno.into(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::root_config::Delegation;

    const WANTED: &[Controller] = &[Controller::Cpu, Controller::Memory, Controller::Freezer];

    fn config() -> RootConfig<'static> {
        RootConfig {
            hierarchy: Some("y"),
            wanted: WANTED,
            delegation: Delegation::None,
            own_leaf: "agent",
            delegated_root: "all",
        }
    }

    /// Returns a layout with the unified hierarchy in `cg`, which may be missing, and v1's memory
    /// controller in `m`.
    fn layout(host: &Path) -> Layout {
        let mounts = "30 25 0:27 / /cg rw - cgroup2 cgroup2 rw\n\
                      31 25 0:28 / /m rw - cgroup cgroup rw,memory\n";
        Layout::parse(mounts, "0::/\n").below(host)
    }

    fn controllers(missing: &[Missing]) -> Vec<&[Controller]> {
        let missing = missing.iter();
        missing
            .map(|missing| missing.controllers.as_slice())
            .collect()
    }

    #[test]
    fn missing_controllers_are_reported() {
        let host = tempfile::tempdir().unwrap();
        for folder in ["cg", "m"] {
            fs::create_dir(host.path().join(folder)).unwrap();
        }
        fs::write(host.path().join("cg/cgroup.controllers"), "pids\n").unwrap();
        let missing = Root::probe(&layout(host.path()), &config()).unwrap();
        assert_eq!(controllers(&missing), [[Controller::Cpu]]);
        assert!(matches!(missing[0].reason, Unusable::NotMounted));
    }

    #[test]
    fn a_hierarchy_that_fails_gives_its_own_reason_for_what_only_it_has() {
        let host = tempfile::tempdir().unwrap();
        fs::create_dir(host.path().join("m")).unwrap();
        let only_it_has = [Controller::Cpu, Controller::Freezer];
        let missing = Root::probe(&layout(host.path()), &config()).unwrap();
        assert_eq!(controllers(&missing), [only_it_has]);
        assert!(matches!(missing[0].reason, Unusable::Broken(_)));
        let root = Root::open(&layout(host.path()), &config()).unwrap();
        assert_eq!(controllers(root.missing()), [only_it_has]);
        assert!(matches!(root.missing()[0].reason, Unusable::Broken(_)));
        assert!(root.controls(Controller::Memory));
    }

    #[test]
    fn without_any_hierarchy_there_is_a_reason() {
        let reason = |layout: &Layout, hierarchy| {
            let config = RootConfig {
                hierarchy,
                ..config()
            };
            Root::probe(layout, &config).unwrap_err()
        };
        let none = Layout::default();
        assert!(matches!(reason(&none, Some("y")), Unusable::NotMounted));
        assert!(matches!(reason(&none, None), Unusable::NotDelegated));
        let nowhere = layout(Path::new("/no/such/folder"));
        let nowhere = Layout {
            legacy: Vec::new(),
            ..nowhere
        };
        assert!(matches!(reason(&nowhere, Some("y")), Unusable::Broken(_)));
    }
}
