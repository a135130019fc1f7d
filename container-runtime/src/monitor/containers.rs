//! Resource use of each container, and containers that exceed their limits.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use records::{ContainerId, ExecutionType, PerExecutionType};
use sched::ContainerSpec;

use super::accounts::{Accounts, ContainerAccount};
use super::limits::MIB;
use super::limits::{MemoryKind, MemoryPolicy, MemoryUse};
use super::processes::{Member, Processes};
use super::{Utilization, message, vcores};
use crate::isolation::AccountReader;
use crate::launch::RunningProcess;

/// A container uses more memory than it may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryExceeded {
    /// Id of the container.
    pub id: ContainerId,
    /// Kind of memory that is over its limit.
    pub kind: MemoryKind,
    /// Diagnostics for the AM and for people, with a list of the container's processes.
    pub diagnostics: String,
}

/// Use of one container in one look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContainerLook {
    /// Id of the container.
    pub id: ContainerId,
    /// Its session leader.
    pub pid: i32,
    /// Whether the look before had the container too: only then is its CPU time known.
    pub was_known: bool,
    /// Size and type; `None`: its launch named none.
    pub spec: Option<ContainerSpec>,
    /// What its processes use.
    pub used: Utilization,
    /// Use of memory, CPUs and devices, for people.
    pub account: ContainerAccount,
}

/// Looks at the processes of containers, again and again. It remembers one look.
#[derive(Debug)]
pub struct ContainerSampler {
    policy: MemoryPolicy,
    /// Count resident memory by mapping.
    by_mapping: bool,
    processes: Processes,
    /// Containers of the previous sample. Only their CPU time is known and their memory compared,
    /// as in Hadoop, where the first sample of a container has no effect.
    known: BTreeSet<ContainerId>,
    /// Containers reported to exceed a limit, as long as they exist.
    reported: BTreeSet<ContainerId>,
    /// Containers of the last sample.
    looks: Vec<ContainerLook>,
    accounts: Accounts,
}

impl ContainerSampler {
    /// Returns a sampler that has taken no sample yet.
    #[must_use]
    pub fn new(policy: MemoryPolicy, by_mapping: bool) -> Self {
        Self {
            policy,
            by_mapping,
            processes: Processes::new(),
            known: BTreeSet::new(),
            reported: BTreeSet::new(),
            looks: Vec::new(),
            accounts: Accounts::default(),
        }
    }

    /// Returns a sampler that reads the cgroups of containers, too.
    #[must_use]
    pub fn with_groups(self, groups: Option<AccountReader>) -> Self {
        let accounts = Accounts::new(groups);
        Self { accounts, ..self }
    }

    /// Returns the containers of the last sample, in no order.
    #[must_use]
    pub fn looks(&self) -> &[ContainerLook] {
        &self.looks
    }

    /// Samples the containers with these leaders. `elapsed`: time since the previous sample.
    /// `exceeded` is called once for each container that exceeds a limit. Values that cannot be
    /// read count as 0.
    pub fn sample(
        &mut self,
        running: &[RunningProcess],
        elapsed: Option<Duration>,
        exceeded: &dyn Fn(MemoryExceeded),
    ) -> PerExecutionType<Utilization> {
        let mut sums = PerExecutionType::<Utilization>::default();
        self.looks.clear();
        if running.is_empty() && self.known.is_empty() {
            self.processes.forget_all();
            return sums;
        }
        if let Err(error) = self.processes.look() {
            tracing::warn!(%error, "the processes of containers cannot be listed");
            return sums;
        }
        let leaders: HashSet<i32> = running.iter().map(|process| process.pid).collect();
        let of_leaders = self.processes.of_leaders(|pid| leaders.contains(&pid));
        for process in running {
            let Some(members) = of_leaders.get(&process.pid) else {
                continue;
            };
            let execution_type = process
                .spec
                .map_or(ExecutionType::Guaranteed, |spec| spec.execution_type);
            let used = self.memory_of(members);
            let ticks = members.iter().map(|member| member.used_ticks).sum();
            let look = ContainerLook {
                id: process.container_id,
                pid: process.pid,
                was_known: self.known.contains(&process.container_id),
                spec: process.spec,
                account: self
                    .accounts
                    .of(process, members, (used.pmem_bytes, ticks), elapsed),
                used: Utilization {
                    pmem_mb: used.pmem_bytes / MIB,
                    vmem_mb: used.vmem_bytes / MIB,
                    cpu_vcores: vcores(ticks, elapsed),
                },
            };
            *sums.of(execution_type) += look.used;
            self.looks.push(look);
            if let Some(spec) = process.spec
                && look.was_known
                && !self.reported.contains(&process.container_id)
                && let Some(report) = self.judge(process, members, used, spec.resource.memory_mb)
            {
                self.reported.insert(process.container_id);
                exceeded(report);
            }
        }
        self.known = running.iter().map(|process| process.container_id).collect();
        self.reported.retain(|id| self.known.contains(id));
        self.accounts.retain(&self.known);
        sums
    }

    fn memory_of(&self, members: &[Member<'_>]) -> MemoryUse {
        let mut used = MemoryUse::default();
        for member in members {
            let pmem_bytes = member.pmem_bytes(self.by_mapping);
            let vmem_bytes = member.stat.vsize;
            used.pmem_bytes = used.pmem_bytes.saturating_add(pmem_bytes);
            used.vmem_bytes = used.vmem_bytes.saturating_add(vmem_bytes);
            if member.is_aged {
                used.aged_pmem_bytes = used.aged_pmem_bytes.saturating_add(pmem_bytes);
                used.aged_vmem_bytes = used.aged_vmem_bytes.saturating_add(vmem_bytes);
            }
        }
        used
    }

    fn judge(
        &self,
        process: &RunningProcess,
        members: &[Member<'_>],
        used: MemoryUse,
        memory_mb: u64,
    ) -> Option<MemoryExceeded> {
        if !self.policy.checks() {
            return None;
        }
        let limit = self.policy.limit(memory_mb);
        let kind = self.policy.exceeded(used, limit)?;
        let mut processes: Vec<_> = members.iter().map(Member::dumped).collect();
        processes.sort_by_key(|process| process.pid);
        let id = process.container_id;
        Some(MemoryExceeded {
            id,
            kind,
            diagnostics: message::exceeded(id, process.pid, kind, used, limit, &processes),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::{BufRead as _, BufReader};
    use std::process::{Child, Command, Stdio};

    use test_support::hostile::{self, Role};
    use test_support::ids::container as container_id;

    use records::Resource;

    use super::*;

    const ENFORCED: MemoryPolicy = MemoryPolicy {
        pmem: true,
        vmem: false,
        vmem_pmem_ratio: 2.1,
    };

    /// A container that is there and holds some memory.
    struct Container {
        child: Child,
        memory_mb: u64,
        sampler: ContainerSampler,
        reported: RefCell<Vec<MemoryExceeded>>,
    }

    impl Container {
        /// Runs a script that says when it has what it wants, and may use so many mebibytes.
        fn run(script: &str, memory_mb: u64, policy: MemoryPolicy, by_mapping: bool) -> Self {
            let mut child = Command::new("setsid")
                .args(["bash", "-c", &format!("{script}; echo ready; read")])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            let output = child.stdout.as_mut().unwrap();
            BufReader::new(output).read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
            Self {
                child,
                memory_mb,
                sampler: ContainerSampler::new(policy, by_mapping),
                reported: RefCell::default(),
            }
        }

        fn sample(&mut self) -> PerExecutionType<Utilization> {
            let running = [RunningProcess {
                container_id: container_id(1),
                pid: i32::try_from(self.child.id()).unwrap(),
                spec: Some(ContainerSpec {
                    id: container_id(1),
                    resource: Resource::new(self.memory_mb, 1),
                    execution_type: ExecutionType::Opportunistic,
                    version: 0,
                }),
            }];
            let report = |exceeded| self.reported.borrow_mut().push(exceeded);
            self.sampler
                .sample(&running, Some(Duration::from_secs(1)), &report)
        }

        fn reported(&self) -> Vec<MemoryKind> {
            self.reported
                .borrow()
                .iter()
                .map(|report| report.kind)
                .collect()
        }
    }

    impl Drop for Container {
        /// Closes the input, which ends the script and the processes that it waits for.
        fn drop(&mut self) {
            drop(self.child.stdin.take());
            let _ended = self.child.wait();
        }
    }

    /// Holds about 96 MiB in bash itself.
    const HOLDS_96_MIB: &str = r"x=$(head -c 100000000 /dev/zero | tr '\0' x)";

    #[test]
    fn a_container_that_holds_too_much_is_reported_once_and_not_at_the_first_sample() {
        let mut container = Container::run(HOLDS_96_MIB, 64, ENFORCED, false);
        let used = container.sample();
        assert!((90..400).contains(&used.opportunistic.pmem_mb), "{used:?}");
        assert_eq!(used.guaranteed, Utilization::default());
        let [look] = container.sampler.looks() else {
            panic!("{:?}", container.sampler.looks());
        };
        // No cgroup: the account is that of the processes.
        assert_eq!(look.account.memory_bytes / MIB, look.used.pmem_mb);
        assert!(!look.account.is_confined && look.account.cpu_millis == 0);
        assert_eq!((look.used, look.was_known), (used.opportunistic, false));
        assert_eq!(container.reported(), []);
        container.sample();
        assert!(container.sampler.looks()[0].was_known);
        container.sample();
        assert_eq!(container.reported(), [MemoryKind::Physical]);
        let reports = container.reported.borrow();
        let text = &reports[0].diagnostics;
        assert!(
            text.contains("beyond the 'PHYSICAL' memory limit"),
            "{text}"
        );
        assert!(text.contains(" of 64 MB physical memory used"), "{text}");
        assert!(text.contains("(bash)"), "{text}");
    }

    #[test]
    fn memory_of_a_process_whose_first_thread_has_ended_counts() {
        for by_mapping in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let ready = folder.path().join("ready");
            let half_dead = hostile::bash_line(&Role::HalfDead {
                ready: ready.clone(),
            });
            let script = format!(
                "({half_dead}) & trap \"kill -KILL $!\" EXIT; until [ -s {} ]; do sleep 0.01; done",
                ready.display()
            );
            let mut container = Container::run(&script, 1024, ENFORCED, by_mapping);
            let used = container.sample().opportunistic;
            assert!(used.pmem_mb >= hostile::HELD_MIB, "{used:?}");
        }
    }

    #[test]
    fn an_account_goes_on_from_look_to_look() {
        // Burns CPU time until its input ends.
        const BURNS: &str = "echo ready; until read -t 0; do :; done; :";
        let mut container = Container::run(BURNS, 1024, ENFORCED, false);
        container.sample();
        let first = container.sampler.looks()[0].account;
        let mut last = first;
        while last.cpu_time_us < first.cpu_time_us + 20_000 {
            container.sample();
            let account = container.sampler.looks()[0].account;
            assert!(account.cpu_time_us >= last.cpu_time_us, "{account:?}");
            assert!(account.memory_peak_bytes >= last.memory_peak_bytes);
            last = account;
        }
        assert!(
            last.read_bytes.is_some() && last.stalled.is_none(),
            "{last:?}"
        );
    }

    #[test]
    fn no_file_of_a_process_stays_open_without_containers() {
        let mut container = Container::run(":", 64, ENFORCED, false);
        container.sample();
        assert!(container.sampler.processes.open_files() > 0);
        for _ in 0..2 {
            container.sampler.sample(&[], None, &|_| {});
        }
        assert_eq!(container.sampler.processes.open_files(), 0);
    }

    #[test]
    fn a_container_within_its_limit_is_left_alone() {
        let mut container = Container::run(":", 64, ENFORCED, false);
        for _ in 0..3 {
            container.sample();
        }
        assert_eq!(container.reported(), []);
    }

    #[test]
    fn memory_by_mapping_leaves_out_what_files_back() {
        let mut by_pages = Container::run(HOLDS_96_MIB, 1024, ENFORCED, false);
        let mut by_mapping = Container::run(HOLDS_96_MIB, 1024, ENFORCED, true);
        let pages = by_pages.sample().opportunistic.pmem_mb;
        let mapped = by_mapping.sample().opportunistic.pmem_mb;
        assert!((90..=pages).contains(&mapped), "{mapped} of {pages}");
    }

    #[test]
    fn virtual_memory_is_judged_where_it_is_checked() {
        let policy = MemoryPolicy {
            vmem: true,
            pmem: true,
            vmem_pmem_ratio: 1.0,
        };
        let mut container = Container::run(HOLDS_96_MIB, 64, policy, false);
        container.sample();
        container.sample();
        assert_eq!(container.reported(), [MemoryKind::Virtual]);
    }

    #[test]
    fn nothing_is_judged_where_nothing_is_checked() {
        let neither = MemoryPolicy {
            pmem: false,
            ..ENFORCED
        };
        let mut container = Container::run(HOLDS_96_MIB, 1, neither, false);
        container.sample();
        container.sample();
        assert_eq!(container.reported(), []);
    }

    #[test]
    fn a_container_that_is_gone_is_forgotten() {
        let mut container = Container::run(HOLDS_96_MIB, 64, ENFORCED, false);
        container.sample();
        container.sample();
        let report = |exceeded| panic!("{exceeded:?}");
        let nothing = container.sampler.sample(&[], None, &report);
        assert_eq!(nothing, PerExecutionType::default());
        assert!(container.sampler.reported.is_empty() && container.sampler.known.is_empty());
        assert!(container.sampler.accounts.is_empty());
    }
}
