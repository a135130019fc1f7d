//! Limits of this machine: figures that no node can beat.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tests::loopback::round_trips;
use tests::samples::Samples;

use crate::floor;
use crate::load::{first_instruction, now};

/// Processes at once when lives are counted: a few for each processor, so that none idles.
const LIVES_AT_ONCE: usize = 8;

/// Environment of a container's command: fewer and other variables than this process has, which
/// each shell reads at its start.
#[derive(Clone)]
pub(crate) struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    /// Parses the bytes of `/proc/PID/environ`: `NAME=value`, each ended by a zero byte.
    pub(crate) fn parse(environ: &[u8]) -> Self {
        let variables = environ.split(|byte| *byte == 0).filter_map(|variable| {
            let at = variable.iter().position(|byte| *byte == b'=')?;
            let os = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
            Some((os(&variable[..at]), os(&variable[at + 1..])))
        });
        Self(variables.collect())
    }

    /// Returns a command that runs bash with this environment.
    pub(crate) fn bash(&self, script: &str) -> Command {
        let mut command = Command::new("/bin/bash");
        let variables = self.0.iter().map(|(name, value)| (name, value));
        command.args(["-c", script]).env_clear().envs(variables);
        command
    }
}

/// Figures of the shells of a launch, without a node.
pub(crate) struct Shells {
    /// Time from before the spawn to the first instruction of the command.
    pub(crate) first_instruction: Samples,
    /// Lives per second, on all processors.
    pub(crate) lives_per_s: f64,
}

impl Shells {
    /// Measures a command that starts in one bash, or in a bash that another executes.
    fn measure(environment: &Environment, is_pair: bool, runs: usize, lives: Duration) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let file = folder.path().join("time");
        let script = |command: &str| {
            if is_pair {
                format!("exec /bin/bash -c \"{}\"", command.replace('$', "\\$"))
            } else {
                command.to_owned()
            }
        };
        let timed = script(&format!("echo $EPOCHREALTIME > '{}'", file.display()));
        Self {
            first_instruction: Samples::take(runs, |_| {
                let begin = now();
                life(&mut environment.bash(&timed));
                first_instruction(&file, begin)
            }),
            lives_per_s: lives_per_s(environment, &script(":"), lives),
        }
    }

    fn or_better(self, other: Self) -> Self {
        Self {
            first_instruction: self.first_instruction.or_shorter(other.first_instruction),
            lives_per_s: self.lives_per_s.max(other.lives_per_s),
        }
    }
}

/// Figures of the machine.
pub(crate) struct Limits {
    /// Time to spawn `/bin/true` and wait for its end.
    pub(crate) true_life: Samples,
    /// Time to spawn `bash -c :` and wait for its end.
    pub(crate) bash_life: Samples,
    /// Round trip of one byte to an echo on the loopback address.
    pub(crate) round_trip: Samples,
    /// The command's bash alone: what a launch needs at least.
    pub(crate) bash: Shells,
    /// A bash that executes the command's: what a launch script needs at least.
    pub(crate) pair: Shells,
    /// Time from SIGTERM to the end of a process that does nothing.
    pub(crate) stop: Samples,
    /// CPU time of a life that makes the same files and one process, in milliseconds, without the
    /// process's own.
    pub(crate) life_processor_ms: f64,
}

impl Limits {
    /// Returns the better of two measurements: other work on the machine only ever makes a limit
    /// worse.
    pub(crate) fn or_better(self, other: Self) -> Self {
        Self {
            true_life: self.true_life.or_shorter(other.true_life),
            bash_life: self.bash_life.or_shorter(other.bash_life),
            round_trip: self.round_trip.or_shorter(other.round_trip),
            bash: self.bash.or_better(other.bash),
            pair: self.pair.or_better(other.pair),
            stop: self.stop.or_shorter(other.stop),
            life_processor_ms: self.life_processor_ms.min(other.life_processor_ms),
        }
    }

    /// Measures the machine at present.
    pub(crate) fn measure(environment: &Environment, quick: bool) -> Self {
        let runs = if quick { 50 } else { 300 };
        let lives = Duration::from_secs(if quick { 1 } else { 5 });
        let shells = |is_pair| Shells::measure(environment, is_pair, runs, lives);
        Self {
            true_life: Samples::take(runs, |_| life(&mut Command::new("/bin/true"))),
            bash_life: Samples::take(runs, |_| life(&mut environment.bash(":"))),
            round_trip: round_trips(runs * 10),
            bash: shells(false),
            pair: shells(true),
            stop: Samples::take(runs.min(100), |_| stop()),
            life_processor_ms: floor::processor_ms(environment, lives),
        }
    }
}

fn life(command: &mut Command) -> Duration {
    let begin = Instant::now();
    let status = command.stdin(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "{command:?}");
    begin.elapsed()
}

fn lives_per_s(environment: &Environment, script: &str, duration: Duration) -> f64 {
    let begin = Instant::now();
    let threads: Vec<_> = (0..LIVES_AT_ONCE)
        .map(|_| {
            let (environment, script) = (environment.clone(), script.to_owned());
            std::thread::spawn(move || {
                let mut lives = 0_u32;
                while begin.elapsed() < duration {
                    life(&mut environment.bash(&script));
                    lives += 1;
                }
                lives
            })
        })
        .collect();
    let lives: u32 = threads
        .into_iter()
        .map(|thread| thread.join().expect("no life fails"))
        .sum();
    f64::from(lives) / begin.elapsed().as_secs_f64()
}

fn stop() -> Duration {
    let mut child = Command::new("/bin/sleep")
        .arg("600")
        .stdin(Stdio::null())
        .spawn()
        .expect("sleep starts");
    let pid = i32::try_from(child.id()).expect("a process id is a positive 32-bit number");
    // The child is a process of its own once it has its own name.
    while !fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep")
    {
        std::thread::yield_now();
    }
    let begin = Instant::now();
    let pid = nix::unistd::Pid::from_raw(pid);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("the child is there");
    child.wait().expect("a child can be waited for");
    begin.elapsed()
}
