//! Limits of a container, of a class of containers and of all of them together. Pure: the
//! scheduler's numbers in; bytes, weights and quotas out.

use cgroup::{Bound, CpuQuota, Limits, Weight};
use records::{ExecutionType, Resource};
use sched::ContainerSpec;

use crate::config::CgroupConfig;

pub(super) const MIB: u64 = 1 << 20;

/// Lower bound of `memory.high` for the class of opportunistic containers, in bytes. At zero a
/// process that is being killed there could not even exit.
const HIGH_LEAST: u64 = 16 * MIB;

/// Memory sums over the containers that have cgroups, in bytes. Each number comes from outside,
/// and the sum of as many as there can be fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MemorySums {
    /// Memory of guaranteed containers, plus the charge of demoted ones in that class.
    pub(super) promised: u128,
    /// Part of `promised` that is protected from reclaim.
    pub(super) protected: u128,
    /// Charge of promoted containers in their former class.
    pub(super) left_behind: u128,
}

impl MemorySums {
    /// Returns the sums after one container's part has changed.
    pub(super) fn with(self, before: Self, after: Self) -> Self {
        let change =
            |sum: u128, before: u128, after: u128| sum.saturating_sub(before).saturating_add(after);
        Self {
            promised: change(self.promised, before.promised, after.promised),
            protected: change(self.protected, before.protected, after.protected),
            left_behind: change(self.left_behind, before.left_behind, after.left_behind),
        }
    }
}

/// Configuration and capacity that the limits follow from.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// Cgroup section of the configuration.
    pub(super) config: CgroupConfig,
    /// Capacity that the node offers; the ResourceManager may change it.
    pub(super) total: Resource,
    /// Memory in mebibytes that running and frozen containers may hold together, where that
    /// exceeds the node's capacity; `None`: containers are not frozen.
    pub(super) memory_ceiling_mb: Option<u64>,
    /// CPUs of the machine.
    pub(super) processors: u32,
}

impl Rules {
    /// CPUs that all containers may use together.
    fn yarn_processors(&self) -> f64 {
        f64::from(self.processors) * f64::from(self.config.cpu_limit_percent) / 100.0
    }

    /// Limits of one container. Opportunistic ones are weighted by their virtual cores too: it is
    /// their class as a whole that yields (Hadoop, without classes: 2 shares each).
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

    /// CPU quota of a container: a share of the CPUs that containers may use (Hadoop:
    /// `CGroupsCpuResourceHandlerImpl.updateContainer`, which sets none for a container of the
    /// node's size).
    fn quota(&self, vcores: u32) -> CpuQuota {
        let total = self.total.vcores;
        if !self.config.strict_cpu || vcores == total || total == 0 {
            return CpuQuota::Unlimited;
        }
        let share = f64::from(vcores) / f64::from(total);
        CpuQuota::of_cpus(share * self.yarn_processors())
    }

    /// Bytes of a container that the kernel reclaims only as a last resort.
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

    /// Part of the sums of a container in `class`, while `held` bytes are still charged to the
    /// class that it has left. The charge of a promoted container must not be reclaimed there;
    /// the charge of a demoted one is not available to others.
    pub(super) fn share(
        &self,
        spec: &ContainerSpec,
        class: ExecutionType,
        held: u64,
    ) -> MemorySums {
        match class {
            ExecutionType::Guaranteed => MemorySums {
                promised: memory_bytes(spec).into(),
                protected: self.protected(spec, class).into(),
                left_behind: held.into(),
            },
            ExecutionType::Opportunistic => MemorySums {
                promised: held.into(),
                ..MemorySums::default()
            },
        }
    }

    /// Limits of all containers together. As with Hadoop, a CPU quota that is no longer
    /// configured is removed (`CGroupsCpuResourceHandlerImpl.bootstrap`).
    pub(super) fn root(&self, sums: MemorySums) -> Limits {
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

    /// Limits of all guaranteed containers together.
    pub(super) fn guaranteed(&self, sums: MemorySums) -> Limits {
        Limits {
            cpu_idle: Some(false),
            cpu_weight: Some(Weight::MAX),
            io_weight: self.config.io.then_some(Weight::MAX),
            memory_low: self.config.memory.then(|| bytes(sums.protected)),
            ..Limits::default()
        }
    }

    /// Limits of all opportunistic containers together, without CPU time: memory that was
    /// promised to no guaranteed container. Frozen ones hold what the scheduler lets them hold.
    /// The charge that a promoted container has left here comes on top, so that the others need
    /// not make room for it.
    pub(super) fn opportunistic(&self, sums: MemorySums) -> Limits {
        let ceiling_mb = self.memory_ceiling_mb.unwrap_or(0);
        let capacity = self.total.memory_mb.max(ceiling_mb).saturating_mul(MIB);
        let left_behind = bytes(sums.left_behind);
        let left = capacity
            .saturating_sub(bytes(sums.promised))
            .max(HIGH_LEAST);
        let high = Bound::At(left.saturating_add(left_behind));
        Limits {
            io_weight: self.config.io.then_some(Weight::MIN),
            memory_low: self.config.memory.then_some(left_behind),
            memory_high: self.config.memory.then_some(high),
            ..Limits::default()
        }
    }

    /// CPU time of all opportunistic containers together: the remainder, or, while `boosted`,
    /// as much as guaranteed ones get.
    pub(super) fn opportunistic_cpu(boosted: bool) -> Limits {
        Limits {
            cpu_idle: Some(!boosted),
            cpu_weight: Some(if boosted { Weight::MAX } else { Weight::MIN }),
            ..Limits::default()
        }
    }
}

/// Limit of a container's memory in bytes.
pub(super) fn memory_bytes(spec: &ContainerSpec) -> u64 {
    spec.resource.memory_mb.saturating_mul(MIB)
}

/// Converts a sum to a limit. A sum that exceeds the range becomes the largest limit.
fn bytes(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

/// Leaves out limits that a new cgroup has by default (no bound, no protection): each write is a
/// system call of a launch.
pub(super) fn of_new_cgroup(mut limits: Limits) -> Limits {
    limits.cpu_quota = limits
        .cpu_quota
        .filter(|quota| *quota != CpuQuota::Unlimited);
    limits.cpu_weight = limits
        .cpu_weight
        .filter(|weight| *weight != Weight::DEFAULT);
    limits.pids_max = limits.pids_max.filter(|max| *max != Bound::Unlimited);
    limits.memory_low = limits.memory_low.filter(|low| *low != 0);
    limits
}

#[cfg(test)]
pub(super) mod tests {
    use records::{ApplicationAttemptId, ApplicationId, ContainerId};

    use super::*;

    /// Rules of a node of 8 GiB and 4 CPUs that limits CPU time and memory.
    pub(crate) fn rules() -> Rules {
        Rules {
            config: CgroupConfig {
                asked_for: true,
                hierarchy: "/hadoop-yarn".to_owned(),
                delegated: None,
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
            total: Resource::new(8192, 8),
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
    fn disabled_limits_are_not_written() {
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
        let none = MemorySums::default();
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
        let limited = rules.root(MemorySums::default()).cpu_quota;
        assert_eq!(limited, Some(CpuQuota::of_cpus(2.0)));
    }

    #[test]
    fn a_quota_that_is_no_longer_configured_is_removed() {
        let quota = rules().root(MemorySums::default()).cpu_quota;
        assert_eq!(quota, Some(CpuQuota::Unlimited));
    }

    fn high(rules: &Rules, promised_mib: u64, left_mib: u64) -> Option<Bound> {
        let sums = MemorySums {
            promised: u128::from(promised_mib * MIB),
            left_behind: u128::from(left_mib * MIB),
            ..MemorySums::default()
        };
        rules.opportunistic(sums).memory_high
    }

    #[test]
    fn memory_high_of_the_opportunistic_class_excludes_promised_memory() {
        let rules = rules();
        assert_eq!(high(&rules, 0, 0), Some(Bound::At(8192 * MIB)));
        assert_eq!(high(&rules, 6000, 0), Some(Bound::At(2192 * MIB)));
        assert_eq!(high(&rules, 6000, 100), Some(Bound::At(2292 * MIB)));
        assert_eq!(high(&rules, 9000, 0), Some(Bound::At(HIGH_LEAST)));
        let all = MemorySums {
            promised: u128::MAX,
            ..MemorySums::default()
        };
        let least = rules.opportunistic(all).memory_high;
        assert_eq!(least, Some(Bound::At(HIGH_LEAST)));
        assert_eq!(Rules::opportunistic_cpu(false).cpu_idle, Some(true));
    }

    #[test]
    fn memory_of_frozen_containers_is_not_reclaimed_from_running_ones() {
        let mut rules = rules();
        rules.memory_ceiling_mb = Some(12_000);
        assert_eq!(high(&rules, 6000, 0), Some(Bound::At(6000 * MIB)));
        // A ceiling below the node's capacity has no effect, as in the scheduler.
        rules.memory_ceiling_mb = Some(4000);
        assert_eq!(high(&rules, 6000, 0), Some(Bound::At(2192 * MIB)));
    }

    #[test]
    fn a_container_counts_in_its_class_and_its_former_charge_in_the_former_one() {
        let rules = rules();
        let spec = spec(ExecutionType::Guaranteed, 1000, 1);
        let mib = |mib: u64| u128::from(mib * MIB);
        let promoted = rules.share(&spec, ExecutionType::Guaranteed, 300 * MIB);
        let expected = MemorySums {
            promised: mib(1000),
            protected: mib(900),
            left_behind: mib(300),
        };
        assert_eq!(promoted, expected);
        let demoted = rules.share(&spec, ExecutionType::Opportunistic, 300 * MIB);
        let expected = MemorySums {
            promised: mib(300),
            ..MemorySums::default()
        };
        assert_eq!(demoted, expected);
    }
}
