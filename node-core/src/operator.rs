//! Answers to operators, who ask through the admin socket.

use node_view::operator::{
    ApplicationExplanation, DrainState, Explanation, Holding, Queue, Running, Share, Status, Told,
    ToldOf, Waiting,
};
use node_view::usage::Uses;
use records::{ApplicationId, ContainerId, ContainerName, EpochMillis, Now};
use sched::ContainerState;

use super::{Core, DrainOrder};

/// Applications and containers that a status lists by their use: more than a screen has lines.
const USED_LISTED_MAX: usize = 100;

/// Version of the agent, for people.
const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Core {
    /// Returns the state of the node, whose agent is the process `pid`.
    #[must_use]
    pub fn operator_status(&self, pid: u32, uses: &Uses, now: Now) -> Status {
        let (about, numbers) = (self.condition.about(), self.numbers());
        let (contact, since) = self.registration.contact();
        let share = |used: u64, total: u64| Share { used, total };
        Status {
            node_id: about.node_id.to_string(),
            web_address: about.http_address(),
            web_over_tls: about.web_over_tls,
            version: VERSION.to_owned(),
            pid,
            at_ms: now.wall.0,
            started_at_ms: about.started_at.0,
            resource_manager: contact.as_str().to_owned(),
            resource_manager_for_ms: now.mono.since(since),
            healthy: about.health.healthy,
            health_report: about.health.report.clone(),
            drain: self.drain_state(),
            recovery: about.recovery.words(),
            memory_mb: share(numbers.allocated.memory_mb, numbers.total.memory_mb),
            vcores: share(numbers.allocated.vcores.into(), numbers.total.vcores.into()),
            running_guaranteed: numbers.counts.running_guaranteed,
            running_opportunistic: numbers.counts.running_opportunistic,
            waiting: numbers.counts.waiting,
            paused: numbers.paused,
            queue_capacity: numbers.opportunistic.opport_queue_capacity,
            queue_limit: numbers.limit_length(),
            wait_limit_ms: numbers.limit_wait_ms(),
            // As of now, as `nm-agent queue` has it: heartbeats may be rare, or away.
            estimated_wait_ms: self.scheduler.estimated_newcomer_wait(now.mono),
            usage: uses.listed(USED_LISTED_MAX),
        }
    }

    /// Returns containers that hold resources, in the order of their ids.
    #[must_use]
    pub fn operator_running(&self, first: usize, uses: &Uses, now: Now) -> Running {
        let holding = self.scheduler.holding_room().take(first);
        let holding = holding.map(|summary| {
            let listed = self.listed(summary);
            Holding {
                container: summary.spec.id.to_string(),
                execution_type: summary.spec.execution_type.to_string(),
                memory_mb: summary.spec.resource.memory_mb,
                vcores: summary.spec.resource.vcores,
                state: listed.progress().to_owned(),
                state_for_ms: now.mono.since(summary.since),
                user: listed.user,
                used: uses.of(&summary.spec.id),
            }
        });
        let counts = self.numbers().counts;
        Running {
            total: (counts.running_guaranteed + counts.running_opportunistic) as usize,
            containers: holding.collect(),
        }
    }

    /// Returns what has happened to a container and why; `None`: it was never here, or is
    /// forgotten. Simulates the queue if the container waits.
    #[must_use]
    pub fn operator_explanation(
        &self,
        name: ContainerName,
        uses: &Uses,
        now: Now,
    ) -> Option<Explanation> {
        let (id, story) = self.stories.of(name)?;
        let view = self.scheduler.container(&id);
        let summary = self.scheduler.summary(&id);
        let place = self.scheduler.queue().position(|queued| queued.id == id);
        let estimate = place.map(|place| {
            let waits = self.scheduler.estimated_waits(now.mono);
            waits.get(place).copied().unwrap_or(0)
        });
        let listed = summary.map(|summary| self.listed(summary));
        let told = |(at, text): (EpochMillis, String)| Told { at_ms: at.0, text };
        Some(Explanation {
            container: id.to_string(),
            user: listed.as_ref().map(|listed| listed.user.clone()),
            execution_type: summary.map(|each| each.spec.execution_type.to_string()),
            memory_mb: summary.map(|each| each.spec.resource.memory_mb),
            vcores: summary.map(|each| each.spec.resource.vcores),
            state: listed
                .map_or("forgotten", |listed| listed.progress())
                .to_owned(),
            state_for_ms: summary.map(|each| now.mono.since(each.since)),
            place: place.map(|place| place + 1),
            estimated_wait_ms: estimate,
            exit_status: view
                .filter(|view| view.state.has_ended())
                .map(|view| view.exit_status.0),
            used: uses.of(&id),
            steps: story.steps().map(told).collect(),
            omitted_steps: story.omitted(),
        })
    }

    /// Returns what has happened to an application's containers here, with at most `last` steps;
    /// `None`: the node knows neither the application nor a container of it.
    #[must_use]
    pub fn operator_application(
        &self,
        id: ApplicationId,
        last: usize,
        uses: &Uses,
    ) -> Option<ApplicationExplanation> {
        let timeline = self.stories.of_application(id, last);
        let application = self.applications.get(&id);
        if application.is_none() && timeline.containers.is_empty() {
            return None;
        }
        let states = timeline.containers.iter();
        let states = states.filter_map(|id| Some(self.scheduler.summary(id)?.state));
        let (mut waiting, mut running) = (0, 0);
        for state in states {
            match state {
                ContainerState::Queued { .. } | ContainerState::Paused { .. } => waiting += 1,
                ContainerState::Launching { .. }
                | ContainerState::Running { .. }
                | ContainerState::Pausing
                | ContainerState::Resuming { .. }
                | ContainerState::Relaunching { .. }
                | ContainerState::Restarting
                | ContainerState::Killing { .. } => running += 1,
                ContainerState::Localizing
                | ContainerState::Gone { .. }
                | ContainerState::Completing(_)
                | ContainerState::Done(_) => {}
            }
        }
        let told = |(at, id, text): (EpochMillis, ContainerId, String)| ToldOf {
            container: id.to_string(),
            told: Told { at_ms: at.0, text },
        };
        Some(ApplicationExplanation {
            application: id.to_string(),
            user: application.map(|application| application.user.to_string()),
            state: application.map(|application| application.state.as_str().to_owned()),
            used: uses.of_application(id),
            containers: timeline.containers.len(),
            waiting,
            running,
            steps: timeline.steps.into_iter().map(told).collect(),
            omitted_steps: timeline.omitted,
        })
    }

    /// Drains the node, and returns the drain in force.
    pub fn operator_drain(&mut self, order: DrainOrder, now: Now) -> DrainState {
        self.drain(order, now);
        let state = self.drain_state();
        state.expect("the node has just been drained")
    }

    /// Returns the first waiting containers, in the order in which they would start. Simulates the
    /// queue for the estimates, which takes about a millisecond.
    #[must_use]
    pub fn operator_queue(&self, first: usize, now: Now) -> Queue {
        let waits = self.scheduler.estimated_waits(now.mono);
        let queue = self.scheduler.queue().zip(waits).zip(1..).take(first);
        let containers = queue.filter_map(|((queued, estimated_wait_ms), place)| {
            let summary = self.scheduler.summary(&queued.id)?;
            let container = self.containers.get(&queued.id);
            let user = container.map(|container| &container.user);
            Some(Waiting {
                place,
                container: queued.id.to_string(),
                user: user.map(ToString::to_string).unwrap_or_default(),
                execution_type: queued.execution_type.to_string(),
                memory_mb: summary.spec.resource.memory_mb,
                vcores: summary.spec.resource.vcores,
                paused: queued.paused,
                waited_ms: now.mono.since(summary.since),
                estimated_wait_ms,
            })
        });
        Queue {
            containers: containers.collect(),
            total: self.numbers().counts.waiting as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use container_runtime::launch::{LaunchEvent, LaunchTimings};
    use records::ExecutionType;
    use test_support::ids::container as container_id;

    use super::*;
    use crate::WorkerEvent;
    use crate::tests::{
        RM_IDENTIFIER, asker, at_second as at, request, request_for, unregistered_core,
    };

    /// Returns a node that is full with eight containers, and three that wait.
    fn full() -> Core {
        let mut core = unregistered_core();
        core.registered(RM_IDENTIFIER, None, at(0));
        for n in 1..=8 {
            core.start(asker(), request(n), at(1));
        }
        for n in 9..=11 {
            let request = request_for(container_id(n), ExecutionType::Opportunistic);
            core.start(asker(), request, at(2));
        }
        core
    }

    #[test]
    fn the_status_has_the_numbers_of_a_full_node() {
        let status = full().operator_status(1, &Uses::default(), at(5));
        assert_eq!(status.resource_manager, "registered");
        assert_eq!(status.resource_manager_for_ms, 5_000);
        assert_eq!((status.running_guaranteed, status.waiting), (8, 3));
        assert_eq!(status.memory_mb.used, status.memory_mb.total);
        assert!(status.healthy);
    }

    #[test]
    fn status_and_queue_estimate_at_the_same_moment() {
        let mut core = full();
        let mut handle = |event, second| {
            core.handle(WorkerEvent::Launch(event), at(second), 0);
        };
        for (n, second) in [
            (1, 1),
            (2, 20),
            (3, 20),
            (4, 20),
            (5, 20),
            (6, 20),
            (7, 20),
            (8, 20),
        ] {
            let launched = LaunchEvent::Launched {
                start_time: 0,
                id: container_id(n),
                pid: 4711,
                timings: LaunchTimings::default(),
                signals: Vec::new(),
            };
            handle(launched, second);
        }
        handle(LaunchEvent::ProcessesGone(container_id(1)), 30);
        // No heartbeat has been made since the first container ended, nor any before.
        let waits = core.operator_queue(10, at(30)).containers;
        let last = waits.last().map_or(0, |last| last.estimated_wait_ms);
        assert!(last > 0, "{waits:?}");
        let one_more = core
            .operator_status(1, &Uses::default(), at(30))
            .estimated_wait_ms;
        assert!(one_more >= Some(last), "{one_more:?} after {last}");
    }

    #[test]
    fn a_container_that_waits_is_explained_with_what_it_lacks() {
        let core = full();
        let explained = core
            .operator_explanation(container_id(10).name(), &Uses::default(), at(5))
            .unwrap();
        assert_eq!(
            (explained.place, explained.state.as_str()),
            (Some(2), "queued")
        );
        let texts: Vec<_> = explained
            .steps
            .iter()
            .map(|step| step.text.as_str())
            .collect();
        assert_eq!(texts[0], "Accepted from its ApplicationMaster");
        assert!(
            texts[1].starts_with("Queued at place 2, short of "),
            "{texts:?}"
        );
        assert_eq!(
            core.operator_explanation(container_id(99).name(), &Uses::default(), at(5)),
            None
        );
    }

    #[test]
    fn an_application_is_explained_by_the_steps_of_its_containers() {
        let core = full();
        let uses = Uses::default();
        let id = container_id(1).application_id();
        let explained = core.operator_application(id, 4, &uses).unwrap();
        assert_eq!(
            (explained.containers, explained.waiting, explained.running),
            (11, 3, 8)
        );
        assert_eq!(explained.user.as_deref(), Some("alice"));
        let last = explained.steps.last().unwrap();
        assert_eq!(last.container, container_id(11).to_string());
        assert!(last.told.text.starts_with("Queued at place 3"), "{last:?}");
        assert_eq!(
            (explained.steps.len(), explained.omitted_steps),
            (4, 22 - 4)
        );
        let other = test_support::ids::application(99);
        assert_eq!(core.operator_application(other, 4, &uses), None);
    }

    #[test]
    fn the_queue_is_in_the_order_of_starts_and_cut_where_asked() {
        let core = full();
        let queue = core.operator_queue(2, at(5));
        assert_eq!(queue.total, 3);
        let places: Vec<_> = queue
            .containers
            .iter()
            .map(|w| (w.place, w.waited_ms))
            .collect();
        assert_eq!(places, [(1, 3_000), (2, 3_000)]);
        let first = &queue.containers[0];
        assert_eq!(first.container, container_id(9).to_string());
        assert_eq!((first.user.as_str(), first.paused), ("alice", false));
        assert_eq!(first.execution_type, "OPPORTUNISTIC");
        assert_eq!(core.operator_queue(0, at(5)).containers, []);
    }
}
