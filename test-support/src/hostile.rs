//! Processes that make their own end hard: roles of the test's own program, so that a test needs
//! neither a compiler nor another program.
//!
//! [`command`] names the program and the variable that has it play a role instead of running tests.
//! It does so before `main`, while its first thread is the only one: the test harness runs tests
//! in others.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{process, ptr, thread};

/// Variable with a role and its arguments, separated by [`SEPARATOR`].
const ROLE: &str = "NM_AGENT_TEST_ROLE";
/// Separator that no argument of a test contains.
const SEPARATOR: &str = "|";
/// Memory that the second thread of [`Role::HalfDead`] holds, in MiB.
pub const HELD_MIB: u64 = 96;
/// Life of one process of [`Role::ForkChain`].
const LINK_LIFE: Duration = Duration::from_micros(500);
/// Life of a whole [`Role::ForkChain`]: one that a failed test leaves takes a third of a core from
/// the tests after it. Several times the longest deadline of a test (two minutes), so that none
/// takes this end for the one that it waits for.
const CHAIN_LIFE: Duration = Duration::from_secs(600);

/// Role of a process. Each says that it is ready by writing its pid into a file.
#[derive(Clone, Debug)]
pub enum Role {
    /// Its first thread ends, and another holds [`HELD_MIB`] and ignores SIGTERM.
    HalfDead {
        /// File for the pid.
        ready: PathBuf,
    },
    /// In a session of its own and ignoring SIGTERM, it forks and ends, as do its descendants.
    ForkChain {
        /// File for the pid of the first. The file beside it that [`lock_of_chain`] names is
        /// locked for as long as a process of the chain is left.
        ready: PathBuf,
    },
    /// Traces a process, and never looks at it when it has ended.
    Holder {
        /// Pid of the process.
        of: i32,
        /// File for the pid.
        ready: PathBuf,
    },
    /// Traces a process, has it stop at its end, and never continues it.
    Tracer {
        /// Pid of the process.
        of: i32,
        /// File for the pid.
        ready: PathBuf,
    },
}

/// Returns the program that plays roles, and the variable of its environment that names this one.
///
/// # Panics
/// When this program cannot be found.
#[must_use]
pub fn command(role: &Role) -> (PathBuf, (&'static str, String)) {
    let path = |path: &Path| {
        path.to_str()
            .expect("folders of tests have names in UTF-8")
            .to_owned()
    };
    let words = match role {
        Role::HalfDead { ready } => ["half-dead".to_owned(), path(ready), String::new()],
        Role::ForkChain { ready } => ["fork-chain".to_owned(), path(ready), String::new()],
        Role::Holder { of, ready } => ["holder".to_owned(), path(ready), of.to_string()],
        Role::Tracer { of, ready } => ["tracer".to_owned(), path(ready), of.to_string()],
    };
    let program = std::env::current_exe().expect("this program has a path");
    (program, (ROLE, words.join(SEPARATOR)))
}

/// Returns the file that is locked for as long as a process of a [`Role::ForkChain`] is left.
#[must_use]
pub fn lock_of_chain(ready: &Path) -> PathBuf {
    ready.with_extension("lock")
}

/// Returns a line for bash that becomes a process of this role.
#[must_use]
pub fn bash_line(role: &Role) -> String {
    let (program, _) = command(role);
    bash_line_of(&program, role)
}

/// Returns a line as [`bash_line`] does, for this program at another path: that of the test may
/// not be everybody's to execute.
#[must_use]
pub fn bash_line_of(program: &Path, role: &Role) -> String {
    let (_, (name, value)) = command(role);
    format!("{name}='{value}' exec '{}'", program.display())
}

#[expect(unsafe_code, reason = "a section of functions that run before main")]
// SAFETY: the section has pointers to functions without results, as this one is.
#[unsafe(link_section = ".init_array")]
#[used]
static PLAY: extern "C" fn() = play_if_asked;

extern "C" fn play_if_asked() {
    let Some(words) = std::env::var_os(ROLE) else {
        return;
    };
    let words = words.to_string_lossy().into_owned();
    let words: Vec<&str> = words.split(SEPARATOR).collect();
    let [role, ready, argument] = words[..] else {
        process::exit(2);
    };
    match role {
        "half-dead" => half_dead(Path::new(ready)),
        "fork-chain" => fork_chain(Path::new(ready)),
        "holder" => trace(argument.parse().unwrap_or(-1), 0, Path::new(ready)),
        "tracer" => {
            let of = argument.parse().unwrap_or(-1);
            trace(of, libc::PTRACE_O_TRACEEXIT, Path::new(ready))
        }
        _ => process::exit(2),
    }
}

/// Writes the pid into a file that appears with its text.
fn say_ready(path: &Path) {
    let mut name = OsString::from(path.file_name().unwrap_or(OsStr::new("ready")));
    name.push(".new");
    let new = path.with_file_name(name);
    let written = fs::write(&new, process::id().to_string());
    if written.and_then(|()| fs::rename(&new, path)).is_err() {
        process::exit(3);
    }
}

fn sleep_for_ever() -> ! {
    loop {
        thread::sleep(Duration::from_secs(3_600));
    }
}

#[expect(unsafe_code, reason = "system calls without a safe binding here")]
fn ignore_sigterm() {
    // SAFETY: to ignore a signal runs no code.
    unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
}

#[expect(unsafe_code, reason = "system calls without a safe binding here")]
fn half_dead(ready: &Path) -> ! {
    ignore_sigterm();
    let first = process::id();
    let ready = ready.to_owned();
    thread::spawn(move || {
        let bytes = usize::try_from(HELD_MIB << 20).unwrap_or(0);
        let held = vec![1_u8; bytes];
        let has_ended = || {
            let stat = fs::read_to_string(format!("/proc/{first}/stat")).unwrap_or_default();
            stat.contains(") Z ")
        };
        while !has_ended() {
            thread::yield_now();
        }
        say_ready(&ready);
        let _kept = std::hint::black_box(held);
        sleep_for_ever()
    });
    // SAFETY: ends this thread only; nothing that others use is on its stack.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    sleep_for_ever()
}

#[expect(unsafe_code, reason = "system calls without a safe binding here")]
fn fork_chain(ready: &Path) -> ! {
    ignore_sigterm();
    // SAFETY: no memory is passed.
    unsafe { libc::setsid() };
    let Ok(lock) = File::create(lock_of_chain(ready)) else {
        process::exit(3);
    };
    if lock.lock().is_err() {
        process::exit(3);
    }
    say_ready(ready);
    let begin = Instant::now();
    while begin.elapsed() < CHAIN_LIFE {
        // SAFETY: this process has one thread, so its child may do what it does.
        match unsafe { libc::fork() } {
            0 => thread::sleep(LINK_LIFE),
            // SAFETY: ends the process at once.
            _ => unsafe { libc::_exit(0) },
        }
    }
    process::exit(0)
}

#[expect(unsafe_code, reason = "system calls without a safe binding here")]
fn trace(of: i32, options: i32, ready: &Path) -> ! {
    let null = ptr::null_mut::<libc::c_void>();
    // SAFETY: neither the address nor the options point to anything.
    let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, of, null, options) };
    if seized != 0 {
        eprintln!("cannot trace {of}: {}", std::io::Error::last_os_error());
        process::exit(4);
    }
    say_ready(ready);
    sleep_for_ever()
}
