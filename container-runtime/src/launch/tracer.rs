//! Processes that trace others (ptrace) and so keep them from ending.
//!
//! A tracer may have a process stop at its end (`PTRACE_O_TRACEEXIT`) and never continue it; and a
//! zombie is its tracer's until that has looked at it. Neither SIGKILL nor the end of a cgroup
//! helps, only the end of the tracer does.
//!
//! A tracer is ended if its account is that of the process which it traces. Others are left alone,
//! such as the debugger of an operator, and so are the agent, its ancestors, and whoever traces the
//! agent itself.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::fd::AsFd as _;
use std::time::Duration;

use tokio::time::Instant;

use super::process::{open_process, signal_process};

/// Time from SIGKILL to the first look for tracers, and between two looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of threads that are looked at in one go; the next look finds the others.
const THREADS_MAX: usize = 4_096;
/// Maximum number of processes that a description names.
const DESCRIBED_MAX: usize = 4;

/// Times of looks for tracers while SIGKILL has no effect.
#[derive(Debug, Default)]
pub(super) struct Looks(Option<Instant>);

impl Looks {
    /// Returns whether a look is due. The first call begins the wait for the first look.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let next = self.0.get_or_insert(now + INTERVAL);
        let is_due = *next <= now;
        if is_due {
            *next = now + INTERVAL;
        }
        is_due
    }

    /// Returns the time of the next look.
    pub(super) fn next(&self, now: Instant) -> Instant {
        self.0.unwrap_or(now + INTERVAL)
    }
}

/// Fields of `/proc/TID/status` of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Status {
    process: i32,
    parent: i32,
    /// Thread that traces it; 0: none.
    tracer: i32,
    /// Real, effective and saved user id, and that for files.
    users: [u32; 4],
    state: char,
}

impl Status {
    fn read(thread: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{thread}/status")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        };
        let number = |name: &str| value(name)?.trim().parse().ok();
        let mut users = value("Uid")?.split_ascii_whitespace().map(str::parse);
        let mut user = || users.next()?.ok();
        Some(Self {
            process: number("Tgid")?,
            parent: number("PPid")?,
            tracer: number("TracerPid")?,
            users: [user()?, user()?, user()?, user()?],
            state: value("State")?.trim().chars().next()?,
        })
    }
}

/// Returns the threads of a process, ended or not.
fn threads_of(process: i32) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(format!("/proc/{process}/task"));
    let entries = entries.into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Kills the tracers of these processes, and those of the tracers, as far as they have the account
/// of what they trace. Returns how many. Reads files of `/proc` that do not wait.
pub(super) fn end_tracers(traced: &[i32], agent: i32) -> usize {
    let spared = spared(agent);
    let mut pending: Vec<i32> = traced.to_vec();
    let mut known: BTreeSet<i32> = pending.iter().copied().collect();
    let (mut looks, mut ended) = (0, 0);
    while let Some(process) = pending.pop() {
        for thread in threads_of(process) {
            looks += 1;
            if looks > THREADS_MAX {
                return ended;
            }
            let Some((tracer, is_ended)) = end_tracer_of(thread, &spared) else {
                continue;
            };
            ended += usize::from(is_ended);
            if known.insert(tracer) {
                pending.push(tracer);
            }
        }
    }
    ended
}

/// Returns the processes that are never ended as tracers.
fn spared(agent: i32) -> BTreeSet<i32> {
    // Init's pid.
    let mut spared = BTreeSet::from([1]);
    let mut next = agent;
    while let Some(status) = Status::read(next)
        && spared.insert(next)
    {
        next = status.parent;
    }
    for thread in threads_of(agent) {
        let tracer = Status::read(thread).map_or(0, |status| status.tracer);
        spared.extend(Status::read(tracer).map(|tracer| tracer.process));
    }
    spared
}

/// Kills the tracer of a thread. Returns its process, and whether it was killed; `None`: nobody
/// traces the thread, or the thread has gone.
fn end_tracer_of(thread: i32, spared: &BTreeSet<i32>) -> Option<(i32, bool)> {
    let traced = Status::read(thread).filter(|status| status.tracer != 0)?;
    let tracer = Status::read(traced.tracer)?;
    let process = tracer.process;
    let [account, ..] = traced.users;
    if spared.contains(&process) || tracer.users != [account; 4] {
        return Some((process, false));
    }
    let handle = open_process(process).ok()?;
    // The handle may be on a later process with the same pid. What still traces the thread is the
    // tracer that was seen, and the handle is on that.
    let is_same = Status::read(thread).is_some_and(|now| now.tracer == traced.tracer)
        && Status::read(traced.tracer).is_some_and(|now| {
            now == Status {
                state: now.state,
                ..tracer
            }
        });
    let is_ended = is_same && signal_process(handle.as_fd(), libc::SIGKILL);
    if is_ended {
        tracing::warn!(
            tracer = process,
            traced = traced.process,
            account,
            "killed a process that kept a container's from ending by tracing it"
        );
    }
    Some((process, is_ended))
}

/// Describes processes that do not end: pids, states and tracers.
pub(super) fn describe(processes: &[i32]) -> String {
    let mut text = String::new();
    for process in processes.iter().take(DESCRIBED_MAX) {
        let separator = if text.is_empty() { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(text, "{separator}{process}");
        let mut threads = threads_of(*process)
            .take(THREADS_MAX)
            .filter_map(Status::read);
        if let Some(traced) = threads.find(|status| status.tracer != 0) {
            let _ = write!(text, " (traced by {})", traced.tracer);
        } else if let Some(status) = Status::read(*process) {
            let _ = write!(text, " (state {})", status.state);
        }
    }
    if processes.len() > DESCRIBED_MAX {
        let _ = write!(text, " and {} more", processes.len() - DESCRIBED_MAX);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_and_nonsense_is_none() {
        let own = i32::try_from(std::process::id()).unwrap();
        let status = Status::read(own).unwrap();
        assert_eq!((status.process, status.tracer), (own, 0));
        assert_eq!(Status::read(0), None);
        let text = "Name:\tx\nState:\tt (tracing stop)\nTgid:\t7\nPPid:\t1\nTracerPid:\t9\n\
                    Uid:\t5\t6\t7\t8\n";
        let status = Status::parse(text).unwrap();
        assert_eq!((status.process, status.parent, status.tracer), (7, 1, 9));
        assert_eq!((status.users, status.state), ([5, 6, 7, 8], 't'));
        for cut in 0..text.len() - 2 {
            assert_eq!(Status::parse(&text[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn the_agent_and_its_ancestors_are_spared() {
        let own = i32::try_from(std::process::id()).unwrap();
        let parent = Status::read(own).unwrap().parent;
        assert!(spared(own).is_superset(&[1, own, parent].into()));
    }

    #[test]
    fn looks_begin_after_a_while_and_are_repeated() {
        let start = Instant::now();
        let mut looks = Looks::default();
        let at = |intervals: u32| start + INTERVAL * intervals;
        let due = [0, 1, 1, 2, 3].map(|intervals| looks.is_due(at(intervals)));
        assert_eq!(due, [false, true, false, true, true]);
    }

    #[test]
    fn a_description_names_a_few() {
        let own = i32::try_from(std::process::id()).unwrap();
        let text = describe(&[own; 6]);
        assert!(text.starts_with(&format!("{own} (state ")), "{text}");
        assert!(text.ends_with(" and 2 more"), "{text}");
    }
}
