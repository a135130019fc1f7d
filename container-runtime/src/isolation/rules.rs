//! What a container, a class of containers and all of them together are limited to. Pure: the scheduler's numbers in,
//! bytes, weights and quotas out.

use std::sync::Mutex;

use cgroup::{Bound, CpuQuota, Limits, Weight};
use records::{ExecutionType, Resource};
use sched::ContainerSpec;

use super::table::{Sums, locked};
use crate::config::CgroupConfig;

pub(super) const MIB: u64 = 1 << 20;

/// The least that opportunistic containers are slowed down at, in bytes. At nothing at all, what is being killed there
/// could not even end.
const HIGH_LEAST: u64 = 16 * MIB;

/// What limits follow from.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) config: CgroupConfig,
    /// What the node offers; the ResourceManager may change it.
    pub(super) total: Mutex<Resource>,
    /// What running and frozen containers may hold together, in mebibytes, if that is more; `None`: none is frozen.
    pub(super) memory_ceiling_mb: Option<u64>,
    /// Processors of the machine.
    pub(super) processors: u32,
}

impl Rules {
    fn total(&self) -> Resource {
        *locked(&self.total)
    }

    /// Processors that containers may use together.
    fn yarn_processors(&self) -> f64 {
        f64::from(self.processors) * f64::from(self.config.cpu_limit_percent) / 100.0
    }

    /// One container. Opportunistic ones weigh by their virtual cores too: their class as a whole is what gives way
    /// (Hadoop, without classes: 2 shares each).
    pub(super) fn container(&self, spec: &ContainerSpec) -> Limits {
        let mut limits = Limits {
            pids_max: Some(self.config.pids_max.map_or(Bound::Unlimited, Bound::At)),
            ..Limits::default()
        };
        if self.config.cpu {
            limits.cpu_weight = Some(Weight::new(100 * u64::from(spec.resource.vcores)));
            limits.cpu_quota = Some(self.quota(spec.resource.vcores));
        }
        if self.config.memory {
            let bytes = memory_bytes(spec);
            let guaranteed = spec.execution_type == ExecutionType::Guaranteed;
            limits.memory_max = Some(Bound::At(bytes));
            limits.memory_low = Some(self.protected(spec, spec.execution_type));
            limits.swap_max = Some(Bound::At(0));
            limits.swappiness = Some(if guaranteed {
                self.config.swappiness
            } else {
                100
            });
            limits.oom_group = Some(true);
        }
        limits
    }

    /// Its share of the processors that containers may use, if it may have no more (Hadoop:
    /// `CGroupsCpuResourceHandlerImpl.updateContainer`, which sets none for a container of the node's size).
    fn quota(&self, vcores: u32) -> CpuQuota {
        let total = self.total().vcores;
        if !self.config.strict_cpu || vcores == total || total == 0 {
            return CpuQuota::Unlimited;
        }
        let share = f64::from(vcores) / f64::from(total);
        CpuQuota::of_cpus(share * self.yarn_processors())
    }

    /// Bytes of a container that are reclaimed only when there is nothing else.
    fn protected(&self, spec: &ContainerSpec, class: ExecutionType) -> u64 {
        if !self.config.memory || class == ExecutionType::Opportunistic {
            return 0;
        }
        let percent = self.config.memory_soft_limit_percent.clamp(0.0, 100.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most all of a u64's bytes, and whole bytes are wanted"
        )]
        let bytes = (memory_bytes(spec) as f64 * percent / 100.0) as u64;
        bytes
    }

    /// What a container adds to the sums as long as it is in `class`, when `held` bytes are still counted in the other
    /// class, where it was before. What a promoted one holds there must not be pressed back; what a demoted one holds there
    /// is not to be had for others.
    pub(super) fn share(&self, spec: &ContainerSpec, class: ExecutionType, held: u64) -> Sums {
        match class {
            ExecutionType::Guaranteed => Sums {
                promised: memory_bytes(spec).into(),
                protected: self.protected(spec, class).into(),
                left_behind: held.into(),
            },
            ExecutionType::Opportunistic => Sums {
                promised: held.into(),
                ..Sums::default()
            },
        }
    }

    /// All containers. As with Hadoop, a limit of processor time that is not wanted any more goes
    /// (`CGroupsCpuResourceHandlerImpl.bootstrap`).
    pub(super) fn root(&self, sums: Sums) -> Limits {
        let quota = if self.config.cpu_limit_percent < 100 {
            CpuQuota::of_cpus(self.yarn_processors())
        } else {
            CpuQuota::Unlimited
        };
        Limits {
            cpu_quota: self.config.cpu.then_some(quota),
            memory_low: self.config.memory.then(|| bytes(sums.protected)),
            ..Limits::default()
        }
    }

    /// All guaranteed containers.
    pub(super) fn guaranteed(&self, sums: Sums) -> Limits {
        Limits {
            cpu_idle: Some(false),
            cpu_weight: Some(Weight::MAX),
            io_weight: self.config.io.then_some(Weight::MAX),
            memory_low: self.config.memory.then(|| bytes(sums.protected)),
            ..Limits::default()
        }
    }

    /// All opportunistic containers but for their processor time: the memory that nobody was promised. Frozen ones hold
    /// what the scheduler lets them hold. What a promoted container used before stays counted here, and is not for the
    /// others to make room for.
    pub(super) fn opportunistic(&self, sums: Sums) -> Limits {
        let ceiling_mb = self.memory_ceiling_mb.unwrap_or(0);
        let room = self.total().memory_mb.max(ceiling_mb).saturating_mul(MIB);
        let left_behind = bytes(sums.left_behind);
        let left = room.saturating_sub(bytes(sums.promised)).max(HIGH_LEAST);
        let high = Bound::At(left.saturating_add(left_behind));
        Limits {
            io_weight: self.config.io.then_some(Weight::MIN),
            memory_low: self.config.memory.then_some(left_behind),
            memory_high: self.config.memory.then_some(high),
            ..Limits::default()
        }
    }

    /// The processor time of opportunistic containers: what is left.
    pub(super) fn idle() -> Limits {
        Limits {
            cpu_idle: Some(true),
            cpu_weight: Some(Weight::MIN),
            ..Limits::default()
        }
    }

    /// The same while one of them has to stop or to end: as much as guaranteed ones get.
    pub(super) fn hurry() -> Limits {
        Limits {
            cpu_idle: Some(false),
            cpu_weight: Some(Weight::MAX),
            ..Limits::default()
        }
    }
}

/// What a container may use.
pub(super) fn memory_bytes(spec: &ContainerSpec) -> u64 {
    spec.resource.memory_mb.saturating_mul(MIB)
}

/// What a sum is as a limit: more than can be said is as good as the most that can.
fn bytes(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use records::{ApplicationAttemptId, ApplicationId, ContainerId};

    use super::*;

    fn rules() -> Rules {
        Rules {
            config: CgroupConfig {
                asked_for: true,
                hierarchy: "/hadoop-yarn".to_owned(),
                mount_path: None,
                cpu: true,
                strict_cpu: false,
                cpu_limit_percent: 100,
                count_logical_processors: false,
                memory: true,
                memory_soft_limit_percent: 90.0,
                swappiness: 0,
                io: false,
                pids_max: Some(100),
                delete_timeout_ms: 1000,
                freeze_timeout_ms: 10_000,
            },
            total: Mutex::new(Resource::new(8192, 8)),
            memory_ceiling_mb: None,
            processors: 4,
        }
    }

    fn spec(execution_type: ExecutionType, memory_mb: u64, vcores: u32) -> ContainerSpec {
        ContainerSpec {
            id: ContainerId {
                attempt: ApplicationAttemptId {
                    application_id: ApplicationId {
                        cluster_timestamp: 1,
                        id: 1,
                    },
                    attempt_id: 1,
                },
                id: 1,
            },
            resource: Resource::new(memory_mb, vcores),
            execution_type,
            version: 0,
        }
    }

    #[test]
    fn a_guaranteed_container_has_hadoops_limits() {
        let limits = rules().container(&spec(ExecutionType::Guaranteed, 1000, 2));
        assert_eq!(limits.cpu_weight, Some(Weight::new(200)));
        assert_eq!(limits.cpu_quota, Some(CpuQuota::Unlimited));
        assert_eq!(limits.memory_max, Some(Bound::At(1000 * MIB)));
        assert_eq!(limits.memory_low, Some(900 * MIB));
        assert_eq!(limits.swappiness, Some(0));
        assert_eq!(limits.pids_max, Some(Bound::At(100)));
    }

    #[test]
    fn an_opportunistic_container_has_the_same_bound_and_no_protection() {
        let limits = rules().container(&spec(ExecutionType::Opportunistic, 1000, 2));
        assert_eq!(limits.memory_max, Some(Bound::At(1000 * MIB)));
        assert_eq!(limits.memory_low, Some(0));
        assert_eq!(limits.swappiness, Some(100));
    }

    #[test]
    fn what_is_not_enabled_is_left_alone() {
        let mut rules = rules();
        rules.config.cpu = false;
        rules.config.memory = false;
        rules.config.pids_max = None;
        let limits = rules.container(&spec(ExecutionType::Guaranteed, 1000, 2));
        let expected = Limits {
            pids_max: Some(Bound::Unlimited),
            ..Limits::default()
        };
        assert_eq!(limits, expected);
        let none = Sums::default();
        assert_eq!(rules.opportunistic(none).memory_high, None);
        assert_eq!(rules.root(none), Limits::default());
    }

    #[test]
    fn a_strict_share_is_of_the_processors_that_containers_may_use() {
        let mut rules = rules();
        rules.config.strict_cpu = true;
        rules.config.cpu_limit_percent = 50;
        let quota = |vcores| {
            let spec = spec(ExecutionType::Guaranteed, 1, vcores);
            rules.container(&spec).cpu_quota
        };
        // Two processors for eight virtual cores.
        assert_eq!(quota(4), Some(CpuQuota::of_cpus(1.0)));
        assert_eq!(quota(1), Some(CpuQuota::of_cpus(0.25)));
        assert_eq!(quota(8), Some(CpuQuota::Unlimited));
        let limited = rules.root(Sums::default()).cpu_quota;
        assert_eq!(limited, Some(CpuQuota::of_cpus(2.0)));
    }

    #[test]
    fn a_limit_of_an_earlier_run_that_is_not_wanted_any_more_goes() {
        let quota = rules().root(Sums::default()).cpu_quota;
        assert_eq!(quota, Some(CpuQuota::Unlimited));
    }

    fn high(rules: &Rules, promised_mib: u64, left_mib: u64) -> Option<Bound> {
        let sums = Sums {
            promised: u128::from(promised_mib * MIB),
            left_behind: u128::from(left_mib * MIB),
            ..Sums::default()
        };
        rules.opportunistic(sums).memory_high
    }

    #[test]
    fn opportunistic_containers_together_stay_below_what_others_were_promised() {
        let rules = rules();
        assert_eq!(high(&rules, 0, 0), Some(Bound::At(8192 * MIB)));
        assert_eq!(high(&rules, 6000, 0), Some(Bound::At(2192 * MIB)));
        assert_eq!(high(&rules, 6000, 100), Some(Bound::At(2292 * MIB)));
        assert_eq!(high(&rules, 9000, 0), Some(Bound::At(HIGH_LEAST)));
        let all = Sums {
            promised: u128::MAX,
            ..Sums::default()
        };
        let least = rules.opportunistic(all).memory_high;
        assert_eq!(least, Some(Bound::At(HIGH_LEAST)));
        assert_eq!(Rules::idle().cpu_idle, Some(true));
    }

    #[test]
    fn what_frozen_containers_may_hold_is_not_pressed_out_of_running_ones() {
        let mut rules = rules();
        rules.memory_ceiling_mb = Some(12_000);
        assert_eq!(high(&rules, 6000, 0), Some(Bound::At(6000 * MIB)));
        // Below what the node offers it bounds nothing, for the scheduler neither.
        rules.memory_ceiling_mb = Some(4000);
        assert_eq!(high(&rules, 6000, 0), Some(Bound::At(2192 * MIB)));
    }

    #[test]
    fn a_container_counts_where_it_is_and_what_it_left_where_that_is() {
        let rules = rules();
        let spec = spec(ExecutionType::Guaranteed, 1000, 1);
        let mib = |mib: u64| u128::from(mib * MIB);
        let promoted = rules.share(&spec, ExecutionType::Guaranteed, 300 * MIB);
        let expected = Sums {
            promised: mib(1000),
            protected: mib(900),
            left_behind: mib(300),
        };
        assert_eq!(promoted, expected);
        let demoted = rules.share(&spec, ExecutionType::Opportunistic, 300 * MIB);
        let expected = Sums {
            promised: mib(300),
            ..Sums::default()
        };
        assert_eq!(demoted, expected);
    }
}
