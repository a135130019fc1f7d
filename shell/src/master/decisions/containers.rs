//! Containers: assigned to tasks, started, polled, completed.

use records::{ContainerId, ExecutionType, MonoMillis, NodeId};

use super::reasons::{last_line, reason_of};
use super::{Held, HeldStage, Master, TaskState, index};
use crate::master::asks::asked_type;
use crate::master::verdict::{Removal, Verdict, judge};
use crate::master::vocabulary::{ChangeRefusal, Changed, Completed, Granted, Seen, ToStart};
use crate::summary::{FAILURES_MAX, Failure, REASON_CHARS_MAX};

/// Backoff before the second retry after a loss, in milliseconds; the first retry is immediate
/// unless a queue was full. Doubles with each retry.
const BACKOFF_FIRST_MS: u64 = 250;

/// Longest backoff, in milliseconds. Ends early when capacity is freed.
const BACKOFF_MAX_MS: u64 = 5_000;

/// Milliseconds after which a promotion that was refused for its version is asked for again.
const PROMOTE_AGAIN_MS: u64 = 1_000;

impl Master {
    /// Assigns a container to a task, or releases it. The allocation request id counts, not the
    /// type: a container of another type than asked for still answers its ask.
    pub(super) fn granted(&mut self, granted: Granted, now: MonoMillis) -> Option<ToStart> {
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
        self.happened.retyped += u32::from(granted.execution_type != asked);
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

    pub(super) fn accepted(&mut self, id: ContainerId, now: MonoMillis) {
        let Some(held) = self.held.get_mut(&id) else {
            return;
        };
        if held.stage != HeldStage::Starting {
            return;
        }
        held.stage = HeldStage::Waiting;
        self.polls.add(&held.node, id, now);
        self.pace.changed(now);
        if held.execution_type == ExecutionType::Opportunistic
            && let Some(after) = self.job.promote_after_ms
        {
            held.promote_at = Some(now + after);
            self.promote_at.insert((now + after, id));
        }
    }

    /// Releases a container that a node refused, in case the node accepted it after all.
    pub(super) fn refused(&mut self, id: ContainerId, reason: &str, now: MonoMillis) {
        let is_starting = self
            .held
            .get(&id)
            .is_some_and(|held| held.stage == HeldStage::Starting);
        if !is_starting {
            return;
        }
        self.releases.insert(id);
        if let Some(held) = self.detach(id) {
            self.replace_or_fail(&held, id, Removal::Lost, None, reason, now);
        }
    }

    pub(super) fn status_polled(
        &mut self,
        node: &NodeId,
        seen: Option<Vec<Seen>>,
        now: MonoMillis,
    ) {
        let is_reached = seen.is_some();
        for seen in seen.unwrap_or_default() {
            match seen {
                Seen::Waiting(_) => {}
                Seen::Running(id) => self.seen_running(id, now),
                Seen::Completed(completed) => self.completed(&completed, now),
            }
        }
        self.polls.answered(node, is_reached, now);
    }

    fn seen_running(&mut self, id: ContainerId, now: MonoMillis) {
        let Some(held) = self.held.get_mut(&id) else {
            return;
        };
        held.stage = HeldStage::Running;
        if let Some(since) = self.polls.remove(&held.node, id) {
            self.waits.add(now.since(since));
        }
        if let Some(at) = held.promote_at.take() {
            self.promote_at.remove(&(at, id));
        }
        self.pace.changed(now);
    }

    pub(super) fn completed(&mut self, completed: &Completed, now: MonoMillis) {
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
        // A container that ended before it was seen running has run all the same, unless it was
        // taken away before.
        if let Some(since) = self.polls.remove(&node, id)
            && !matches!(verdict, Verdict::Retry(_))
        {
            self.waits.add(now.since(since));
        }
        let Some(held) = self.detach(id) else {
            return;
        };
        self.pace.changed(now);
        let status = completed.exit_status.0;
        match verdict {
            Verdict::Succeeded => {
                self.tasks[held.task as usize].state = TaskState::Succeeded;
                self.end_next_backoff(now);
            }
            Verdict::Failed => {
                let reason = reason_of(status, &completed.diagnostics);
                self.fail(held.task, Some((&held, id)), Some(status), reason);
                self.end_next_backoff(now);
            }
            Verdict::Retry(taken) => {
                self.replace_or_fail(&held, id, taken, Some(status), &completed.diagnostics, now);
            }
        }
    }

    /// Ends the next task's backoff, since capacity was freed.
    fn end_next_backoff(&mut self, now: MonoMillis) {
        if let Some((at, task)) = self.backoffs.pop_first() {
            self.backoffs.insert((at.min(now), task));
        }
    }

    /// Removes a container from its task.
    fn detach(&mut self, id: ContainerId) -> Option<Held> {
        let held = self.held.remove(&id)?;
        self.polls.remove(&held.node, id);
        self.changes.remove(&held.node, id);
        if let Some(at) = held.promote_at {
            self.promote_at.remove(&(at, id));
        }
        Some(held)
    }

    /// Takes a container from its task through no fault of the task: the task gets another, unless
    /// its retries are used up.
    fn replace_or_fail(
        &mut self,
        held: &Held,
        id: ContainerId,
        taken: Removal,
        exit_status: Option<i32>,
        diagnostics: &str,
        now: MonoMillis,
    ) {
        match taken {
            Removal::Evicted => self.happened.evicted += 1,
            Removal::Shed => self.happened.shed += 1,
            Removal::Preempted => self.happened.preempted += 1,
            Removal::Lost => self.happened.lost += 1,
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
        // After a full queue the retry is never immediate.
        let backoff = match (times, taken) {
            (1, Removal::Evicted | Removal::Preempted | Removal::Lost) => 0,
            (_, Removal::Evicted | Removal::Preempted | Removal::Lost | Removal::Shed) => {
                (BACKOFF_FIRST_MS << doublings).min(BACKOFF_MAX_MS)
            }
        };
        task.state = TaskState::BackingOff;
        self.backoffs.insert((now + backoff, held.task));
    }

    pub(super) fn fail(
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

    pub(super) fn changed(&mut self, changed: Changed) {
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
        if let Some(token) = changed.token {
            self.changes.add(&held.node, (changed.id, token));
        }
    }

    pub(super) fn change_refused(
        &mut self,
        id: ContainerId,
        refusal: ChangeRefusal,
        now: MonoMillis,
    ) {
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
            // Pending, or too late.
            ChangeRefusal::Version { .. } | ChangeRefusal::Outstanding | ChangeRefusal::Final => {}
        }
    }
}
