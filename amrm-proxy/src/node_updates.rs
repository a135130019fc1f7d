//! Sends the new tokens of promoted containers to their nodes, in place of an AM that does not know
//! of the promotion.
//!
//! The ResourceManager counts a container as guaranteed from the moment that it grants the
//! promotion, but its node goes on treating it as opportunistic until it gets the new token by
//! `updateContainer`: from the AM, or, with `yarn.resourcemanager.auto-update.containers`, from the
//! ResourceManager. Here this node calls it in the attempt's name: it can sign an NMToken for any
//! node of the cluster, as it does for the containers that it allocates.
//!
//! No call of an AM waits for this, and no promotion is dropped while its container lives
//! (`queues`). A node that has meanwhile got the token from the ResourceManager refuses it the
//! second time; then the container's status decides. Source:
//! `ContainerManagerImpl.updateContainer`, `SchedulerApplicationAttempt.updateContainerAndNMToken`.

mod queues;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use records::{ApplicationAttemptId, ContainerId, NodeId};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use wire::client::{ClientAuth, ClientOptions, RpcClient, RpcError};
use wire::protection::Protections;
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    ContainerStateProto, ContainerUpdateRequestProto, ExecutionTypeProto,
    GetContainerStatusesRequestProto, GetContainerStatusesResponseProto,
};
use wire::protocol::container_management::{self, GetContainerStatuses, UpdateContainer};
use wire::secrets::nm_token;

use self::queues::{Answer, Call, Ended, Key, Queues};
use crate::node_keys::NodeKeys;
use crate::observe::{Observation, Observer};

/// Most calls of nodes at once. Pauses between the tries of a call do not count.
const CALLS_MAX: usize = 64;

/// Longest time to connect to a node, the look-up of its name included: 5 s for each of the two.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time for one call of a node.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// Promoted containers of one node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeUpdate {
    /// Node that the containers run on.
    pub node: NodeId,
    /// Containers, each with the token that the ResourceManager sent for it.
    pub containers: Vec<(ContainerId, TokenProto)>,
}

impl NodeUpdate {
    /// Returns an update of a node without containers.
    #[must_use]
    pub const fn of(node: NodeId) -> Self {
        Self {
            node,
            containers: Vec::new(),
        }
    }
}

/// An update, the attempt and user that it is for, and the token that is cancelled when the attempt
/// ends.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) attempt: ApplicationAttemptId,
    pub(crate) user: String,
    pub(crate) update: NodeUpdate,
    pub(crate) ended: CancellationToken,
}

/// Queues of updates, filled by the attempts and emptied by the task. Bounded by the number of
/// containers that the attempts' rules promote.
#[derive(Debug, Default)]
struct Shared {
    queues: Mutex<Queues>,
    /// Wakes the task for a new queue.
    added: Notify,
}

impl Shared {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Entry to the queues, for the attempts.
#[derive(Clone, Debug)]
pub(crate) struct NodeUpdates(Arc<Shared>);

/// Task that sends the queued updates to their nodes. While it does not run, updates wait.
#[must_use = "promotions reach their nodes only while the task runs"]
pub struct NodeUpdateTask {
    shared: Arc<Shared>,
    messenger: Arc<Messenger>,
}

/// Sender of updates to nodes.
struct Messenger {
    node_keys: Arc<dyn NodeKeys>,
    observer: Arc<dyn Observer>,
    /// Levels of protection of the calls.
    protections: Protections,
}

/// Reason for which a try did not reach a node.
#[derive(Debug, thiserror::Error)]
enum NodeError {
    #[error("this node is not registered and cannot sign")]
    NoKeys,
    #[error(transparent)]
    Rpc(#[from] RpcError),
}

impl NodeUpdates {
    /// Creates the queues and the task that empties them.
    pub(crate) fn new(
        node_keys: Arc<dyn NodeKeys>,
        observer: Arc<dyn Observer>,
        protections: Protections,
    ) -> (Self, NodeUpdateTask) {
        let shared = Arc::new(Shared::default());
        let task = NodeUpdateTask {
            shared: Arc::clone(&shared),
            messenger: Arc::new(Messenger {
                node_keys,
                observer,
                protections,
            }),
        };
        (Self(shared), task)
    }

    /// Queues an update for its node. Does not wait.
    pub(crate) fn order(&self, order: Order) {
        self.0.queues().add(order, Instant::now());
        self.0.added.notify_one();
    }

    /// Removes containers that have ended from the queues.
    pub(crate) fn withdraw(&self, attempt: ApplicationAttemptId, ids: &[ContainerId]) {
        self.0.queues().withdraw(attempt, ids);
    }
}

impl NodeUpdateTask {
    /// Sends promotions that rules requested to the containers' nodes, until `stop`.
    ///
    /// # Panics
    /// When a call panics, whose promotions would wait for ever.
    pub async fn run(self, stop: CancellationToken) {
        let mut calls = JoinSet::new();
        loop {
            let due = self.start_calls(&mut calls);
            let wake = async {
                match due {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.shared.added.notified() => {}
                Some(done) = calls.join_next() => match done {
                    Ok((call, answer)) => self.finish(&call, answer),
                    Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
                },
                () = wake => {}
            }
        }
    }

    /// Starts the calls that are due, as many as may be made at once. Returns the time of the next
    /// one; `None` if there is none, or if one must end first.
    fn start_calls(&self, calls: &mut JoinSet<(Call, Option<Answer>)>) -> Option<Instant> {
        while calls.len() < CALLS_MAX {
            let mut queues = self.shared.queues();
            let Some(call) = queues.next(Instant::now()) else {
                return queues.next_due();
            };
            let messenger = Arc::clone(&self.messenger);
            calls.spawn(async move {
                let answer = messenger.deliver(&call).await;
                (call, answer)
            });
        }
        None
    }

    fn finish(&self, call: &Call, answer: Option<Answer>) {
        let ended = self.shared.queues().answered(call, answer, Instant::now());
        let Ended { reached, failed } = ended;
        if failed > 0 {
            let Key { attempt, node } = &call.key;
            tracing::warn!(%attempt, %node, failed, "a node refuses promotions; these containers stay opportunistic there");
        }
        if reached + failed > 0 {
            let ended = Observation::PromotionsEnded { reached, failed };
            self.messenger.observer.observe(&ended);
        }
    }
}

impl Messenger {
    /// Sends an update. Returns the node's answer, if the node was reached and the attempt has not
    /// ended.
    async fn deliver(&self, call: &Call) -> Option<Answer> {
        let sent = tokio::select! {
            // The containers are not needed any more.
            () = call.ended.cancelled() => return None,
            sent = self.send(call) => sent,
        };
        let Key { attempt, node } = &call.key;
        sent.inspect_err(|error| {
            let containers = call.containers.len();
            tracing::info!(%attempt, %node, %error, containers, "cannot send promotions to a node yet");
        })
        .ok()
    }

    async fn send(&self, call: &Call) -> Result<Answer, NodeError> {
        let Key { attempt, node } = &call.key;
        let keys = self.node_keys.current().ok_or(NodeError::NoKeys)?;
        let auth = ClientAuth::Token(nm_token(&keys.nm_token, *attempt, node, &call.user));
        let client = connect(node, auth, self.protections.clone()).await?;
        let tokens = call.containers.iter().map(|(_, token)| token.clone());
        let request = ContainerUpdateRequestProto {
            update_container_token: tokens.collect(),
        };
        let answer = client.call::<UpdateContainer>(&request).await?;
        let ids = call.containers.iter().map(|(id, _)| *id);
        if answer.failed_requests.is_empty() {
            return Ok(Answer {
                reached: ids.collect(),
                refused: Vec::new(),
            });
        }
        // A node refuses what it already has from the ResourceManager. A refusal has no id when the
        // token cannot be read, so the status of every container that was not accepted is asked
        // for.
        let accepted: BTreeSet<_> = answer
            .succeeded_requests
            .iter()
            .filter_map(|id| ContainerId::try_from(id).ok())
            .collect();
        let (mut reached, mut refused): (Vec<_>, Vec<_>) =
            ids.partition(|id| accepted.contains(id));
        let request = GetContainerStatusesRequestProto {
            container_id: refused.iter().map(|id| (*id).into()).collect(),
        };
        let statuses = client.call::<GetContainerStatuses>(&request).await?;
        let settled = settled(&statuses);
        reached.extend(refused.extract_if(.., |id| settled.contains(id)));
        if !refused.is_empty() {
            let why = answer
                .failed_requests
                .first()
                .and_then(|failed| failed.exception.as_ref())
                .map_or("", |exception| exception.message());
            let refused = refused.len();
            tracing::info!(%attempt, %node, refused, why, "a node refuses promotions for now");
        }
        Ok(Answer { reached, refused })
    }
}

/// Returns the containers that are guaranteed on their node or have ended, which includes those
/// that the node does not know any more.
fn settled(statuses: &GetContainerStatusesResponseProto) -> BTreeSet<ContainerId> {
    let known = statuses.status.iter().filter(|status| {
        status.execution_type() == ExecutionTypeProto::Guaranteed
            || status.state() == ContainerStateProto::CComplete
    });
    let known = known.filter_map(|status| status.container_id.as_ref());
    let unknown = statuses.failed_requests.iter();
    let unknown = unknown.filter_map(|failed| failed.container_id.as_ref());
    known
        .chain(unknown)
        .filter_map(|id| ContainerId::try_from(id).ok())
        .collect()
}

async fn connect(
    node: &NodeId,
    auth: ClientAuth,
    protections: Protections,
) -> Result<RpcClient, RpcError> {
    let NodeId { host, port } = node;
    let protocol = container_management::PROTOCOL;
    let options = ClientOptions {
        connect_timeout: CONNECT_TIMEOUT,
        call_timeout: CALL_TIMEOUT,
        calls_in_flight_max: 1,
        protections,
        ..ClientOptions::default()
    };
    RpcClient::connect_host(host, *port, protocol, auth, &options).await
}

#[cfg(test)]
mod tests {
    use test_support::ids::{attempt, container, node};
    use wire::proto::hadoop_yarn::{ContainerExceptionMapProto, ContainerStatusProto};

    use super::*;
    use crate::node_keys::NodeTokenKeys;

    struct Unregistered;

    impl NodeKeys for Unregistered {
        fn current(&self) -> Option<NodeTokenKeys> {
            None
        }
    }

    #[derive(Default)]
    struct Seen(Mutex<Vec<Observation>>);

    impl Observer for Seen {
        fn observe(&self, observation: &Observation) {
            self.0.lock().unwrap().push(*observation);
        }
    }

    #[test]
    fn a_promotion_that_its_node_refuses_for_good_is_counted_as_failed() {
        let seen = Arc::new(Seen::default());
        let observer = Arc::clone(&seen) as Arc<dyn Observer>;
        let (updates, task) =
            NodeUpdates::new(Arc::new(Unregistered), observer, Protections::default());
        updates.order(Order {
            attempt: attempt(1),
            user: "alice".to_owned(),
            update: NodeUpdate {
                node: node("host"),
                containers: vec![(container(7), TokenProto::default())],
            },
            ended: CancellationToken::new(),
        });
        let later = Instant::now() + Duration::from_secs(3_600);
        let next = || task.shared.queues().next(later);
        while let Some(call) = next() {
            let refused = call.containers.iter().map(|(id, _)| *id).collect();
            let reached = Vec::new();
            task.finish(&call, Some(Answer { reached, refused }));
        }
        let (reached, failed) = (0, 1);
        let ended = Observation::PromotionsEnded { reached, failed };
        assert_eq!(*seen.0.lock().unwrap(), [ended]);
    }

    #[test]
    fn containers_that_are_guaranteed_ended_or_unknown_need_no_promotion() {
        use ContainerStateProto::{CComplete, CRunning};
        use ExecutionTypeProto::{Guaranteed, Opportunistic};
        let status =
            |number, kind: ExecutionTypeProto, state: ContainerStateProto| ContainerStatusProto {
                container_id: Some(container(number).into()),
                execution_type: Some(kind.into()),
                state: Some(state.into()),
                ..ContainerStatusProto::default()
            };
        let statuses = GetContainerStatusesResponseProto {
            status: vec![
                status(1, Guaranteed, CRunning),
                status(2, Opportunistic, CRunning),
                status(3, Opportunistic, CComplete),
            ],
            failed_requests: vec![ContainerExceptionMapProto {
                container_id: Some(container(4).into()),
                exception: None,
            }],
        };
        assert_eq!(settled(&statuses), BTreeSet::from([1, 3, 4].map(container)));
    }
}
