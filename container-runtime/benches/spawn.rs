//! What a launch costs, beside what the machine can do at best.
//!
//! `cargo bench -p container-runtime --bench spawn`. Each line is a distribution over runs one at a
//! time unless it says otherwise, in microseconds, from the call to the first instruction of the
//! command (it writes into a FIFO that is being read), or to the exit for `/bin/true`. The
//! machine's own limits are `posix_spawn` and `fork` of `/bin/true`, bash alone, and bash that
//! executes bash, which is the least that a launch script can be. Launches are timed by way of the
//! script, and with the one bash that is enough for these containers. The second part repeats it in
//! a process with 1 GiB of resident memory: only `fork` may grow. The third launches at full speed
//! and counts whole lives, and the CPU time of the containers' processes.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use container_runtime::launch::{
    LaunchConfig, LaunchEvent, LaunchPlan, LaunchTimings, Launcher, adopt_orphans,
};
use records::percentile::of_sorted;
use records::{ApplicationId, NodeId};
use test_support::folders::make_container_dirs;
use tokio::sync::mpsc;

/// Runs of each kind; the 99th percentile is then the fourth largest.
const RUNS: usize = 300;
/// Whole lives in the last part.
const LIVES: usize = 1_500;
/// Containers that live at the same time in the last part.
const AT_ONCE: usize = 16;
const GIBIBYTE: usize = 1 << 30;

const NAMES: [&str; 9] = [
    "posix_spawn + exec /bin/true + exit",
    "fork + exec /bin/true + exit",
    "posix_spawn bash",
    "posix_spawn bash that executes bash",
    "launch by way of the script",
    "launch with one bash",
    "  of which waiting for a launch thread",
    "  of which prepare",
    "  of which spawn",
];

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    adopt_orphans()?;
    let root = tempfile::tempdir()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let mut bench = Bench::new(root.path(), &runtime)?;
    println!("small process");
    bench.all()?;
    // Written to, so that it is resident.
    let ballast = vec![1_u8; GIBIBYTE];
    println!("process with 1 GiB of resident memory");
    bench.all()?;
    drop(std::hint::black_box(ballast));
    bench.all_lives()
}

struct Bench<'a> {
    root: &'a Path,
    runtime: &'a tokio::runtime::Runtime,
    by_script: Node,
    one_bash: Node,
    fifo_path: PathBuf,
    fifo: File,
    next: i64,
}

struct Node {
    launcher: Launcher,
    events: mpsc::Receiver<LaunchEvent>,
}

impl Node {
    fn start(config: LaunchConfig, runtime: &tokio::runtime::Runtime) -> Outcome<Self> {
        let (sender, events) = mpsc::channel(64);
        let launcher = Launcher::start(config, sender, runtime.handle().clone())?;
        Ok(Self { launcher, events })
    }
}

impl<'a> Bench<'a> {
    fn new(root: &'a Path, runtime: &'a tokio::runtime::Runtime) -> Outcome<Self> {
        let fifo_path = root.join("fifo");
        nix::unistd::mkfifo(&fifo_path, nix::sys::stat::Mode::S_IRWXU)?;
        // Open for both: reading waits for a byte instead of ending when a writer has gone.
        let fifo = File::options().read(true).write(true).open(&fifo_path)?;
        let mut config = config();
        let by_script = Node::start(config.clone(), runtime)?;
        config.one_bash = true;
        Ok(Self {
            root,
            runtime,
            by_script,
            one_bash: Node::start(config, runtime)?,
            fifo_path,
            fifo,
            next: 1,
        })
    }

    /// The kinds take turns, so that whatever else the machine does meets them all.
    fn all(&mut self) -> Outcome<()> {
        let write = format!("echo >{}", self.fifo_path.display());
        let nested = format!("exec /bin/bash -c '{write}'");
        let mut times: [Vec<Duration>; NAMES.len()] = Default::default();
        for _ in 0..RUNS {
            let (by_script, _) = self.launch(&write, |bench| &mut bench.by_script)?;
            let (one_bash, phases) = self.launch(&write, |bench| &mut bench.one_bash)?;
            let round = [
                exit_of(&mut Command::new("/bin/true"))?,
                exit_of(forked(&mut Command::new("/bin/true")))?,
                self.first_instruction(&write)?,
                self.first_instruction(&nested)?,
                by_script,
                one_bash,
                phases[0],
                phases[1],
                phases[2],
            ];
            for (times, time) in times.iter_mut().zip(round) {
                times.push(time);
            }
        }
        for (name, times) in NAMES.iter().zip(&mut times) {
            print(name, times);
        }
        Ok(())
    }

    /// From spawning bash to its first command.
    fn first_instruction(&mut self, script: &str) -> Outcome<Duration> {
        let start = Instant::now();
        let mut child = Command::new("/bin/bash")
            .args(["-c", script])
            .stdin(Stdio::null())
            .spawn()?;
        self.fifo.read_exact(&mut [0])?;
        let taken = start.elapsed();
        child.wait()?;
        Ok(taken)
    }

    /// From handing over a plan to the first command, with the times of its phases. Directories are
    /// there, as in an agent, where localization has made them.
    fn launch(
        &mut self,
        command: &str,
        node: fn(&mut Self) -> &mut Node,
    ) -> Outcome<(Duration, [Duration; 3])> {
        let plan = self.plan(command)?;
        let start = Instant::now();
        node(self).launcher.launch(plan)?;
        self.fifo.read_exact(&mut [0])?;
        let taken = start.elapsed();
        let mut phases = [Duration::ZERO; 3];
        loop {
            let event = self.runtime.block_on(node(self).events.recv());
            match event.ok_or("the launcher has gone")? {
                LaunchEvent::Launched { timings, .. } => {
                    let LaunchTimings {
                        queue_us,
                        prepare_us,
                        spawn_us,
                    } = timings;
                    phases = [queue_us, prepare_us, spawn_us].map(Duration::from_micros);
                }
                LaunchEvent::ProcessesGone(_)
                | LaunchEvent::ProcessesStay(_)
                | LaunchEvent::LeftoversGone(_) => {}
                LaunchEvent::Exited { .. } => return Ok((taken, phases)),
                failed @ LaunchEvent::LaunchFailed { .. } => {
                    return Err(format!("{failed:?}").into());
                }
            }
        }
    }

    fn all_lives(&mut self) -> Outcome<()> {
        self.lives("by way of the script", |bench| &mut bench.by_script)?;
        self.lives("with one bash", |bench| &mut bench.one_bash)?;
        pairs()
    }

    /// Launches as fast as containers end.
    fn lives(&mut self, name: &str, node: fn(&mut Self) -> &mut Node) -> Outcome<()> {
        let mut plans = Vec::with_capacity(LIVES);
        for _ in 0..LIVES {
            plans.push(self.plan("exec /bin/true")?);
        }
        let load = Load::start()?;
        let (mut alive, mut ended) = (0, 0);
        while ended < LIVES {
            while alive < AT_ONCE
                && let Some(plan) = plans.pop()
            {
                node(self).launcher.launch(plan)?;
                alive += 1;
            }
            let event = self.runtime.block_on(node(self).events.recv());
            match event.ok_or("the launcher has gone")? {
                LaunchEvent::Launched { .. }
                | LaunchEvent::ProcessesGone(_)
                | LaunchEvent::ProcessesStay(_)
                | LaunchEvent::LeftoversGone(_) => {}
                LaunchEvent::Exited { .. } => {
                    alive -= 1;
                    ended += 1;
                }
                failed @ LaunchEvent::LaunchFailed { .. } => {
                    return Err(format!("{failed:?}").into());
                }
            }
        }
        load.print(&format!("{LIVES} whole lives, {AT_ONCE} at once, {name}"))
    }

    fn plan(&mut self, command: &str) -> Outcome<Box<LaunchPlan>> {
        let id = self.next;
        self.next += 1;
        let dirs = make_container_dirs(&self.root.join(id.to_string()));
        let id = ApplicationId::new(i64::from(std::process::id()), 9)
            .attempt(1)
            .container(id);
        // As many variables as a MapReduce task brings.
        let environment = (0..20).map(|n| (format!("VARIABLE_{n}"), format!("$PWD/value-{n}")));
        Ok(Box::new(LaunchPlan {
            commands: vec![command.to_owned()],
            environment: environment.collect(),
            ..LaunchPlan::new(id, "alice".to_owned(), dirs)
        }))
    }
}

/// Runs the same processes without an agent.
fn pairs() -> Outcome<()> {
    let load = Load::start()?;
    let nested = "exec /bin/bash -c 'exec /bin/true'";
    let mut children = Vec::new();
    for _ in 0..LIVES {
        if children.len() == AT_ONCE {
            let mut oldest: std::process::Child = children.remove(0);
            oldest.wait()?;
        }
        children.push(Command::new("/bin/bash").args(["-c", nested]).spawn()?);
    }
    for mut child in children {
        child.wait()?;
    }
    load.print("the same without an agent (bash, bash, true)")
}

/// The time that [`LIVES`] take, and the CPU time of their processes.
struct Load {
    start: Instant,
    children_ticks: i64,
}

impl Load {
    fn start() -> Outcome<Self> {
        Ok(Self {
            start: Instant::now(),
            children_ticks: Self::children_ticks()?,
        })
    }

    fn children_ticks() -> Outcome<i64> {
        let stat = procfs::process::Process::myself()?.stat()?;
        Ok(stat.cutime + stat.cstime)
    }

    fn print(self, name: &str) -> Outcome<()> {
        let seconds = self.start.elapsed().as_secs_f64();
        let ticks = i32::try_from(Self::children_ticks()? - self.children_ticks)?;
        let lives = f64::from(u32::try_from(LIVES)?);
        let cpu_ms = f64::from(ticks) * 1e3 / f64::from(u32::try_from(procfs::ticks_per_second())?);
        println!(
            "{name}: {:.0} per second, {:.2} ms of CPU time each",
            lives / seconds,
            cpu_ms / lives
        );
        Ok(())
    }
}

/// Hadoop's defaults, debug information included.
fn config() -> LaunchConfig {
    let node_id = NodeId {
        host: "localhost".to_owned(),
        port: 8041,
    };
    LaunchConfig::new(node_id, 8042)
}

/// From starting a command to its exit.
fn exit_of(command: &mut Command) -> Outcome<Duration> {
    let start = Instant::now();
    command.status()?;
    Ok(start.elapsed())
}

/// Has the standard library fork: something is to run in the child.
#[expect(unsafe_code, reason = "the only way to make the standard library fork")]
fn forked(command: &mut Command) -> &mut Command {
    // SAFETY: the closure does nothing, so it does nothing that is forbidden after fork.
    unsafe { command.pre_exec(|| Ok(())) }
}

fn print(name: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |percent| of_sorted(times, percent).unwrap_or_default().as_micros();
    println!("  {name:<40} p50 {:>7}   p99 {:>7}", at(50), at(99));
}
