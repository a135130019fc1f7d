//! Turns the scheduler's actions into effects.

use std::ops::RangeInclusive;
use std::sync::Arc;

use node_view::overview::Decision;
use records::{ContainerExitStatus, ContainerId, EpochMillis, ExecutionType, Now};
use sched::{Action, Completion, Event, KillReason};

use super::effect::{Effect, LocalizeFor, Observed};
use super::end::{End, Part};
use super::order::LaunchOrder;
use super::token::TokenFacts;
use super::{Core, Followups};

/// Shortest and longest memory of a container that has ended, in milliseconds: the life of Hadoop's
/// container tokens (`yarn.resourcemanager.rm.container-allocation.expiry-interval-ms`), and a day.
const TOKEN_LIFE_MS: RangeInclusive<i64> = 600_000..=86_400_000;

/// Time in which the ResourceManager learns of an end, in milliseconds. Until then it may issue
/// tokens that update the container.
const REPORT_MS: i64 = 60_000;

/// Returns the time after its end in which a token of a container may still be valid, in
/// milliseconds. A token that updates a container can start it as well, and expires later than the
/// one that did.
fn token_life_ms(facts: &TokenFacts) -> i64 {
    let (shortest, longest) = (*TOKEN_LIFE_MS.start(), *TOKEN_LIFE_MS.end());
    facts.life_ms.clamp(shortest, longest) + REPORT_MS
}

impl Core {
    /// Turns one action into effects. Results that the core knows itself go to `followups`; workers
    /// report the others as events.
    pub(super) fn act(&mut self, action: Action, now: Now, followups: &mut Followups) {
        match action {
            Action::Localize(id) => self.localize(id, followups),
            Action::Launch(id) => self.launch(id, followups),
            Action::RollBack(id) => self.roll_back(id, followups),
            // Freezing takes a cgroup of the container's own; without one the scheduler kills
            // instead.
            Action::Pause(id) if self.config.can_freeze => self.effects.push(Effect::Pause(id)),
            Action::Resume(id) if self.config.can_freeze => self.effects.push(Effect::Resume(id)),
            Action::Pause(id) | Action::Resume(id) => followups.push_back(Event::PauseFailed(id)),
            Action::Terminate(id) => self.order_end(id, Effect::Terminate(id), followups),
            Action::ForceKill(id) => self.order_end(id, Effect::ForceKill(id), followups),
            Action::ApplyLimits(spec) => {
                tracing::debug!(container = %spec.id, resource = %spec.resource, "limits changed");
                self.effects.push(Effect::ApplyLimits(spec));
            }
            Action::CleanUp(id) => self.clean_up(id, followups),
            Action::Completed(completion) => self.completed(&completion, now),
            Action::Note(note) => {
                self.observe(Observed::Note(note.clone()));
                self.decided(Decision::Note(note), now);
            }
        }
    }

    fn localize(&mut self, id: ContainerId, followups: &mut Followups) {
        if !self.applications.is_running(&id.application_id()) {
            // It came too late, and as in Hadoop is accepted and killed: its folders must not come
            // back to life.
            let reason = KillReason::ApplicationNotRunning;
            followups.push_back(Event::Kill { id, reason });
            return;
        }
        self.tell_services(id);
        let Some(container) = self.containers.get_mut(&id) else {
            return;
        };
        let user = container.user.clone();
        let (service_data, resources) = container.setups.take_wishes();
        if !service_data.is_empty() {
            self.effects.push(Effect::InitializeApplication {
                id: id.application_id(),
                user: user.clone(),
                service_data,
            });
        }
        if resources.is_empty() {
            followups.push_back(Event::Localized(id));
        } else {
            self.effects.push(Effect::Localize {
                id,
                user,
                resources,
                set: container.setups.set(),
                purpose: LocalizeFor::Start,
            });
        }
    }

    /// Orders the end of a container's processes, or says that there are none: its launch waits for
    /// resources.
    fn order_end(&mut self, id: ContainerId, order: Effect, followups: &mut Followups) {
        let container = self.containers.get_mut(&id);
        if container.is_some_and(|container| container.setups.end_launch()) {
            followups.push_back(Event::LaunchFailed {
                id,
                status: ContainerExitStatus::TERMINATED,
                diagnostics: "Container terminated before launch.".to_owned(),
            });
        } else {
            self.effects.push(order);
        }
    }

    pub(super) fn launch(&mut self, id: ContainerId, followups: &mut Followups) {
        if !self.begin_launch(id, followups) {
            return;
        }
        let spec = self.scheduler.summary(&id).map(|summary| summary.spec);
        let guaranteed = spec.is_some_and(|spec| spec.execution_type == ExecutionType::Guaranteed);
        let Some(container) = self.containers.get_mut(&id) else {
            return;
        };
        let (context, localized) = container.setups.for_launch(guaranteed);
        let launch = context.zip(spec);
        let launch = launch.ok_or_else(|| "the launch context was used before".to_owned());
        let launch = launch.and_then(|(context, spec)| {
            let environment = &context.context.environment;
            let checked = self.runtimes.check(id.application_id(), environment);
            checked.map_err(|refused| refused.to_string())?;
            Ok((context, spec))
        });
        match launch {
            Ok((context, spec)) => self.effects.push(Effect::Launch(Box::new(LaunchOrder {
                spec,
                user: container.user.clone(),
                context,
                localized,
                dirs: Arc::clone(&container.dirs),
                localized_in: container.localized_in,
            }))),
            Err(diagnostics) => followups.push_back(Event::LaunchFailed {
                id,
                status: ContainerExitStatus::LAUNCH_FAILED,
                diagnostics,
            }),
        }
    }

    fn clean_up(&mut self, id: ContainerId, followups: &mut Followups) {
        if let Some(container) = self.containers.get_mut(&id) {
            container.setups.end();
            if container.setups.has_resources() {
                self.effects.push(Effect::ReleaseResources(id));
            }
            let user = container.user.clone();
            self.effects.push(Effect::CleanUp { id, user });
        }
        // Directories are deleted in the background, as in Hadoop: nothing waits for that.
        followups.push_back(Event::CleanedUp(id));
    }

    fn completed(&mut self, completion: &Completion, now: Now) {
        let id = completion.id;
        self.resume_logs(id.application_id());
        let status = self.last_status(id);
        let container = self.containers.get(&id);
        let token = container.map(|container| {
            let life_ms = token_life_ms(&container.facts);
            let expiry = EpochMillis(now.wall.0.saturating_add(life_ms));
            (Arc::clone(&container.facts), expiry)
        });
        let end = End {
            completion,
            decision: self.completion_in_words(completion),
            token,
            status,
            remembers: self.recorder.are_kept(),
            aggregates_logs: self.config.log_aggregation.is_some(),
            now,
        };
        let parts: [&mut dyn Part; 7] = [
            &mut self.stories,
            &mut self.journal,
            &mut self.logs,
            &mut self.applications,
            &mut self.increases,
            &mut self.started,
            &mut self.ledger,
        ];
        for part in parts {
            part.ended(&end, &mut self.effects);
        }
        let user = container.map(|container| container.user.clone());
        let acknowledged = container.is_some_and(|container| container.acknowledged_early);
        self.tell_services_of_end(id);
        self.observe(Observed::Completed {
            completion: completion.clone(),
            user,
        });
        if acknowledged {
            self.forget(id, now);
        }
        self.finish_application_if_ready(&id.application_id(), now);
        self.effects.push(Effect::HeartbeatNow);
        self.notify_if_all_ended();
    }

    /// Finishes the application if its end was ordered and its last container is done: its
    /// directories are deleted, its logs later.
    pub(super) fn finish_application_if_ready(&mut self, id: &records::ApplicationId, now: Now) {
        if !self.applications.is_ready_to_finish(id) {
            return;
        }
        let ids: Vec<ContainerId> = self
            .applications
            .get(id)
            .map(|application| application.containers.iter().copied().collect())
            .unwrap_or_default();
        let delete_logs_at = self.finish_logs(*id, now);
        if delete_logs_at.is_some() {
            self.forget_tokens(*id);
        }
        if let Some(user) = self.applications.finished(id, delete_logs_at) {
            self.effects
                .push(Effect::FinishApplication { id: *id, user });
        }
        self.remember_application(*id, now);
        self.runtimes.forget(*id);
        self.attempts.forget_application(*id);
        self.effects.push(Effect::EndPipelines(*id));
        // Their completions are in the ledger, which outlives them.
        for id in ids {
            self.forget(id, now);
        }
        tracing::info!(application = %id, "application finished on this node");
    }
}
