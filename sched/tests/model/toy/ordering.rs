//! Expected runs and places of the toy scheduler: all run times in one list, every rank from first
//! principles whenever somebody asks.

use records::{ApplicationId, ContainerId, ExecutionType, Resource};
use sched::{QueueOrder, RunProfile};

use super::{Phase, Sum, Toy, ToyContainer};

/// Waiting containers of an attempt that make it a large one for `least-left`.
const LARGE_ATTEMPT: u64 = 8;

/// Run that ended by itself, or because nobody needed it any longer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    application: ApplicationId,
    size: Resource,
    profile: Option<RunProfile>,
    ran_ms: u64,
}

/// Parts of the place of a container, beside its arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Basis {
    arrived_ms: u64,
    fifo_start_ms: u64,
    expected_ms: u64,
}

/// Returns the container that starts next, and the one that it passes if it is another's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) id: ContainerId,
    pub(super) passed: Option<(ContainerId, u64)>,
}

fn bits(size: Resource) -> (u32, u32) {
    (
        64 - size.memory_mb.leading_zeros(),
        32 - size.vcores.leading_zeros(),
    )
}

impl Toy {
    /// Returns the milliseconds that a container has run.
    pub(super) fn ran_ms(container: &ToyContainer, now_ms: u64) -> u64 {
        let since = container.runs_since;
        container.ran_ms + since.map_or(0, |since| now_ms - since)
    }

    /// Keeps account of who runs, after an event.
    pub(super) fn count_runs(&mut self, now_ms: u64) {
        for container in &mut self.containers {
            let runs = matches!(container.phase, Phase::Running { .. });
            if !runs {
                container.ran_ms = Self::ran_ms(container, now_ms);
                container.runs_since = None;
            } else if container.runs_since.is_none() {
                container.runs_since = Some(now_ms);
            }
        }
    }

    /// Records the run of a container that is about to end, and lets those of its application that
    /// wait profit if it is the third of its kind.
    pub(super) fn record_run(&mut self, id: ContainerId, now_ms: u64) {
        let Some(container) = self.get(id).copied() else {
            return;
        };
        if matches!(container.phase, Phase::Launching { .. }) {
            return;
        }
        let (application, size) = (id.application_id(), container.spec.resource);
        let ran_ms = Self::ran_ms(&container, now_ms);
        self.runs.push(Run {
            application,
            size,
            profile: container.profile,
            ran_ms,
        });
        let of_application = self.runs_like(|run| run.application == application);
        let alike =
            self.runs_like(|run| run.application == application && bits(run.size) == bits(size));
        if self.config.queue_order != QueueOrder::Fifo
            && (of_application.len() == 3 || alike.len() == 3)
        {
            self.expect_again(|container| container.spec.id.application_id() == application);
        }
    }

    fn expect_again(&mut self, whose: impl Fn(&ToyContainer) -> bool) {
        for at in 0..self.containers.len() {
            let container = self.containers[at];
            if container.basis.is_some() && whose(&container) {
                let expected_ms = self.expected_ms(&container);
                let basis = self.containers[at].basis.as_mut().unwrap();
                basis.expected_ms = expected_ms;
            }
        }
    }

    /// Returns the last 32 run times of a kind, oldest first.
    fn runs_like(&self, like: impl Fn(&Run) -> bool) -> Vec<u64> {
        let all = self.runs.iter().filter(|run| like(run));
        let all: Vec<u64> = all.map(|run| run.ran_ms).collect();
        all[all.len().saturating_sub(32)..].to_vec()
    }

    /// Returns the run times to expect of a container, shortest first.
    fn expected(&self, container: &ToyContainer) -> Vec<u64> {
        let application = container.spec.id.application_id();
        let size = container.spec.resource;
        let of_application = |run: &Run| run.application == application;
        let alike = |run: &Run| of_application(run) && bits(run.size) == bits(size);
        let mut known = self.runs_like(alike);
        if known.len() < 3 {
            known = self.runs_like(of_application);
        }
        if let (true, Some(profile)) = (known.len() < 3, container.profile)
            && !self.is_fifo()
        {
            known = self.runs_like(|run| {
                let whose = run.profile.map(|profile| (profile.user, profile.command));
                whose == Some((profile.user, profile.command))
            });
        }
        if known.len() < 3 {
            known = self.runs_like(|_| true);
        }
        if known.is_empty() {
            known = vec![60_000];
        }
        known.sort_unstable();
        known
    }

    fn expected_ms(&self, container: &ToyContainer) -> u64 {
        let known = self.expected(container);
        let mean_ms = known.iter().sum::<u64>() / u64::try_from(known.len()).unwrap();
        self.weigh_hint(container, mean_ms).max(1)
    }

    /// Returns the mean of a hint and of what is expected without it, by how many of the last 16
    /// hints of the user were right.
    fn weigh_hint(&self, container: &ToyContainer, mean_ms: u64) -> u64 {
        let Some(profile) = container.profile else {
            return mean_ms;
        };
        let Some(hint_ms) = profile.hint_ms else {
            return mean_ms;
        };
        let judged = self.runs.iter().filter_map(|run| {
            let other = run.profile.filter(|other| other.user == profile.user)?;
            let hint_ms = other.hint_ms?;
            let near = hint_ms.abs_diff(run.ran_ms) <= 100;
            Some(near || (hint_ms / 2 <= run.ran_ms && run.ran_ms / 2 <= hint_ms))
        });
        let judged: Vec<bool> = judged.collect();
        let last = &judged[judged.len().saturating_sub(16)..];
        let right = u64::try_from(last.iter().filter(|right| **right).count()).unwrap();
        match u64::try_from(last.len()).unwrap() {
            0 => hint_ms,
            count => (hint_ms * right + mean_ms * (count - right)) / count,
        }
    }

    /// Takes what the launch context tells of a container, for its place too.
    pub(super) fn set_profile(&mut self, id: ContainerId, profile: RunProfile) {
        let container = self.at(id).unwrap();
        container.profile = Some(profile);
        self.expect_again(|container| container.spec.id == id);
    }

    /// Lets a container wait that has not started.
    pub(super) fn wait(&mut self, id: ContainerId, place: u64, now_ms: u64) {
        let container = *self.get(id).unwrap();
        let basis = (container.is(ExecutionType::Opportunistic)
            && self.config.queue_order != QueueOrder::Fifo)
            .then(|| Basis {
                arrived_ms: now_ms,
                fifo_start_ms: now_ms + self.work_ms(now_ms, |other| other.spec.id != id),
                expected_ms: self.expected_ms(&container),
            });
        let container = self.at(id).unwrap();
        container.phase = Phase::Waiting {
            place,
            frozen: None,
        };
        container.joined_ms = now_ms;
        container.basis = basis;
        container.passed_until = None;
    }

    /// Returns the milliseconds that the whole node needs for what is left of the opportunistic
    /// containers that run, if they are few, and for those that wait.
    fn work_ms(&self, now_ms: u64, whose: impl Fn(&ToyContainer) -> bool) -> u64 {
        let mut sum = Sum::default();
        let runs = |c: &&ToyContainer| c.is(ExecutionType::Opportunistic) && c.order().is_some();
        let running: Vec<_> = self.containers.iter().filter(runs).collect();
        for container in running.iter().filter(|_| running.len() <= 8) {
            let left_ms = self
                .expected_ms(container)
                .saturating_sub(Self::ran_ms(container, now_ms));
            let left_ms = i64::try_from(left_ms).unwrap();
            let of = Sum::of(container.spec.resource);
            sum.memory_mb += of.memory_mb * left_ms;
            sum.vcores += of.vcores * left_ms;
        }
        for container in self.containers.iter().filter(|c| whose(c)) {
            if let Some(basis) = container.basis {
                let expected_ms = i64::try_from(basis.expected_ms).unwrap();
                let of = Sum::of(container.spec.resource);
                sum.memory_mb += of.memory_mb * expected_ms;
                sum.vcores += of.vcores * expected_ms;
            }
        }
        let node = Sum::of(self.node);
        let ms = (sum.memory_mb / node.memory_mb).max(sum.vcores / node.vcores);
        u64::try_from(ms).unwrap()
    }

    /// Sorts what waits by another order.
    pub(super) fn change_order(&mut self, order: QueueOrder, factor: u32, now_ms: u64) {
        if (order, factor) == (self.config.queue_order, self.config.queue_bound_factor) {
            return;
        }
        self.config.queue_order = order;
        self.config.queue_bound_factor = factor;
        let mut waiting: Vec<_> = self
            .containers
            .iter()
            .filter(|c| c.is(ExecutionType::Opportunistic) && !c.is_frozen())
            .filter(|c| c.place().is_some())
            .copied()
            .collect();
        waiting.sort_by_key(ToyContainer::place);
        for container in &waiting {
            self.at(container.spec.id).unwrap().basis = None;
        }
        if order == QueueOrder::Fifo {
            return;
        }
        for container in waiting {
            let basis = Basis {
                arrived_ms: container.joined_ms,
                fifo_start_ms: now_ms + self.work_ms(now_ms, |_| true),
                expected_ms: self.expected_ms(&container),
            };
            self.at(container.spec.id).unwrap().basis = Some(basis);
        }
    }

    /// Returns the latest time at which a container would have ended; 0: it goes by its arrival.
    pub(super) fn rank(&self, container: &ToyContainer) -> u64 {
        let Some(basis) = container.basis else {
            return 0;
        };
        let bound_ms = basis.expected_ms * u64::from(self.config.queue_bound_factor);
        let may_wait_ms = match self.config.queue_order {
            QueueOrder::Fifo => return 0,
            QueueOrder::Shortest => bound_ms,
            QueueOrder::LeastLeft => {
                let attempt = container.spec.id.attempt;
                let of_attempt = self
                    .containers
                    .iter()
                    .filter(|c| c.basis.is_some() && c.spec.id.attempt == attempt);
                let count = u64::try_from(of_attempt.count()).unwrap();
                bound_ms * count.min(LARGE_ATTEMPT) / LARGE_ATTEMPT
            }
        };
        let start_ms = (basis.arrived_ms + may_wait_ms).max(basis.fifo_start_ms);
        start_ms + basis.expected_ms
    }

    /// Returns one behind the head that may start before it, if the head does not fit.
    pub(super) fn backfill(&self, head: &ToyContainer, now_ms: u64) -> Option<Turn> {
        if self.config.queue_order == QueueOrder::Fifo || self.runs.is_empty() {
            return None;
        }
        if head.passed_until.is_some_and(|until| until <= now_ms) {
            return None;
        }
        let (mut room_in_ms, held) = self.expected_room(head, now_ms)?;
        if let Some(until) = head.passed_until {
            room_in_ms = room_in_ms.min(until - now_ms);
        }
        let queue = self.queue(ExecutionType::Opportunistic);
        let at = queue.iter().position(|c| c.spec.id == head.spec.id)?;
        let asked = Sum::of(head.spec.resource);
        queue[at + 1..].iter().take(16).find_map(|other| {
            let size = Sum::of(other.spec.resource);
            let fits_now = self
                .sum(ToyContainer::holds_room)
                .plus(size)
                .fits(self.node);
            let ends = *self.expected(other).last().unwrap() <= room_in_ms;
            let fits_then = held.plus(asked).plus(size).fits(self.node);
            (fits_now && (ends || fits_then)).then_some(Turn {
                id: other.spec.id,
                passed: Some((head.spec.id, room_in_ms)),
            })
        })
    }

    /// Returns the milliseconds until a container is expected to fit, and what is held then.
    fn expected_room(&self, head: &ToyContainer, now_ms: u64) -> Option<(u64, Sum)> {
        let mut running: Vec<_> = self
            .containers
            .iter()
            .filter(|c| c.is(ExecutionType::Opportunistic) && c.order().is_some())
            .collect();
        if running.len() > 64 {
            return None;
        }
        running.sort_by_key(|c| std::cmp::Reverse(c.order()));
        let mut ends: Vec<_> = running
            .into_iter()
            .map(|c| (self.remaining_ms(c, now_ms), Sum::of(c.spec.resource)))
            .collect();
        ends.sort_by_key(|(in_ms, _)| *in_ms);
        let guaranteed = |c: &ToyContainer| c.is(ExecutionType::Guaranteed);
        let mut held = self.sum(|c| {
            let leaves = matches!(c.phase, Phase::Killing { .. } | Phase::Freezing)
                || c.phase == Phase::Restarting;
            c.holds_room() && !leaves && (guaranteed(c) || c.order().is_some())
        });
        let asked = Sum::of(head.spec.resource);
        let mut room_in_ms = 0;
        for (in_ms, size) in ends {
            if held.plus(asked).fits(self.node) {
                return Some((room_in_ms, held));
            }
            room_in_ms = in_ms;
            held.memory_mb -= size.memory_mb;
            held.vcores -= size.vcores;
        }
        held.plus(asked)
            .fits(self.node)
            .then_some((room_in_ms, held))
    }

    /// Returns the median of what a container like this one would still run.
    fn remaining_ms(&self, container: &ToyContainer, now_ms: u64) -> u64 {
        let known = self.expected(container);
        let ran_ms = Self::ran_ms(container, now_ms);
        let longer: Vec<u64> = known.iter().copied().filter(|ms| *ms > ran_ms).collect();
        match longer.get(longer.len() / 2) {
            Some(whole_ms) => whole_ms - ran_ms,
            None => (ran_ms - known.last().unwrap()).max(1),
        }
    }
}
