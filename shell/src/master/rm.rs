//! The AM's calls to the ResourceManager: register, allocate, unregister. One call at a time.

use std::time::Duration;

use records::{ContainerExitStatus, ContainerId, ExecutionType, NodeId, Resource, error_chain};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use wire::convert::ConvertError;
use wire::exception::HadoopException;
use wire::failover::{FailoverClient, FailoverError};
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, AmCommandProto, ContainerProto,
    ContainerStatusProto, ContainerUpdateTypeProto, ExecutionTypeRequestProto,
    FinalApplicationStatusProto, FinishApplicationMasterRequestProto,
    RegisterApplicationMasterRequestProto, ResourceRequestProto, UpdateContainerErrorProto,
    UpdateContainerRequestProto,
};
use wire::protocol::application_master::{
    Allocate, FinishApplicationMaster, RegisterApplicationMaster,
};
use wire::token::Token;

use super::asks::request_id;
use super::vocabulary::{
    Answer, Ask, ChangeRefusal, Changed, Completed, Event, Granted, Heartbeat, Loss, Promote,
};
use crate::summary::{Outcome, Summary};

/// Resource name of any host (Hadoop: `ResourceRequest.ANY`).
const ANY: &str = "*";

/// Interval between calls until the ResourceManager has recorded the end.
const FINISH_POLL: Duration = Duration::from_millis(100);

/// Longest wait until the ResourceManager has recorded the end.
const FINISH_PATIENCE: Duration = Duration::from_secs(30);

/// Call to make.
#[derive(Debug)]
pub(super) enum Order {
    /// Registration of the AM.
    Register,
    /// Heartbeat, with the share of the job that is done.
    Allocate(Heartbeat, f32),
    /// Unregistration. The last order.
    Finish(Box<Summary>),
}

/// Result of an order.
#[derive(Debug, Default)]
pub(super) struct OrderResult {
    /// Event for the decisions; none after the last order.
    pub(super) event: Option<Event>,
    /// Tokens with which the AM starts containers, or updates them.
    pub(super) container_tokens: Vec<(ContainerId, TokenProto)>,
    /// Tokens with which the AM calls nodes.
    pub(super) nm_tokens: Vec<(NodeId, Token)>,
}

impl From<Event> for OrderResult {
    fn from(event: Event) -> Self {
        Self {
            event: Some(event),
            ..Self::default()
        }
    }
}

/// Address of the AM, for its registration.
#[derive(Clone, Debug)]
pub(super) struct MasterAddress {
    /// Host of the AM's node.
    pub(super) host: String,
    /// Port of its endpoint, -1 without one.
    pub(super) port: i32,
    /// URL of its endpoint, empty without one.
    pub(super) url: String,
}

impl MasterAddress {
    /// Returns the address on this node, with an endpoint on this port if there is one.
    pub(super) fn new(host: String, port: Option<u16>) -> Self {
        Self {
            url: port.map_or_else(String::new, |port| format!("http://{host}:{port}/progress")),
            port: port.map_or(-1, i32::from),
            host,
        }
    }
}

/// Carries out orders until the channel of orders is closed.
pub(super) async fn serve(
    mut link: FailoverClient,
    address: MasterAddress,
    size: Resource,
    mut orders: mpsc::Receiver<Order>,
    results: mpsc::Sender<OrderResult>,
) {
    let mut response_id = 0;
    while let Some(order) = orders.recv().await {
        let came = match order {
            Order::Register => {
                response_id = 0;
                register(&mut link, &address).await.into()
            }
            Order::Allocate(heartbeat, progress) => {
                let request = request(&heartbeat, size, response_id, progress);
                match link.call::<Allocate>(&request).await {
                    Ok(response) => {
                        response_id = response.response_id();
                        // Every answer contains the new token until it is used.
                        if let Some(token) = &response.am_rm_token
                            && link.set_token(token.clone().into())
                        {
                            tracing::info!("the AMRMToken was renewed");
                        }
                        read(response)
                    }
                    Err(error) => failed(&error).into(),
                }
            }
            Order::Finish(summary) => {
                finish(&mut link, &address, &summary).await;
                OrderResult::default()
            }
        };
        if results.send(came).await.is_err() {
            return;
        }
    }
}

async fn register(link: &mut FailoverClient, address: &MasterAddress) -> Event {
    let request = RegisterApplicationMasterRequestProto {
        host: Some(address.host.clone()),
        rpc_port: Some(address.port),
        tracking_url: Some(address.url.clone()),
        ..RegisterApplicationMasterRequestProto::default()
    };
    match link.call::<RegisterApplicationMaster>(&request).await {
        Ok(response) => {
            let largest = response.maximum_capability.as_ref();
            let largest = largest.and_then(|largest| Resource::try_from(largest).ok());
            Event::Registered { largest }
        }
        // The answer to an earlier attempt was lost.
        Err(error) if error.is(HadoopException::InvalidApplicationMasterRequest) => {
            tracing::warn!(%error, "the ResourceManager has the registration already");
            Event::Registered { largest: None }
        }
        Err(error) => failed(&error),
    }
}

/// Returns the event for the failure of a call.
fn failed(error: &FailoverError) -> Event {
    let text = error_chain(error);
    tracing::warn!(error = text, "a call to the ResourceManager failed");
    match error {
        FailoverError::GaveUp { .. } => Event::Lost(Loss::Silent),
        FailoverError::Call(_) => {
            let is = |exceptions: &[HadoopException]| exceptions.iter().any(|e| error.is(*e));
            if is(&[HadoopException::ApplicationMasterNotRegistered]) {
                Event::Resync
            } else if is(&[
                HadoopException::ApplicationAttemptNotFound,
                HadoopException::ApplicationNotFound,
                HadoopException::InvalidToken,
                HadoopException::Sasl,
            ]) {
                Event::Lost(Loss::Disowned)
            } else {
                Event::AskRefused(text)
            }
        }
    }
}

fn request(
    heartbeat: &Heartbeat,
    size: Resource,
    response_id: i32,
    progress: f32,
) -> AllocateRequestProto {
    let ask = |ask: &Ask| ResourceRequestProto {
        priority: Some(priority(ask.execution_type).into()),
        resource_name: Some(ANY.to_owned()),
        capability: Some(size.into()),
        num_containers: Some(i32::try_from(ask.count).unwrap_or(i32::MAX)),
        relax_locality: Some(true),
        node_label_expression: None,
        execution_type_request: Some(ExecutionTypeRequestProto {
            execution_type: Some(
                wire::proto::hadoop_yarn::ExecutionTypeProto::from(ask.execution_type).into(),
            ),
            enforce_execution_type: Some(true),
        }),
        allocation_request_id: Some(request_id(ask.execution_type)),
    };
    let promotion = |promote: &Promote| UpdateContainerRequestProto {
        container_version: promote.version,
        container_id: promote.id.into(),
        update_type: ContainerUpdateTypeProto::PromoteExecutionType.into(),
        capability: None,
        execution_type: Some(wire::proto::hadoop_yarn::ExecutionTypeProto::Guaranteed.into()),
    };
    AllocateRequestProto {
        ask: heartbeat.asks.iter().map(ask).collect(),
        release: heartbeat.releases.iter().map(|id| (*id).into()).collect(),
        response_id: Some(response_id),
        progress: Some(progress),
        update_requests: heartbeat.promotions.iter().map(promotion).collect(),
        ..AllocateRequestProto::default()
    }
}

/// Returns the priority of asks, one for each type, as a scheduler keeps one kind of ask per
/// priority.
const fn priority(execution_type: ExecutionType) -> i32 {
    match execution_type {
        ExecutionType::Guaranteed => 1,
        ExecutionType::Opportunistic => 2,
    }
}

/// Reads an answer. Omits broken entries with a warning, so that the others take effect.
fn read(response: AllocateResponseProto) -> OrderResult {
    match response.a_m_command.map(|_| response.a_m_command()) {
        Some(AmCommandProto::AmResync) => return Event::Resync.into(),
        Some(AmCommandProto::AmShutdown) => return Event::Lost(Loss::Disowned).into(),
        None => {}
    }
    let mut container_tokens = Vec::new();
    let mut granted = Vec::new();
    for container in response.allocated_containers {
        if let Some((container, token)) = good(read_container(container)) {
            container_tokens.extend(token.map(|token| (container.id, token)));
            granted.push(container);
        }
    }
    let mut changed = Vec::new();
    for update in response.updated_containers {
        if let Some((container, token)) = good(read_container(update.container)) {
            changed.push(Changed {
                id: container.id,
                version: container.version,
                execution_type: container.execution_type,
                token,
            });
        }
    }
    let completed = response.completed_container_statuses.iter();
    let completed = completed.filter_map(|status| good(read_completed(status)));
    let refused = response.update_errors.iter();
    let answer = Answer {
        granted,
        completed: completed.collect(),
        changed,
        refused: refused
            .filter_map(|error| good(read_refusal(error)))
            .collect(),
    };
    let nm_tokens = response.nm_tokens.into_iter().filter_map(|entry| {
        let node = entry.node_id.as_ref()?.try_into().ok()?;
        Some((node, entry.token?.into()))
    });
    OrderResult {
        event: Some(Event::Answered(answer)),
        container_tokens,
        nm_tokens: nm_tokens.collect(),
    }
}

fn good<T>(read: Result<T, ConvertError>) -> Option<T> {
    read.inspect_err(
        |error| tracing::warn!(%error, "an entry of the ResourceManager's answer is broken"),
    )
    .ok()
}

fn read_container(
    container: ContainerProto,
) -> Result<(Granted, Option<TokenProto>), ConvertError> {
    const MESSAGE: &str = "ContainerProto";
    let id = wire::convert::required(container.id.as_ref(), MESSAGE, "id")?;
    let node = wire::convert::required(container.node_id.as_ref(), MESSAGE, "nodeId")?;
    let granted = Granted {
        id: id.try_into()?,
        node: node.try_into()?,
        node_http: container.node_http_address().to_owned(),
        execution_type: container.execution_type().into(),
        allocation_request_id: container.allocation_request_id(),
        version: container.version(),
    };
    Ok((granted, container.container_token))
}

/// Reads the status of a completed container.
pub(super) fn read_completed(status: &ContainerStatusProto) -> Result<Completed, ConvertError> {
    let id = status.container_id.as_ref();
    let id = wire::convert::required(id, "ContainerStatusProto", "container_id")?;
    Ok(Completed {
        id: id.try_into()?,
        exit_status: ContainerExitStatus(status.exit_status()),
        diagnostics: status.diagnostics().to_owned(),
    })
}

fn read_refusal(
    error: &UpdateContainerErrorProto,
) -> Result<(ContainerId, ChangeRefusal), ConvertError> {
    const MESSAGE: &str = "UpdateContainerErrorProto";
    let request =
        wire::convert::required(error.update_request.as_ref(), MESSAGE, "update_request")?;
    let id = ContainerId::try_from(&request.container_id)?;
    let refusal = match error.reason() {
        "INCORRECT_CONTAINER_VERSION_ERROR" => ChangeRefusal::Version {
            current: error.current_container_version(),
        },
        "UPDATE_OUTSTANDING_ERROR" => ChangeRefusal::Outstanding,
        reason => {
            tracing::warn!(container = %id, reason, "the ResourceManager refuses a promotion");
            ChangeRefusal::Final
        }
    };
    Ok((id, refusal))
}

/// Unregisters, and waits until that is recorded: before, the AM's node may be ordered to kill it
/// as failed.
async fn finish(link: &mut FailoverClient, address: &MasterAddress, summary: &Summary) {
    let status = match summary.outcome {
        Outcome::Succeeded => FinalApplicationStatusProto::AppSucceeded,
        Outcome::Failed => FinalApplicationStatusProto::AppFailed,
        Outcome::Stopped => FinalApplicationStatusProto::AppKilled,
    };
    let request = FinishApplicationMasterRequestProto {
        diagnostics: Some(summary.to_diagnostics()),
        tracking_url: None,
        final_application_status: Some(status.into()),
    };
    let deadline = Instant::now() + FINISH_PATIENCE;
    while Instant::now() < deadline {
        match link.call::<FinishApplicationMaster>(&request).await {
            Ok(response) if response.is_unregistered() => return,
            Ok(_) => sleep(FINISH_POLL).await,
            Err(error) if error.is(HadoopException::ApplicationMasterNotRegistered) => {
                register(link, address).await;
            }
            Err(error) => {
                tracing::warn!(error = error_chain(&error), "cannot unregister");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::exception::RemoteException;
    use wire::failover::CallError;
    use wire::rpc::RpcError;

    use super::*;
    use crate::master::testing::container;

    fn meaning(exception: HadoopException) -> Event {
        let error = CallError {
            address: "rm:1".to_owned(),
            method: "allocate",
            reused: true,
            source: RpcError::Remote(RemoteException::new(exception, "no")),
        };
        failed(&FailoverError::Call(Box::new(error)))
    }

    #[test]
    fn refusals_mean_what_hadoop_means_by_them() {
        let resync = meaning(HadoopException::ApplicationMasterNotRegistered);
        assert_eq!(resync, Event::Resync);
        for exception in [
            HadoopException::ApplicationAttemptNotFound,
            HadoopException::InvalidToken,
            HadoopException::Sasl,
        ] {
            assert_eq!(meaning(exception), Event::Lost(Loss::Disowned));
        }
        let refused = meaning(HadoopException::InvalidResourceRequest);
        assert!(matches!(refused, Event::AskRefused(text) if text.contains("no")));
    }

    #[test]
    fn asks_are_for_anywhere_with_the_type_enforced() {
        let heartbeat = Heartbeat {
            asks: vec![Ask {
                execution_type: ExecutionType::Opportunistic,
                count: 3,
            }],
            releases: vec![container(2)],
            promotions: Vec::new(),
        };
        let request = request(&heartbeat, Resource::new(256, 1), 7, 0.5);
        let ask = &request.ask[0];
        assert_eq!((ask.resource_name(), ask.num_containers()), ("*", 3));
        let of = ask.execution_type_request.as_ref().unwrap();
        assert!(of.enforce_execution_type());
        assert_eq!(
            ExecutionType::from(of.execution_type()),
            ExecutionType::Opportunistic
        );
        assert_eq!((request.response_id(), request.release.len()), (7, 1));
    }

    #[test]
    fn broken_entries_are_left_out_and_the_rest_is_taken() {
        let good = ContainerStatusProto {
            container_id: Some(container(2).into()),
            exit_status: Some(3),
            ..ContainerStatusProto::default()
        };
        let response = AllocateResponseProto {
            allocated_containers: vec![ContainerProto::default()],
            completed_container_statuses: vec![ContainerStatusProto::default(), good],
            update_errors: vec![UpdateContainerErrorProto::default()],
            nm_tokens: vec![wire::proto::hadoop_yarn::NmTokenProto::default()],
            ..AllocateResponseProto::default()
        };
        let result = read(response);
        let Some(Event::Answered(answer)) = result.event else {
            panic!("{:?}", result.event);
        };
        assert_eq!(answer.granted, []);
        assert_eq!(answer.refused, []);
        assert_eq!(answer.completed[0].exit_status, ContainerExitStatus(3));
        assert!(result.nm_tokens.is_empty());
    }

    #[test]
    fn commands_of_older_resource_managers_are_heeded() {
        let with = |command: AmCommandProto| AllocateResponseProto {
            a_m_command: Some(command.into()),
            ..AllocateResponseProto::default()
        };
        let event = |command| read(with(command)).event;
        assert_eq!(event(AmCommandProto::AmResync), Some(Event::Resync));
        let disowned = Some(Event::Lost(Loss::Disowned));
        assert_eq!(event(AmCommandProto::AmShutdown), disowned);
    }
}
