//! What a container's process will do, written into its command: the plan takes the way of every
//! launch context, through tokens, records and restarts, to the machine that runs it.

use records::ContainerId;

/// First word of a command that runs a task.
const TASK: &str = "task";

/// First word of a command that runs an AM.
const MASTER: &str = "master";

/// Plan of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Fault to inject.
    pub work: Work,
    /// Whether it goes on after SIGTERM.
    pub ignores_term: bool,
    /// Milliseconds that it lives after SIGKILL, because the kernel cannot end it sooner.
    pub stuck_ms: u64,
}

/// Work of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Runs for some milliseconds and exits.
    Task {
        /// Milliseconds, pauses excluded.
        run_ms: u64,
        /// Exit status.
        status: i32,
    },
    /// Is the AM of its attempt, and exits when that has finished.
    Master,
}

impl Plan {
    /// Returns the plan of an AM.
    #[must_use]
    pub const fn master() -> Self {
        Self {
            work: Work::Master,
            ignores_term: false,
            stuck_ms: 0,
        }
    }

    /// Returns the command that carries this plan.
    #[must_use]
    pub fn command(&self) -> String {
        let Self {
            work,
            ignores_term,
            stuck_ms,
        } = self;
        let ends = format!("{} {stuck_ms}", u8::from(*ignores_term));
        match work {
            Work::Task { run_ms, status } => format!("{TASK} {run_ms} {status} {ends}"),
            Work::Master => format!("{MASTER} 0 0 {ends}"),
        }
    }

    /// Reads a command.
    ///
    /// # Panics
    /// When it carries no plan: contexts are made here, so the agent has changed one.
    #[must_use]
    pub fn of(id: ContainerId, commands: &[String]) -> Self {
        let read = || {
            let mut words = commands.first()?.split(' ');
            let kind = words.next()?;
            let run_ms = words.next()?.parse().ok()?;
            let status = words.next()?.parse().ok()?;
            let ignores_term = words.next()? == "1";
            let stuck_ms = words.next()?.parse().ok()?;
            let work = match kind {
                TASK => Work::Task { run_ms, status },
                MASTER => Work::Master,
                _ => return None,
            };
            Some(Self {
                work,
                ignores_term,
                stuck_ms,
            })
        };
        read().unwrap_or_else(|| panic!("{id} has another launch context: {commands:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_survives_its_command() {
        let id = records::ApplicationId::new(1, 1).attempt(1).container(1);
        let task = Plan {
            work: Work::Task {
                run_ms: 1_500,
                status: 3,
            },
            ignores_term: true,
            stuck_ms: 20,
        };
        for plan in [task, Plan::master()] {
            assert_eq!(Plan::of(id, &[plan.command()]), plan);
        }
    }
}
