//! A job: a command, and the number, execution type and size of the containers that run it.

use std::collections::BTreeMap;

use records::{ExecutionType, Resource};
use role_history::opt_in::{SERVICE_BYTES_MAX, is_service_name};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::quote;

/// Longest text form of a job, in bytes. It travels in a variable, and Linux accepts none of more
/// than 128 KiB with its name.
pub(crate) const TEXT_BYTES_MAX: usize = 128 * 1024 - 256;

/// Most containers of one job. The AM keeps some hundred bytes for each, and polls nodes for those
/// that wait.
pub const CONTAINERS_MAX: u32 = 10_000;

/// Longest command with its environment, in bytes as the inner shell gets it. Linux accepts no
/// argument or variable of more than 128 KiB (`MAX_ARG_STRLEN`), and the whole job travels in one.
pub const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// Most attempts at one container that a job may allow.
pub const RETRIES_MAX: u32 = 1_000;

/// Attempts at one container unless the job sets another limit: with the backoff between them,
/// about four minutes of a cluster whose queues are full.
const RETRIES_DEFAULT: u32 = 50;

/// Longest name of a job or a queue, in characters.
const NAME_CHARS_MAX: usize = 256;

/// A command, and the containers that run it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Name on the ResourceManager's pages.
    pub name: String,
    /// Queue to submit to.
    pub queue: String,
    /// Program and its arguments, run exactly as given: no shell interprets them.
    pub command: Vec<String>,
    /// Variables of the command's environment, beside those that the node sets and `YARN_SHELL_ID`,
    /// the number of the container within the job, from 1.
    pub environment: BTreeMap<String, String>,
    /// Number of guaranteed containers.
    pub guaranteed: u32,
    /// Number of opportunistic containers.
    pub opportunistic: u32,
    /// Memory of each container, in MiB.
    pub memory_mb: u64,
    /// Virtual cores of each container.
    pub vcores: u32,
    /// Memory of the AM, in MiB.
    pub master_memory_mb: u64,
    /// Limit on further attempts at each container after it was shed, evicted, preempted or lost.
    pub retries_max: u32,
    /// Time for which an opportunistic container waits on its node before the AM asks for its
    /// promotion, in milliseconds. `None`: never promoted.
    pub promote_after_ms: Option<u64>,
    /// Role history that the job opts in to, if any.
    pub role_history: Option<RoleHistoryOptIn>,
}

/// Service whose containers the nodes bring back to where they ran, if their AMRMProxy keeps role
/// histories.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleHistoryOptIn {
    /// Name of the service, the same in every run.
    pub service: String,
    /// Whether guaranteed containers, too, are asked for on the nodes of the history.
    pub guaranteed: bool,
    /// Placement policies of the roles, as the AMRMProxy reads them; `None` for the defaults.
    pub policy: Option<String>,
}

/// Reason for which no cluster can run a job.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JobError {
    /// Command without a program.
    #[error("no command is given")]
    NoCommand,
    /// Job without containers.
    #[error("no container is asked for")]
    NoContainers,
    /// Job of more than [`CONTAINERS_MAX`] containers.
    #[error("{asked} containers are more than {CONTAINERS_MAX}")]
    TooManyContainers {
        /// Number of containers in the job.
        asked: u64,
    },
    /// Containers without memory or cores.
    #[error("a container of {0} cannot run anything")]
    NoResources(Resource),
    /// Text with a zero byte, which cannot be passed to a program.
    #[error("{what} has a zero byte in it")]
    ZeroByte {
        /// Description of the text.
        what: &'static str,
    },
    /// Variable whose name a shell cannot export.
    #[error(
        "{name:?} is no name of an environment variable: letters, digits and _ are, not a digit first"
    )]
    VariableName {
        /// Name of the variable.
        name: String,
    },
    /// Command of more than [`COMMAND_BYTES_MAX`].
    #[error("the command takes {bytes} bytes, limit {COMMAND_BYTES_MAX}")]
    CommandTooLong {
        /// Length of the command, in bytes.
        bytes: usize,
    },
    /// Job whose text form does not fit into an environment variable.
    #[error(
        "the job takes {bytes} bytes when it is written down, limit {}",
        TEXT_BYTES_MAX
    )]
    TooLong {
        /// Length of the text form, in bytes.
        bytes: usize,
    },
    /// Job of more than [`RETRIES_MAX`] retries.
    #[error("{asked} retries are more than {RETRIES_MAX}")]
    TooManyRetries {
        /// Number of retries in the job.
        asked: u32,
    },
    /// Service with a name that no directory of histories may have.
    #[error(
        "a service has a name of 1 to {SERVICE_BYTES_MAX} letters, digits, dots, _ and -, not a dot first"
    )]
    ServiceName,
    /// Empty name, or one of too many characters.
    #[error("the {what} must have 1 to {NAME_CHARS_MAX} characters")]
    Name {
        /// Description of the name.
        what: &'static str,
    },
}

impl Job {
    /// Returns a job of this command without containers; every other value is the command line's
    /// default.
    #[must_use]
    pub fn new(command: Vec<String>) -> Self {
        Self {
            name: "nm-agent shell".to_owned(),
            queue: "default".to_owned(),
            command,
            environment: BTreeMap::new(),
            guaranteed: 0,
            opportunistic: 0,
            memory_mb: 256,
            vcores: 1,
            master_memory_mb: 128,
            retries_max: RETRIES_DEFAULT,
            promote_after_ms: None,
            role_history: None,
        }
    }

    /// Returns the number of containers of both types.
    #[must_use]
    pub const fn containers(&self) -> u32 {
        self.guaranteed.saturating_add(self.opportunistic)
    }

    /// Returns the size of each container.
    #[must_use]
    pub const fn size(&self) -> Resource {
        Resource::new(self.memory_mb, self.vcores)
    }

    /// Returns the execution type of the container with this number within the job, from 0: the
    /// guaranteed ones come first.
    #[must_use]
    pub const fn type_of(&self, task: u32) -> ExecutionType {
        if task < self.guaranteed {
            ExecutionType::Guaranteed
        } else {
            ExecutionType::Opportunistic
        }
    }

    /// Checks whether a cluster could run the job at all.
    ///
    /// # Errors
    /// The first defect found.
    pub fn check(&self) -> Result<(), JobError> {
        let asked = u64::from(self.guaranteed) + u64::from(self.opportunistic);
        if asked == 0 {
            return Err(JobError::NoContainers);
        }
        if asked > CONTAINERS_MAX.into() {
            return Err(JobError::TooManyContainers { asked });
        }
        for size in [self.size(), Resource::new(self.master_memory_mb, 1)] {
            if size.memory_mb == 0 || size.vcores == 0 {
                return Err(JobError::NoResources(size));
            }
        }
        if self.retries_max > RETRIES_MAX {
            return Err(JobError::TooManyRetries {
                asked: self.retries_max,
            });
        }
        for (what, name) in [("name of the job", &self.name), ("queue", &self.queue)] {
            if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
                return Err(JobError::Name { what });
            }
        }
        if let Some(history) = &self.role_history
            && !is_service_name(&history.service)
        {
            return Err(JobError::ServiceName);
        }
        self.check_command()
    }

    fn check_command(&self) -> Result<(), JobError> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err(JobError::NoCommand);
        }
        if self.command.iter().any(|word| word.contains('\0')) {
            return Err(JobError::ZeroByte {
                what: "the command",
            });
        }
        for (name, value) in &self.environment {
            if !quote::is_variable_name(name) {
                return Err(JobError::VariableName {
                    name: name.chars().take(NAME_CHARS_MAX).collect(),
                });
            }
            if value.contains('\0') {
                return Err(JobError::ZeroByte { what: "a variable" });
            }
        }
        let bytes = quote::inner_script(&self.environment, &self.command).len();
        if bytes > COMMAND_BYTES_MAX {
            return Err(JobError::CommandTooLong { bytes });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Job {
        Job {
            guaranteed: 1,
            opportunistic: 2,
            ..Job::new(vec!["true".to_owned()])
        }
    }

    #[test]
    fn guaranteed_containers_come_first() {
        let job = sample();
        assert_eq!(job.type_of(0), ExecutionType::Guaranteed);
        assert_eq!(job.type_of(1), ExecutionType::Opportunistic);
        assert_eq!(job.containers(), 3);
    }

    #[test]
    fn what_cannot_run_is_refused_by_name() {
        assert_eq!(sample().check(), Ok(()));
        let with = |change: &dyn Fn(&mut Job)| {
            let mut job = sample();
            change(&mut job);
            job.check().unwrap_err()
        };
        assert_eq!(with(&|job| job.command.clear()), JobError::NoCommand);
        let empty = |job: &mut Job| job.command = vec![String::new()];
        assert_eq!(with(&empty), JobError::NoCommand);
        let none = |job: &mut Job| (job.guaranteed, job.opportunistic) = (0, 0);
        assert_eq!(with(&none), JobError::NoContainers);
        let many = |job: &mut Job| (job.guaranteed, job.opportunistic) = (u32::MAX, 1);
        assert_eq!(with(&many), JobError::TooManyContainers { asked: 1 << 32 });
        assert_eq!(
            with(&|job| job.memory_mb = 0),
            JobError::NoResources(Resource::new(0, 1))
        );
        assert_eq!(
            with(&|job| job.vcores = 0),
            JobError::NoResources(Resource::new(256, 0))
        );
        let zero = |job: &mut Job| job.command.push("a\0b".to_owned());
        assert!(matches!(with(&zero), JobError::ZeroByte { .. }));
        let variable = |job: &mut Job| {
            job.environment.insert("A=B".to_owned(), String::new());
        };
        assert!(matches!(with(&variable), JobError::VariableName { .. }));
        let long = |job: &mut Job| job.command.push("x".repeat(COMMAND_BYTES_MAX));
        assert!(matches!(with(&long), JobError::CommandTooLong { .. }));
        let escaping = |job: &mut Job| {
            job.role_history = Some(RoleHistoryOptIn {
                service: "../other".to_owned(),
                guaranteed: false,
                policy: None,
            });
        };
        assert_eq!(with(&escaping), JobError::ServiceName);
        let name = |job: &mut Job| job.name.clear();
        assert!(matches!(with(&name), JobError::Name { .. }));
    }
}
