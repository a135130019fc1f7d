//! The master's decisions: events and time in, actions out. Pure: no clock, no randomness, no I/O.
//!
//! ```text
//!               granted                accepted            seen running
//!  task: Wanted ───────▶ held: Starting ───────▶ Waiting ──────────────▶ Running
//!          ▲                  │                     │                      │
//!          │ rested           │ refused             │ completed            │ completed
//!          │                  ▼                     ▼                      ▼
//!        Resting ◀──── the cluster's fault ── judged ── 0 ──▶ Succeeded
//!                                               └── else, or too many tries ──▶ Failed
//! ```
//!
//! A task is one of the job's containers as its user counts them. It holds one container at a time. The end of a container
//! may be told by its node and by the ResourceManager; the first counts.

use std::collections::{BTreeMap, BTreeSet};

use records::{ContainerId, ExecutionType, MonoMillis, NodeId, Resource};

use super::asks::{AskBook, asked_type};
use super::looks::Looks;
use super::pace::Pace;
use super::verdict::{Taken, Verdict, judge};
use super::vocabulary::{
    Action, Answer, ChangeRefusal, Changed, Completed, Event, Granted, Heartbeat, Loss, Promote,
    Seen, ToStart,
};
use super::waits::Waits;
use crate::job::Job;
use crate::progress::Counts;
use crate::summary::{FAILURES_MAX, Failure, Outcome, REASON_CHARS_MAX, Summary};

/// Containers in one call of a node.
const START_BATCH_MAX: usize = 100;

/// Bytes of commands in one call of a node: a sixteenth of the longest frame.
const START_BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The rest before the second try after a loss, in milliseconds; the first is at once unless a queue was full. It doubles
/// with each.
const REST_FIRST_MS: u64 = 250;

/// The longest rest, in milliseconds.
const REST_MAX_MS: u64 = 10_000;

/// After how many milliseconds a promotion that was refused for its version is asked for again.
const PROMOTE_AGAIN_MS: u64 = 1_000;

/// One of the job's containers, as its user counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Task {
    state: TaskState,
    /// How many containers were taken away from it.
    taken: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskState {
    Wanted,
    Resting,
    Held(ContainerId),
    Succeeded,
    Failed,
}

/// A container of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    task: u32,
    node: NodeId,
    node_http: String,
    execution_type: ExecutionType,
    version: i32,
    stage: HeldStage,
    /// When to ask for its promotion.
    promote_at: Option<MonoMillis>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeldStage {
    /// Its node has not answered.
    Starting,
    /// Its node has it.
    Waiting,
    /// It was seen running.
    Running,
}

/// All that the master knows.
#[derive(Clone, Debug)]
pub struct Master {
    job: Job,
    user: String,
    started: MonoMillis,
    is_registered: bool,
    is_over: bool,
    tasks: Vec<Task>,
    wanted: [BTreeSet<u32>; 2],
    resting: BTreeSet<(MonoMillis, u32)>,
    held: BTreeMap<ContainerId, Held>,
    books: [AskBook; 2],
    looks: Looks,
    pace: Pace,
    /// To give back with the next heartbeat.
    releases: BTreeSet<ContainerId>,
    /// Given back; their ends have not been told.
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
    /// A master that has done nothing yet. `user` stands in the links to logs.
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
            resting: BTreeSet::new(),
            held: BTreeMap::new(),
            books: [AskBook::default(); 2],
            looks: Looks::default(),
            pace: Pace::default(),
            releases: BTreeSet::new(),
            released: BTreeSet::new(),
            promote_at: BTreeSet::new(),
            waits: Waits::default(),
            happened: Counts::default(),
            failures: Vec::new(),
        }
    }

    /// The first action.
    #[must_use]
    pub const fn begin(&self) -> Action {
        Action::Register
    }

    /// Takes an event; what to do, in this order. After [`Action::Finish`] there is nothing more.
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
            Event::AskRefused(reason) => self.give_up_all(&reason, now, &mut actions),
            Event::Lost(loss) => self.finish(Outcome::Failed, Some(loss), now, &mut actions),
            Event::Started { accepted, refused } => {
                for id in accepted {
                    self.accepted(id, now);
                }
                for (id, reason) in refused {
                    self.refused(id, &reason, now);
                }
            }
            Event::Looked { node, seen } => self.looked(&node, seen, now),
            Event::Stop => self.finish(Outcome::Stopped, None, now, &mut actions),
            Event::Tick => {}
        }
        self.proceed(now, &mut actions);
        self.assert_invariants();
        actions
    }

    /// When [`Event::Tick`] is due, unless something else happens before.
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
        let rested = self.resting.first().map(|(at, _)| *at);
        // A promotion is asked for with a heartbeat, so not before one may go.
        let ordered = self.pace.due(true).filter(|_| self.is_registered);
        let promotion = self.promote_at.first().map(|(at, _)| *at);
        let promotion = promotion.zip(ordered).map(|(at, ordered)| at.max(ordered));
        [heartbeat, self.looks.next_wake(), rested, promotion]
            .into_iter()
            .flatten()
            .min()
    }

    /// How it is going.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = self.happened;
        counts.tasks = self.job.containers();
        for task in &self.tasks {
            match task.state {
                TaskState::Wanted | TaskState::Resting => counts.waiting += 1,
                TaskState::Held(_) => {}
                TaskState::Succeeded => counts.succeeded += 1,
                TaskState::Failed => counts.failed += 1,
            }
        }
        for held in self.held.values() {
            match held.stage {
                HeldStage::Starting | HeldStage::Waiting => counts.queued += 1,
                HeldStage::Running => counts.running += 1,
            }
        }
        counts
    }

    fn registered(
        &mut self,
        largest: Option<Resource>,
        now: MonoMillis,
        actions: &mut Vec<Action>,
    ) {
        self.is_registered = true;
        self.pace.registered(now);
        for book in &mut self.books {
            book.forget();
        }
        self.releases.append(&mut self.released);
        // A promotion that was under way is not known any more either.
        if self.job.promote_after_ms.is_some() {
            let waiting = self.held.iter_mut().filter(|(_, held)| {
                held.stage == HeldStage::Waiting
                    && held.execution_type == ExecutionType::Opportunistic
                    && held.promote_at.is_none()
            });
            for (id, held) in waiting {
                held.promote_at = Some(now);
                self.promote_at.insert((now, *id));
            }
        }
        if let Some(largest) = largest.filter(|largest| !self.job.size().fits_in(*largest)) {
            let reason = format!(
                "a container of {} is asked for, and the queue gives {largest} at most",
                self.job.size()
            );
            self.give_up_all(&reason, now, actions);
        }
    }

    fn answered(&mut self, answer: Answer, now: MonoMillis, actions: &mut Vec<Action>) {
        let Answer {
            granted,
            completed,
            changed,
            refused,
        } = answer;
        self.pace.answered();
        if !(granted.is_empty() && completed.is_empty() && changed.is_empty()) {
            self.pace.news(now);
        }
        let mut to_start: BTreeMap<NodeId, Vec<ToStart>> = BTreeMap::new();
        for container in granted {
            let node = container.node.clone();
            if let Some(start) = self.granted(container, now) {
                to_start.entry(node).or_default().push(start);
            }
        }
        for completed in completed {
            self.completed(&completed, now);
        }
        for changed in changed {
            self.changed(changed, actions);
        }
        for (id, refusal) in refused {
            self.change_refused(id, refusal, now);
        }
        let command: usize = self.job.command.iter().map(String::len).sum();
        let batch = (START_BATCH_BYTES_MAX / command.max(1)).clamp(1, START_BATCH_MAX);
        for (node, starts) in to_start {
            for containers in starts.chunks(batch) {
                actions.push(Action::Start {
                    node: node.clone(),
                    containers: containers.to_vec(),
                });
            }
        }
    }

    /// Gives a container to a task, or back. By the number of the ask and not by the type: one that came in another type
    /// than was asked for answers that ask all the same.
    fn granted(&mut self, granted: Granted, now: MonoMillis) -> Option<ToStart> {
        let id = granted.id;
        let asked = asked_type(granted.allocation_request_id).unwrap_or(granted.execution_type);
        self.books[index(asked)].granted(now);
        if self.held.contains_key(&id) || self.releases.contains(&id) || self.released.contains(&id)
        {
            return None;
        }
        let Some(task) = self.wanted[index(asked)].pop_first() else {
            self.releases.insert(id);
            return None;
        };
        self.tasks[task as usize].state = TaskState::Held(id);
        self.held.insert(
            id,
            Held {
                task,
                node: granted.node,
                node_http: granted.node_http,
                execution_type: granted.execution_type,
                version: granted.version,
                stage: HeldStage::Starting,
                promote_at: None,
            },
        );
        Some(ToStart { id, task })
    }

    fn accepted(&mut self, id: ContainerId, now: MonoMillis) {
        let Some(held) = self.held.get_mut(&id) else {
            return;
        };
        if held.stage != HeldStage::Starting {
            return;
        }
        held.stage = HeldStage::Waiting;
        self.looks.add(&held.node, id, now);
        self.pace.news(now);
        if held.execution_type == ExecutionType::Opportunistic
            && let Some(after) = self.job.promote_after_ms
        {
            held.promote_at = Some(now + after);
            self.promote_at.insert((now + after, id));
        }
    }

    /// A node did not take a container: it goes back, in case the node took it after all.
    fn refused(&mut self, id: ContainerId, reason: &str, now: MonoMillis) {
        let is_starting = self
            .held
            .get(&id)
            .is_some_and(|held| held.stage == HeldStage::Starting);
        if !is_starting {
            return;
        }
        self.releases.insert(id);
        if let Some(held) = self.let_go(id) {
            self.take_away(&held, id, Taken::Lost, None, reason, now);
        }
    }

    fn looked(&mut self, node: &NodeId, seen: Option<Vec<Seen>>, now: MonoMillis) {
        let is_reached = seen.is_some();
        for seen in seen.unwrap_or_default() {
            match seen {
                Seen::Waiting(_) => {}
                Seen::Running(id) => self.seen_running(id, now),
                Seen::Completed(completed) => self.completed(&completed, now),
            }
        }
        self.looks.answered(node, is_reached, now);
    }

    fn seen_running(&mut self, id: ContainerId, now: MonoMillis) {
        let Some(held) = self.held.get_mut(&id) else {
            return;
        };
        held.stage = HeldStage::Running;
        if let Some(since) = self.looks.remove(&held.node, id) {
            self.waits.add(now.since(since));
        }
        if let Some(at) = held.promote_at.take() {
            self.promote_at.remove(&(at, id));
        }
        self.pace.news(now);
    }

    fn completed(&mut self, completed: &Completed, now: MonoMillis) {
        let id = completed.id;
        self.released.remove(&id);
        self.releases.remove(&id);
        let Some(held) = self.held.get(&id) else {
            return;
        };
        let (node, was_running) = (held.node.clone(), held.stage == HeldStage::Running);
        let verdict = judge(
            completed.exit_status,
            held.execution_type,
            was_running,
            &completed.diagnostics,
        );
        // One that was over before it was seen running has run all the same, unless it was taken away before.
        if let Some(since) = self.looks.remove(&node, id)
            && !matches!(verdict, Verdict::Again(_))
        {
            self.waits.add(now.since(since));
        }
        let Some(held) = self.let_go(id) else {
            return;
        };
        self.pace.news(now);
        let status = completed.exit_status.0;
        match verdict {
            Verdict::Succeeded => self.tasks[held.task as usize].state = TaskState::Succeeded,
            Verdict::Failed => {
                let reason = reason_of(status, &completed.diagnostics);
                self.fail(held.task, Some((&held, id)), Some(status), reason);
            }
            Verdict::Again(taken) => {
                self.take_away(&held, id, taken, Some(status), &completed.diagnostics, now);
            }
        }
    }

    /// A container's task has it no longer.
    fn let_go(&mut self, id: ContainerId) -> Option<Held> {
        let held = self.held.remove(&id)?;
        self.looks.remove(&held.node, id);
        if let Some(at) = held.promote_at {
            self.promote_at.remove(&(at, id));
        }
        Some(held)
    }

    /// A task has lost its container through no fault of its own: it gets another, unless that has happened too often.
    fn take_away(
        &mut self,
        held: &Held,
        id: ContainerId,
        taken: Taken,
        exit_status: Option<i32>,
        diagnostics: &str,
        now: MonoMillis,
    ) {
        match taken {
            Taken::Evicted => self.happened.evicted += 1,
            Taken::Shed => self.happened.shed += 1,
            Taken::Preempted => self.happened.preempted += 1,
            Taken::Lost => self.happened.lost += 1,
        }
        let task = &mut self.tasks[held.task as usize];
        task.taken += 1;
        let times = task.taken;
        if times > self.job.retries_max {
            let last = last_line(diagnostics);
            let why = taken.as_str();
            let reason = format!("lost its container {times} times, at last {why}: {last}");
            self.fail(held.task, Some((held, id)), exit_status, reason);
            return;
        }
        let doublings = times.saturating_sub(2).min(16);
        // A full queue is not tried again at once.
        let rest = match (times, taken) {
            (1, Taken::Evicted | Taken::Preempted | Taken::Lost) => 0,
            (_, Taken::Evicted | Taken::Preempted | Taken::Lost | Taken::Shed) => {
                (REST_FIRST_MS << doublings).min(REST_MAX_MS)
            }
        };
        task.state = TaskState::Resting;
        self.resting.insert((now + rest, held.task));
    }

    fn fail(
        &mut self,
        task: u32,
        last: Option<(&Held, ContainerId)>,
        exit_status: Option<i32>,
        reason: String,
    ) {
        self.tasks[task as usize].state = TaskState::Failed;
        if self.failures.len() >= FAILURES_MAX {
            return;
        }
        let has_logs =
            |held: &&Held| held.stage != HeldStage::Starting && !held.node_http.is_empty();
        let log_url = last.filter(|(held, _)| has_logs(held)).map(|(held, id)| {
            let (http, user) = (&held.node_http, &self.user);
            format!("http://{http}/node/containerlogs/{id}/{user}/")
        });
        self.failures.push(Failure {
            task: task + 1,
            container: last.map_or_else(String::new, |(_, id)| id.to_string()),
            node: last.map_or_else(String::new, |(held, _)| held.node.to_string()),
            exit_status,
            reason: reason.chars().take(REASON_CHARS_MAX).collect(),
            log_url: log_url.unwrap_or_default(),
        });
    }

    fn changed(&mut self, changed: Changed, actions: &mut Vec<Action>) {
        let Some(held) = self.held.get_mut(&changed.id) else {
            return;
        };
        let is_promotion = held.execution_type == ExecutionType::Opportunistic
            && changed.execution_type == ExecutionType::Guaranteed;
        if is_promotion {
            self.happened.promoted += 1;
        }
        held.version = changed.version;
        held.execution_type = changed.execution_type;
        if let Some(at) = held.promote_at.take() {
            self.promote_at.remove(&(at, changed.id));
        }
        actions.push(Action::Update {
            node: held.node.clone(),
            container: changed.id,
        });
    }

    fn change_refused(&mut self, id: ContainerId, refusal: ChangeRefusal, now: MonoMillis) {
        let Some(held) = self.held.get_mut(&id) else {
            return;
        };
        match refusal {
            ChangeRefusal::Version { current } if held.stage == HeldStage::Waiting => {
                held.version = current;
                let again = now + PROMOTE_AGAIN_MS;
                if held.promote_at.is_none() {
                    held.promote_at = Some(again);
                    self.promote_at.insert((again, id));
                }
            }
            // It is under way, or too late.
            ChangeRefusal::Version { .. } | ChangeRefusal::Outstanding | ChangeRefusal::Final => {}
        }
    }

    /// Nothing more can be had: every task that has not ended fails.
    fn give_up_all(&mut self, reason: &str, now: MonoMillis, actions: &mut Vec<Action>) {
        for task in 0..self.job.containers() {
            let last = match self.tasks[task as usize].state {
                TaskState::Succeeded | TaskState::Failed => continue,
                TaskState::Wanted | TaskState::Resting => None,
                TaskState::Held(id) => self.held.get(&id).cloned().map(|held| (held, id)),
            };
            let last = last.as_ref().map(|(held, id)| (held, *id));
            self.fail(task, last, None, reason.to_owned());
        }
        self.finish(Outcome::Failed, None, now, actions);
    }

    /// Ends everything that is left and then the job.
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

    /// What follows from the state and the time alone.
    fn proceed(&mut self, now: MonoMillis, actions: &mut Vec<Action>) {
        if self.is_over {
            return;
        }
        while let Some((at, task)) = self.resting.first().copied()
            && at <= now
        {
            self.resting.pop_first();
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
        for (node, containers) in self.looks.due(now) {
            actions.push(Action::Look { node, containers });
        }
        let is_due = |due: MonoMillis| due <= now;
        if self.is_registered && self.pace.due(self.has_orders_at(now)).is_some_and(is_due) {
            let heartbeat = self.heartbeat(now);
            self.pace.sent(now);
            actions.push(Action::Allocate(heartbeat));
        }
    }

    fn missing(&self, execution_type: ExecutionType) -> u32 {
        u32::try_from(self.wanted[index(execution_type)].len()).unwrap_or(u32::MAX)
    }

    /// Whether the ResourceManager has something to be told.
    fn has_orders(&self) -> bool {
        let differs = |of: &ExecutionType| self.books[index(*of)].differs(self.missing(*of));
        !self.releases.is_empty() || TYPES.iter().any(differs)
    }

    fn has_orders_at(&self, now: MonoMillis) -> bool {
        let is_promotion_due = self.promote_at.first().is_some_and(|(at, _)| *at <= now);
        is_promotion_due || self.has_orders()
    }

    fn heartbeat(&mut self, now: MonoMillis) -> Heartbeat {
        let mut heartbeat = Heartbeat::default();
        for execution_type in TYPES {
            let missing = self.missing(execution_type);
            let ask = self.books[index(execution_type)].ask(execution_type, missing, now);
            heartbeat.asks.extend(ask);
        }
        heartbeat.releases = self.releases.iter().copied().collect();
        self.released.append(&mut self.releases);
        while let Some((at, id)) = self.promote_at.first().copied()
            && at <= now
        {
            self.promote_at.pop_first();
            if let Some(held) = self.held.get_mut(&id) {
                held.promote_at = None;
                heartbeat.promotions.push(Promote {
                    id,
                    version: held.version,
                });
            }
        }
        heartbeat
    }

    /// What must hold between two events.
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

/// Why a command failed, for people.
fn reason_of(exit_status: i32, diagnostics: &str) -> String {
    let last = last_line(diagnostics);
    match exit_status {
        0.. => match last_of_stderr(diagnostics) {
            "" => format!("exit status {exit_status}"),
            said => format!("exit status {exit_status}: {said}"),
        },
        _ if last.is_empty() => format!("Hadoop's status {exit_status}"),
        _ => format!("Hadoop's status {exit_status}: {last}"),
    }
}

/// The last line that the command wrote to standard error, as far as the node quotes it (Hadoop:
/// `ContainerLaunch.handleContainerExitWithFailure`).
fn last_of_stderr(diagnostics: &str) -> &str {
    let quoted = diagnostics.rsplit_once("bytes of stderr :");
    quoted.map_or("", |(_, quoted)| last_line(quoted))
}

/// What was said last.
fn last_line(diagnostics: &str) -> &str {
    let mut lines = diagnostics.lines().map(str::trim);
    lines.rfind(|line| !line.is_empty()).unwrap_or("")
}
