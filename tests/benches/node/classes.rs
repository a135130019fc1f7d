//! Cost of cgroups for a launch, and time until a guaranteed container runs on a node full of
//! opportunistic ones.

use std::path::Path;
use std::time::Duration;

use records::ContainerId;
use test_support::LaunchContext;
use test_support::scripted::{ScriptedAm, ScriptedRm};
use tests::cgroups::Hierarchy;
use tests::conf::Properties;
use tests::node::NodeKind;
use tests::node_process::NodeProcess;
use tests::samples::Samples;
use tests::wait;
use wire::proto::hadoop_yarn::ContainerSubStateProto;

use crate::load::{Bench, Lives, NODE_MB, first_instruction, now};
use crate::measure::site;

/// Number of opportunistic containers that fill the node.
const HOLDERS: usize = 8;

/// Limit of time for all guaranteed starts of one kind. A slow node or machine then gives fewer
/// samples instead of a longer run.
const STARTS_LIMIT: Duration = Duration::from_secs(120);

/// Numbers of samples.
pub(crate) struct Effort {
    /// Launches, each time, for what a cgroup adds to one.
    launches: usize,
    /// Launches at full speed, each time.
    sustained: Duration,
    /// Launches before the first guaranteed start: a JVM compiles meanwhile.
    warm_up: usize,
    /// Guaranteed starts on an agent that freezes, and on any node that kills.
    freezing: usize,
    killing: usize,
}

impl Effort {
    /// The same for both nodes.
    pub(crate) fn new(quick: bool) -> Self {
        Self {
            launches: if quick { 30 } else { 200 },
            sustained: Duration::from_secs(if quick { 2 } else { 5 }),
            warm_up: if quick { 5 } else { 100 },
            freezing: if quick { 5 } else { 100 },
            killing: if quick { 3 } else { 100 },
        }
    }
}

/// Figures of launches, with cgroups or without.
pub(crate) struct Launches {
    /// Time from before the call to the first instruction of the command.
    pub(crate) first_instruction: Samples,
    /// Container lives, 32 at once.
    pub(crate) lives: Lives,
}

impl Launches {
    fn measure(kind: &NodeKind, effort: &Effort, change: impl FnOnce(&mut Properties)) -> Self {
        let (rm, node, am) = begin(kind, change);
        let bench = Bench::new(&rm, &am, &node);
        Self {
            first_instruction: bench.one_at_a_time(effort.launches, 0),
            lives: bench.sustained(effort.sustained),
        }
    }

    /// Returns the better of two measurements of the same.
    fn or_better(self, other: Self) -> Self {
        Self {
            first_instruction: self.first_instruction.or_shorter(other.first_instruction),
            lives: if self.lives.per_s < other.lives.per_s {
                other.lives
            } else {
                self.lives
            },
        }
    }
}

/// Time from before the call to the first instruction of a guaranteed container that preempts an
/// opportunistic one.
pub(crate) struct GuaranteedStarts {
    /// Time when the preempted container ends at SIGTERM.
    pub(crate) killing: Samples,
    /// Time when the preempted container ignores SIGTERM.
    pub(crate) killing_deaf: Samples,
}

impl GuaranteedStarts {
    /// Figures of a node without cgroups.
    pub(crate) fn measure(kind: &NodeKind, effort: &Effort) -> Self {
        let starts = |holder| guaranteed_starts(kind, effort, effort.killing, holder, |_| {});
        Self {
            killing: starts(Holder::Sleeps),
            killing_deaf: starts(Holder::IgnoresSigterm),
        }
    }
}

/// Figures that only a node with cgroups has.
pub(crate) struct Confined {
    /// Launches without cgroups, in the same run.
    pub(crate) plain: Launches,
    /// Launches with limits of CPU time, memory and tasks.
    pub(crate) confined: Launches,
    /// Guaranteed start when a sleeping opportunistic container is frozen.
    pub(crate) freezing: Samples,
    /// Guaranteed start when all opportunistic containers burn CPU time and one is frozen.
    pub(crate) freezing_burners: Samples,
    /// Guaranteed start when all burn CPU time and one is killed that ignores SIGTERM.
    pub(crate) killing_deaf: Samples,
}

impl Confined {
    /// Measures with cgroups; where there are none, prints why and returns `None`.
    pub(crate) fn measure(kind: &NodeKind, effort: &Effort) -> Option<Self> {
        // Dropped after the nodes.
        let hierarchy = Hierarchy::new()
            .inspect_err(|why| println!("without cgroups: {why}"))
            .ok()?;
        let plain = || Launches::measure(kind, effort, |_| {});
        let confined = || Launches::measure(kind, effort, |site| hierarchy.configure(site));
        // In turn, since the machine may change meanwhile.
        let (plain_first, confined_first) = (plain(), confined());
        let freezing = |holder| {
            guaranteed_starts(kind, effort, effort.freezing, holder, |site| {
                hierarchy.configure(site);
                site.set(
                    "yarn.nodemanager.opportunistic-containers-use-pause-for-preemption",
                    true,
                );
            })
        };
        Some(Self {
            plain: plain_first.or_better(plain()),
            confined: confined_first.or_better(confined()),
            freezing: freezing(Holder::Sleeps),
            freezing_burners: freezing(Holder::Burns),
            killing_deaf: guaranteed_starts(
                kind,
                effort,
                effort.killing,
                Holder::IgnoresSigterm,
                |site| hierarchy.configure(site),
            ),
        })
    }
}

/// Work of an opportunistic container that fills the node.
#[derive(Debug, Clone, Copy)]
enum Holder {
    Sleeps,
    IgnoresSigterm,
    Burns,
}

impl Holder {
    /// Returns a launch context whose command makes this file once it works.
    fn context(self, working: &Path) -> LaunchContext {
        // Its children inherit that.
        let first = match self {
            Self::IgnoresSigterm => "trap '' TERM; ",
            Self::Sleeps | Self::Burns => "",
        };
        let work = match self {
            Self::Sleeps => "exec sleep 6000",
            Self::IgnoresSigterm => "while :; do sleep 6000; done",
            Self::Burns => "while :; do :; done",
        };
        let working = working.display();
        LaunchContext::command(&format!("{first}: > '{working}'; {work}"))
    }
}

/// A ResourceManager, a node with the sizes of this bench and more, and a master.
fn begin(
    kind: &NodeKind,
    change: impl FnOnce(&mut Properties),
) -> (ScriptedRm, NodeProcess, ScriptedAm) {
    let rm = ScriptedRm::start();
    rm.with(|tracker| tracker.acknowledge_all = true);
    let node = NodeProcess::start(kind, &rm, |properties| {
        site(properties);
        change(properties);
    });
    let am = ScriptedAm::connect(&rm, 1);
    (rm, node, am)
}

/// Times guaranteed starts on a node that is full before each of them.
fn guaranteed_starts(
    kind: &NodeKind,
    effort: &Effort,
    count: usize,
    holder: Holder,
    change: impl FnOnce(&mut Properties),
) -> Samples {
    let (rm, node, am) = begin(kind, change);
    let bench = Bench::new(&rm, &am, &node);
    let _warm_up = bench.one_at_a_time(effort.warm_up, 0);
    let slot_mb = NODE_MB / u64::try_from(HOLDERS).expect("a small number");
    let mut holders: Vec<ContainerId> = Vec::new();
    Samples::take_within(count, STARTS_LIMIT, |number| {
        // Killed containers are replaced; frozen ones are thawed by the node.
        holders.retain(|id| rm.with(|tracker| !tracker.completed.contains_key(id)));
        for _ in holders.len()..HOLDERS {
            let allocation = am.allocate().memory_mb(slot_mb).opportunistic();
            let context = holder.context(&bench.working_file(allocation.id));
            let started = am.try_start(&allocation, context);
            holders.push(started.unwrap_or_else(|refusal| panic!("{refusal}")));
        }
        for id in &holders {
            rm.wait_sub_state(*id, ContainerSubStateProto::CssRunning);
            // A container is reported as running before its shell has read the command.
            let working = bench.working_file(*id);
            wait::until(working.display(), STARTS_LIMIT, || {
                wait::check(working.exists(), "is missing")
            });
        }
        let (context, file) = bench.timed(number);
        let allocation = am.allocate().memory_mb(slot_mb);
        let begin = now();
        let started = am.try_start(&allocation, context);
        started.unwrap_or_else(|refusal| panic!("{refusal}"));
        bench.succeeded(allocation.id);
        first_instruction(&file, begin)
    })
}
