//! ContainerManagementProtocol, as AMs and the ResourceManager's launcher call it.
//!
//! An NMToken proves the caller's identity when the connection opens (`secrets`). Here container
//! tokens are verified, requests decoded and answers composed. Decisions that need the agent's
//! state are made by [`node_core`].

mod counting;
mod operations;
mod proxied_starts;
mod read;
mod stored;

use std::sync::Arc;

use amrm_proxy::{AmrmProxy, PendingStart};
use launch_context::read_resources;
use node_core::{Asker, Core, ServiceMetadata, StartOutcome, StartRequest};
use node_web::metrics::{Metrics, Port, RpcMethod};
use records::ContainerId;
use refusals::Refusals;
use wire::exception::RemoteException;
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    CommitResponseProto, ContainerExceptionMapProto, ContainerIdProto,
    ContainerLocalizationStatusesProto, ContainerUpdateRequestProto, ContainerUpdateResponseProto,
    GetContainerStatusesRequestProto, GetContainerStatusesResponseProto,
    GetLocalizationStatusesRequestProto, GetLocalizationStatusesResponseProto,
    IncreaseContainersResourceRequestProto, IncreaseContainersResourceResponseProto,
    ReInitializeContainerRequestProto, ReInitializeContainerResponseProto,
    ResourceLocalizationRequestProto, ResourceLocalizationResponseProto,
    RestartContainerResponseProto, RollbackResponseProto, SignalContainerRequestProto,
    SignalContainerResponseProto, StartContainerRequestProto, StartContainersRequestProto,
    StartContainersResponseProto, StopContainersRequestProto, StopContainersResponseProto,
};
use wire::protocol::container_management::ContainerManagementProtocol;
use wire::rpc::Caller;
use wire::server::ServerLimits;

use crate::audit::RefusedTokens;
use crate::clock::Clock;
use crate::core_task::{Handle, Stopped};
use crate::secrets::NodeSecrets;

use self::counting::TokenUse;
pub use self::proxied_starts::TAGS_VARIABLE;
use self::proxied_starts::{ProxiedStarts, confirm_pipelines};
pub use self::read::{Verified, read_asker, read_reinit, start_request, verified};
use self::read::{
    bound, claimed_container, claimed_id, failure, last_of_each, published, read_ids,
};
pub(crate) use self::read::{read_signal, stopping};

/// Containers in one call. AMs batch what one heartbeat gave them, some hundreds at most; the
/// answer to each entry takes work and memory, so a call with more is refused whole.
pub const CONTAINERS_PER_CALL_MAX: usize = 10_000;

/// Longest request, in bytes. ApplicationMasters start containers one by one or in small batches; a
/// context with credentials and classpath takes some ten KiB, that of a large job a few MiB.
/// Hadoop's default for `ipc.maximum.data.length` is 128 MiB, which a call of one AM may then take.
const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Longest answer that a call may be expected to have, in bytes: the status of 5,000 containers.
const ANSWER_BYTES_RESERVED: usize = 2 * 1024 * 1024;

/// Returns the limits of the container management port for its callers.
pub(crate) fn server_limits() -> ServerLimits {
    ServerLimits {
        frame_length_max: REQUEST_BYTES_MAX,
        // One user gets half: the longest request, decoded into three times its length.
        requests_bytes_max: 8 * REQUEST_BYTES_MAX,
        // One user gets half: 32 calls at once, which mostly end within a millisecond.
        answers_bytes_max: 64 * ANSWER_BYTES_RESERVED,
        answer_bytes_reserved: ANSWER_BYTES_RESERVED,
        ..ServerLimits::default()
    }
}

/// Request to start a container, decoded and with its token verified.
struct ReadStart {
    request: StartRequest,
    /// Pipeline made for the container if it is an AM that is proxied.
    proxied: Option<PendingStart>,
}

/// The protocol's implementation.
pub struct ContainerManager {
    handle: Handle,
    secrets: Arc<NodeSecrets>,
    metrics: Arc<Metrics>,
    refusals: Arc<Refusals>,
    refused_tokens: RefusedTokens,
    clock: Clock,
    proxied_starts: ProxiedStarts,
    service_metadata: ServiceMetadata,
}

impl ContainerManager {
    /// Serves the agent behind `handle`; tokens are verified with `secrets`, AMs go through `proxy`
    /// if there is one, and learn what auxiliary services publish.
    #[must_use]
    pub fn new(
        handle: Handle,
        secrets: Arc<NodeSecrets>,
        metrics: Arc<Metrics>,
        clock: Clock,
        proxy: Option<Arc<AmrmProxy>>,
        service_metadata: ServiceMetadata,
    ) -> Self {
        Self {
            handle,
            secrets,
            refusals: metrics.refusals(Port::ContainerManagement),
            refused_tokens: RefusedTokens::default(),
            metrics,
            clock,
            proxied_starts: ProxiedStarts(proxy),
            service_metadata,
        }
    }

    fn read_start(
        &self,
        asker: &Asker,
        request: StartContainerRequestProto,
        received_us: u64,
    ) -> Result<ReadStart, RemoteException> {
        let signed = request.container_token.unwrap_or_default();
        let verified = verified(&self.secrets, &signed).inspect_err(|error| {
            self.audit_refusal(asker, TokenUse::Start, claimed_container(&signed), error);
        })?;
        let mut context = request.container_launch_context.unwrap_or_default();
        let admitted = self
            .proxied_starts
            .admit(verified.spec.id, &verified.token, &mut context);
        let keeps_records = self.handle.keeps_records();
        let (mut request, mut proxied) = (
            start_request(verified, context, keeps_records, received_us),
            None,
        );
        match admitted {
            Ok(pending) => proxied = pending,
            Err(refusal) => request.context = Err(refusal),
        }
        Ok(ReadStart { request, proxied })
    }

    async fn start(
        &self,
        caller: &Caller,
        request: StartContainersRequestProto,
    ) -> Result<StartContainersResponseProto, RemoteException> {
        let asker = read_asker(caller)?;
        bound(request.start_container_request.len())?;
        let received_us = self.clock.now_us();
        let mut requests = Vec::with_capacity(request.start_container_request.len());
        let mut proxied = Vec::new();
        let mut fatal = None;
        for request in request.start_container_request {
            match self.read_start(&asker, request, received_us) {
                Ok(read) => {
                    proxied.extend(read.proxied.map(|start| (read.request.spec.id, start)));
                    requests.push(read.request);
                }
                // Those before it are started all the same, as in Hadoop.
                Err(error) => {
                    fatal = Some(error);
                    break;
                }
            }
        }
        let ids: Vec<ContainerId> = requests.iter().map(|request| request.spec.id).collect();
        let start = move |core: &mut Core, now| core.start_all(asker, requests, now);
        let mut outcomes = self.handle.run(start).await;
        self.told_of_starts(&ids, &mut outcomes).await;
        confirm_pipelines(proxied, &ids, outcomes.as_deref().unwrap_or_default());
        let mut response = StartContainersResponseProto {
            services_meta_data: published(&self.service_metadata),
            ..StartContainersResponseProto::default()
        };
        for (id, outcome) in ids.into_iter().zip(outcomes.map_err(stopping)?) {
            match outcome {
                StartOutcome::Started => response.succeeded_requests.push(id.into()),
                StartOutcome::Refused(error) => {
                    self.count_refusal(&error);
                    self.audit_refusal(&asker, TokenUse::Start, Some(id), &error);
                    let failed = failure(Some(id.into()), error);
                    response.failed_requests.push(failed);
                }
                StartOutcome::CallFailed(error) => {
                    self.audit_refusal(&asker, TokenUse::Start, Some(id), &error);
                    return Err(error);
                }
            }
        }
        match fatal {
            Some(error) => Err(error),
            None => {
                response.failed_requests = last_of_each(response.failed_requests);
                Ok(response)
            }
        }
    }

    /// Handles the shared part of stop, status and localization: reads the ids, and sorts the
    /// answer to each.
    async fn each<T, F>(
        &self,
        caller: &Caller,
        ids: Vec<ContainerIdProto>,
        ask: impl FnOnce(Asker, Vec<ContainerId>) -> F,
    ) -> Result<(Vec<(ContainerId, T)>, Vec<ContainerExceptionMapProto>), RemoteException>
    where
        F: Future<Output = Result<Vec<Result<T, RemoteException>>, Stopped>>,
    {
        let asker = read_asker(caller)?;
        bound(ids.len())?;
        let (ids, mut failed) = read_ids(ids);
        let answers = ask(asker, ids.clone()).await.map_err(stopping)?;
        let mut succeeded = Vec::with_capacity(ids.len());
        for (id, answer) in ids.into_iter().zip(answers) {
            match answer {
                Ok(answer) => succeeded.push((id, answer)),
                Err(error) => failed.push(failure(Some(id.into()), error)),
            }
        }
        Ok((succeeded, failed))
    }

    /// Handles both forms of an update. A bad token fails its own container only; Hadoop 3.4.2
    /// fails the call with a `NullPointerException` there.
    async fn update(
        &self,
        caller: &Caller,
        tokens: Vec<TokenProto>,
    ) -> Result<(Vec<ContainerIdProto>, Vec<ContainerExceptionMapProto>), RemoteException> {
        let asker = read_asker(caller)?;
        bound(tokens.len())?;
        let mut failed = Vec::new();
        let mut requests = Vec::with_capacity(tokens.len());
        for token in tokens {
            match verified(&self.secrets, &token) {
                Ok(request) => requests.push(request),
                Err(error) => {
                    self.count_refusal(&error);
                    let claimed = claimed_container(&token);
                    self.audit_refusal(&asker, TokenUse::Update, claimed, &error);
                    failed.push(failure(claimed_id(&token), error));
                }
            }
        }
        let ids: Vec<ContainerId> = requests.iter().map(|request| request.spec.id).collect();
        let update = move |core: &mut Core, now| -> Vec<Result<(), RemoteException>> {
            let update = |r: Verified| core.update_container(asker, r.into(), now);
            requests.into_iter().map(update).collect()
        };
        let answers = self.handle.run(update).await.map_err(stopping)?;
        self.told().await?;
        let mut succeeded = Vec::with_capacity(ids.len());
        for (id, answer) in ids.into_iter().zip(answers) {
            match answer {
                Ok(()) => succeeded.push(id.into()),
                Err(error) => {
                    self.audit_refusal(&asker, TokenUse::Update, Some(id), &error);
                    failed.push(failure(Some(id.into()), error));
                }
            }
        }
        Ok((succeeded, last_of_each(failed)))
    }
}

impl ContainerManagementProtocol for ContainerManager {
    async fn start_containers(
        &self,
        caller: &Caller,
        request: StartContainersRequestProto,
    ) -> Result<StartContainersResponseProto, RemoteException> {
        self.counted(RpcMethod::StartContainers, self.start(caller, request))
            .await
    }

    async fn stop_containers(
        &self,
        caller: &Caller,
        request: StopContainersRequestProto,
    ) -> Result<StopContainersResponseProto, RemoteException> {
        self.counted(RpcMethod::StopContainers, async {
            let stop = |asker, ids: Vec<ContainerId>| {
                self.handle.run(move |core, now| {
                    let stop = |id| core.stop_container(asker, id, now);
                    ids.into_iter().map(stop).collect()
                })
            };
            let (succeeded, failed_requests) =
                self.each(caller, request.container_id, stop).await?;
            self.told().await?;
            let succeeded_requests = succeeded.into_iter().map(|(id, ())| id.into()).collect();
            Ok(StopContainersResponseProto {
                succeeded_requests,
                failed_requests,
            })
        })
        .await
    }

    async fn get_container_statuses(
        &self,
        caller: &Caller,
        request: GetContainerStatusesRequestProto,
    ) -> Result<GetContainerStatusesResponseProto, RemoteException> {
        self.counted(RpcMethod::GetContainerStatuses, async {
            let ask = |asker, ids: Vec<ContainerId>| {
                self.handle
                    .run(move |core, now| core.container_statuses(asker, &ids, now))
            };
            let (succeeded, failed_requests) = self.each(caller, request.container_id, ask).await?;
            let status = succeeded.into_iter().map(|(_, status)| status).collect();
            Ok(GetContainerStatusesResponseProto {
                status,
                failed_requests,
            })
        })
        .await
    }

    async fn get_localization_statuses(
        &self,
        caller: &Caller,
        request: GetLocalizationStatusesRequestProto,
    ) -> Result<GetLocalizationStatusesResponseProto, RemoteException> {
        self.counted(RpcMethod::GetLocalizationStatuses, async {
            let ask = |asker, ids| self.handle.localization_statuses(asker, ids);
            let (succeeded, failed_requests) = self.each(caller, request.container_id, ask).await?;
            let cntn_localization_statuses = succeeded
                .into_iter()
                .map(
                    |(id, localization_statuses)| ContainerLocalizationStatusesProto {
                        container_id: Some(id.into()),
                        localization_statuses,
                    },
                )
                .collect();
            Ok(GetLocalizationStatusesResponseProto {
                cntn_localization_statuses,
                failed_requests,
            })
        })
        .await
    }

    async fn update_container(
        &self,
        caller: &Caller,
        request: ContainerUpdateRequestProto,
    ) -> Result<ContainerUpdateResponseProto, RemoteException> {
        self.counted(RpcMethod::UpdateContainer, async {
            let (succeeded_requests, failed_requests) =
                self.update(caller, request.update_container_token).await?;
            Ok(ContainerUpdateResponseProto {
                succeeded_requests,
                failed_requests,
            })
        })
        .await
    }

    async fn increase_containers_resource(
        &self,
        caller: &Caller,
        request: IncreaseContainersResourceRequestProto,
    ) -> Result<IncreaseContainersResourceResponseProto, RemoteException> {
        self.counted(RpcMethod::IncreaseContainersResource, async {
            let (succeeded_requests, failed_requests) =
                self.update(caller, request.increase_containers).await?;
            Ok(IncreaseContainersResourceResponseProto {
                succeeded_requests,
                failed_requests,
            })
        })
        .await
    }

    async fn signal_to_container(
        &self,
        caller: &Caller,
        request: SignalContainerRequestProto,
    ) -> Result<SignalContainerResponseProto, RemoteException> {
        self.counted(RpcMethod::SignalToContainer, async {
            let signal = read_signal(request.command());
            // Hadoop signals whatever container of whatever application is named; the caller's own
            // are enough for AMs.
            let asker = read_asker(caller)?;
            if let Ok(id) = ContainerId::try_from(&request.container_id)
                && id.application_id() == asker.attempt.application_id
            {
                let work = move |core: &mut Core, _| core.signal(id, signal);
                self.handle.run(work).await.map_err(stopping)?;
            }
            Ok(SignalContainerResponseProto {})
        })
        .await
    }

    async fn localize(
        &self,
        caller: &Caller,
        request: ResourceLocalizationRequestProto,
    ) -> Result<ResourceLocalizationResponseProto, RemoteException> {
        let resources = read_resources(request.local_resources);
        self.operate(
            RpcMethod::Localize,
            caller,
            request.container_id,
            move |core, asker, id, _now| core.localize_more(asker, id, resources?),
        )
        .await?;
        Ok(ResourceLocalizationResponseProto {})
    }

    async fn re_initialize_container(
        &self,
        caller: &Caller,
        request: ReInitializeContainerRequestProto,
    ) -> Result<ReInitializeContainerResponseProto, RemoteException> {
        let auto_commit = request.auto_commit();
        let context = request.container_launch_context;
        let records = self.handle.keeps_records();
        let next = context.map(|context| read_reinit(context, auto_commit, records));
        self.operate(
            RpcMethod::ReInitializeContainer,
            caller,
            request.container_id,
            move |core, asker, id, now| match next {
                Some(next) => core.reinitialize(asker, id, next?, now),
                // As in Hadoop, whose restart is a re-initialization without a context.
                None => core.restart_container(asker, id, now),
            },
        )
        .await?;
        Ok(ReInitializeContainerResponseProto {})
    }

    async fn restart_container(
        &self,
        caller: &Caller,
        request: ContainerIdProto,
    ) -> Result<RestartContainerResponseProto, RemoteException> {
        let restart = |core: &mut Core, asker, id, now| core.restart_container(asker, id, now);
        self.operate(RpcMethod::RestartContainer, caller, Some(request), restart)
            .await?;
        Ok(RestartContainerResponseProto {})
    }

    async fn rollback_last_re_initialization(
        &self,
        caller: &Caller,
        request: ContainerIdProto,
    ) -> Result<RollbackResponseProto, RemoteException> {
        let method = RpcMethod::RollbackLastReInitialization;
        let roll_back = |core: &mut Core, asker, id, now| core.roll_back_reinit(asker, id, now);
        self.operate(method, caller, Some(request), roll_back)
            .await?;
        Ok(RollbackResponseProto {})
    }

    async fn commit_last_re_initialization(
        &self,
        caller: &Caller,
        request: ContainerIdProto,
    ) -> Result<CommitResponseProto, RemoteException> {
        let method = RpcMethod::CommitLastReInitialization;
        let commit = |core: &mut Core, asker, id, now| core.commit_reinit(asker, id, now);
        self.operate(method, caller, Some(request), commit).await?;
        Ok(CommitResponseProto {})
    }
}
