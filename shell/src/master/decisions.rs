//! Decisions of the AM: events and time in, actions out. Pure: no clock, no randomness, no I/O.
//!
//! ```text
//!               granted                accepted            seen running
//!  task: Wanted ───────▶ held: Starting ───────▶ Waiting ──────────────▶ Running
//!          ▲                  │                     │                      │
//!          │ backoff over     │ refused             │ completed            │ completed
//!          │                  ▼                     ▼                      ▼
//!      BackingOff ◀── the cluster's fault ──── judged ── 0 ──▶ Succeeded
//!                                               └── else, or too many retries ──▶ Failed
//! ```
//!
//! A task is one of the job's containers as its user counts them, and holds one container at a
//! time. Both the node and the ResourceManager may report the end of a container; the first report
//! counts.

mod allocation;
mod containers;
#[cfg(test)]
mod model;
mod reasons;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use records::{ContainerId, ExecutionType, MonoMillis, NodeId};

use super::asks::AskBook;
use super::node_changes::NodeChanges;
use super::pace::Pace;
use super::status_polls::StatusPolls;
use super::vocabulary::{Action, Event, Loss};
use super::waits::Waits;
use crate::job::Job;
use crate::progress::Counts;
use crate::summary::{Failure, Outcome, Summary};

/// A container of the job, as its user counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Task {
    state: TaskState,
    /// Number of containers that the cluster took from the task.
    taken: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskState {
    Wanted,
    BackingOff,
    Held(ContainerId),
    Succeeded,
    Failed,
}

/// A container that a task holds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    task: u32,
    node: NodeId,
    node_http: String,
    execution_type: ExecutionType,
    version: i32,
    stage: HeldStage,
    /// Time at which to ask for its promotion.
    promote_at: Option<MonoMillis>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeldStage {
    /// The node has not answered the start.
    Starting,
    /// The node has accepted the container.
    Waiting,
    /// Seen running.
    Running,
}

/// State of the AM: the tasks, their containers, and the conversation with the ResourceManager.
#[derive(Clone, Debug)]
pub struct Master {
    job: Job,
    user: String,
    started: MonoMillis,
    is_registered: bool,
    is_over: bool,
    tasks: Vec<Task>,
    wanted: [BTreeSet<u32>; 2],
    backoffs: BTreeSet<(MonoMillis, u32)>,
    held: BTreeMap<ContainerId, Held>,
    books: [AskBook; 2],
    polls: StatusPolls,
    changes: NodeChanges,
    pace: Pace,
    /// Containers to release with the next heartbeat.
    releases: BTreeSet<ContainerId>,
    /// Released containers whose completion has not been reported.
    released: BTreeSet<ContainerId>,
    promote_at: BTreeSet<(MonoMillis, ContainerId)>,
    waits: Waits,
    happened: Counts,
    failures: Vec<Failure>,
}

const TYPES: [ExecutionType; 2] = [ExecutionType::Guaranteed, ExecutionType::Opportunistic];

const fn index(execution_type: ExecutionType) -> usize {
    match execution_type {
        ExecutionType::Guaranteed => 0,
        ExecutionType::Opportunistic => 1,
    }
}

impl Master {
    /// Returns an AM that has not registered. `user` is part of the links to logs.
    #[must_use]
    pub fn new(job: Job, user: String, now: MonoMillis) -> Self {
        let tasks = job.containers();
        let (guaranteed, opportunistic) =
            (0..tasks).partition(|task| job.type_of(*task) == ExecutionType::Guaranteed);
        let new = Task {
            state: TaskState::Wanted,
            taken: 0,
        };
        Self {
            tasks: (0..tasks).map(|_| new).collect(),
            job,
            user,
            started: now,
            is_registered: false,
            is_over: false,
            wanted: [guaranteed, opportunistic],
            backoffs: BTreeSet::new(),
            held: BTreeMap::new(),
            books: [AskBook::default(); 2],
            polls: StatusPolls::default(),
            changes: NodeChanges::default(),
            pace: Pace::default(),
            releases: BTreeSet::new(),
            released: BTreeSet::new(),
            promote_at: BTreeSet::new(),
            waits: Waits::default(),
            happened: Counts::default(),
            failures: Vec::new(),
        }
    }

    /// Returns the first action.
    #[must_use]
    pub const fn begin(&self) -> Action {
        Action::Register
    }

    /// Handles an event; returns the actions in the order in which to perform them. None follows
    /// [`Action::Finish`].
    #[must_use]
    pub fn handle(&mut self, event: Event, now: MonoMillis) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.is_over {
            return actions;
        }
        match event {
            Event::Registered { largest } => self.registered(largest, now, &mut actions),
            Event::Answered(answer) => self.answered(answer, now, &mut actions),
            Event::Resync => {
                self.is_registered = false;
                actions.push(Action::Register);
            }
            Event::AskRefused(reason) => self.fail_all(&reason, now, &mut actions),
            Event::Lost(loss) => self.finish(Outcome::Failed, Some(loss), now, &mut actions),
            Event::Started { accepted, refused } => {
                for id in accepted {
                    self.accepted(id, now);
                }
                for (id, reason) in refused {
                    self.refused(id, &reason, now);
                }
            }
            Event::StatusPolled { node, seen } => self.status_polled(&node, seen, now),
            Event::Updated {
                node,
                settled,
                has_failed,
            } => self.changes.answered(&node, &settled, has_failed, now),
            Event::Stop => self.finish(Outcome::Stopped, None, now, &mut actions),
            Event::Tick => {}
        }
        self.proceed(now, &mut actions);
        self.assert_invariants();
        actions
    }

    /// Returns the time at which [`Event::Tick`] is due, unless another event comes before.
    #[must_use]
    pub fn next_wake(&self) -> Option<MonoMillis> {
        if self.is_over {
            return None;
        }
        let heartbeat = if self.is_registered {
            self.pace.due(self.has_orders())
        } else {
            None
        };
        let rested = self.backoffs.first().map(|(at, _)| *at);
        // A heartbeat carries the ask for a promotion, so the ask waits for the next heartbeat that
        // is due.
        let ordered = self.pace.due(true).filter(|_| self.is_registered);
        let promotion = self.promote_at.first().map(|(at, _)| *at);
        let promotion = promotion.zip(ordered).map(|(at, ordered)| at.max(ordered));
        let (poll, change) = (self.polls.next_wake(), self.changes.next_wake());
        [heartbeat, poll, change, rested, promotion]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns the counts of tasks by state, and of events so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = self.happened;
        counts.tasks = self.job.containers();
        for task in &self.tasks {
            match task.state {
                TaskState::Wanted | TaskState::BackingOff => counts.waiting += 1,
                TaskState::Held(id) => match self.held.get(&id).map(|held| held.stage) {
                    Some(HeldStage::Running) => counts.running += 1,
                    Some(HeldStage::Starting | HeldStage::Waiting) | None => counts.queued += 1,
                },
                TaskState::Succeeded => counts.succeeded += 1,
                TaskState::Failed => counts.failed += 1,
            }
        }
        counts
    }

    /// Fails every task that has not ended, as no container can be had any more.
    fn fail_all(&mut self, reason: &str, now: MonoMillis, actions: &mut Vec<Action>) {
        for task in 0..self.job.containers() {
            let last = match self.tasks[task as usize].state {
                TaskState::Succeeded | TaskState::Failed => continue,
                TaskState::Wanted | TaskState::BackingOff => None,
                TaskState::Held(id) => self.held.get(&id).cloned().map(|held| (held, id)),
            };
            let last = last.as_ref().map(|(held, id)| (held, *id));
            self.fail(task, last, None, reason.to_owned());
        }
        self.wanted = [BTreeSet::new(), BTreeSet::new()];
        self.backoffs.clear();
        self.finish(Outcome::Failed, None, now, actions);
    }

    /// Stops all containers and ends the job.
    fn finish(
        &mut self,
        outcome: Outcome,
        loss: Option<Loss>,
        now: MonoMillis,
        actions: &mut Vec<Action>,
    ) {
        let mut left: BTreeMap<NodeId, Vec<ContainerId>> = BTreeMap::new();
        for (id, held) in &self.held {
            left.entry(held.node.clone()).or_default().push(*id);
        }
        for (node, containers) in left {
            actions.push(Action::StopContainers { node, containers });
        }
        let summary = Box::new(self.summary(outcome, now));
        actions.push(Action::Finish { summary, loss });
        self.is_over = true;
    }

    fn summary(&self, outcome: Outcome, now: MonoMillis) -> Summary {
        Summary {
            outcome,
            counts: self.counts(),
            queue_wait_p50_ms: self.waits.percentile(50),
            queue_wait_p99_ms: self.waits.percentile(99),
            wall_ms: now.since(self.started),
            failures: self.failures.clone(),
        }
    }

    /// Does what follows from the state and the time alone.
    fn proceed(&mut self, now: MonoMillis, actions: &mut Vec<Action>) {
        if self.is_over {
            return;
        }
        while let Some((at, task)) = self.backoffs.first().copied()
            && at <= now
        {
            self.backoffs.pop_first();
            self.tasks[task as usize].state = TaskState::Wanted;
            self.wanted[index(self.job.type_of(task))].insert(task);
        }
        let has_ended =
            |task: &Task| matches!(task.state, TaskState::Succeeded | TaskState::Failed);
        if self.tasks.iter().all(has_ended) {
            let has_failed = self
                .tasks
                .iter()
                .any(|task| task.state == TaskState::Failed);
            let outcome = if has_failed {
                Outcome::Failed
            } else {
                Outcome::Succeeded
            };
            self.finish(outcome, None, now, actions);
            return;
        }
        for (node, containers) in self.polls.due(now) {
            actions.push(Action::PollStatus { node, containers });
        }
        for (node, changes) in self.changes.due(now) {
            actions.push(Action::Update { node, changes });
        }
        let is_due = |due: MonoMillis| due <= now;
        if self.is_registered && self.pace.due(self.has_orders_at(now)).is_some_and(is_due) {
            let heartbeat = self.heartbeat(now);
            self.pace.sent(now);
            actions.push(Action::Allocate(heartbeat));
        }
    }

    /// Asserts what must hold between two events.
    fn assert_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        for (number, task) in (0_u32..).zip(&self.tasks) {
            let is_wanted = self.wanted.iter().any(|wanted| wanted.contains(&number));
            assert_eq!(is_wanted, task.state == TaskState::Wanted, "task {number}");
            if let TaskState::Held(id) = task.state {
                let held = self.held.get(&id);
                assert!(
                    held.is_some_and(|held| held.task == number),
                    "{id} of task {number}"
                );
            }
        }
        let holding = |task: &&Task| matches!(task.state, TaskState::Held(_));
        if !self.is_over {
            assert_eq!(self.tasks.iter().filter(holding).count(), self.held.len());
        }
        for (at, id) in &self.promote_at {
            let held = self.held.get(id);
            assert_eq!(held.and_then(|held| held.promote_at), Some(*at), "{id}");
        }
    }
}
