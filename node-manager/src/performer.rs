//! Performs the core's effects: orders work from launcher, isolation, localizer and deletion,
//! writes metrics and audit lines. Does not wait: work that takes time is done on the workers'
//! own threads and reported as a [`WorkerEvent`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use amrm_proxy::AmrmProxy;
use container_runtime::isolation::Isolation;
use container_runtime::launch::{ContainerSignal, Launcher, Link, add_links};
use file_worker::Pool;
use localize::{
    ContainerDirs, DeletionService, LocalizationState, LocalizeRequest, Localizer, NodeDirs,
    ResourceStatus, UserName,
};
use log_aggregation::LogAggregation;
use node_core::{Effect, LaunchOrder, LinkOrder, LocalizeFor, LogOrder, Observed, WorkerEvent};
use node_web::metrics::{LaunchPhase, Metrics};
use prost::Message;
use records::{ApplicationId, ContainerId, NodeId};
use sched::Offer;
use state_store::Urgency;
use tokio::sync::{Notify, Semaphore};
use traces::Traces;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::{LocalizationStateProto, LocalizationStatusProto};
use wire::token::Token;

use crate::application_tokens::ApplicationTokens;
use crate::audit;
use crate::aux_services::AuxServices;
use crate::core_task::{LocalizationQuery, Perform};
use crate::event_writer::EventWriter;
use crate::launch_plan::{PlanMaker, link_to};
use crate::offers::OfferTask;
use crate::recovery::StateWriter;
use crate::secrets::NodeSecrets;
use crate::traced;
use crate::worker_channels::LocalizationSender;

/// Bytes of an answer to `getLocalizationStatuses`: two containers with as many resources as a
/// launch context may name, at 400 bytes each.
const LOCALIZATION_ANSWER_BYTES_MAX: usize = 16 << 20;

/// Workers and services that carry out effects.
pub struct Performer {
    /// Owner of the cgroups; `None`: containers have process groups only.
    pub isolation: Option<Isolation>,
    /// Launcher of processes, which knows their sizes and types and which the monitor holds too.
    pub launcher: Arc<Launcher>,
    /// Localizer of resources.
    pub localizer: Localizer,
    /// Local and log directories.
    pub dirs: NodeDirs,
    /// Service that deletes directories in the background.
    pub deletion: DeletionService,
    /// Threads that upload logs; `None`: logs stay on the node.
    pub logs: Option<LogAggregation>,
    /// Auxiliary services.
    pub services: AuxServices,
    /// Channel for the results of localizations.
    pub localizations: LocalizationSender,
    /// Places for containers whose links are made while they run.
    pub linking: Arc<Semaphore>,
    /// Metrics of the node.
    pub metrics: Arc<Metrics>,
    /// Notification that makes the status updater send a heartbeat out of turn.
    pub heartbeat_now: Arc<Notify>,
    /// Keys with which the AMRMProxy signs tokens, and the registration that these name.
    pub secrets: Arc<NodeSecrets>,
    /// Offers of room to proxies.
    pub(crate) offers: OfferTask,
    /// Tokens of the applications, in a secure cluster.
    pub(crate) tokens: Arc<ApplicationTokens>,
    /// Clients of file systems.
    pub file_workers: Arc<Pool>,
    /// AMRMProxy, if it is enabled.
    pub proxy: Option<Arc<AmrmProxy>>,
    /// Records for the next agent; `None`: containers do not outlive this one.
    pub records: Option<StateWriter>,
    /// Writer of the record of the scheduler's events; `None`: they are not recorded.
    pub events: Option<EventWriter>,
    /// Traces of containers; `None`: none are made.
    pub traces: Option<Traces>,
}

impl Perform for Performer {
    fn perform(&mut self, effect: Effect) -> Option<WorkerEvent> {
        match effect {
            Effect::ContainerInitialized(served) => self.services.initialize_container(&served),
            Effect::ContainerStopped(served) => self.services.stop_container(&served),
            Effect::InitializeApplication {
                id,
                user,
                service_data,
            } => {
                self.services
                    .initialize_application(id, &user, &service_data);
            }
            Effect::Tokens { id, tokens } => self.pass_tokens(id, tokens),
            Effect::ForgetTokens(id) => self.tokens.forget(id),
            Effect::Localize {
                id,
                user,
                resources,
                set,
                purpose,
            } => {
                let request = LocalizeRequest {
                    container: id,
                    user: user.to_string(),
                    resources,
                    set,
                };
                self.localize(request, purpose);
            }
            Effect::UseSets { id, sets } => self.localizer.use_sets(id, sets),
            Effect::Link(order) => self.link(*order),
            Effect::Launch(order) => return self.launch(*order),
            Effect::Pause(id) => self.with_isolation(|isolation| isolation.pause(id)),
            Effect::Resume(id) => self.with_isolation(|isolation| isolation.resume(id)),
            Effect::ApplyLimits(spec) => self.launcher.change(spec),
            Effect::SetNodeResource(total) => {
                self.with_isolation(|isolation| isolation.node_resource(total));
            }
            Effect::SetRmIdentifier(identifier) => self.secrets.set_rm_identifier(identifier),
            Effect::SetQueuingLimit(limit) => {
                self.with_proxy(|proxy| proxy.set_queue_limit(limit.max_queue_length));
            }
            Effect::Terminate(id) => self.launcher.terminate(id),
            Effect::ForceKill(id) => self.launcher.force_kill(id),
            Effect::Signal { id, user, signal } => return self.signal(id, &user, signal),
            Effect::ReleaseResources(id) => self.localizer.release(id),
            Effect::ForgetResources(id) => self.localizer.forget(id),
            Effect::CleanUp { id, user } => {
                self.deletion
                    .delete(self.dirs.container_deletions(&id, &user));
            }
            Effect::FinishApplication { id, user } => {
                self.localizer.application_finished(id, &user);
                self.services.stop_application(id);
            }
            Effect::EndPipelines(id) => self.with_proxy(|proxy| proxy.application_ended(id)),
            Effect::Logs(order) => return self.order_logs(order),
            Effect::DeleteLogs(id) => self.deletion.delete(self.dirs.log_deletions(id)),
            Effect::Adopt(adoption) => self.launcher.adopt(*adoption),
            Effect::Store(order) => self.with_records(|records| records.write(&order)),
            Effect::Reap { id, pid } => self.reap(id, pid),
            Effect::Record(entries) => return self.events.as_mut()?.record(entries),
            // The core's task knows who waits.
            Effect::AllEnded => {}
            Effect::Offer(offer) => self.offer(*offer),
            Effect::HeartbeatNow => self.heartbeat_now.notify_one(),
            Effect::Observe(observed) => self.observe(observed),
        }
        None
    }

    fn answer_localization(&mut self, query: LocalizationQuery) {
        self.localizer.read_statuses(move |statuses| {
            let mut budget = AnswerBudget(LOCALIZATION_ANSWER_BYTES_MAX);
            let answers = query.checked.into_iter().map(|checked| {
                let (id, set) = checked?;
                budget.spend(|| statuses(id, set).into_iter().map(status_proto).collect())
            });
            // The caller's connection may be gone.
            let _gone = query.reply.send(answers.collect());
        });
    }
}

impl Performer {
    fn signal(
        &self,
        id: ContainerId,
        user: &UserName,
        signal: ContainerSignal,
    ) -> Option<WorkerEvent> {
        let result = self.launcher.signal(id, user.as_str(), signal);
        tracing::info!(container = %id, result, "{}", signal.as_str());
        result.map(|diagnostics| WorkerEvent::Signalled { id, diagnostics })
    }

    fn with_proxy(&self, run: impl FnOnce(&AmrmProxy)) {
        if let Some(proxy) = &self.proxy {
            run(proxy);
        }
    }

    fn with_isolation(&self, act: impl FnOnce(&Isolation)) {
        if let Some(isolation) = &self.isolation {
            act(isolation);
        }
    }

    fn with_records(&self, act: impl FnOnce(&StateWriter)) {
        if let Some(records) = &self.records {
            act(records);
        }
    }

    /// Gives tokens to the workers of an application, those that run and those to come.
    fn pass_tokens(&self, id: ApplicationId, tokens: Vec<Token>) {
        if let Some(secret) = self.tokens.add(id, tokens) {
            self.file_workers.renew(&id.to_string(), &secret);
            if let Some(logs) = &self.logs {
                logs.tokens_came(id);
            }
        }
    }

    fn offer(&self, offer: Offer<NodeId>) {
        self.metrics.offered(offer.rooms);
        self.offers.send(offer);
    }

    fn localize(&self, request: LocalizeRequest, purpose: LocalizeFor) {
        let id = request.container;
        let results = self.localizations.clone();
        let ordered = Instant::now();
        self.localizer.localize(request, move |result| {
            results.send(id, purpose, ordered.elapsed(), result);
        });
    }

    /// Makes links on a blocking thread, few containers at a time: a disk that hangs takes no more
    /// threads than that.
    fn link(&self, order: LinkOrder) {
        let places = Arc::clone(&self.linking);
        let node_dirs = self.dirs.clone();
        tokio::spawn(async move {
            let Ok(place) = places.acquire_owned().await else {
                return;
            };
            let links: Vec<Link> = order.resources.into_iter().map(link_to).collect();
            let made = tokio::task::spawn_blocking(move || {
                let made = link_in(&node_dirs, &order.dirs, &order.user, &links);
                drop(place);
                made
            });
            if let Ok(Err(error)) = made.await {
                tracing::warn!(container = %order.id, error, "links to localized resources are missing");
            }
        });
    }

    /// Queues a launch. Returns the launcher's refusal; then no other event follows.
    fn launch(&self, order: LaunchOrder) -> Option<WorkerEvent> {
        let spec = order.spec;
        let maker = PlanMaker {
            order,
            dirs: self.dirs.clone(),
            services: Arc::clone(self.services.metadata()),
            localizer: self.localizer.clone(),
            results: self.localizations.clone(),
        };
        let make_plan = Box::new(move || maker.make());
        let refused = self.launcher.launch_with(spec, make_plan).err()?;
        Some(WorkerEvent::LaunchRefused {
            id: spec.id,
            diagnostics: refused.to_string(),
        })
    }

    fn reap(&self, id: ContainerId, pid: Option<i32>) {
        let launcher = Arc::downgrade(&self.launcher);
        self.with_records(|records| {
            let release = move |_| {
                if let Some(launcher) = launcher.upgrade() {
                    launcher.release(id, pid);
                }
            };
            records.commits().when_settled(Urgency::Gathered, release);
        });
    }

    fn order_logs(&self, order: LogOrder) -> Option<WorkerEvent> {
        let logs = self.logs.as_ref()?;
        match order {
            LogOrder::Begin(application) => logs.begin(*application),
            LogOrder::ContainerStarted(id, role) => logs.container_started(id, role),
            LogOrder::ContainerEnded(end) => logs.container_ended(&end),
            LogOrder::Finish(id) => return logs.finish(id).map(WorkerEvent::LogsUploaded),
        }
        None
    }

    fn observe(&self, observed: Observed) {
        count(&self.metrics, &observed);
        if let Some(traces) = &self.traces {
            traced::tell(traces, &observed);
        }
        audit::write(&observed);
    }
}

/// Makes links to further resources in the work folder of a running container of this user, with
/// these folders.
///
/// # Errors
/// A text for the log.
fn link_in(
    node_dirs: &NodeDirs,
    dirs: &ContainerDirs,
    user: &UserName,
    links: &[Link],
) -> Result<(), String> {
    let run_as = node_dirs.account_of(user);
    let run_as = run_as.map_err(|error| crate::error_chain(&error))?;
    let made = add_links(&dirs.work_dir, links, run_as.as_deref());
    made.map_err(|error| crate::error_chain(&error))
}

fn status_proto(status: ResourceStatus) -> LocalizationStatusProto {
    let state = match status.state {
        LocalizationState::Pending => LocalizationStateProto::LPending,
        LocalizationState::Completed => LocalizationStateProto::LCompleted,
        LocalizationState::Failed => LocalizationStateProto::LFailed,
    };
    LocalizationStatusProto {
        resource_key: Some(status.link),
        localization_state: Some(state.into()),
        diagnostics: Some(status.diagnostics).filter(|text| !text.is_empty()),
    }
}

/// Bytes that an answer may still grow by.
struct AnswerBudget(usize);

impl AnswerBudget {
    /// Makes one container's part of the answer. Once a part did not fit, none is made any more.
    ///
    /// # Errors
    /// `YarnException` for the container when its part does not fit.
    fn spend(
        &mut self,
        make: impl FnOnce() -> Vec<LocalizationStatusProto>,
    ) -> Result<Vec<LocalizationStatusProto>, RemoteException> {
        let statuses = if self.0 > 0 { make() } else { Vec::new() };
        let bytes: usize = statuses.iter().map(Message::encoded_len).sum();
        self.0 = self.0.saturating_sub(bytes);
        if self.0 > 0 {
            return Ok(statuses);
        }
        Err(RemoteException::new(
            HadoopException::YarnException,
            format!(
                "the answer would exceed {LOCALIZATION_ANSWER_BYTES_MAX} bytes; ask for fewer \
                 containers in a call"
            ),
        ))
    }
}

/// Counts an observation in the metrics.
fn count(metrics: &Metrics, observed: &Observed) {
    match observed {
        Observed::Note(note) => metrics.observe_note(note),
        Observed::Completed { completion, .. } => {
            metrics.observe_completion(completion);
            metrics.container_completed(completion.id);
        }
        Observed::Localized {
            id,
            outcome,
            took,
            resources,
        } => {
            metrics.observe_localization(*outcome, *took);
            metrics.container_localized(*id, *took);
            for (cache, bytes) in resources {
                metrics.observe_resource(*cache, *bytes);
            }
        }
        Observed::Launched { id, timings, total } => {
            metrics.container_launched(*id, *total);
            let prepare = Duration::from_micros(timings.prepare_us);
            metrics.observe_launch(LaunchPhase::Prepare, prepare);
            let spawn = Duration::from_micros(timings.spawn_us);
            metrics.observe_launch(LaunchPhase::Spawn, spawn);
            metrics.observe_launch(LaunchPhase::Total, *total);
        }
        Observed::LogsUploaded {
            outcome,
            files,
            bytes,
        } => metrics.observe_log_upload(*outcome, *files, *bytes),
        Observed::LaunchFailed => metrics.count_launch_failure(),
        Observed::OfferAnswered { bound } => metrics.offer_answered(*bound),
        Observed::Accepted { .. } | Observed::StopRequested { .. } | Observed::Reinit { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use node_view::outcome::{CacheUse, CallOutcome};

    use super::*;

    #[test]
    fn what_resources_cost_is_counted_by_whether_they_were_there() {
        let metrics = Metrics::new();
        let observed = Observed::Localized {
            id: test_support::ids::container(1),
            outcome: CallOutcome::Ok,
            took: Duration::from_secs(2),
            resources: vec![(CacheUse::Miss, 5), (CacheUse::Hit, 7)],
        };
        count(&metrics, &observed);
        let text = metrics.encode();
        for line in [
            "nm_agent_localized_bytes_total{cache=\"miss\"} 5\n",
            "nm_agent_localized_bytes_total{cache=\"hit\"} 7\n",
            "nm_agent_localization_seconds_sum 2\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in {text}");
        }
    }

    #[test]
    fn an_answer_keeps_within_its_budget_and_makes_nothing_beyond_it() {
        let status = LocalizationStatusProto {
            resource_key: Some("x".repeat(100)),
            ..Default::default()
        };
        let size = status.encoded_len();
        let mut budget = AnswerBudget(3 * size);
        let part = || vec![status.clone()];
        assert_eq!(budget.spend(part).unwrap().len(), 1);
        assert_eq!(budget.spend(Vec::new).unwrap().len(), 0);
        assert_eq!(budget.spend(part).unwrap().len(), 1);
        let refusal = budget.spend(part).unwrap_err();
        assert!(refusal.message.contains("ask for fewer"), "{refusal}");
        let _refused = budget.spend(|| panic!("made for nothing")).unwrap_err();
    }
}
