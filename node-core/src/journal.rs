//! The node's recent past for the live page: decisions and counts over time.

use std::sync::Arc;

use node_view::overview::{
    Decision, DecisionKind, History, ListedContainer, Listing, NodeOverview, RecentDecisions, words,
};
use node_view::snapshot::{Counts, RmContact};
use records::Now;
use sched::{Completion, ContainerSummary};

use super::{Core, Effect};
use crate::condition::Shows;
use crate::end::{End, Part};

/// Characters of a failed container's diagnostics that its decision carries: one line of a page.
const DIAGNOSTICS_CHARS_MAX: usize = 160;

/// Decisions, and counts over time.
#[derive(Debug, Default)]
pub(super) struct Journal {
    decisions: RecentDecisions,
    history: History,
    /// Number that rises with each change that an overview may show.
    revision: u64,
}

impl Journal {
    fn decided(&mut self, decision: Decision, now: Now) {
        self.decisions.push(now.wall, decision);
        self.revision += 1;
    }
}

impl Part for Journal {
    fn ended(&mut self, end: &End<'_>, _: &mut Vec<Effect>) {
        self.decided(end.decision.clone(), end.now);
    }
}

impl Core {
    /// Returns a number that rises with each change that [`Self::overview`] may show. The time
    /// alone changes nothing.
    #[must_use]
    pub fn live_revision(&self) -> u64 {
        self.journal.revision
    }

    pub(super) fn decided(&mut self, decision: Decision, now: Now) {
        self.stories.decided(&decision, now.wall);
        self.journal.decided(decision, now);
    }

    /// Returns the end of a container in words, with the last line of its diagnostics if it failed
    /// and all may see what it wrote.
    pub(super) fn completion_in_words(&self, completion: &Completion) -> Decision {
        let mut decision = Decision::Completed {
            completion: completion.clone(),
            said: String::new(),
        };
        let signalled = completion.exit_status.is_signalled();
        if decision.kind() == DecisionKind::Failed
            && !signalled
            && !self.config.private_output
            && let Some(view) = self.scheduler.container(&completion.id)
            && let Decision::Completed { said, .. } = &mut decision
        {
            *said = words::last_said(&view.diagnostics, DIAGNOSTICS_CHARS_MAX);
        }
        decision
    }

    /// Records whether a page would look different.
    pub(super) fn show(&mut self, Shows(differs): Shows) {
        self.journal.revision += u64::from(differs);
    }

    /// Records the counts after an event of the scheduler.
    pub(super) fn scheduler_changed(&mut self, now: Now) {
        let counts = self.numbers().counts;
        self.journal.history.record(now.mono, counts);
        self.journal.revision += 1;
    }

    /// Returns the contact to the ResourceManager and the counts of containers.
    #[must_use]
    pub fn glance(&self) -> (RmContact, Counts) {
        (self.registration.contact().0, self.numbers().counts)
    }

    /// Returns the overview. Costs a walk over the containers, so it is meant for pages on demand.
    #[must_use]
    pub fn overview(&self) -> NodeOverview {
        let (scheduler, numbers) = (&self.scheduler, self.numbers());
        let counts = numbers.counts;
        let running_total =
            counts.running_guaranteed as usize + counts.running_opportunistic as usize;
        let listed = |summary| self.listed(summary);
        let running = scheduler.holding_room().map(listed);
        let waiting = scheduler.queue();
        let waiting = waiting.filter_map(|queued| scheduler.summary(&queued.id).map(listed));
        NodeOverview {
            about: Arc::clone(self.condition.about()),
            rm: self.registration.contact(),
            numbers,
            running: Listing::cut(running, running_total),
            waiting: Listing::cut(waiting, counts.waiting as usize),
            history: self.journal.history.clone(),
            decisions: self.journal.decisions.newest_first().cloned().collect(),
        }
    }

    pub(super) fn listed(&self, summary: ContainerSummary) -> ListedContainer {
        let container = self.containers.get(&summary.spec.id);
        let user = container.map(|container| container.user.to_string());
        ListedContainer {
            user: user.unwrap_or_default(),
            summary,
        }
    }
}

#[cfg(test)]
mod tests {
    use container_runtime::launch::LaunchEvent;
    use node_view::overview::decision_words;
    use node_view::snapshot::Counts;
    use records::{ContainerExitStatus, ExecutionType, MonoMillis};
    use sched::ContainerQueuingLimit;
    use test_support::ids::container as container_id;

    use super::*;
    use crate::WorkerEvent;
    use crate::tests::{
        RM_IDENTIFIER, asker, at_second as at, request, request_for, unregistered_core,
    };
    use crate::{Delivery, HeartbeatOrders, Wait};

    fn core() -> Core {
        let mut core = unregistered_core();
        core.registered(RM_IDENTIFIER, None, at(0));
        core
    }

    /// Returns the decisions, oldest first, with the number of their container.
    fn decision_texts(core: &Core) -> Vec<(Option<i64>, String)> {
        let newest_first = core.overview().decisions;
        newest_first
            .iter()
            .rev()
            .map(|recent| {
                let id = recent.decision.container().map(|id| id.id);
                (id, decision_words(&recent.decision))
            })
            .collect()
    }

    fn last_said(core: &Core) -> String {
        decision_texts(core).pop().unwrap().1
    }

    fn answered(core: &mut Core, orders: HeartbeatOrders, now: Now) {
        core.heartbeat_answered(&Delivery::PerhapsNothing, orders, now);
    }

    fn limited(core: &mut Core, length: usize, now: Now) {
        let limit = ContainerQueuingLimit {
            max_queue_length: Some(length),
            max_queue_wait_time_ms: None,
        };
        let orders = HeartbeatOrders {
            queuing_limit: Some(limit),
            ..HeartbeatOrders::default()
        };
        answered(core, orders, now);
    }

    #[test]
    fn a_full_node_shows_what_runs_what_waits_and_why() {
        let mut core = core();
        for n in 1..=8 {
            core.start(asker(), request(n), at(1));
        }
        for n in 9..=11 {
            let request = request_for(container_id(n), ExecutionType::Opportunistic);
            core.start(asker(), request, at(2));
        }
        limited(&mut core, 2, at(5));
        let node = core.overview();
        assert_eq!(
            node.numbers.counts,
            Counts {
                running_guaranteed: 8,
                running_opportunistic: 0,
                waiting: 2
            }
        );
        let waiting: Vec<_> = node
            .waiting
            .first
            .iter()
            .map(|w| (w.summary.spec.id.id, w.summary.since))
            .collect();
        assert_eq!(waiting, [(9, MonoMillis(2_000)), (10, MonoMillis(2_000))]);
        assert_eq!((node.running.total, node.running.first.len()), (8, 8));
        assert_eq!(node.running.first[0].user, "alice");
        let steps = node.history.steps(MonoMillis(6_000));
        let steps: Vec<_> = steps.iter().map(|s| (s.second, s.counts.waiting)).collect();
        assert_eq!(steps, [(0, 0), (1, 0), (2, 3), (5, 2)]);
        let said = decision_texts(&core);
        let tail: Vec<_> = said[said.len() - 3..]
            .iter()
            .map(|(id, words)| (*id, words.as_str()))
            .collect();
        assert_eq!(
            tail,
            [
                (None, "The ResourceManager limits the queue to 2 waiting"),
                (
                    Some(11),
                    "Shed over the ResourceManager's limit of 2 waiting"
                ),
                (
                    Some(11),
                    "Killed by this node's scheduler (exit status -108)"
                ),
            ]
        );
    }

    #[test]
    fn a_limit_that_stays_the_same_is_no_decision_and_a_heartbeat_without_news_changes_nothing() {
        let mut core = core();
        limited(&mut core, 4, at(1));
        let (before, decisions) = (core.overview(), decision_texts(&core).len());
        limited(&mut core, 4, at(2));
        assert_eq!(decision_texts(&core).len(), decisions);
        assert_eq!(core.overview(), before);
    }

    #[test]
    fn the_decision_on_a_failed_container_has_the_last_line_of_its_diagnostics() {
        let mut core = core();
        core.start(asker(), request(1), at(1));
        let exited = LaunchEvent::Exited {
            id: container_id(1),
            status: ContainerExitStatus(3),
            cause: "Exception from container-launch.\n".to_owned(),
            diagnostics: "Last 4096 bytes of stderr :\nno such table\n".to_owned(),
        };
        core.handle(WorkerEvent::Launch(exited), at(2), 0);
        assert_eq!(
            last_said(&core),
            "Completed with exit status 3: no such table"
        );
    }

    #[test]
    fn a_silent_resource_manager_shows_once_until_it_answers() {
        let mut core = core();
        core.heartbeat_failed(at(3));
        core.heartbeat_failed(at(4));
        assert_eq!(core.overview().rm, (RmContact::Silent, MonoMillis(3_000)));
        answered(&mut core, HeartbeatOrders::default(), at(6));
        assert_eq!(
            core.overview().rm,
            (RmContact::Registered, MonoMillis(6_000))
        );
        let words: Vec<String> = decision_texts(&core)
            .into_iter()
            .map(|(_, words)| words)
            .collect();
        assert_eq!(
            words,
            [
                "Registered with the ResourceManager",
                "The ResourceManager does not answer heartbeats; containers go on",
                "The ResourceManager answers heartbeats again",
            ]
        );
    }

    #[test]
    fn every_revision_that_others_see_rises_with_a_change() {
        let mut core = core();
        let before = core.live_revision();
        core.start(asker(), request(1), at(1));
        let started = core.live_revision();
        assert!(started > before);
        assert_eq!(core.resync(true, at(2)), Wait::Over);
        assert!(core.live_revision() > started);
        assert_eq!(core.overview().rm.0, RmContact::Registering);
    }
}
