//! What a file of events holds.

use records::{ContainerName, Now, Resource};
use sched::{Action, ContainerScheduler, Event, SchedulerSnapshot};
use serde::{Deserialize, Serialize};

/// Name of the form, in the first line of each file.
pub const FORMAT: &str = "nm-agent scheduler events";

/// Version of the form. Another one is refused: a reader that guessed would play other events.
pub const VERSION: u32 = 1;

/// Record of the core, before it has a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The scheduler's state, from which the steps after it go on.
    Begin {
        /// Time of the state.
        at: Now,
        /// State of the scheduler.
        scheduler: Box<SchedulerSnapshot>,
    },
    /// Input of the scheduler, with its actions.
    Step(Box<Step>),
}

/// First line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begin {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// Whether this file goes on where the one before it ends: the same agent, and nothing lost.
    pub follows: bool,
    /// Time of the state.
    pub at: Now,
    /// State of the scheduler.
    pub scheduler: SchedulerSnapshot,
}

/// Line of a file: something that the scheduler got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Time at which the scheduler got it.
    pub at: Now,
    /// Input at that time.
    pub input: Input,
    /// Whether it refused the event, and so did nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
    /// Actions, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
}

/// Input of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// An event.
    Event(Event),
    /// Room that processes without a container take.
    Withhold {
        /// Container that the processes were started for.
        name: ContainerName,
        /// Room that they take.
        resource: Resource,
    },
    /// The end of such processes.
    GiveBack(ContainerName),
}

impl Input {
    /// Hands the input to a scheduler. Returns its actions, or `None` if it refused.
    pub(crate) fn play(self, scheduler: &mut ContainerScheduler, now: Now) -> Option<Vec<Action>> {
        let mut actions = Vec::new();
        match self {
            Self::Event(event) => scheduler.handle(event, now, &mut actions).ok()?,
            Self::Withhold { name, resource } => scheduler.withhold(name, resource),
            Self::GiveBack(name) => scheduler.give_back(&name, now, &mut actions),
        }
        Some(actions)
    }
}

impl Begin {
    /// Returns the first line of a file.
    #[must_use]
    pub fn new(at: Now, scheduler: SchedulerSnapshot, follows: bool) -> Self {
        let format = FORMAT.to_owned();
        Self {
            format,
            version: VERSION,
            follows,
            at,
            scheduler,
        }
    }

    /// Returns the line, with its end.
    #[must_use]
    pub fn line(&self) -> Vec<u8> {
        line(self)
    }
}

impl Step {
    /// Reads the step from its line.
    ///
    /// # Errors
    /// The line is none of a step.
    pub fn read(line: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(line)
    }

    /// Returns the line, with its end.
    #[must_use]
    pub fn line(&self) -> Vec<u8> {
        line(self)
    }
}

fn line(value: &impl Serialize) -> Vec<u8> {
    let json = serde_json::to_vec(value);
    let mut line = json.expect("no key is anything but a text, and writing to memory cannot fail");
    line.push(b'\n');
    line
}
