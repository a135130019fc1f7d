//! Containers in control groups: classes that give way to each other, limits, freezing, and an end that nothing escapes.
//!
//! ```text
//! all containers ── guaranteed ──── CONTAINER …        processor time and memory by what was promised
//!               └── opportunistic ─ CONTAINER …        together: idle processor time, memory that nobody was promised
//! ```
//!
//! The launcher asks for a cgroup (`Isolation::enter`) and starts the process in it; its watch signals and kills through
//! `Confined`; the core orders freezing, thawing and new limits, which threads carry out and answer with effects.
//!
//! - `rules`: what the limits are, pure
//! - `table`: which containers have cgroups, and the sums over them
//! - `applied`: what was last written to a class; `hurry`: whom the class of opportunistic ones gets processor time for
//! - `shared`: cgroups and table together; `confined`: one container as its watch sees it
//! - `birth`: a process that is being made in its class
//! - the threads: `freezing` never waits; `changing`, limits and moves, `pressing`, memory of frozen ones, and `leftovers`,
//!   cgroups that could not be removed, may
//! - `oom`: what is said of a container that the kernel killed
//! - `standing`: whether and why cgroups are not used

mod applied;
mod birth;
mod changing;
mod confined;
mod event;
mod freezing;
mod hurry;
mod leftovers;
mod oom;
mod pressing;
mod rules;
mod shared;
mod standing;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cgroup::{
    Cgroup, CgroupError, Controller, Delegation, Layout, Parent, Root, RootConfig, Unusable,
};
use crossbeam_channel::{Sender, bounded, unbounded};
use records::{ContainerId, ExecutionType, Resource};
use sched::ContainerSpec;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

pub(crate) use birth::Birth;
pub(crate) use confined::Confined;
pub use event::IsolationEvent;
pub(crate) use oom::{is_of_its_limit, message as oom_message};
pub use standing::Standing;

use crate::config::CgroupConfig;
use crate::monitor::PressureFiles;
use changing::{Change, Changer};
use freezing::{FreezeOrder, Freezer};
use leftovers::Leftovers;
use pressing::{RECLAIM_QUEUE_MAX, Reclaimer};
use rules::Rules;
use shared::{Places, Shared};

/// How long the end of what an earlier run left may take, all together.
const LEFTOVERS_PATIENCE: Duration = Duration::from_secs(5);

/// The handle. Cheap to clone; the threads end with the last one.
#[derive(Clone, Debug)]
pub struct Isolation {
    shared: Arc<Shared>,
    orders: Orders,
}

/// Orders to the threads. Bounded by the containers that there are: at most one of a kind is under way for each.
#[derive(Clone, Debug)]
struct Orders {
    freeze: Sender<FreezeOrder>,
    change: Sender<Change>,
    leftovers: Leftovers,
}

impl Orders {
    fn freeze(&self, order: FreezeOrder) {
        // The thread lives as long as somebody can order.
        if self.freeze.send(order).is_err() {
            tracing::error!("the thread that freezes has gone");
        }
    }

    fn change(&self, change: Change) {
        if self.change.send(change).is_err() {
            tracing::error!("the thread for limits has gone");
        }
    }

    /// The sums over the classes have changed.
    fn classes(&self, shared: &Shared) {
        if shared.classes_due.ask() {
            self.change(Change::Classes);
        }
    }
}

/// What containers may use together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// What the node offers.
    pub total: Resource,
    /// Processors of the machine.
    pub processors: u32,
    /// Memory in mebibytes that running and frozen containers may hold together, where that is more than the node offers;
    /// `None`: containers are not frozen to make room.
    pub memory_ceiling_mb: Option<u64>,
}

impl Isolation {
    /// Finds the place for containers, ends what an earlier run left there, and starts the threads. Without a handle the
    /// agent goes on with process groups, and [`Standing`] says why.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        config: &CgroupConfig,
        offer: Offer,
        effects: &mpsc::UnboundedSender<IsolationEvent>,
    ) -> io::Result<(Option<Self>, Standing)> {
        let opened = open(config, &layout(config)).and_then(|root| {
            let guaranteed = class(&root, "guaranteed")?;
            let opportunistic = class(&root, "opportunistic")?;
            Ok((root, guaranteed, opportunistic))
        });
        let (root, guaranteed, opportunistic) = match opened {
            Ok(opened) => opened,
            Err(reason) => return Ok((None, Standing::without(config, reason))),
        };
        let standing = Standing::with(config, &root);
        let rules = Rules {
            config: config.clone(),
            total: Mutex::new(offer.total),
            memory_ceiling_mb: offer.memory_ceiling_mb,
            processors: offer.processors,
        };
        let places = Places::new(root, guaranteed, opportunistic);
        let shared = Arc::new(Shared::new(rules, places));
        shared.apply_classes();
        let orders = start_threads(&shared, effects)?;
        // No container has been announced yet: what is there is of an earlier run, and did not go in time.
        for class in [ExecutionType::Guaranteed, ExecutionType::Opportunistic] {
            for group in shared.parent(class).children().unwrap_or_default() {
                orders.leftovers.leave(group);
            }
        }
        Ok((Some(Self { shared, orders }), standing))
    }

    /// A container is about to be launched: what it may use.
    pub fn announce(&self, spec: ContainerSpec) {
        self.shared.table.announce(spec);
    }

    /// It was not even taken for a launch.
    pub fn withdraw(&self, id: ContainerId) {
        self.shared.table.remove(id);
    }

    /// Its launch failed: removes what was made for it.
    pub(crate) fn forget(&self, id: ContainerId) {
        self.confined(id).finish();
    }

    /// Makes its cgroup, for its process to be started in.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn enter(&self, id: ContainerId) -> Result<Option<Cgroup>, CgroupError> {
        let made = self.shared.with_groups(id, |spec, groups| {
            let group = self.shared.make(spec)?;
            let class = spec.execution_type;
            groups.current = Some((class, group.clone()));
            let share = self.shared.rules.share(spec, class, 0);
            self.shared.table.count(id, share);
            Ok(group)
        });
        let Some(made) = made.transpose()? else {
            return Ok(None);
        };
        self.orders.classes(&self.shared);
        Ok(Some(made))
    }

    /// Its process is about to be made in its cgroup. `sooner` ends when it is to end at once; `None`: it gets processor
    /// time like the agent itself.
    pub(crate) fn birth(
        &self,
        id: ContainerId,
        runtime: &Handle,
        sooner: impl Future<Output = ()> + Send + 'static,
    ) -> Option<Birth> {
        let class = self.shared.with_groups(id, |_, groups| {
            groups.current.as_ref().map(|(class, _)| *class)
        });
        match class.flatten()? {
            ExecutionType::Guaranteed => None,
            ExecutionType::Opportunistic => Some(Birth::begin(&self.shared, runtime, sooner)),
        }
    }

    /// Its cgroups, for its watch.
    pub(crate) fn confined(&self, id: ContainerId) -> Confined {
        Confined {
            shared: Arc::clone(&self.shared),
            orders: self.orders.clone(),
            id,
        }
    }

    /// Its size or type has changed. Takes effect soon.
    pub fn apply(&self, spec: ContainerSpec) {
        if self.shared.table.changed(spec) {
            self.orders.change(Change::Container(spec.id));
        }
    }

    /// The node offers more or less from now on. Running containers keep the quota that they have.
    pub fn node_resource(&self, total: Resource) {
        *table::locked(&self.shared.rules.total) = total;
        self.orders.classes(&self.shared);
    }

    /// Freezes it; answers with an effect.
    pub fn pause(&self, id: ContainerId) {
        self.orders.freeze(FreezeOrder::Pause(id));
    }

    /// Thaws it; answers with an effect.
    pub fn resume(&self, id: ContainerId) {
        self.orders.freeze(FreezeOrder::Resume(id));
    }

    /// Opens what tells for how long containers of a class have waited.
    #[must_use]
    pub fn pressure(&self, class: ExecutionType) -> Option<PressureFiles> {
        let opened = PressureFiles::open(self.shared.parent(class));
        opened.unwrap_or_else(|error| {
            let error = crate::error_chain(&error);
            tracing::warn!(?class, error, "the pressure of a class is not told");
            None
        })
    }
}

fn start_threads(
    shared: &Arc<Shared>,
    effects: &mpsc::UnboundedSender<IsolationEvent>,
) -> io::Result<Orders> {
    let (reclaim, frozen) = bounded(RECLAIM_QUEUE_MAX);
    let (freeze, freeze_orders) = unbounded();
    let (change, changes) = unbounded();
    let freezer = Freezer {
        shared: Arc::clone(shared),
        effects: effects.clone(),
        reclaim,
        stopping: BTreeMap::new(),
    };
    let changer = Changer::new(Arc::clone(shared));
    let reclaimer = Reclaimer {
        shared: Arc::clone(shared),
        effects: effects.clone(),
    };
    let start = |name: &str| thread::Builder::new().name(name.to_owned());
    start("cgroup-freeze").spawn(move || freezer.serve(&freeze_orders))?;
    start("cgroup-limits").spawn(move || changer.serve(&changes))?;
    start("cgroup-reclaim").spawn(move || reclaimer.serve(&frozen))?;
    let (leftovers, retried) = Leftovers::new();
    start("cgroup-leftover").spawn(move || leftovers::serve(&retried))?;
    Ok(Orders {
        freeze,
        change,
        leftovers,
    })
}

/// The hierarchies that the configuration lets be used.
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

/// What is asked of the hierarchies. Where nothing asks for cgroups, they are used only if somebody gave us one.
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
        delegation: Delegation::AsMarked,
        own_leaf: "agent",
        delegated_root: "containers",
    }
}

/// Opens a class, without containers and limits of an earlier run.
fn class(root: &Root, name: &str) -> Result<Parent, Unusable> {
    let parent = root.parent(name)?;
    end_leftovers(&parent);
    match root.recreate_parent(name) {
        Ok(remade) => Ok(remade),
        Err(error) => {
            let error = crate::error_chain(&error);
            tracing::warn!(name, error, "limits of an earlier run may still hold");
            // In some hierarchies it may be gone.
            Ok(root.parent(name)?)
        }
    }
}

/// Ends and removes what is below a class: nobody knows of it any more.
fn end_leftovers(parent: &Parent) {
    let groups = match parent.children() {
        Ok(groups) => groups,
        Err(error) => {
            tracing::warn!(
                error = crate::error_chain(&error),
                "cgroups of an earlier run are not looked for"
            );
            return;
        }
    };
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
