//! The scheduler's actions, each to its effect.

use std::sync::Arc;

use node_web::live::Decision;
use records::{ContainerExitStatus, ContainerId, Now};
use sched::{Action, Completion, Event, KillReason};

use super::{Core, Followups};

impl Core {
    /// Performs one action. What is answered at once goes to `followups`; the rest comes back as an
    /// effect.
    pub(super) fn perform(&mut self, action: Action, now: Now, followups: &mut Followups) {
        match action {
            Action::Localize(id) => self.localize(id, followups),
            Action::Launch(id) => self.launch(id, followups),
            // Freezing takes a cgroup of the container's own; without one the scheduler kills
            // instead.
            Action::Pause(id) if self.hands.pause(id) => {}
            Action::Resume(id) if self.hands.resume(id) => {}
            Action::Pause(id) | Action::Resume(id) => followups.push_back(Event::PauseFailed(id)),
            Action::Terminate(id) => self.hands.terminate(id),
            Action::ForceKill(id) => self.hands.force_kill(id),
            Action::ApplyLimits(spec) => {
                tracing::debug!(container = %spec.id, resource = %spec.resource, "limits changed");
                self.hands.apply_limits(&spec);
            }
            Action::CleanUp(id) => self.clean_up(id, followups),
            Action::Completed(completion) => self.completed(&completion, now),
            Action::Note(note) => {
                self.metrics.observe_note(&note);
                crate::audit::note(&note);
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
        let Some(record) = self.containers.get_mut(&id) else {
            return;
        };
        let resources = record
            .context
            .as_mut()
            .map(|context| std::mem::take(&mut context.resources))
            .unwrap_or_default();
        if resources.is_empty() {
            followups.push_back(Event::Localized(id));
        } else {
            self.hands.localize(id, &record.user, resources);
        }
    }

    fn launch(&mut self, id: ContainerId, followups: &mut Followups) {
        let Some(record) = self.containers.get_mut(&id) else {
            return;
        };
        let context = record.context.take();
        let spec = self.scheduler.summary(&id).map(|summary| summary.spec);
        let launched = context
            .zip(spec)
            .ok_or("the launch context was used before".to_owned())
            .and_then(|(context, spec)| {
                let localized = std::mem::take(&mut record.localized);
                let took = record.localized_in;
                self.hands
                    .launch(&spec, &record.user, *context, localized, took)
            });
        if let Err(diagnostics) = launched {
            let status = ContainerExitStatus::LAUNCH_FAILED;
            followups.push_back(Event::LaunchFailed {
                id,
                status,
                diagnostics,
            });
        }
    }

    fn clean_up(&mut self, id: ContainerId, followups: &mut Followups) {
        if let Some(record) = self.containers.get_mut(&id) {
            record.context = None;
            record.localized = Vec::new();
            self.hands.clean_up(id, &record.user);
        }
        // The folders go in the background, as in Hadoop: nothing waits for that.
        followups.push_back(Event::CleanedUp(id));
    }

    fn completed(&mut self, completion: &Completion, now: Now) {
        let id = completion.id;
        self.metrics.observe_completion(completion);
        self.decided_completion(completion, now);
        self.applications.container_done(&id);
        self.increased.remove(&id);
        if let Some(record) = self.containers.get(&id) {
            crate::audit::completed(completion, &record.user);
        }
        self.note_completion(id, now);
        let acknowledged = self
            .containers
            .get(&id)
            .is_some_and(|record| record.acknowledged_early);
        if acknowledged {
            self.forget(id, now);
        }
        self.finish_application_if_ready(&id.application_id(), now);
        self.heartbeat_now.notify_one();
        self.answer_if_all_ended();
    }

    /// Ends the application if its end was ordered and its last container is done: its folders go,
    /// its logs later.
    pub(super) fn finish_application_if_ready(&mut self, id: &records::ApplicationId, now: Now) {
        if !self.applications.is_ready_to_finish(id) {
            return;
        }
        let ids: Vec<ContainerId> = self
            .applications
            .get(id)
            .map(|application| application.containers.iter().copied().collect())
            .unwrap_or_default();
        let delete_logs_at = now.mono + self.config.log_retain_ms;
        if let Some(user) = self.applications.finished(id, delete_logs_at) {
            self.hands.finish_application(*id, &Arc::clone(&user));
        }
        self.secrets.forget_application(*id);
        if let Some(proxy) = &self.proxy {
            proxy.application_ended(*id);
        }
        // Their completions are in the ledger, which outlives them.
        for id in ids {
            self.forget(id, now);
        }
        tracing::info!(application = %id, "application finished on this node");
    }
}
