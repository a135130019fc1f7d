//! A node under load, and the times of its launches.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use records::ContainerId;
use test_support::scripted::{ScriptedAm, ScriptedRm};
use test_support::{Allocation, LaunchContext};
use tests::node_process::NodeProcess;
use tests::proc::processor_time;
use tests::samples::{Samples, milliseconds};
use wire::proto::hadoop_yarn::ContainerSubStateProto;

use crate::limits::Environment;

/// Memory that the node offers, in MiB: so much that only [`Bench::fill`] fills it.
pub(crate) const NODE_MB: u64 = 64_000;

/// Memory of a container of the launches, in MiB.
const SMALL_MB: u64 = 16;

/// Containers started by one call in the burst.
const BURST: usize = 40;

/// Containers alive at once when launches are counted.
const AT_ONCE: usize = 32;

/// Containers that run, and fill the node, while others are queued.
pub(crate) const RUNNING: usize = 50;

/// Containers started by one call while the queue is filled.
const BATCH: usize = 50;

/// Heartbeats after which a node counts as idle.
pub(crate) const SETTLED_HEARTBEATS: usize = 20;

/// Capacity that is left for guaranteed launches while others are queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// No capacity: a launch would evict.
    Nothing,
    /// Capacity for small containers, and too little for those that are queued.
    Launches,
}

/// Container lives at full speed, or one at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lives {
    /// Lives per second, each reported to the ResourceManager.
    pub(crate) per_s: f64,
    /// CPU time of the node's own process for each life, in milliseconds: user and system time,
    /// without the containers'.
    pub(crate) processor_ms: f64,
}

/// A node under load.
pub(crate) struct Bench<'a> {
    rm: &'a ScriptedRm,
    am: &'a ScriptedAm,
    node: u32,
    folder: PathBuf,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(rm: &'a ScriptedRm, am: &'a ScriptedAm, node: &NodeProcess) -> Self {
        Self::of_process(rm, am, node, node.process.id())
    }

    /// Puts a node under load whose work this process does.
    pub(crate) fn of_process(
        rm: &'a ScriptedRm,
        am: &'a ScriptedAm,
        node: &NodeProcess,
        process: u32,
    ) -> Self {
        Self {
            rm,
            am,
            node: process,
            folder: node.folder().to_path_buf(),
        }
    }

    fn allocate(&self) -> Allocation {
        self.am.allocate().memory_mb(SMALL_MB)
    }

    /// Returns a command that writes the time of its start, and the file that it writes to.
    pub(crate) fn timed(&self, number: usize) -> (LaunchContext, PathBuf) {
        let file = self.folder.join(format!("time-{number}"));
        let command = format!("echo \\$EPOCHREALTIME > '{}'", file.display());
        (LaunchContext::command(&command), file)
    }

    /// Returns the file that a container makes once it works.
    pub(crate) fn working_file(&self, id: ContainerId) -> PathBuf {
        self.folder.join(format!("working-{id}"))
    }

    pub(crate) fn succeeded(&self, id: ContainerId) {
        let completed = self.rm.wait_completed(id);
        assert_eq!(completed.exit_status, 0, "{completed:?}");
    }

    /// Starts a small container and waits until its end is reported.
    fn live(&self, context: LaunchContext) {
        let allocation = self.allocate();
        let started = self.am.try_start(&allocation, context);
        started.unwrap_or_else(|refusal| panic!("{refusal}"));
        self.succeeded(allocation.id);
    }

    /// Returns the environment of a container's command.
    pub(crate) fn environment(&self) -> Environment {
        let file = self.folder.join("environment");
        let command = format!("cat /proc/\\$\\$/environ > '{}'", file.display());
        self.live(LaunchContext::command(&command));
        Environment::parse(&fs::read(file).expect("a container that ended well has written it"))
    }

    /// Times launches one after the other, each with links to as many localized files.
    pub(crate) fn one_at_a_time(&self, count: usize, links: usize) -> Samples {
        let files: Vec<PathBuf> = (0..links)
            .map(|number| {
                let file = self.folder.join(format!("resource-{number}"));
                fs::write(&file, "resource").expect("the folder of the bench can be written to");
                file
            })
            .collect();
        let linked = |context: LaunchContext| {
            let links = files.iter().enumerate();
            links.fold(context, |context, (number, file)| {
                context.file(&format!("link-{number}"), file)
            })
        };
        // The application's first container waits until its files are localized.
        self.live(linked(LaunchContext::command(":")));
        Samples::take(count, |number| {
            let (context, file) = self.timed(number);
            let context = linked(context);
            let begin = now();
            self.live(context);
            first_instruction(&file, begin)
        })
    }

    pub(crate) fn bursts(&self, count: usize) -> Samples {
        (0..count)
            .flat_map(|_| {
                let (requests, files): (Vec<_>, Vec<_>) = (0..BURST)
                    .map(|number| {
                        let (context, file) = self.timed(number);
                        ((self.allocate(), context), file)
                    })
                    .unzip();
                let ids: Vec<ContainerId> = requests
                    .iter()
                    .map(|(allocation, _)| allocation.id)
                    .collect();
                let begin = now();
                let started = self.am.start_all(requests);
                started.unwrap_or_else(|refusal| panic!("{refusal}"));
                for id in ids {
                    self.succeeded(id);
                }
                files
                    .into_iter()
                    .map(move |file| first_instruction(&file, begin))
            })
            .collect()
    }

    /// Counts lives of which each begins when the ApplicationMaster's ResourceManager knows of the
    /// end of the one before.
    pub(crate) fn serial(&self, duration: Duration) -> Lives {
        self.lives(|begin| {
            let mut lives = 0;
            while begin.elapsed() < duration {
                self.live(LaunchContext::command(":"));
                lives += 1;
            }
            lives
        })
    }

    /// Counts lives with 32 containers at once.
    pub(crate) fn sustained(&self, duration: Duration) -> Lives {
        let completed = || self.rm.with(|tracker| tracker.completed.len());
        let before = completed();
        let mut started = 0;
        let lives = self.lives(|begin| {
            loop {
                let done = completed() - before;
                if begin.elapsed() >= duration {
                    break done;
                }
                let free = AT_ONCE - (started - done);
                if free > 0 {
                    let requests = (0..free)
                        .map(|_| (self.allocate(), LaunchContext::command(":")))
                        .collect();
                    let accepted = self.am.start_all(requests);
                    accepted.unwrap_or_else(|refusal| panic!("{refusal}"));
                    started += free;
                }
                self.rm.wait("the end of a container", |tracker| {
                    (tracker.completed.len() - before > done).then_some(())
                });
            }
        });
        self.rm.wait("the end of all containers", |tracker| {
            (tracker.completed.len() - before == started).then_some(())
        });
        lives
    }

    /// Measures what `run` does; `run` returns the number of lives.
    fn lives(&self, run: impl FnOnce(Instant) -> usize) -> Lives {
        let used = processor_time(self.node);
        let begin = Instant::now();
        let lives = u32::try_from(run(begin)).expect("seconds have few launches");
        let elapsed = begin.elapsed();
        let used = processor_time(self.node).saturating_sub(used);
        Lives {
            per_s: f64::from(lives) / elapsed.as_secs_f64(),
            processor_ms: milliseconds(used) / f64::from(lives),
        }
    }

    /// Fills the node with running containers and its queue with others, and waits until
    /// heartbeats report all of them and the node is idle.
    pub(crate) fn fill(&self, queued: usize, left: Left) {
        let running = u64::try_from(RUNNING).expect("a small number");
        let (running_mb, queued_mb) = match left {
            Left::Nothing => (NODE_MB / running, SMALL_MB),
            Left::Launches => ((NODE_MB - 2 * SMALL_MB) / running, NODE_MB / 2),
        };
        let large = || self.am.allocate().memory_mb(running_mb);
        let requests: Vec<_> = (0..RUNNING)
            .map(|_| (large(), LaunchContext::command("exec sleep 6000")))
            .collect();
        let ids: Vec<ContainerId> = requests
            .iter()
            .map(|(allocation, _)| allocation.id)
            .collect();
        let started = self.am.start_all(requests);
        started.unwrap_or_else(|refusal| panic!("{refusal}"));
        for id in ids {
            self.rm
                .wait_sub_state(id, ContainerSubStateProto::CssRunning);
        }
        for _ in 0..queued / BATCH {
            let requests = (0..BATCH)
                .map(|_| {
                    let allocation = self.am.allocate().memory_mb(queued_mb).opportunistic();
                    (allocation, LaunchContext::command(":"))
                })
                .collect();
            let started = self.am.start_all(requests);
            started.unwrap_or_else(|refusal| panic!("{refusal}"));
        }
        let known = RUNNING + queued;
        self.rm.wait("all containers known", |tracker| {
            let last = tracker.heartbeats.back()?;
            (last.containers_statuses.len() == known).then_some(())
        });
        self.rm.wait_heartbeats(SETTLED_HEARTBEATS);
    }
}

/// Returns the present time since 1970.
pub(crate) fn now() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("the clock is after 1970")
}

/// Returns the time from `begin` to bash's `EPOCHREALTIME` when the command wrote it to `file`,
/// which is removed.
pub(crate) fn first_instruction(file: &Path, begin: Duration) -> Duration {
    let text = fs::read_to_string(file)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()));
    // Written with six digits behind the point.
    let micros = text.trim().replace(['.', ','], "").parse();
    let at = Duration::from_micros(micros.unwrap_or_else(|error| panic!("{text:?}: {error}")));
    fs::remove_file(file)
        .unwrap_or_else(|error| panic!("cannot remove {}: {error}", file.display()));
    at.saturating_sub(begin)
}
