//! Containers in control groups: classes that yield to each other, limits, freezing, and an end
//! that no process escapes.
//!
//! ```text
//! all containers ── guaranteed ──── CONTAINER …   CPU time and memory by what was promised
//!               └── opportunistic ─ CONTAINER …   together: idle CPU time, unpromised memory
//!
//! launch threads, watches, core ─ events ─▶ owner: state machine, fast jobs ── answers ─▶ core
//!                                              │ ▲
//!                                    slow jobs ▼ │ results
//!                                    threads: limits and moves; reclaim
//! ```
//!
//! The launcher makes a cgroup (`Isolation::enter`) on its own thread and starts the process in it;
//! its watch signals and kills through `Confined`; the core orders freezing, thawing and new
//! limits. Every decision is made by `state`, on one thread that never blocks. No state is shared.
//!
//! - `state`: the state machine, pure; `limits`: its arithmetic
//! - `owner`: the thread that owns it; `executor`: jobs on the kernel's files
//! - `confined`: one container as its watch sees it
//! - `leftovers`: cgroups that could not be removed
//! - `oom`: the message about a container that the kernel killed
//! - `accounts`: what containers have used, for the monitor
//! - `availability`: whether and why cgroups are not used

mod accounts;
mod availability;
mod confined;
mod event;
mod executor;
mod leftovers;
mod limits;
mod oom;
mod outbox;
mod owner;
mod state;

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cgroup::{
    Cgroup, CgroupError, Controller, Delegation, Layout, Parent, Root, RootConfig, Unusable,
};
use records::{ContainerId, ContainerName, ExecutionType, PerExecutionType, Resource};
use sched::ContainerSpec;
use tokio::sync::mpsc;

pub use accounts::AccountReader;
pub(crate) use accounts::GroupAccount;
pub use availability::Availability;
pub(crate) use confined::Confined;
pub use event::IsolationEvent;
pub(crate) use oom::{is_of_its_limit, message as oom_message};

use crate::config::CgroupConfig;
use crate::monitor::PressureFiles;
use executor::Places;
use leftovers::Leftovers;
use limits::Rules;
use owner::Mailbox;
use state::{Adopted, Event, Group};

/// Deadline for ending all containers that an earlier run left.
const LEFTOVERS_PATIENCE: Duration = Duration::from_secs(5);

/// Handle of the node's cgroups. Cheap to clone; the threads end with the last one.
#[derive(Clone, Debug)]
pub struct Isolation {
    mailbox: Mailbox,
    places: Arc<Places>,
    /// Rules as of the start, for launch threads. The owner corrects a new cgroup if the node's
    /// capacity has changed since.
    rules: Arc<Rules>,
    leftovers: Leftovers,
    /// Containers of an earlier agent that have a cgroup in a class.
    found: Arc<Found>,
}

/// Containers by the classes that they have a cgroup in.
type Found = PerExecutionType<BTreeSet<ContainerName>>;

/// Capacity that containers may use together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Capacity that the node offers.
    pub total: Resource,
    /// CPUs of the machine.
    pub processors: u32,
    /// Memory in mebibytes that running and frozen containers may hold together, where that
    /// exceeds the node's capacity; `None`: containers are not frozen to free resources.
    pub memory_ceiling_mb: Option<u64>,
}

impl Isolation {
    /// Opens the place for containers, ends what an earlier run left there except the containers
    /// in `kept`, and starts the threads.
    /// Without a handle the agent goes on with process groups, and [`Availability`] says why.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        config: &CgroupConfig,
        offer: Offer,
        kept: &BTreeSet<ContainerName>,
        events: mpsc::Sender<IsolationEvent>,
    ) -> io::Result<(Option<Self>, Availability)> {
        let opened = open(config, &layout(config)).and_then(|root| {
            let guaranteed = class(&root, "guaranteed", kept)?;
            let opportunistic = class(&root, "opportunistic", kept)?;
            Ok(Places {
                root,
                guaranteed,
                opportunistic,
            })
        });
        let places = match opened {
            Ok(places) => Arc::new(places),
            Err(reason) => return Ok((None, Availability::without(config, reason))),
        };
        let availability = Availability::with(config, &places.root);
        let rules = Rules {
            config: config.clone(),
            total: offer.total,
            memory_ceiling_mb: offer.memory_ceiling_mb,
            processors: offer.processors,
        };
        let mailbox = owner::start(rules.clone(), &places, events)?;
        let leftovers = Leftovers::start()?;
        // No container has been announced yet: those that exist are of an earlier run. They go on,
        // or were not gone in time.
        let mut found = Found::default();
        for class in [ExecutionType::Guaranteed, ExecutionType::Opportunistic] {
            let groups = places.class(class).children().unwrap_or_default();
            for group in groups {
                match kept_name(&group, kept) {
                    Some(name) => drop(found.of(class).insert(name)),
                    None => leftovers.leave(group),
                }
            }
        }
        let isolation = Self {
            mailbox,
            places,
            rules: Arc::new(rules),
            leftovers,
            found: Arc::new(found),
        };
        Ok((Some(isolation), availability))
    }

    /// Takes over the cgroups of an earlier agent's container, whose limits are written anew. It is
    /// thawed unless `is_frozen`, and then a [`pause`](Self::pause) must follow. Returns whether it
    /// has cgroups: one that was started without cgroups gets none.
    #[must_use]
    pub(crate) fn adopt(&self, spec: ContainerSpec, is_frozen: bool) -> bool {
        let Found {
            guaranteed,
            opportunistic,
        } = self.found.as_ref();
        let (own, other) = match spec.execution_type {
            ExecutionType::Guaranteed => (guaranteed, opportunistic),
            ExecutionType::Opportunistic => (opportunistic, guaranteed),
        };
        let named = spec.id.name();
        let (is_in_class, is_in_other) = (own.contains(&named), other.contains(&named));
        let is_confined = is_in_class || is_in_other;
        if is_confined {
            self.mailbox.tell(Event::Adopted(Adopted {
                spec,
                is_in_class,
                is_in_other,
                is_frozen,
            }));
        }
        is_confined
    }

    /// Announces a container whose launch is about to be queued.
    pub(crate) fn announce(&self, spec: ContainerSpec) {
        self.mailbox.tell(Event::Announced(spec));
    }

    /// Takes back an announcement whose launch was not queued.
    pub(crate) fn withdraw(&self, id: ContainerId) {
        self.mailbox.tell(Event::Removed(id));
    }

    /// Removes what was made for a launch that failed.
    pub(crate) fn forget(&self, id: ContainerId) {
        self.confined(id).finish(false);
    }

    /// Makes the cgroup of an announced container, for its process to be started in, on the
    /// calling thread: neither a lock nor another thread is waited for. The process must be
    /// started, or the container forgotten, without delay: from now on a start that is late boosts
    /// its class.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn enter(&self, spec: &ContainerSpec) -> Result<Cgroup, CgroupError> {
        let limits = self.rules.container(spec);
        let group = Group {
            class: spec.execution_type,
            id: spec.id,
        };
        let made = self.places.create_new(group, limits)?;
        self.mailbox.tell(Event::Created(*spec, limits));
        Ok(made)
    }

    /// Records that the process of an entered container executes its program. A guaranteed one was
    /// never short of CPU time.
    pub(crate) fn started(&self, spec: &ContainerSpec) {
        match spec.execution_type {
            ExecutionType::Guaranteed => {}
            ExecutionType::Opportunistic => self.mailbox.tell(Event::Started(spec.id)),
        }
    }

    /// Boosts the start of a container whose end was ordered. No effect on one that has started.
    pub(crate) fn end_ordered(&self, id: ContainerId) {
        self.mailbox.tell(Event::EndOrdered(id));
    }

    /// Returns the cgroups of a container, for its watch.
    pub(crate) fn confined(&self, id: ContainerId) -> Confined {
        Confined {
            isolation: self.clone(),
            id,
        }
    }

    /// Changes size or type of a container. Takes effect soon.
    pub fn apply(&self, spec: ContainerSpec) {
        self.mailbox.tell(Event::Changed(spec));
    }

    /// Changes the node's capacity. Running containers keep their CPU quota.
    pub fn node_resource(&self, total: Resource) {
        self.mailbox.tell(Event::NodeResource(total));
    }

    /// Freezes a container; answered by an [`IsolationEvent`].
    pub fn pause(&self, id: ContainerId) {
        self.mailbox.tell(Event::Pause(id));
    }

    /// Thaws a container; answered by an [`IsolationEvent`].
    pub fn resume(&self, id: ContainerId) {
        self.mailbox.tell(Event::Resume(id));
    }

    /// Directories of all containers, one in each hierarchy; the unified one's first.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.places.root.paths()
    }

    /// Opens the pressure files of a class: how long its containers have waited.
    #[must_use]
    pub fn pressure(&self, class: ExecutionType) -> Option<PressureFiles> {
        let opened = PressureFiles::open(self.places.class(class));
        opened.unwrap_or_else(|error| {
            let error = crate::error_chain(&error);
            tracing::warn!(?class, error, "the pressure of a class cannot be read");
            None
        })
    }
}

/// Hierarchies that the configuration permits.
fn layout(config: &CgroupConfig) -> Layout {
    let layout = Layout::of_this_process();
    match &config.mount_path {
        Some(path) => layout.mounted_below(path),
        None => layout,
    }
}

fn open(config: &CgroupConfig, layout: &Layout) -> Result<Root, Unusable> {
    Root::open(layout, &root_config(config))
}

/// Requirements on the hierarchies. Without a property that needs cgroups, only a delegated one is
/// used.
fn root_config(config: &CgroupConfig) -> RootConfig<'_> {
    const BASIC: [Controller; 5] = [
        Controller::Cpu,
        Controller::Cpuacct,
        Controller::Memory,
        Controller::Pids,
        Controller::Freezer,
    ];
    RootConfig {
        hierarchy: config.asked_for.then_some(&config.hierarchy),
        wanted: if config.io { &Controller::ALL } else { &BASIC },
        delegation: match &config.delegated {
            Some(path) => Delegation::Beside(path),
            None => Delegation::AsMarked,
        },
        own_leaf: "agent",
        delegated_root: "containers",
    }
}

/// Returns the container of a cgroup, if that is one that outlived its agent.
fn kept_name(group: &Cgroup, kept: &BTreeSet<ContainerName>) -> Option<ContainerName> {
    let paths = group.paths();
    let name = paths.first().and_then(|path| path.file_name()?.to_str());
    let name = name?.parse().ok()?;
    kept.contains(&name).then_some(name)
}

fn is_kept(group: &Cgroup, kept: &BTreeSet<ContainerName>) -> bool {
    kept_name(group, kept).is_some()
}

/// Opens the cgroup of a class, without containers and limits of an earlier run, except those that
/// outlived it. Beside these the limits of the class stay until they are written anew.
fn class(root: &Root, name: &str, kept: &BTreeSet<ContainerName>) -> Result<Parent, Unusable> {
    let parent = root.parent(name)?;
    end_leftovers(&parent, kept);
    let stays = |groups: Vec<Cgroup>| groups.iter().any(|group| is_kept(group, kept));
    if parent.children().is_ok_and(stays) {
        return Ok(parent);
    }
    match root.recreate_parent(name) {
        Ok(remade) => Ok(remade),
        Err(error) => {
            let error = crate::error_chain(&error);
            tracing::warn!(name, error, "limits of an earlier run may still hold");
            // In some hierarchies it may be gone already.
            Ok(root.parent(name)?)
        }
    }
}

/// Kills and removes containers that an earlier run left in a class.
fn end_leftovers(parent: &Parent, kept: &BTreeSet<ContainerName>) {
    let mut groups = match parent.children() {
        Ok(groups) => groups,
        Err(error) => {
            tracing::warn!(
                error = crate::error_chain(&error),
                "cgroups of an earlier run cannot be listed"
            );
            return;
        }
    };
    groups.retain(|group| !is_kept(group, kept));
    if groups.is_empty() {
        return;
    }
    // All at once, and then each in turn.
    for group in &groups {
        if let Err(error) = group.kill() {
            tracing::debug!(
                error = crate::error_chain(&error),
                "a cgroup of an earlier run"
            );
        }
    }
    let deadline = Instant::now() + LEFTOVERS_PATIENCE;
    let (mut removed, mut left) = (0, 0);
    for group in &groups {
        match group.destroy(deadline.saturating_duration_since(Instant::now())) {
            Ok(()) => removed += 1,
            Err(_) => left += 1,
        }
    }
    tracing::info!(removed, left, "cgroups of an earlier run were ended");
}
