//! Pools whose workers are the test binary in a role that its first argument names.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use file_worker::{AccountOf, Pool, PoolConfig, Program};
use hadoop_fs::FsConfig;

pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) fn pool_of(program: Program, account_of: AccountOf, step_limit: Duration) -> Pool {
    Pool::new(PoolConfig {
        program,
        file_systems: FsConfig {
            step_limit,
            ..FsConfig::default()
        },
        account_of,
        security: None,
    })
}

pub(crate) fn pool() -> Pool {
    pool_of(Program::own(), Box::new(|_| None), DEADLINE)
}

/// Returns the workers of this process, or of another.
pub(crate) fn workers_of(parent: u32) -> Vec<i32> {
    let mut workers = Vec::new();
    for task in fs::read_dir(format!("/proc/{parent}/task"))
        .unwrap()
        .flatten()
    {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        workers.extend(
            children
                .split_whitespace()
                .map(|pid| pid.parse::<i32>().unwrap()),
        );
    }
    workers.sort_unstable();
    workers
}

#[track_caller]
pub(crate) fn only_worker() -> i32 {
    let workers = workers_of(std::process::id());
    assert_eq!(workers.len(), 1, "{workers:?}");
    workers[0]
}

pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited for {what}");
        std::thread::yield_now();
    }
}

pub(crate) fn program(role: &str, argument: &str) -> Program {
    Program {
        arguments: vec![role.into(), argument.into()],
        ..Program::own()
    }
}

/// Receives the socket of a session, whatever comes before it.
pub(crate) fn session_of(control: &UnixStream) -> UnixStream {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    loop {
        let mut byte = [0];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [std::io::IoSliceMut::new(&mut byte)];
        recvmsg(control, &mut parts, &mut ancillary, RecvFlags::empty()).unwrap();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
                return UnixStream::from(descriptors.next().unwrap());
            }
        }
    }
}
