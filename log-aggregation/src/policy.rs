//! Policies: the containers whose logs are aggregated. Pure.
//!
//! They come as names of classes, from the configuration or from an application. Source: the
//! classes of `server.nodemanager.containermanager.logaggregation` in Hadoop 3.4.

use records::{ContainerExitStatus, ContainerName};

/// Share of the successful containers that [`Policy::Sample`] takes by default.
const SAMPLE_RATE: f32 = 0.2;

/// Containers of an application that [`Policy::Sample`] always takes by default.
const SAMPLE_MIN: u32 = 20;

/// Role of a container in its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerRole {
    /// The container of an ApplicationMaster.
    ApplicationMaster,
    /// Any other container.
    Task,
}

/// Facts of a container that policies decide by.
#[derive(Clone, Copy, Debug)]
pub struct ContainerEnd {
    /// Name of the container.
    pub id: ContainerName,
    /// Role of the container.
    pub role: ContainerRole,
    /// Exit status; success for a container that runs.
    pub exit_status: ContainerExitStatus,
}

impl ContainerEnd {
    /// Returns the end of a container of which only the name is known, so that a log too many is
    /// taken rather than one lost: it may have failed. A ResourceManager starts an
    /// ApplicationMaster in its attempt's first container.
    #[must_use]
    pub fn unknown(id: ContainerName) -> Self {
        let role = if id.number() == 1 {
            ContainerRole::ApplicationMaster
        } else {
            ContainerRole::Task
        };
        Self {
            id,
            role,
            exit_status: ContainerExitStatus::INVALID,
        }
    }
}

/// Rule that says whether the logs of a container are aggregated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// Every container.
    All,
    /// No container.
    None,
    /// Containers of ApplicationMasters.
    AmOnly,
    /// Containers that failed, except those that a signal ended.
    Failed,
    /// Containers that did not succeed.
    FailedOrKilled,
    /// Containers of ApplicationMasters and those of [`Policy::Failed`].
    AmOrFailed,
    /// Containers that were not killed for too large logs.
    LimitSize,
    /// ApplicationMasters, all that did not succeed, and some of the others.
    Sample {
        /// Share of the others, from 0 to 1.
        rate: f32,
        /// The first containers of an application that are always taken.
        min: u32,
    },
}

/// Name of a class that is none of Hadoop's policies.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is none of Hadoop's log aggregation policies")]
pub struct UnknownPolicy(pub String);

impl Policy {
    /// Reads the name of a class, with or without its package, and the parameters of
    /// [`Policy::Sample`]: `SR:0.5,MIN:50`. As in Hadoop, a wrong parameter leaves its default.
    ///
    /// # Errors
    /// [`UnknownPolicy`].
    pub fn read(class: &str, parameters: &str) -> Result<Self, UnknownPolicy> {
        let name = class.rsplit('.').next().unwrap_or(class);
        Ok(match name {
            "AllContainerLogAggregationPolicy" => Self::All,
            "NoneContainerLogAggregationPolicy" => Self::None,
            "AMOnlyLogAggregationPolicy" => Self::AmOnly,
            "FailedContainerLogAggregationPolicy" => Self::Failed,
            "FailedOrKilledContainerLogAggregationPolicy" => Self::FailedOrKilled,
            "AMOrFailedContainerLogAggregationPolicy" => Self::AmOrFailed,
            "LimitSizeContainerLogAggregationPolicy" => Self::LimitSize,
            "SampleContainerLogAggregationPolicy" => sample(parameters),
            _ => return Err(UnknownPolicy(class.to_owned())),
        })
    }

    /// Returns whether the logs of this container are aggregated.
    #[must_use]
    pub fn takes(self, end: &ContainerEnd) -> bool {
        let is_master = end.role == ContainerRole::ApplicationMaster;
        let succeeded = end.exit_status == ContainerExitStatus::SUCCESS;
        let was_signalled = [
            ContainerExitStatus::FORCE_KILLED,
            ContainerExitStatus::TERMINATED,
        ]
        .contains(&end.exit_status);
        let failed = !succeeded && !was_signalled;
        match self {
            Self::All => true,
            Self::None => false,
            Self::AmOnly => is_master,
            Self::Failed => failed,
            Self::FailedOrKilled => !succeeded,
            Self::AmOrFailed => is_master || failed,
            Self::LimitSize => end.exit_status != ContainerExitStatus::KILLED_FOR_EXCESS_LOGS,
            Self::Sample { rate, min } => is_master || !succeeded || is_sampled(end.id, rate, min),
        }
    }
}

fn sample(parameters: &str) -> Policy {
    let (mut rate, mut min) = (SAMPLE_RATE, SAMPLE_MIN);
    for parameter in parameters.split(',') {
        match parameter.trim().split_once(':') {
            Some(("SR", value)) => {
                let value = value.trim().parse().ok();
                rate = value
                    .filter(|rate| (0.0..=1.0).contains(rate))
                    .unwrap_or(rate);
            }
            Some(("MIN", value)) => min = value.trim().parse().unwrap_or(min),
            Some(_) | None => {}
        }
    }
    Policy::Sample { rate, min }
}

/// Returns whether a successful container other than the master is in the sample. Tasks are
/// numbered from 2.
fn is_sampled(id: ContainerName, rate: f32, min: u32) -> bool {
    let sequence = id.number();
    if sequence < i64::from(min) + 2 {
        return true;
    }
    // Any even choice serves. Hadoop takes the hash code of the id modulo 1 / rate, which for
    // containers of one attempt is their number as well, shifted.
    let position = f64::from(rate) * sequence as f64;
    rate > 0.0 && position.fract() < f64::from(rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::ids::container;

    fn policy(name: &str) -> Policy {
        let class = format!("a.b.{name}LogAggregationPolicy");
        Policy::read(&class, "").unwrap()
    }

    fn end(n: i64, role: ContainerRole, exit_status: i32) -> ContainerEnd {
        ContainerEnd {
            id: container(n).name(),
            role,
            exit_status: ContainerExitStatus(exit_status),
        }
    }

    /// Asserts what a policy takes of: a master that succeeded, and tasks that ended with 0, 1,
    /// 137, 143, -105 and -109. The table follows Hadoop's classes.
    #[test]
    fn policies_take_what_hadoops_take() {
        use ContainerRole::{ApplicationMaster, Task};
        let ends = [
            end(1, ApplicationMaster, 0),
            end(2, Task, 0),
            end(3, Task, 1),
            end(4, Task, 137),
            end(5, Task, 143),
            end(6, Task, -105),
            end(7, Task, -109),
        ];
        for (name, expected) in [
            ("AllContainer", "1111111"),
            ("NoneContainer", "0000000"),
            ("AMOnly", "1000000"),
            ("FailedContainer", "0010011"),
            ("FailedOrKilledContainer", "0011111"),
            ("AMOrFailedContainer", "1010011"),
            ("LimitSizeContainer", "1111110"),
            ("SampleContainer", "1111111"),
        ] {
            let policy = policy(name);
            let takes = ends
                .iter()
                .map(|end| if policy.takes(end) { '1' } else { '0' });
            assert_eq!(takes.collect::<String>(), expected, "{name}");
        }
    }

    #[test]
    fn a_sample_has_the_first_tasks_and_a_share_of_the_others() {
        let taken = |parameters: &str| {
            let policy = Policy::read("SampleContainerLogAggregationPolicy", parameters).unwrap();
            let ends = (2..1002).map(|n| end(n, ContainerRole::Task, 0));
            ends.filter(|end| policy.takes(end)).count()
        };
        assert!((210..=220).contains(&taken("")), "{}", taken(""));
        assert_eq!(taken("SR:0,MIN:7"), 7);
        assert_eq!(taken("SR:1"), 1000);
        assert_eq!(taken("SR:2,MIN:x"), taken(""));
    }

    #[test]
    fn another_class_is_unknown() {
        assert!(Policy::read("com.example.Mine", "").is_err());
    }
}
