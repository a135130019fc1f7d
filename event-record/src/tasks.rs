//! Tasks of applications: what the containers did that ended by themselves.

use std::collections::BTreeMap;

use records::{ContainerId, EpochMillis, ExecutionType, Resource};
use sched::{Action, Event, Note};

use crate::form::{Input, Step};
use crate::lives::{CONTAINERS_MAX, Lives};

/// Task of an application, in a container that ended by itself. Times are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Container in which it ran.
    pub id: ContainerId,
    /// Time at which the container came to the node, by the node's wall clock.
    pub came: EpochMillis,
    /// Size of the container when it came.
    pub resource: Resource,
    /// Execution type of the container when it came.
    pub execution_type: ExecutionType,
    /// Wait for room before the first start.
    pub waited_ms: Option<u64>,
    /// Time with a process that was not frozen.
    pub ran_ms: u64,
}

/// Containers that came to a node, over the records of all its agents.
#[derive(Debug, Default)]
pub struct Came {
    of: BTreeMap<ContainerId, Task>,
}

impl Came {
    /// Takes a step into account. Returns false if it has more containers than are read.
    #[must_use]
    pub fn step(&mut self, step: &Step) -> bool {
        if step.refused {
            return true;
        }
        if let Input::Event(Event::Start(spec)) = &step.input {
            let task = Task {
                id: spec.id,
                came: step.at.wall,
                resource: spec.resource,
                execution_type: spec.execution_type,
                waited_ms: None,
                ran_ms: 0,
            };
            self.of.entry(spec.id).or_insert(task);
        }
        for action in &step.actions {
            if let Action::Note(Note::Started {
                id,
                queue_wait_ms,
                resumed: false,
                ..
            }) = action
                && let Some(task) = self.of.get_mut(id)
            {
                task.waited_ms.get_or_insert(*queue_wait_ms);
            }
        }
        self.of.len() <= CONTAINERS_MAX
    }

    /// Takes out the containers that ended by themselves in the steps of `lives`, which is at its
    /// end. The others may go on in the record of the next agent.
    pub fn take_ended(&mut self, lives: &Lives) -> Vec<Task> {
        let ended = self.of.extract_if(.., |id, task| {
            let (known, is_assumed) = lives.of(*id);
            task.ran_ms = known.work_ms;
            !is_assumed
        });
        ended.map(|(_, task)| task).collect()
    }

    /// Returns the number of containers whose end no step has told, or that somebody ended.
    #[must_use]
    pub fn left(&self) -> usize {
        self.of.len()
    }
}
