//! Effects of the core, performed on a simulated machine: launches, signals, freezes, records.

use std::time::Duration;

use container_runtime::isolation::IsolationEvent;
use container_runtime::launch::{Adoption, ContainerSignal, LaunchEvent, LaunchTimings};
use event_record::Entry;
use localize::LocalizedResource;
use log_aggregation::Outcome;
use log_aggregation::upload::{UploadError, Uploaded};
use node_core::recovery::Stage;
use node_core::{Effect, LaunchOrder, LocalizeFor, LogOrder, Observed, StoreOrder, WorkerEvent};
use node_manager::recovery::writes_of;
use records::{ApplicationId, ContainerExitStatus, ContainerId};
use sched::ContainerSpec;

use super::kind::kind;
use super::start::dirs_in;
use super::told::localized;
use super::{Agent, Ground, Loop, Waiting, write_of};
use crate::context::Context;
use crate::event::AgentEvent;
use crate::observation::Observation;
use crate::plan::Plan;
use crate::planted::Planted;

/// Exit status of a container of an earlier agent whose status nobody knows (Hadoop:
/// `ExitCode.LOST`).
const LOST: i32 = 154;

/// Milliseconds between the events of an end, at most: the last output is read between them.
const READING_MS: u64 = 40;

impl Agent {
    pub(super) fn perform(
        &mut self,
        effect: Effect,
        ground: &mut Ground<'_>,
        context: &mut Context,
    ) {
        let node = self.node;
        context.performed.insert(kind(&effect));
        match effect {
            Effect::Launch(order) => self.launch(&order, ground, context),
            Effect::Offer(offer) => self.answer_offer(&offer, context),
            Effect::Localize {
                id,
                set,
                purpose,
                resources,
                ..
            } => {
                context.check(self.told.needs_tokens(id));
                let links: Vec<String> = resources.into_iter().map(|(link, _)| link).collect();
                self.told.localize(id, set, links.iter().cloned());
                let resources = links.into_iter().map(|link| localized(id, set, link));
                self.localize(id, purpose, resources.collect(), ground, context);
            }
            Effect::Pause(id) => self.order_freeze(id, true, ground, context),
            Effect::Resume(id) => self.order_freeze(id, false, ground, context),
            Effect::Terminate(id) => self.order_end(id, false, ground, context),
            Effect::ForceKill(id) => self.order_end(id, true, ground, context),
            Effect::Signal { id, signal, .. } => self.signal(id, signal, ground, context),
            Effect::Adopt(order) => self.adopt(&order, ground, context),
            Effect::ApplyLimits(spec) => self.apply_limits(spec, context),
            Effect::SetNodeResource(total) => self.told.node_resource = Some(total),
            Effect::SetRmIdentifier(identifier) => self.shell.secrets.set_rm_identifier(identifier),
            Effect::SetQueuingLimit(limit) => self.told.queuing_limit = Some(limit),
            Effect::Store(order) => store(&order, ground, context),
            Effect::Reap { id, pid } => {
                self.after_commit(Waiting::Reap(id, pid), ground, context);
            }
            Effect::Record(entries) => self.record(entries, context),
            Effect::AllEnded => self.all_ended(context),
            Effect::HeartbeatNow => self.beat_early(context),
            Effect::Observe(observed) => self.observe(observed, context),
            Effect::Link(order) => context.check(self.told.link(order.id, &order.resources)),
            Effect::UseSets { id, sets } => self.told.use_sets(id, sets),
            Effect::ReleaseResources(id) => {
                if !context.is_planted(Planted::ResourcesKept) {
                    self.told.release(id);
                }
            }
            Effect::ForgetResources(id) => self.told.release(id),
            Effect::CleanUp { id, .. } => {
                context.observe(Observation::Done { node, id });
                context.check(self.told.clean_up(id));
            }
            Effect::Tokens { id, .. } => self.told.tokens(id),
            Effect::ForgetTokens(id) => self.told.forget_tokens(id),
            Effect::ContainerInitialized(served) => {
                context.check(self.told.begin_for_services(served.spec.id));
            }
            Effect::ContainerStopped(served) => {
                context.check(self.told.end_for_services(served.spec.id));
            }
            Effect::InitializeApplication { id, .. } => self.told.initialize(id),
            Effect::FinishApplication { id, .. } => self.finish(id, ground, context),
            Effect::EndPipelines(id) => self.told.end_pipelines(id),
            Effect::Logs(order) => self.order_logs(&order, ground, context),
            Effect::DeleteLogs(id) => context.check(self.told.delete_logs(node, id)),
        }
    }

    fn apply_limits(&mut self, spec: ContainerSpec, context: &Context) {
        if !context.is_planted(Planted::ChangeNotTold) {
            self.told.size(spec);
        }
    }

    fn record(&mut self, entries: Vec<Entry>, context: &mut Context) {
        let (checked, is_anew) = self.recorded.take(entries);
        context.check(checked);
        if is_anew {
            self.later(0, AgentEvent::Work(WorkerEvent::RecordAnew), context);
        }
    }

    fn observe(&mut self, observed: Observed, context: &mut Context) {
        context.check(self.told.observed(&observed));
        if let Observed::Note(note) = observed {
            let node = self.node;
            context.observe(Observation::Noted { node, note });
        }
    }

    fn finish(&mut self, id: ApplicationId, ground: &Ground<'_>, context: &mut Context) {
        let mut running = ground.machine.processes_of(id);
        let running = running.find(|(id, process)| !self.is_of_leftover(*id, *process));
        context.check(self.told.finish(id, running.map(|(id, _)| id)));
    }

    fn launch(&mut self, order: &LaunchOrder, ground: &mut Ground<'_>, context: &mut Context) {
        self.proxies.saw(&order.spec);
        context.check(self.told.launch(order));
        let _known = order.dirs.set(dirs_in(&self.directory));
        let plan = Plan::of(order.spec.id, &order.context.context.commands);
        self.launching.insert(order.spec.id);
        let delay = ground.pace.launch.sample(ground.random);
        self.later(delay, AgentEvent::Spawn(order.spec, plan), context);
    }

    fn signal(
        &self,
        id: ContainerId,
        signal: ContainerSignal,
        ground: &Ground<'_>,
        context: &mut Context,
    ) {
        if ground.machine.lives(id) {
            let diagnostics = format!("Sent signal {}", signal.as_str());
            let event = WorkerEvent::Signalled { id, diagnostics };
            self.later(0, AgentEvent::Work(event), context);
        }
    }

    fn all_ended(&mut self, context: &mut Context) {
        if self.stage == Loop::Resyncing {
            self.stage = Loop::Registering;
            self.plan_beat(context.now_ms(), context);
        }
    }

    fn localize(
        &self,
        id: ContainerId,
        purpose: LocalizeFor,
        resources: Vec<LocalizedResource>,
        ground: &mut Ground<'_>,
        context: &mut Context,
    ) {
        let delay = ground.pace.localize.sample(ground.random);
        let took = Duration::from_millis(delay);
        let event = if ground.random.chance(ground.failures.localize) {
            WorkerEvent::LocalizationFailed {
                id,
                purpose,
                took,
                diagnostics: "the simulation fails this localization".to_owned(),
            }
        } else {
            WorkerEvent::Localized {
                id,
                purpose,
                took,
                resources,
            }
        };
        self.later(delay, AgentEvent::Work(event), context);
    }

    fn order_logs(&mut self, order: &LogOrder, ground: &mut Ground<'_>, context: &mut Context) {
        let begins = match self.told.logs(self.node, order) {
            Ok(begins) => begins,
            Err(finding) => return context.check(Err(finding)),
        };
        let LogOrder::Finish(application) = order else {
            return;
        };
        if !begins && self.told.is_uploading(*application) {
            return;
        }
        let fails = begins && ground.random.chance(ground.failures.localize);
        let result = if fails {
            let reason = std::io::Error::other("the simulation fails this upload");
            Err(UploadError::not_begun(reason))
        } else {
            Ok(Uploaded::default())
        };
        let delay = if begins {
            ground.pace.localize.sample(ground.random)
        } else {
            0
        };
        let outcome = Outcome {
            application: *application,
            result,
            is_last: true,
        };
        let event = AgentEvent::Work(WorkerEvent::LogsUploaded(outcome));
        self.later(delay, event, context);
    }

    fn later(&self, delay_ms: u64, event: AgentEvent, context: &mut Context) {
        context.agent_in(delay_ms, self.node, self.incarnation, event);
    }

    pub(super) fn launch_event(&self, delay_ms: u64, event: LaunchEvent, context: &mut Context) {
        let event = AgentEvent::Work(WorkerEvent::Launch(event));
        self.later(delay_ms, event, context);
    }

    /// Creates a process, or fails to.
    pub(super) fn spawn(
        &mut self,
        spec: ContainerSpec,
        plan: Plan,
        ground: &mut Ground<'_>,
        context: &mut Context,
    ) {
        let id = spec.id;
        self.launching.remove(&id);
        let unwanted = self.unwanted.remove(&id);
        // The launcher skips the process of a container that is to end, or makes and ends it.
        let lives = context.is_planted(Planted::LateLaunchLives);
        let is_skipped = unwanted.is_some() && (lives || ground.random.chance(500_000));
        let fails = ground.random.chance(ground.failures.launch);
        if is_skipped || fails {
            if is_skipped && lives {
                let _unknown = ground.machine.spawn(spec, plan, context);
            }
            let status = if is_skipped {
                ContainerExitStatus::TERMINATED
            } else {
                ContainerExitStatus::LAUNCH_FAILED
            };
            let failed = LaunchEvent::LaunchFailed {
                id,
                status,
                diagnostics: String::new(),
                is_of_node: false,
            };
            self.launch_event(0, failed, context);
            return;
        }
        let identity = ground.machine.spawn(spec, plan, context);
        let launched = LaunchEvent::Launched {
            id,
            pid: identity.pid,
            start_time: identity.start_time,
            timings: LaunchTimings::default(),
            signals: Vec::new(),
        };
        self.launch_event(ground.random.below(4), launched, context);
        if let Some(by_force) = unwanted {
            // Behind the answer to the launch.
            ground.machine.signal_later(id, by_force, context);
        }
    }

    fn order_end(
        &mut self,
        id: ContainerId,
        by_force: bool,
        ground: &mut Ground<'_>,
        context: &mut Context,
    ) {
        let node = self.node;
        if by_force && context.is_planted(Planted::SigkillForgotten) {
            return;
        }
        let is_launching = self.launching.contains(&id);
        context.observe(Observation::EndOrdered {
            node,
            id,
            by_force,
            reaches: is_launching || ground.machine.lives(id),
        });
        if is_launching {
            let forced = self.unwanted.entry(id).or_default();
            *forced |= by_force;
        } else {
            ground.machine.signal(id, by_force, context);
            if by_force && context.is_planted(Planted::RoomFreedEarly) {
                self.launch_event(0, LaunchEvent::ProcessesGone(id), context);
            }
        }
    }

    fn order_freeze(
        &mut self,
        id: ContainerId,
        freeze: bool,
        ground: &mut Ground<'_>,
        context: &mut Context,
    ) {
        let now = context.now_ms();
        let delay = ground.pace.freeze.sample(ground.random);
        self.frozen_at = self.frozen_at.max(now + delay);
        let event = AgentEvent::Freeze(id, freeze);
        self.later(self.frozen_at - now, event, context);
    }

    pub(super) fn freeze(
        &mut self,
        id: ContainerId,
        freeze: bool,
        ground: &mut Ground<'_>,
        context: &mut Context,
    ) {
        let fails = ground.random.chance(ground.failures.freeze);
        let event = if fails || !ground.machine.freeze(id, freeze, context) {
            IsolationEvent::PauseFailed(id)
        } else if freeze {
            let held_mb = Some(ground.random.within(1..=512));
            IsolationEvent::Paused { id, held_mb }
        } else {
            IsolationEvent::Resumed(id)
        };
        let now = self.now(context);
        self.shell
            .core
            .handle(WorkerEvent::Isolation(event), now, now.mono.0 * 1_000);
    }

    /// Watches a process of an earlier agent. One that has ended is reported at once.
    fn adopt(&mut self, order: &Adoption, ground: &Ground<'_>, context: &mut Context) {
        self.told.size(order.spec);
        let (id, identity) = (order.spec.id, order.process);
        if !ground.machine.lives(id) {
            let status = ground.machine.ended(id, identity);
            let lost = if context.is_planted(Planted::LostIsSuccess) {
                0
            } else {
                LOST
            };
            self.report_end(id, status.unwrap_or(lost), 1, context);
        }
    }

    /// Reports the end of a process.
    pub fn report_end(&self, id: ContainerId, status: i32, reading_ms: u64, context: &mut Context) {
        self.launch_event(0, LaunchEvent::ProcessesGone(id), context);
        let exited = LaunchEvent::Exited {
            id,
            status: ContainerExitStatus(status),
            cause: String::new(),
            diagnostics: String::new(),
        };
        self.launch_event(reading_ms.min(READING_MS), exited, context);
    }
}

fn store(order: &StoreOrder, ground: &mut Ground<'_>, context: &Context) {
    let is_kill = matches!(order, StoreOrder::State(_, record) if record.stage() == Stage::Killing);
    if is_kill && context.is_planted(Planted::KillNotStored) {
        return;
    }
    for write in writes_of(order) {
        ground.disk.write(write_of(write));
    }
}
