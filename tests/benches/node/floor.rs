//! CPU time of a container's life that no node can do without: its folders and files, one process,
//! its end, the removal of its work folder. No protocol, no token, no decision, no log.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::fcntl::{OFlag, open, openat};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::stat::{Mode, fchmod, mkdirat};
use nix::sys::time::TimeValLike as _;
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::limits::Environment;

/// Threads that each make one life after the other, as the launch threads of a node do.
const THREADS: usize = 4;

/// Bytes of the launch script of a command without resources, and of its listing.
const SCRIPT: [u8; 2_000] = [b'#'; 2_000];

/// An empty storage of tokens, as each container gets that was given none.
const TOKENS: &[u8] = b"HDTS\0\0\0";

/// Returns the CPU time of one life, in milliseconds: user and system time, without that of the
/// container's own process.
pub(crate) fn processor_ms(environment: &Environment, duration: Duration) -> f64 {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let begin = Instant::now();
    let totals = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let folder = folder.path().join(thread.to_string());
                scope.spawn(move || lives(&folder, environment, begin, duration))
            })
            .collect();
        let totals = threads.into_iter().map(|thread| thread.join());
        totals
            .map(|total| total.expect("no life fails"))
            .fold((0.0, 0.0), |sum, total| (sum.0 + total.0, sum.1 + total.1))
    });
    let (lives, used_ms) = totals;
    used_ms / lives
}

/// Makes lives; returns their number and the CPU time of this thread, in milliseconds.
fn lives(
    folder: &Path,
    environment: &Environment,
    begin: Instant,
    duration: Duration,
) -> (f64, f64) {
    fs::create_dir(folder).expect("the folder of the bench can be written to");
    let top = open(folder, directory(), Mode::empty()).expect("the folder is there");
    let before_ms = thread_ms();
    let mut lives = 0_u32;
    while begin.elapsed() < duration {
        life(&top, folder, environment, lives).expect("the folder of the bench can be written to");
        lives += 1;
    }
    (f64::from(lives), thread_ms() - before_ms)
}

fn life(top: &OwnedFd, folder: &Path, environment: &Environment, number: u32) -> io::Result<()> {
    let log = make_folder(top, &format!("log-{number}"), 0o710)?;
    let name = format!("work-{number}");
    let work = make_folder(top, &name, 0o710)?;
    make_folder(&work, "tmp", 0o710)?;
    make_file(&work, "container_tokens", 0o600, TOKENS)?;
    make_file(&work, "launch_container.sh", 0o700, &SCRIPT)?;
    make_file(&log, "launch_container.sh", 0o640, &SCRIPT)?;
    make_file(&log, "directory.info", 0o640, &SCRIPT)?;
    let output = make_file(&log, "prelaunch.out", 0o640, b"Launching container\n")?;
    let errors = make_file(&log, "prelaunch.err", 0o640, b"")?;
    let mut command = environment.bash(":");
    command.current_dir(folder.join(&name));
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    let status = command.status().expect("bash starts");
    assert!(status.success(), "{command:?}");
    unlinkat(&work, "container_tokens", UnlinkatFlags::NoRemoveDir)?;
    unlinkat(&work, "launch_container.sh", UnlinkatFlags::NoRemoveDir)?;
    unlinkat(&work, "tmp", UnlinkatFlags::RemoveDir)?;
    Ok(unlinkat(top, name.as_str(), UnlinkatFlags::RemoveDir)?)
}

fn directory() -> OFlag {
    OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC
}

/// Makes a folder of exactly this mode, whatever the umask, and opens it.
fn make_folder(parent: &OwnedFd, name: &str, bits: u32) -> io::Result<OwnedFd> {
    let mode = Mode::from_bits_truncate(bits);
    mkdirat(parent, name, mode)?;
    let made = openat(parent, name, directory(), Mode::empty())?;
    fchmod(&made, mode)?;
    Ok(made)
}

/// Makes a file of exactly this mode, whatever the umask.
fn make_file(parent: impl AsFd, name: &str, bits: u32, content: &[u8]) -> io::Result<File> {
    let mode = Mode::from_bits_truncate(bits);
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
    let mut file = File::from(openat(parent, name, flags, mode)?);
    fchmod(&file, mode)?;
    file.write_all(content)?;
    Ok(file)
}

/// Returns the CPU time that this thread has used, in milliseconds.
fn thread_ms() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("every thread has its usage");
    let used = usage.user_time() + usage.system_time();
    let micros = u32::try_from(used.num_microseconds()).expect("a bench takes minutes");
    f64::from(micros) / 1000.0
}
