//! The place for containers in each hierarchy: found, made, locked, and its controllers given to what is below.

use std::os::fd::AsFd;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::delegation::{Delegation, delegated, leave};
use crate::dir::{Dir, checked_name};
use crate::error::{CgroupError, Unusable};
use crate::group::Cgroup;
use crate::layout::{Controller, Hierarchy, Layout, LegacyHierarchy, Version};
use crate::limits::{Limits, apply};
use crate::place::{Files, Kind, Place, Places};
use crate::pressure::{PressureFile, Resource};
use crate::usage::{MemoryEvents, Sampler};

/// Cgroups of an earlier run that are looked for below one parent.
const LEFTOVERS_MAX: usize = 100_000;

/// Where to work.
#[derive(Clone, Copy, Debug)]
pub struct RootConfig<'a> {
    /// Path below each mount, used where nothing was delegated. Slashes at the ends do not matter. `None`: only what was
    /// delegated will do.
    pub hierarchy: Option<&'a str>,
    /// What is wanted of the hierarchies.
    pub wanted: &'a [Controller],
    /// Whether the own cgroup may be used instead.
    pub delegation: Delegation,
    /// The name, below a delegated cgroup, for this process itself: a cgroup that gives controllers to others may hold
    /// no processes.
    pub own_leaf: &'a str,
    /// The name beside it for all that is made here.
    pub delegated_root: &'a str,
}

/// Something that cannot be had.
#[derive(Debug)]
pub struct Missing {
    /// What was wanted; empty: nothing that could not be had elsewhere.
    pub controllers: Vec<Controller>,
    /// Why.
    pub reason: Unusable,
}

/// The place for containers. As long as it exists, no other process can open the same.
#[derive(Debug)]
pub struct Root {
    places: Places,
    version: Version,
    missing: Vec<Missing>,
    _lock: Flock<std::os::fd::OwnedFd>,
}

impl Root {
    /// Finds and prepares it. A hierarchy that cannot be used is left out ([`Root::missing`]).
    ///
    /// # Errors
    /// Why none can be used: then the caller has to do without cgroups.
    pub fn open(layout: &Layout, config: &RootConfig<'_>) -> Result<Self, Unusable> {
        let mut places = Vec::new();
        let mut missing = Vec::new();
        if let Some(unified) = &layout.unified {
            match open_unified(unified, config) {
                Ok((place, refused)) => {
                    missing.extend(refused);
                    places.push(place);
                }
                Err(reason) => missing.push(Missing {
                    controllers: unified_only(layout, config.wanted),
                    reason,
                }),
            }
        }
        let has_unified = !places.is_empty();
        if config.hierarchy.is_none() && !has_unified {
            return Err(Unusable::NotDelegated);
        }
        for legacy in &layout.legacy {
            let controllers = wanted_of(legacy, config.wanted, has_unified);
            let (Some(path), false) = (config.hierarchy, controllers.is_empty()) else {
                continue;
            };
            match open_legacy(&legacy.hierarchy, path, &controllers) {
                Ok(place) => places.push(place),
                Err(reason) => missing.push(Missing {
                    controllers,
                    reason,
                }),
            }
        }
        let Some(first) = places.first() else {
            let first_reason = missing.into_iter().next().map(|missing| missing.reason);
            return Err(first_reason.unwrap_or(Unusable::NotMounted));
        };
        let lock = lock(&first.dir)?;
        let mut root = Self {
            places: places.into(),
            version: layout.version(),
            missing,
            _lock: lock,
        };
        let absent = absent(config.wanted, &root.missing, |wanted| root.controls(wanted));
        root.missing.extend(absent);
        Ok(root)
    }

    /// What kind of host this is.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether a controller works here.
    #[must_use]
    pub fn controls(&self, controller: Controller) -> bool {
        let files = Files::of(&self.places);
        let part_of_unified = controller.v2_name().is_none() && files.unified().is_some();
        part_of_unified || files.controller(controller).is_some()
    }

    /// What was wanted and is not there, with the reason.
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Its directories; the unified hierarchy's first.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.places
            .iter()
            .map(|place| place.dir.path().to_path_buf())
            .collect()
    }

    /// Limits everything below. At the top of a mount there is nothing to write to.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn apply(&self, limits: &Limits) -> Result<(), CgroupError> {
        apply(Files::of(&self.places), limits)
    }

    /// Opens the parent `name`, made if it is not there.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn parent(&self, name: &str) -> Result<Parent, CgroupError> {
        checked_name(name)?;
        let mut places = Vec::with_capacity(self.places.len());
        for place in self.places.iter() {
            let dir = place.dir.child(name)?;
            if place.kind == Kind::V2 {
                for controller in &place.controllers {
                    give(&dir, *controller)?;
                }
            }
            places.push(Place {
                kind: place.kind,
                controllers: place.controllers.clone(),
                dir,
            });
        }
        Ok(Parent {
            places: places.into(),
        })
    }

    /// Opens the parent `name` as new: without the limits that hold in one that is there already.
    ///
    /// # Errors
    /// `EBUSY`: something is in it. Else what the kernel refuses.
    pub fn remade(&self, name: &str) -> Result<Parent, CgroupError> {
        checked_name(name)?;
        for place in self.places.iter() {
            place.dir.remove(name)?;
        }
        self.parent(name)
    }
}

/// A cgroup that holds no processes but cgroups of one kind.
#[derive(Clone, Debug)]
pub struct Parent {
    places: Places,
}

impl Parent {
    /// Makes a cgroup, or takes one of that name that is there.
    ///
    /// # Errors
    /// The kernel refuses. What was made until then is removed.
    pub fn create(&self, name: &str) -> Result<Cgroup, CgroupError> {
        checked_name(name)?;
        let group = Cgroup::new(Arc::clone(&self.places), name.to_owned());
        for place in self.places.iter() {
            if let Err(error) = place.dir.make(name) {
                // Without a process in it this cannot fail, and the first error is the one that matters.
                let _ = group.remove();
                return Err(error);
            }
        }
        Ok(group)
    }

    /// Limits everything below together.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn apply(&self, limits: &Limits) -> Result<(), CgroupError> {
        apply(Files::of(&self.places), limits)
    }

    /// What has happened to the memory of everything below.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn memory_events(&self) -> Result<MemoryEvents, CgroupError> {
        MemoryEvents::read(Files::of(&self.places))
    }

    /// Opens what tells of everything below.
    ///
    /// # Errors
    /// A file that cannot be opened.
    pub fn sampler(&self) -> Result<Sampler, CgroupError> {
        Sampler::open(Files::of(&self.places))
    }

    /// Opens what tells how long tasks below waited for a resource; `None` where the kernel does not say (PSI, unified
    /// hierarchy only).
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn pressure_file(&self, resource: Resource) -> Result<Option<PressureFile>, CgroupError> {
        PressureFile::open(Files::of(&self.places), resource)
    }

    /// The cgroups below: at start, those of an earlier run.
    ///
    /// # Errors
    /// A directory cannot be listed.
    pub fn children(&self) -> Result<Vec<Cgroup>, CgroupError> {
        let mut names = Vec::new();
        for place in self.places.iter() {
            names.extend(place.dir.directories(LEFTOVERS_MAX)?);
        }
        names.sort_unstable();
        names.dedup();
        let group = |name| Cgroup::new(Arc::clone(&self.places), name);
        Ok(names.into_iter().map(group).collect())
    }
}

/// What is wanted of a legacy hierarchy.
pub(crate) fn wanted_of(
    legacy: &LegacyHierarchy,
    wanted: &[Controller],
    has_unified: bool,
) -> Vec<Controller> {
    let controllers = legacy.controllers.iter().copied();
    controllers
        .filter(|controller| wanted.contains(controller))
        // Part of every cgroup of the unified hierarchy.
        .filter(|controller| !has_unified || controller.v2_name().is_some())
        .collect()
}

/// What is wanted and can only be had of the unified hierarchy: no other has it.
pub(crate) fn unified_only(layout: &Layout, wanted: &[Controller]) -> Vec<Controller> {
    let is_legacy = |controller: &Controller| {
        let mut legacy = layout.legacy.iter();
        legacy.any(|legacy| legacy.controllers.contains(controller))
    };
    let wanted = wanted.iter().copied();
    wanted.filter(|controller| !is_legacy(controller)).collect()
}

/// What is wanted, not there, and not told yet.
pub(crate) fn absent(
    wanted: &[Controller],
    told: &[Missing],
    is_there: impl Fn(Controller) -> bool,
) -> Option<Missing> {
    let is_told = |controller: Controller| {
        let mut told = told.iter();
        told.any(|missing| missing.controllers.contains(&controller))
    };
    let wanted = wanted.iter().copied();
    let controllers: Vec<Controller> = wanted
        .filter(|controller| !is_there(*controller) && !is_told(*controller))
        .collect();
    (!controllers.is_empty()).then_some(Missing {
        controllers,
        reason: Unusable::NotMounted,
    })
}

fn open_unified(
    unified: &Hierarchy,
    config: &RootConfig<'_>,
) -> Result<(Place, Vec<Missing>), Unusable> {
    let wanted = config.wanted.iter().copied();
    let wanted: Vec<Controller> = wanted
        .filter(|controller| controller.v2_name().is_some())
        .collect();
    let (dir, refused) = match delegated(unified, config)? {
        Some(own) => {
            leave(&own, config.own_leaf)?;
            checked_name(config.delegated_root)?;
            let mut refused = enable(&own, &wanted)?;
            let dir = own.child(config.delegated_root)?;
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
        // Before Linux 5.2 a cgroup of this hierarchy without controllers can nothing that v1 cannot.
        return Err(Unusable::NotMounted);
    }
    let place = Place {
        kind: Kind::V2,
        controllers,
        dir,
    };
    Ok((place, refused))
}

/// Makes the configured path, giving controllers down on the way.
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
) -> Result<Place, Unusable> {
    let mut dir = Dir::open(&hierarchy.mount)?;
    for name in components(path)? {
        dir = dir.child(name)?;
    }
    // Kernels before 5.11 count children apart unless told otherwise; later ones ignore it.
    if controllers.contains(&Controller::Memory) && dir.has("memory.use_hierarchy") {
        let _ = dir.write("memory.use_hierarchy", "1");
    }
    Ok(Place {
        kind: Kind::V1,
        controllers: controllers.to_vec(),
        dir,
    })
}

/// The parts of the configured path.
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

/// Gives controllers to the children of a cgroup, as far as it has them. Those that it has and that were refused.
fn enable(dir: &Dir, wanted: &[Controller]) -> Result<Vec<Missing>, CgroupError> {
    let available = listed(dir, "cgroup.controllers")?;
    let already = enabled(dir)?;
    let mut refused = Vec::new();
    for controller in wanted {
        if !available.contains(controller) || already.contains(controller) {
            continue;
        }
        if let Err(error) = give(dir, *controller) {
            refused.push(Missing {
                controllers: vec![*controller],
                reason: error.into(),
            });
        }
    }
    Ok(refused)
}

fn give(dir: &Dir, controller: Controller) -> Result<(), CgroupError> {
    match controller.v2_name() {
        Some(name) => dir.write("cgroup.subtree_control", &format!("+{name}")),
        None => Ok(()),
    }
}

fn enabled(dir: &Dir) -> Result<Vec<Controller>, CgroupError> {
    listed(dir, "cgroup.subtree_control")
}

/// The controllers that a file of the unified hierarchy names.
pub(crate) fn listed(dir: &Dir, file: &str) -> Result<Vec<Controller>, CgroupError> {
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
