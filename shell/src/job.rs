//! What to run: a command, in how many containers of which kind and size.

use std::collections::BTreeMap;

use records::{ExecutionType, Resource};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::quote;

/// Most containers of one job. The master keeps some hundred bytes for each, and asks nodes about those that wait.
pub const CONTAINERS_MAX: u32 = 10_000;

/// Longest command with its environment, in bytes as the inner shell gets it. Linux takes no argument or variable of more
/// than 128 KiB (`MAX_ARG_STRLEN`), and the whole job travels in one.
pub const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// Most tries of one container that the job may allow.
pub const RETRIES_MAX: u32 = 1_000;

/// Tries of one container unless the job says otherwise: with the rests between them, about four minutes of a cluster whose
/// queues are full.
const RETRIES_DEFAULT: u32 = 50;

/// Longest name of a job or a queue, in characters.
const NAME_CHARS_MAX: usize = 256;

/// One command in many containers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// What the ResourceManager's pages call it.
    pub name: String,
    /// Which queue it is submitted to.
    pub queue: String,
    /// The program and its arguments, run exactly as given: no shell looks at them.
    pub command: Vec<String>,
    /// Variables of the command's environment, beside those that the node sets and `YARN_SHELL_ID`, the number of the
    /// container within the job, from 1.
    pub environment: BTreeMap<String, String>,
    /// How many containers of execution type guaranteed.
    pub guaranteed: u32,
    /// How many containers of execution type opportunistic.
    pub opportunistic: u32,
    /// Memory of each container, in MiB.
    pub memory_mb: u64,
    /// Virtual cores of each container.
    pub vcores: u32,
    /// Memory of the master, in MiB.
    pub master_memory_mb: u64,
    /// How often each container is asked for again after it was shed, evicted, preempted or lost.
    pub retries_max: u32,
    /// Have an opportunistic container promoted when it has waited for so many milliseconds on its node. `None`: never.
    pub promote_after_ms: Option<u64>,
}

/// A job that cannot be run anywhere.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JobError {
    /// No program.
    #[error("no command is given")]
    NoCommand,
    /// Not one container.
    #[error("no container is asked for")]
    NoContainers,
    /// More than [`CONTAINERS_MAX`].
    #[error("{asked} containers are more than {CONTAINERS_MAX}")]
    TooManyContainers {
        /// How many.
        asked: u64,
    },
    /// Containers without memory or cores.
    #[error("a container of {0} cannot run anything")]
    NoResources(Resource),
    /// A text with a zero byte, which no program can be given.
    #[error("{what} has a zero byte in it")]
    ZeroByte {
        /// Which text.
        what: &'static str,
    },
    /// A variable that a shell cannot export.
    #[error(
        "{name:?} is no name of an environment variable: letters, digits and _ are, not a digit first"
    )]
    VariableName {
        /// The name.
        name: String,
    },
    /// More than [`COMMAND_BYTES_MAX`].
    #[error("the command takes {bytes} bytes, limit {COMMAND_BYTES_MAX}")]
    CommandTooLong {
        /// How long it is.
        bytes: usize,
    },
    /// The text in which the job travels to its master would not fit into a variable.
    #[error(
        "the job takes {bytes} bytes when it is written down, limit {}",
        crate::spec::TEXT_BYTES_MAX
    )]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// More than [`RETRIES_MAX`].
    #[error("{asked} retries are more than {RETRIES_MAX}")]
    TooManyRetries {
        /// How many.
        asked: u32,
    },
    /// A name of nothing or too much.
    #[error("the {what} must have 1 to {NAME_CHARS_MAX} characters")]
    Name {
        /// Whose name.
        what: &'static str,
    },
}

impl Job {
    /// A job of this command without containers yet; everything else has the default of the command line.
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
        }
    }

    /// How many containers in all.
    #[must_use]
    pub const fn containers(&self) -> u32 {
        self.guaranteed.saturating_add(self.opportunistic)
    }

    /// The size of each container.
    #[must_use]
    pub const fn size(&self) -> Resource {
        Resource::new(self.memory_mb, self.vcores)
    }

    /// The execution type of the container with this number within the job, from 0: first the guaranteed ones.
    #[must_use]
    pub const fn type_of(&self, task: u32) -> ExecutionType {
        if task < self.guaranteed {
            ExecutionType::Guaranteed
        } else {
            ExecutionType::Opportunistic
        }
    }

    /// Whether it could be run at all.
    ///
    /// # Errors
    /// The first thing that is wrong.
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
        let name = |job: &mut Job| job.name.clear();
        assert!(matches!(with(&name), JobError::Name { .. }));
    }
}
