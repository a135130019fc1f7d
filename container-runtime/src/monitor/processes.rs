//! The processes of containers, read from `/proc` again and again (Hadoop:
//! `ProcfsBasedProcessTree`).
//!
//! A container's processes are those of its leader's session, and their descendants in sessions of
//! their own. All of `/proc` is listed at each look; the `stat` file of a process is opened once
//! and then read again, which costs half as much, and cannot hand out a later process of the same
//! number: reading the file of one that is gone fails.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use procfs::FromRead as _;
use procfs::process::{Io, LimitValue, Process, Stat};

use super::message::DumpedProcess;
use super::smaps;
use crate::proc_stat;

/// Part of the files that the agent may have open which is kept open here: one in this many.
/// Further processes are opened at each look. The rest is for connections, logs and what launches
/// need.
const OPEN_FILES_PART: u64 = 4;

/// Bytes read of a command line; the message shows a part of it.
const COMMAND_BYTES_MAX: usize = 4_096;

/// Values of a process that the sampler keeps from sample to sample.
#[derive(Debug)]
struct Known {
    /// `None` when too many are open.
    file: Option<File>,
    stat: Stat,
    /// Number under which `/proc` shows the memory.
    memory_of: i32,
    /// Looks at which it was there, this one included.
    looks: u32,
    /// CPU time used since the previous sample, in clock ticks.
    used_ticks: u64,
    /// The last look at which it was there.
    seen: u64,
}

/// Processes of the machine, as of the last sample.
#[derive(Debug)]
pub(super) struct Processes {
    known: HashMap<i32, Known>,
    open_files_max: usize,
    open_files: usize,
    looks: u64,
}

/// A process of a container.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<'a> {
    /// Values that the kernel shows now.
    pub(super) stat: &'a Stat,
    /// Number under which `/proc` shows the memory: the process's, or that of a thread that runs.
    memory_of: i32,
    /// The process existed at the previous sample too.
    pub(super) is_aged: bool,
    /// CPU time since the previous sample, in clock ticks.
    pub(super) used_ticks: u64,
}

impl Processes {
    /// Makes a set without processes.
    pub(super) fn new() -> Self {
        Self {
            known: HashMap::new(),
            open_files_max: open_files_max(),
            open_files: 0,
            looks: 0,
        }
    }

    /// Looks at all processes there are.
    ///
    /// # Errors
    /// `/proc` cannot be listed.
    pub(super) fn look(&mut self) -> io::Result<()> {
        self.looks += 1;
        for entry in std::fs::read_dir("/proc")? {
            let name = entry?.file_name();
            if let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) {
                self.look_at(pid);
            }
        }
        let looks = self.looks;
        let open_files = &mut self.open_files;
        self.known.retain(|_, known| {
            let is_there = known.seen == looks;
            if !is_there && known.file.is_some() {
                *open_files -= 1;
            }
            is_there
        });
        Ok(())
    }

    /// Closes the files of all processes and forgets their samples.
    pub(super) fn forget_all(&mut self) {
        self.known = HashMap::new();
        self.open_files = 0;
    }

    #[cfg(test)]
    pub(super) const fn open_files(&self) -> usize {
        self.open_files
    }

    /// Processes come and go while they are looked at: one that is gone is left out.
    fn look_at(&mut self, pid: i32) {
        if let Some(known) = self.known.get_mut(&pid) {
            let stat = match &known.file {
                Some(file) => proc_stat::read(file),
                None => proc_stat::open(pid).and_then(|file| proc_stat::read(&file)),
            };
            let same = stat.filter(|stat| stat.starttime == known.stat.starttime);
            if let Some(mut stat) = same {
                known.memory_of = complete(&mut stat);
                known.used_ticks = ticks(&stat).saturating_sub(ticks(&known.stat));
                known.stat = stat;
                known.looks = known.looks.saturating_add(1);
                known.seen = self.looks;
                return;
            }
            // Its number was given to another meanwhile.
            if known.file.is_some() {
                self.open_files -= 1;
            }
            self.known.remove(&pid);
        }
        let Some(file) = proc_stat::open(pid) else {
            return;
        };
        let Some(mut stat) = proc_stat::read(&file) else {
            return;
        };
        let memory_of = complete(&mut stat);
        let file = (self.open_files < self.open_files_max).then_some(file);
        self.open_files += usize::from(file.is_some());
        let known = Known {
            file,
            stat,
            memory_of,
            looks: 1,
            used_ticks: 0,
            seen: self.looks,
        };
        self.known.insert(pid, known);
    }

    /// The living processes of each leader, the leader itself among them, by leader.
    pub(super) fn of_leaders<'a>(
        &'a self,
        is_leader: impl Fn(i32) -> bool,
    ) -> HashMap<i32, Vec<Member<'a>>> {
        let mut owners: HashMap<i32, Option<i32>> = HashMap::with_capacity(self.known.len());
        let mut members: HashMap<i32, Vec<Member<'a>>> = HashMap::new();
        for (pid, known) in &self.known {
            let Some(leader) = self.owner(*pid, &is_leader, &mut owners) else {
                continue;
            };
            // What has ended holds no memory.
            if !keeper::has_ended(&known.stat) {
                members.entry(leader).or_default().push(Member {
                    stat: &known.stat,
                    memory_of: known.memory_of,
                    is_aged: known.looks > 1,
                    used_ticks: known.used_ticks,
                });
            }
        }
        members
    }

    /// The leader of the container that a process is of: that of its session, else its parent's.
    fn owner(
        &self,
        pid: i32,
        is_leader: &impl Fn(i32) -> bool,
        owners: &mut HashMap<i32, Option<i32>>,
    ) -> Option<i32> {
        let mut line = Vec::new();
        let mut next = pid;
        let owner = loop {
            if let Some(owner) = owners.get(&next) {
                break *owner;
            }
            let Some(known) = self.known.get(&next) else {
                break None;
            };
            // Entered before it is known, so that a circle of parents, seen while numbers change
            // hands, ends.
            owners.insert(next, None);
            line.push(next);
            if is_leader(known.stat.session) {
                break Some(known.stat.session);
            }
            next = known.stat.ppid;
        };
        for pid in line {
            owners.insert(pid, owner);
        }
        owner
    }
}

/// Returns the number of files that may be kept open; 0 if the agent's own limit cannot be read.
fn open_files_max() -> usize {
    let limits = Process::myself().and_then(|agent| agent.limits());
    match limits.map(|limits| limits.max_open_files.soft_limit) {
        Ok(LimitValue::Value(files)) => {
            usize::try_from(files / OPEN_FILES_PART).unwrap_or(usize::MAX)
        }
        Ok(LimitValue::Unlimited) => usize::MAX,
        Err(_) => 0,
    }
}

/// Adds the memory of a process whose first thread has ended while others run: the kernel shows it
/// with those only. Returns the number under which `/proc` shows the memory.
fn complete(stat: &mut Stat) -> i32 {
    if stat.vsize > 0 || stat.num_threads <= 1 {
        return stat.pid;
    }
    let Some(thread) = keeper::running_thread(stat.pid) else {
        return stat.pid;
    };
    if let Some(of_thread) = proc_stat::open(thread).and_then(|file| proc_stat::read(&file)) {
        (stat.vsize, stat.rss) = (of_thread.vsize, of_thread.rss);
    }
    thread
}

/// Returns the CPU time of a process so far, in clock ticks.
fn ticks(stat: &Stat) -> u64 {
    stat.utime.saturating_add(stat.stime)
}

impl Member<'_> {
    /// Returns the CPU time so far, in clock ticks.
    pub(super) fn all_ticks(&self) -> u64 {
        ticks(self.stat)
    }

    /// Bytes of physical memory: resident pages or, with `by_mapping`, what its mappings hold.
    pub(super) fn pmem_bytes(&self, by_mapping: bool) -> u64 {
        if by_mapping {
            smaps::anonymous_bytes(self.memory_of).unwrap_or(0)
        } else {
            self.stat.rss.saturating_mul(procfs::page_size())
        }
    }

    /// Returns the process in the form of Hadoop's message.
    pub(super) fn dumped(&self) -> DumpedProcess {
        let ms = |ticks: u64| ticks.saturating_mul(1000) / procfs::ticks_per_second().max(1);
        DumpedProcess {
            pid: self.stat.pid,
            parent: self.stat.ppid,
            group: self.stat.pgrp,
            session: self.stat.session,
            name: self.stat.comm.clone(),
            user_ms: ms(self.stat.utime),
            system_ms: ms(self.stat.stime),
            vmem_bytes: self.stat.vsize,
            rss_pages: self.stat.rss,
            command: command(self.memory_of),
        }
    }
}

/// Returns the bytes that processes, and their children that have ended, have read from devices and
/// written to them; `None`: no process tells.
pub(super) fn bytes_moved(members: &[Member<'_>]) -> Option<(u64, u64)> {
    let told = members
        .iter()
        .filter_map(|member| Io::from_file(format!("/proc/{}/io", member.stat.pid)).ok());
    told.map(|io| (io.read_bytes, io.write_bytes)).reduce(
        |(read, written), (more_read, more_written)| {
            (
                read.saturating_add(more_read),
                written.saturating_add(more_written),
            )
        },
    )
}

/// A process's arguments with blanks between them.
fn command(pid: i32) -> Option<String> {
    let file = File::open(format!("/proc/{pid}/cmdline")).ok()?;
    let mut buffer = [0; COMMAND_BYTES_MAX];
    let length = file.read_at(&mut buffer, 0).ok()?;
    let arguments = buffer.get(..length)?;
    let text = String::from_utf8_lossy(arguments).replace('\0', " ");
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A process that leads a session of its own, and has a child in it and one in another session.
    fn session() -> Child {
        Command::new("setsid")
            .args([
                "bash",
                "-c",
                "sleep 600 & setsid sleep 600 & echo ready; wait",
            ])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn wait_until_ready(child: &mut Child) {
        use std::io::{BufRead as _, BufReader};
        let mut line = String::new();
        let output = child.stdout.as_mut().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }

    fn pid_of(child: &Child) -> i32 {
        i32::try_from(child.id()).unwrap()
    }

    fn end(mut child: Child, members: &[i32]) {
        for pid in members {
            let pid = nix::unistd::Pid::from_raw(*pid);
            let _gone = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
        child.wait().unwrap();
    }

    fn members(processes: &Processes, leader: i32) -> Vec<i32> {
        let of_leaders = processes.of_leaders(|pid| pid == leader);
        let mut pids: Vec<i32> = of_leaders
            .get(&leader)
            .map(|members| members.iter().map(|member| member.stat.pid).collect())
            .unwrap_or_default();
        pids.sort_unstable();
        pids
    }

    #[test]
    fn a_session_and_its_descendants_are_found_and_age() {
        let mut child = session();
        wait_until_ready(&mut child);
        let leader = pid_of(&child);
        let mut processes = Processes::new();
        // The child in another session is made by a process that may not have come that far.
        let found = loop {
            processes.look().unwrap();
            let found = members(&processes, leader);
            if found.len() == 3 {
                break found;
            }
        };
        assert!(found.contains(&leader));
        processes.look().unwrap();
        let of_leaders = processes.of_leaders(|pid| pid == leader);
        assert!(of_leaders[&leader].iter().all(|member| member.is_aged));
        end(child, &found);
        // Orphans are reaped by whoever adopted them, when that comes to it.
        while !members(&processes, leader).is_empty() {
            processes.look().unwrap();
        }
    }

    #[test]
    fn without_files_to_spare_processes_are_found_too() {
        let mut processes = Processes::new();
        processes.open_files_max = 0;
        let own = i32::try_from(std::process::id()).unwrap();
        for looks in 1..=2 {
            processes.look().unwrap();
            assert_eq!(processes.known[&own].looks, looks);
        }
        assert_eq!(processes.open_files, 0);
    }

    #[test]
    fn files_are_closed_when_their_processes_are_gone() {
        let mut processes = Processes::new();
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = pid_of(&child);
        processes.look().unwrap();
        assert!(processes.known[&pid].file.is_some());
        end(child, &[pid]);
        processes.look().unwrap();
        assert!(!processes.known.contains_key(&pid));
        let open = processes
            .known
            .values()
            .filter(|known| known.file.is_some());
        assert_eq!(processes.open_files, open.count());
    }

    #[test]
    fn a_command_line_has_blanks_between_its_arguments() {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = pid_of(&child);
        // Until it has executed, its command line is the test's.
        while command(pid).as_deref() != Some("sleep 600 ") {}
        end(child, &[pid]);
        assert_eq!(command(-1), None);
    }
}
