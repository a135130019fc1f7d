//! The processes of a container, determined from `/proc`.
//!
//! A container's processes are those of its leader's session or process group, their descendants,
//! and processes that lost their parent and carry the container's id in their environment, with
//! their descendants. The last kind is found reliably only when orphans become children of the
//! agent ([`adopt_orphans`]). A process that leaves the session, loses its parent **and** changes
//! its environment is not found once its parent is gone; that takes a cgroup.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::thread;
use std::time::Duration;

use records::ContainerName;

use super::process::reap_pid;
use crate::proc_stat;

/// Bytes read of an environment; more than the kernel takes by default (a quarter of an 8 MiB
/// stack).
const ENVIRON_READ_MAX: u64 = 4 * 1024 * 1024;

/// Number of times that adopted orphans are listed until none ends meanwhile.
const ADOPTED_PASSES: usize = 10;

/// Number of further looks at processes that are executing a program, and the pause before each.
const LOOKS_AGAIN: usize = 10;
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(2);

/// Makes processes that lose their parent children of the agent, so that none of a container's can
/// hide behind init. For `main`, before anything is launched: it holds for the whole process. Child
/// processes of the agent itself must stay in its session, since a dead child in another session is
/// taken for an adopted one and reaped.
///
/// # Errors
/// The kernel refuses (before Linux 3.4).
pub fn adopt_orphans() -> io::Result<()> {
    Ok(nix::sys::prctl::set_child_subreaper(true)?)
}

/// Set when orphans become children of the agent.
pub(super) fn adopts_orphans() -> bool {
    nix::sys::prctl::get_child_subreaper().unwrap_or(false)
}

/// A process as `/proc/PID/stat` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Process {
    /// Process id, valid while the process lives.
    pub(super) pid: i32,
    /// Clock ticks since boot: together with the pid, the same process and no other.
    pub(super) start_time: u64,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    /// Ended with all its threads, but not reaped.
    pub(super) has_ended: bool,
    /// About to end: it has given its memory back, and with it its environment.
    pub(super) is_ending: bool,
}

impl Process {
    /// Reads one process; `None` when there is none.
    pub(super) fn read(pid: i32) -> Option<Self> {
        let stat = proc_stat::read(&proc_stat::open(pid)?)?;
        Some(Self {
            pid: stat.pid,
            start_time: stat.starttime,
            parent: stat.ppid,
            group: stat.pgrp,
            session: stat.session,
            has_ended: keeper::has_ended(&stat),
            // The state of a first thread that has ended tells nothing of the others.
            is_ending: stat.vsize == 0 && !matches!(stat.state, 'Z' | 'X'),
        })
    }

    fn belongs_to(&self, leader: i32) -> bool {
        self.session == leader || self.group == leader
    }
}

/// A snapshot of all processes.
pub(super) struct ProcessTable {
    processes: HashMap<i32, Process>,
    children: HashMap<i32, Vec<i32>>,
}

impl ProcessTable {
    /// Reads all of `/proc`: about 10 µs for each process.
    pub(super) fn read() -> io::Result<Self> {
        let mut processes = Vec::new();
        for entry in std::fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let pid = name.to_str().and_then(|name| name.parse().ok());
            processes.extend(pid.and_then(Process::read));
        }
        Ok(Self::of(processes))
    }

    fn of(processes: Vec<Process>) -> Self {
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for process in &processes {
            children
                .entry(process.parent)
                .or_default()
                .push(process.pid);
        }
        let processes = processes.into_iter().map(|p| (p.pid, p)).collect();
        Self {
            processes,
            children,
        }
    }

    /// A process and its ancestors.
    fn lineage(&self, pid: i32) -> Vec<i32> {
        let mut lineage = vec![pid];
        let mut next = pid;
        // Pids may have changed hands while the table was read, so even a circle is possible.
        while let Some(process) = self.processes.get(&next)
            && !lineage.contains(&process.parent)
        {
            next = process.parent;
            lineage.push(next);
        }
        lineage
    }

    /// Processes that may have lost their parent: children of the agent, and, where it does not
    /// adopt orphans, of its ancestors, one of which does; and those whose parent ended while the
    /// table was read.
    pub(super) fn orphans(&self, agent: i32, adopts: bool) -> impl Iterator<Item = Process> {
        let mut adopters = self.lineage(agent);
        if adopts {
            adopters.truncate(1);
        }
        self.processes.values().copied().filter(move |process| {
            adopters.contains(&process.parent) || !self.processes.contains_key(&process.parent)
        })
    }

    /// Returns the children of a process.
    pub(super) fn children_of(&self, parent: i32) -> impl Iterator<Item = Process> {
        let children = self.children.get(&parent).into_iter().flatten();
        children.filter_map(|pid| self.processes.get(pid).copied())
    }

    /// The living processes of the container with this leader, without the leader itself, given the
    /// orphans that are known to be the container's. The agent and its ancestors are never among
    /// them.
    pub(super) fn members(&self, leader: i32, orphans: &[Process], agent: i32) -> Vec<Process> {
        let protected = self.lineage(agent);
        // An orphan may be younger than the table.
        let mut found: HashMap<i32, Process> = HashMap::new();
        for orphan in orphans.iter().filter(|p| !protected.contains(&p.pid)) {
            found.insert(orphan.pid, *orphan);
        }
        let roots = self.processes.values().filter(|p| p.belongs_to(leader));
        let mut pending: Vec<i32> = roots.map(|p| p.pid).collect();
        pending.push(leader);
        for orphan in found.keys() {
            pending.extend(self.children.get(orphan).into_iter().flatten());
        }
        while let Some(pid) = pending.pop() {
            if protected.contains(&pid) || found.contains_key(&pid) {
                continue;
            }
            if let Some(process) = self.processes.get(&pid) {
                found.insert(pid, *process);
                pending.extend(self.children.get(&pid).into_iter().flatten());
            }
        }
        found.remove(&leader);
        let mut members: Vec<_> = found.into_values().filter(|p| !p.has_ended).collect();
        members.sort_unstable();
        members
    }
}

/// Returns the kernel's list of the first thread's children, to which it adds adopted orphans. The
/// thread starts no containers, so the list is short.
fn adopting_threads_children(agent: i32) -> io::Result<File> {
    File::open(format!("/proc/{agent}/task/{agent}/children"))
}

/// The list of the agent's adopted children, kept open: to look for them costs one system call.
pub(super) struct AdoptedChildren {
    /// `None` if the kernel does not list children.
    list: Option<File>,
}

impl AdoptedChildren {
    pub(super) fn of(agent: i32) -> Self {
        let list = adopting_threads_children(agent).ok();
        Self { list }
    }

    /// Returns whether the agent has no adopted child, alive or dead; `false` if the kernel does
    /// not list children.
    pub(super) fn is_empty(&self) -> bool {
        let list = self.list.as_ref();
        // Read from its beginning, the list is made anew.
        list.is_some_and(|list| list.read_at(&mut [0], 0).is_ok_and(|read| read == 0))
    }
}

/// Returns the pids of the children of a thread that starts none itself, the youngest last.
pub(super) fn children_list(process: i32) -> io::Result<Vec<i32>> {
    let list = io::read_to_string(adopting_threads_children(process)?)?;
    let pids = list.split_ascii_whitespace();
    Ok(pids.filter_map(|pid| pid.parse().ok()).collect())
}

/// Orphans that the agent has adopted.
#[derive(Debug, Default)]
pub(super) struct Adopted {
    /// Processes that live.
    pub(super) alive: Vec<Process>,
    /// No orphan ended while they were listed. One that did may have started another, which the
    /// list does not have.
    pub(super) is_settled: bool,
}

/// Children of the agent that it did not start: orphans that it adopted. Those that have ended are
/// reaped, the others returned.
///
/// `is_leader` tells the session leaders that others watch and reap; children in the agent's own
/// session were started by the agent for other purposes, and whoever started them reaps them.
/// `meet` is told of each living orphan when it is listed, also of one that ends meanwhile.
pub(super) fn adopted(
    agent: i32,
    is_leader: impl Fn(i32) -> bool,
    mut meet: impl FnMut(&Process),
) -> io::Result<Adopted> {
    let own_session = Process::read(agent).map(|process| process.session);
    let mut found = Adopted::default();
    for _pass in 0..ADOPTED_PASSES {
        found = Adopted {
            alive: Vec::new(),
            is_settled: true,
        };
        for pid in children_list(agent)?
            .into_iter()
            .filter(|pid| !is_leader(*pid))
        {
            let Some(child) = Process::read(pid) else {
                found.is_settled = false;
                continue;
            };
            if Some(child.session) == own_session || child.parent != agent {
                continue;
            }
            if !child.has_ended {
                meet(&child);
                found.alive.push(child);
                continue;
            }
            match reap_pid(child.pid) {
                // Its tracer has it; that shows nothing new.
                Ok(None) => {}
                Ok(Some(_)) => found.is_settled = false,
                Err(error) => tracing::debug!(pid, %error, "cannot reap an orphan"),
            }
        }
        if found.is_settled {
            break;
        }
    }
    Ok(found)
}

/// Container that a process names in `CONTAINER_ID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Container(ContainerName),
    /// Also when the environment may not be read.
    None,
    /// The process shows no environment, as while it executes a program: for microseconds or, on a
    /// busy machine, milliseconds.
    NotYet,
}

/// Returns the containers that these processes name, those without an environment looked at again
/// for a few milliseconds in all.
pub(super) fn names_of(processes: &[Process]) -> Vec<Name> {
    let mut names: Vec<Name> = processes.iter().map(name_of).collect();
    for _ in 0..LOOKS_AGAIN {
        if !names.contains(&Name::NotYet) {
            break;
        }
        thread::sleep(LOOK_AGAIN_AFTER);
        for (process, name) in processes.iter().zip(&mut names) {
            if *name == Name::NotYet {
                *name = name_of(process);
            }
        }
    }
    names
}

/// Returns the container that this process names now.
pub(super) fn name_of(process: &Process) -> Name {
    let Some((thread, environment)) = environment_of(process.pid) else {
        return Name::None;
    };
    // A program has at least its own name; without both the kernel has not laid out either.
    if environment.is_empty() && read_of(thread, "cmdline").is_some_and(|line| line.is_empty()) {
        return Name::NotYet;
    }
    let mut variables = environment.split(|b| *b == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(b"CONTAINER_ID="));
    let id = value.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
    id.map_or(Name::None, Name::Container)
}

/// Returns the environment of a process, with the number of the thread that shows it: the first
/// thread or, when that has ended, another.
fn environment_of(pid: i32) -> Option<(i32, Vec<u8>)> {
    let of_first = read_of(pid, "environ").filter(|read| !read.is_empty());
    if let Some(environment) = of_first {
        return Some((pid, environment));
    }
    let thread = keeper::running_thread(pid)?;
    Some((thread, read_of(thread, "environ")?))
}

/// Reads a file of a thread; `None`: it may not be read, or the thread has ended.
fn read_of(thread: i32, name: &str) -> Option<Vec<u8>> {
    let file = File::open(format!("/proc/{thread}/{name}")).ok()?;
    let mut content = Vec::new();
    file.take(ENVIRON_READ_MAX).read_to_end(&mut content).ok()?;
    Some(content)
}

/// Returns whether an orphan is the container's by session or group.
pub(super) fn shares_session(orphan: &Process, leader: i32) -> bool {
    orphan.belongs_to(leader)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENT: i32 = 50;

    fn process(pid: i32, parent: i32, session: i32) -> Process {
        Process {
            pid,
            start_time: 1,
            parent,
            group: session,
            session,
            has_ended: false,
            is_ending: false,
        }
    }

    fn pids(processes: &[Process]) -> Vec<i32> {
        processes.iter().map(|p| p.pid).collect()
    }

    /// init 1, a shell 40, the agent 50, a leader 100 with two children, one of which changed its
    /// session.
    fn table(more: &[Process]) -> ProcessTable {
        let mut processes = vec![
            process(1, 0, 1),
            process(40, 1, 40),
            process(AGENT, 40, 40),
            process(100, AGENT, 100),
            process(101, 100, 100),
            process(102, 101, 102),
            process(200, AGENT, 200),
        ];
        processes.extend_from_slice(more);
        ProcessTable::of(processes)
    }

    #[test]
    fn descendants_are_members_whatever_their_session() {
        let table = table(&[process(103, 102, 103)]);
        assert_eq!(pids(&table.members(100, &[], AGENT)), [101, 102, 103]);
    }

    #[test]
    fn the_session_of_a_dead_parent_still_tells() {
        let table = table(&[process(104, 1, 100)]);
        assert_eq!(pids(&table.members(100, &[], AGENT)), [101, 102, 104]);
    }

    #[test]
    fn orphans_bring_their_descendants() {
        let orphan = process(105, AGENT, 105);
        let table = table(&[orphan, process(106, 105, 106)]);
        assert_eq!(pids(&table.members(100, &[], AGENT)), [101, 102]);
        assert_eq!(
            pids(&table.members(100, &[orphan], AGENT)),
            [101, 102, 105, 106]
        );
    }

    #[test]
    fn the_dead_are_no_members_but_their_children_are() {
        let mut dead = process(107, 100, 100);
        dead.has_ended = true;
        let table = table(&[dead, process(108, 107, 108)]);
        assert_eq!(pids(&table.members(100, &[], AGENT)), [101, 102, 108]);
    }

    #[test]
    fn the_agent_and_its_ancestors_are_never_members() {
        let table = table(&[]);
        assert!(table.members(40, &[], AGENT).is_empty());
        assert!(
            table
                .members(1, &[process(1, 0, 1)], AGENT)
                .iter()
                .all(|p| p.pid != AGENT)
        );
    }

    #[test]
    fn a_circle_of_parents_ends() {
        let table = ProcessTable::of(vec![process(AGENT, 60, 1), process(60, AGENT, 1)]);
        assert_eq!(table.lineage(AGENT), [AGENT, 60]);
        assert!(table.members(60, &[], AGENT).is_empty());
    }

    #[test]
    fn orphans_are_looked_for_where_the_kernel_puts_them() {
        let table = table(&[process(109, 40, 109), process(110, 1, 110)]);
        let mut all: Vec<_> = table.orphans(AGENT, false).map(|p| p.pid).collect();
        all.sort_unstable();
        assert_eq!(all, [1, 40, 50, 100, 109, 110, 200]);
        let mut adopted: Vec<_> = table.orphans(AGENT, true).map(|p| p.pid).collect();
        adopted.sort_unstable();
        assert_eq!(adopted, [1, 100, 200]);
    }

    #[test]
    fn the_test_itself_is_found() {
        let own_pid = i32::try_from(std::process::id()).unwrap();
        let own = Process::read(own_pid).unwrap();
        assert_eq!(own.pid, own_pid);
        let table = ProcessTable::read().unwrap();
        assert_eq!(table.processes.get(&own_pid), Some(&own));
    }
}
