//! `nm-agent quickstart`: a ResourceManager, some agents and two jobs in one process, with a story
//! of what happens, printed as it happens. Everything is real except the size of the nodes: the
//! protocols, the decisions, the containers' processes.
//!
//! In: how many nodes, and the process around it. Out: an exit status and text for people. Knows
//! the node manager, the embedded ResourceManager and the shell as libraries, each by its public
//! face, and leaves no process and no file behind.
//!
//! - `plan`: the numbers, and `settings`, the configurations made of them
//! - `limits`, `folder`, `error`: what the machine must give, and what to say when it does not
//! - `cluster`, `jobs`: what runs
//! - `observe`: looks at it; `tally` adds up what happened; `story` decides, purely, what to say
//!   and do next
//! - `screen`, `summary`, `logging`: what people see
//! - `leftovers`: the end, which leaves no process and no file behind

mod cluster;
mod error;
mod first_run;
mod folder;
mod jobs;
mod leftovers;
mod limits;
mod logging;
mod observe;
mod plan;
mod screen;
mod settings;
mod story;
mod summary;
mod tally;
#[cfg(test)]
mod testing;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use program::signals::{Interruption, Signals};
use records::ApplicationId;
use time::UtcOffset;

pub use self::plan::{NODES, NODES_DEFAULT};

use self::cluster::Cluster;
use self::error::QuickstartError;
use self::folder::Folder;
use self::jobs::Followed;
use self::observe::{Jobs, Observer};
use self::screen::{Look, Screen, Standing};
use self::settings::Ports;
use self::story::{Cue, JobName, JobSight, Sight, Story, Verdict};
use self::summary::Summary;

/// Between two looks at the cluster: below what people notice, far above what a look costs. A node
/// keeps its last 60 decisions, more than it makes in the longest pause that is likely.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Threads of the runtime: the work is little, and machines with many processors have no use for as
/// many threads here.
const WORKERS_MAX: usize = 4;

/// For threads that hang in a disk or a name service, when everything has ended in order.
const RUNTIME_PATIENCE: Duration = Duration::from_secs(1);

/// Options of a quick start, from the command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many nodes; within [`NODES`].
    pub nodes: u16,
    /// End with the story instead of waiting for Ctrl-C.
    pub once: bool,
    /// The port of the ResourceManager's pages, followed by those of the nodes; `None` takes free
    /// ones. All must exist.
    pub port: Option<u16>,
}

/// The process around it.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// When the process started, as exactly as it knows.
    pub started: SystemTime,
    /// Environment of this process.
    pub environment: BTreeMap<String, String>,
    /// Local time's distance from UTC.
    pub utc_offset: UtcOffset,
    /// This program, which also runs the masters of the jobs.
    pub program: PathBuf,
}

/// How the story ended.
enum Ending {
    Told(Verdict),
    Interrupted(Interruption),
    /// Standard output was closed, so the story has no reader.
    Unread,
}

/// Runs until the story is over or, unless it is to be told once, until Ctrl-C. Leaves no process
/// and no file.
///
/// The exit status is 0 when all of the story happened, 1 when not or when it could not begin, and
/// 128 and the signal's number when a signal came before its end.
#[must_use]
pub fn run(options: &Options, surroundings: &Surroundings) -> ExitCode {
    let status = start(options, surroundings).unwrap_or_else(|error| {
        eprintln!("nm-agent quickstart: {}", error.one_line());
        let advice = error.advice();
        if !advice.is_empty() {
            eprintln!("{advice}");
        }
        1
    });
    ExitCode::from(status)
}

fn start(options: &Options, surroundings: &Surroundings) -> Result<u8, QuickstartError> {
    limits::check(options.nodes)?;
    let system = |doing| move |source| QuickstartError::System { doing, source };
    container_runtime::launch::adopt_orphans().map_err(system(
        "becoming the parent of orphaned container processes",
    ))?;
    let workers = std::thread::available_parallelism().map_or(WORKERS_MAX, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers.min(WORKERS_MAX))
        .enable_all()
        .thread_name("quickstart")
        .build()
        .map_err(system("starting the runtime"))?;
    let status = runtime.block_on(async {
        // Before there is anything that a signal could leave behind.
        let mut signals = Signals::listen().map_err(system("listening for signals"))?;
        let folder = Folder::make(&temporary_folder(&surroundings.environment))?;
        let status = in_folder(options, surroundings, &folder, &mut signals).await;
        match folder.remove().await {
            Ok(()) => status,
            Err(source) => status.and(Err(QuickstartError::System {
                doing: "removing the temporary folder",
                source,
            })),
        }
    });
    runtime.shutdown_timeout(RUNTIME_PATIENCE);
    status
}

/// Returns the folder for temporary files: `TMPDIR`, or else `/tmp`.
fn temporary_folder(environment: &BTreeMap<String, String>) -> PathBuf {
    let chosen = environment.get("TMPDIR").filter(|path| !path.is_empty());
    chosen.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
}

async fn in_folder(
    options: &Options,
    surroundings: &Surroundings,
    folder: &Folder,
    signals: &mut Signals,
) -> Result<u8, QuickstartError> {
    logging::start(&surroundings.environment, &folder.log()).map_err(|source| {
        QuickstartError::System {
            doing: "making the log file",
            source,
        }
    })?;
    let process = cluster::process(&surroundings.environment, surroundings.utc_offset);
    let ports = options.port.map_or(Ports::Free, Ports::From);
    let cluster = Cluster::start(folder, options.nodes, ports, &process).await?;
    let mut stage = Stage::new(options, surroundings, folder);
    stage.introduce(&cluster);
    let ending = tokio::select! {
        biased;
        interruption = signals.next() => Ending::Interrupted(interruption),
        ending = stage.play(&cluster) => ending,
    };
    let status = stage.conclude(&ending, signals).await;
    stage.jobs = Jobs::default();
    let problems = stop(cluster, signals, &mut stage.screen).await;
    for problem in &problems {
        stage.screen.line(&stage.screen.bad(problem));
    }
    Ok(if problems.is_empty() {
        status
    } else {
        status.max(1)
    })
}

/// Ends the cluster. Further signals change nothing: each step has a bound, and haste would leave
/// containers behind.
async fn stop<W: io::Write>(
    cluster: Cluster,
    signals: &mut Signals,
    screen: &mut Screen<W>,
) -> Vec<String> {
    let mut ending = std::pin::pin!(cluster.stop());
    let mut problems = loop {
        tokio::select! {
            problems = &mut ending => break problems,
            _ = signals.next() => screen.line("Ending already; each step of it has a bound."),
        }
    };
    problems.extend(leftovers::processes());
    problems
}

/// Parts that the story's loop works on.
struct Stage<'a> {
    options: &'a Options,
    surroundings: &'a Surroundings,
    folder: &'a Folder,
    /// The same moment as the surroundings' start, for durations.
    started: Instant,
    screen: Screen<Stdout>,
    story: Story,
    jobs: Jobs,
    batch: Option<ApplicationId>,
}

impl<'a> Stage<'a> {
    fn new(options: &'a Options, surroundings: &'a Surroundings, folder: &'a Folder) -> Self {
        let now = Instant::now();
        let since = surroundings.started.elapsed().unwrap_or_default();
        Self {
            options,
            surroundings,
            folder,
            started: now.checked_sub(since).unwrap_or(now),
            screen: Screen::new(io::stdout(), look(&surroundings.environment)),
            story: Story::new(u32::from(options.nodes)),
            jobs: Jobs::default(),
            batch: None,
        }
    }

    /// Prints the addresses of the pages, before the story begins.
    fn introduce(&mut self, cluster: &Cluster) {
        let screen = &mut self.screen;
        screen.line("Watch it here:");
        for (index, page) in cluster.pages().iter().enumerate() {
            let url = screen.strong(&format!("http://{page}/"));
            screen.line(&format!("  node {:<14}{url}", index + 1));
        }
        let url = screen.strong(&format!("http://{}/", cluster.addresses().web));
        screen.line(&format!("  ResourceManager    {url}"));
        let folder = self.folder.path().display();
        screen.line(&format!(
            "All files are in {folder}; they go with this process."
        ));
        screen.line("");
    }

    async fn play(&mut self, cluster: &Cluster) -> Ending {
        let mut observer = Observer::new(usize::from(self.options.nodes));
        loop {
            let at = self.started.elapsed();
            let (sight, happened) = observer.look(at, cluster, &self.jobs).await;
            self.note_batch(&sight);
            for cue in self.story.look(&sight, &happened) {
                if let Some(verdict) = self.follow(cue, at, cluster) {
                    self.screen.stand(None);
                    return Ending::Told(verdict);
                }
            }
            self.screen.stand(Some(self.standing(&sight)));
            if self.screen.is_gone() {
                return Ending::Unread;
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    fn note_batch(&mut self, sight: &Sight) {
        if let JobSight::Submitted(id) | JobSight::Succeeded(id) = sight.batch {
            self.batch = Some(id);
        }
    }

    fn follow(&mut self, cue: Cue, at: Duration, cluster: &Cluster) -> Option<Verdict> {
        match cue {
            Cue::Print(text) => self.screen.print_event(at, &text),
            Cue::Submit(name) => self.submit(name, cluster),
            Cue::ReleaseUrgent => {
                let gate = self.folder.gate();
                if let Err(error) = std::fs::write(&gate, "") {
                    let why = format!("cannot write {}: {error}", gate.display());
                    return Some(Verdict::Failed(why));
                }
            }
            Cue::End(verdict) => return Some(verdict),
        }
        None
    }

    fn submit(&mut self, name: JobName, cluster: &Cluster) {
        let program = self.surroundings.program.clone();
        let user = node_manager::node_identity::own_user();
        let to = settings::cluster(cluster.addresses(), user, program);
        let job = jobs::job(name, self.options.nodes, &self.folder.gate());
        let followed = Followed::submit(to, job);
        match name {
            JobName::Batch => self.jobs.batch = followed,
            JobName::Urgent => self.jobs.urgent = followed,
        }
    }

    fn standing(&self, sight: &Sight) -> Standing {
        Standing {
            running: sight
                .nodes
                .iter()
                .map(|node| node.running_opportunistic)
                .sum(),
            waiting: sight.nodes.iter().map(|node| node.waiting).sum(),
            succeeded: u32::try_from(self.story.tally().succeeded()).unwrap_or(u32::MAX),
            tasks: plan::tasks(u32::from(self.options.nodes)),
        }
    }

    /// Tells the end, waits for a signal if one is to be waited for, and decides the exit status.
    async fn conclude(&mut self, ending: &Ending, signals: &mut Signals) -> u8 {
        self.screen.stand(None);
        match ending {
            Ending::Interrupted(interruption) => {
                self.screen
                    .line("Ending all containers, the nodes and the ResourceManager.");
                interruption.exit_status()
            }
            Ending::Unread => 1,
            Ending::Told(verdict) => {
                let status = self.print_verdict(verdict);
                if !self.options.once && !self.screen.is_gone() {
                    self.screen.line("");
                    self.screen.line("The pages stay until Ctrl-C.");
                    signals.next().await;
                }
                status
            }
        }
    }

    fn print_verdict(&mut self, verdict: &Verdict) -> u8 {
        let took = self.started.elapsed();
        let status = match verdict {
            Verdict::Complete => 0,
            Verdict::Failed(why) => {
                let text = self.screen.bad(&format!("The story broke off: {why}"));
                self.screen.print_event(took, &text);
                for line in logging::tail(&self.folder.log()) {
                    self.screen.line(&line);
                }
                1
            }
        };
        let nodes = usize::from(self.options.nodes);
        let log_dirs: Vec<PathBuf> = (0..nodes)
            .map(|index| settings::log_dir(&self.folder.node(index)))
            .collect();
        let first_run = self.batch.and_then(|batch| {
            let dirs = log_dirs.iter().map(PathBuf::as_path);
            first_run::after(self.surroundings.started, dirs, batch)
        });
        let summary = Summary {
            tally: self.story.tally(),
            tasks: plan::tasks(u32::from(self.options.nodes)),
            first_run,
            took,
        };
        self.screen.line("");
        for line in summary.lines() {
            self.screen.line(&line);
        }
        status
    }
}

/// Colours and overwritten lines are for terminals; colours only for people who have not declined
/// (<https://no-color.org>).
fn look(environment: &BTreeMap<String, String>) -> Look {
    let is_dumb = environment.get("TERM").is_some_and(|term| term == "dumb");
    let terminal = io::stdout().is_terminal() && !is_dumb;
    Look {
        terminal,
        colour: program::logging::wants_colours(terminal, environment),
    }
}
