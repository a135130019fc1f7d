//! The [`Tracker`] on a port, with functions that wait for what a node sends.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use records::{ContainerId, NodeId};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use wire::exception::RemoteException;
use wire::proto::hadoop_yarn::{
    ContainerProto, ContainerQueuingLimitProto, ContainerSubStateProto, NodeActionProto,
    NodeHeartbeatRequestProto, NodeHeartbeatResponseProto, RegisterNodeManagerRequestProto,
    RegisterNodeManagerResponseProto, UnRegisterNodeManagerRequestProto,
    UnRegisterNodeManagerResponseProto,
};
use wire::protocol::resource_tracker::{ResourceTracker, ResourceTrackerService};
use wire::rpc::{Caller, RpcServer, ServerAuth};

use crate::{Allocation, HeldPort, RmSecrets};

use super::tracker::{Answer, Completed, Tracker};

/// Deadline for steps that the node takes by itself: a few heartbeats, or a JVM's start, on a
/// machine that is busy building.
const DEADLINE: Duration = Duration::from_secs(90);

/// The tracker, and a signal for each of its changes.
#[derive(Default)]
struct Shared {
    tracker: Mutex<Tracker>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Tracker> {
        // A test that panicked while looking has left nothing half done.
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `Some` while the port is open; a changed number cuts all connections.
type Listening = Option<u64>;

/// The ResourceTracker service on the port.
struct Served {
    shared: Arc<Shared>,
    listening: watch::Sender<Listening>,
}

impl ResourceTracker for Served {
    async fn register_node_manager(
        &self,
        _caller: &Caller,
        request: RegisterNodeManagerRequestProto,
    ) -> Result<RegisterNodeManagerResponseProto, RemoteException> {
        let response = self.shared.lock().register(request);
        self.shared.changed.notify_all();
        Ok(response)
    }

    async fn node_heartbeat(
        &self,
        _caller: &Caller,
        request: NodeHeartbeatRequestProto,
    ) -> Result<NodeHeartbeatResponseProto, RemoteException> {
        let (response, answer) = {
            let mut tracker = self.shared.lock();
            let response = tracker.heartbeat(request);
            (response, std::mem::take(&mut tracker.next_answer))
        };
        self.shared.changed.notify_all();
        match answer {
            Answer::Given => Ok(response),
            Answer::Lost => {
                cut(&self.listening);
                // The connection breaks before there is an answer.
                std::future::pending().await
            }
        }
    }

    async fn un_register_node_manager(
        &self,
        _caller: &Caller,
        _request: UnRegisterNodeManagerRequestProto,
    ) -> Result<UnRegisterNodeManagerResponseProto, RemoteException> {
        self.shared.lock().unregister();
        self.shared.changed.notify_all();
        Ok(UnRegisterNodeManagerResponseProto {})
    }
}

fn cut(listening: &watch::Sender<Listening>) {
    listening.send_modify(|change| *change = change.map(|number| number + 1));
}

/// Serves while the port is open. Dropping the server's future ends its connections at once.
async fn keep_serving(
    shared: Arc<Shared>,
    listening: watch::Sender<Listening>,
    address: SocketAddr,
    mut first: Option<RpcServer>,
) {
    let mut changes = listening.subscribe();
    loop {
        let wanted = *changes.borrow_and_update();
        if wanted.is_some() {
            let server = match first.take() {
                Some(server) => server,
                None => bind(&shared, &listening, address).await,
            };
            tokio::select! {
                () = server.serve(CancellationToken::new()) => {}
                _ = changes.changed() => {}
            }
        } else if changes.changed().await.is_err() {
            return;
        }
    }
}

async fn bind(
    shared: &Arc<Shared>,
    listening: &watch::Sender<Listening>,
    address: SocketAddr,
) -> RpcServer {
    let served = Served {
        shared: Arc::clone(shared),
        listening: listening.clone(),
    };
    RpcServer::builder(ServerAuth::Simple)
        .service(ResourceTrackerService::new(Arc::new(served)))
        .bind(address)
        .await
        .unwrap_or_else(|error| panic!("cannot listen on {address}: {error}"))
        .0
}

/// A ResourceManager with one node. Serves from threads of its own until dropped.
pub struct ScriptedRm {
    shared: Arc<Shared>,
    port: HeldPort,
    listening: watch::Sender<Listening>,
    runtime: Runtime,
}

impl ScriptedRm {
    /// Starts a ResourceManager on a free port.
    ///
    /// # Panics
    /// When no port is free.
    #[must_use]
    pub fn start() -> Self {
        Self::start_on(HeldPort::free())
    }

    /// Starts a ResourceManager on a port that the test has reserved; the port stays its own while
    /// it is closed or restarts.
    ///
    /// # Panics
    /// When the port is taken.
    #[must_use]
    pub fn start_at(port: u16) -> Self {
        Self::start_on(HeldPort::at(port))
    }

    fn start_on(port: HeldPort) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("scripted-rm")
            .enable_all()
            .build()
            .unwrap_or_else(|error| panic!("cannot start threads: {error}"));
        let shared = Arc::new(Shared::default());
        let (listening, _) = watch::channel(Some(0));
        let address = port.address();
        let server = runtime.block_on(bind(&shared, &listening, address));
        runtime.spawn(keep_serving(
            Arc::clone(&shared),
            listening.clone(),
            address,
            Some(server),
        ));
        Self {
            shared,
            port,
            listening,
            runtime,
        }
    }

    /// Address of the ResourceTracker service.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Handle of the runtime that serves calls; ApplicationMasters of the same test share it.
    #[must_use]
    pub fn runtime(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Reads or changes the tracker; calls of nodes wait meanwhile.
    pub fn with<T>(&self, look: impl FnOnce(&mut Tracker) -> T) -> T {
        look(&mut self.shared.lock())
    }

    /// Returns a copy of the present keys.
    #[must_use]
    pub fn secrets(&self) -> RmSecrets {
        self.with(|tracker| tracker.secrets().clone())
    }

    /// Waits until `look` returns a value; it is called after each call of the node.
    ///
    /// # Panics
    /// After 90 seconds, with the last heartbeat.
    #[track_caller]
    pub fn wait<T>(&self, what: impl Display, look: impl FnMut(&Tracker) -> Option<T>) -> T {
        match self.try_wait(DEADLINE, look) {
            Some(found) => found,
            None => panic!(
                "waited {DEADLINE:?} for {what}; last heartbeat: {:#?}",
                self.with(|tracker| tracker.heartbeats.back().cloned())
            ),
        }
    }

    /// Waits until `look` returns a value, as [`wait`](Self::wait) does; `None` once `deadline` has
    /// passed.
    pub fn try_wait<T>(
        &self,
        deadline: Duration,
        mut look: impl FnMut(&Tracker) -> Option<T>,
    ) -> Option<T> {
        let begin = Instant::now();
        let mut tracker = self.shared.lock();
        loop {
            if let Some(found) = look(&tracker) {
                return Some(found);
            }
            let left = deadline.checked_sub(begin.elapsed())?;
            let waited = self.shared.changed.wait_timeout(tracker, left);
            tracker = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until the node has registered and sent its first heartbeat.
    ///
    /// # Panics
    /// After 90 seconds.
    #[track_caller]
    pub fn wait_registered(&self) -> NodeId {
        self.wait("the registration", |tracker| {
            let node = tracker.node().cloned();
            node.filter(|_| tracker.has_heartbeat())
        })
    }

    /// Waits for the registration of this number, from 1, and returns it.
    ///
    /// # Panics
    /// After 90 seconds.
    #[track_caller]
    pub fn wait_registrations(&self, count: usize) -> RegisterNodeManagerRequestProto {
        self.wait(format!("registration {count}"), |tracker| {
            tracker.registrations.get(count - 1).cloned()
        })
    }

    /// Waits for `count` more heartbeats. After two the node has carried out earlier orders.
    ///
    /// # Panics
    /// After 90 seconds.
    #[track_caller]
    pub fn wait_heartbeats(&self, count: usize) {
        let wanted = self.with(|tracker| tracker.heartbeat_count) + count;
        self.wait(format!("{count} heartbeats"), |tracker| {
            (tracker.heartbeat_count >= wanted).then_some(())
        });
    }

    /// Waits until the node reports the container as finished.
    ///
    /// # Panics
    /// After 90 seconds.
    #[track_caller]
    pub fn wait_completed(&self, id: ContainerId) -> Completed {
        self.wait(format!("the end of {id}"), |tracker| {
            tracker.completed.get(&id).cloned()
        })
    }

    /// Waits until a heartbeat shows the container in this state: `CssScheduled` while it is
    /// queued, `CssRunning` once it has a process.
    ///
    /// # Panics
    /// When the container ends first, or after 90 seconds.
    #[track_caller]
    pub fn wait_sub_state(&self, id: ContainerId, sub_state: ContainerSubStateProto) {
        self.wait(format!("{id} {sub_state:?}"), |tracker| {
            let completed = tracker.completed.get(&id);
            assert!(completed.is_none(), "{id} ended: {completed:?}");
            let status = tracker.status(id)?;
            (status.container_sub_state() == sub_state).then_some(())
        });
    }

    /// Queues orders for the answer to the next heartbeat.
    pub fn order(&self, give: impl FnOnce(&mut NodeHeartbeatResponseProto)) {
        self.with(|tracker| give(tracker.orders()));
    }

    /// Orders the node to stop a container.
    pub fn order_kill(&self, id: ContainerId) {
        self.order(|orders| orders.containers_to_cleanup.push(id.into()));
    }

    /// Acknowledges a container's end, as an ApplicationMaster does.
    pub fn acknowledge(&self, id: ContainerId) {
        self.order(|orders| orders.containers_to_be_removed_from_nm.push(id.into()));
    }

    /// Orders a bound for the node's queue of opportunistic containers.
    pub fn order_queuing_limit(&self, max_queue_length: i32) {
        self.order(|orders| {
            orders.container_queuing_limit = Some(ContainerQueuingLimitProto {
                max_queue_length: Some(max_queue_length),
                max_queue_wait_time_in_ms: Some(-1),
            });
        });
    }

    /// Orders the node to register again or to shut down.
    pub fn order_action(&self, action: NodeActionProto, diagnostics: &str) {
        self.order(|orders| {
            orders.node_action = Some(action.into());
            orders.diagnostics_message = Some(diagnostics.to_owned());
        });
    }

    /// Orders a change of a container to its new allocation.
    pub fn order_update(&self, allocation: &Allocation) {
        let token = self.secrets().container_token(allocation);
        self.order(|orders| {
            orders.containers_to_update.push(ContainerProto {
                id: Some(allocation.id.into()),
                resource: Some(allocation.resource.into()),
                container_token: Some(token),
                version: Some(allocation.version),
                ..ContainerProto::default()
            });
        });
    }

    /// Rolls the keys and waits until the node has the new ones.
    ///
    /// # Panics
    /// After 90 seconds.
    #[track_caller]
    pub fn roll_keys(&self) {
        self.with(Tracker::roll_keys);
        self.wait("the new keys", |tracker| {
            tracker.keys_are_known().then_some(())
        });
    }

    /// Breaks the connection of the next heartbeat after it is carried out and before it is
    /// answered; waits until that has happened.
    ///
    /// # Panics
    /// When no heartbeat comes in 90 seconds.
    #[track_caller]
    pub fn lose_next_answer(&self) {
        self.with(|tracker| tracker.next_answer = Answer::Lost);
        self.wait("the heartbeat to lose", |tracker| {
            (tracker.next_answer == Answer::Given).then_some(())
        });
    }

    /// Closes the port and cuts every connection.
    pub fn close(&self) {
        self.listening.send_replace(None);
    }

    /// Opens the port again.
    pub fn open(&self) {
        self.listening.send_replace(Some(0));
    }

    /// Restarts the ResourceManager: new identifier, new keys, nodes unknown.
    pub fn restart(&self) {
        self.with(Tracker::restart);
        cut(&self.listening);
    }
}

#[cfg(test)]
mod tests {
    use wire::proto::hadoop_yarn::NodeStatusProto;
    use wire::protocol::resource_tracker::{self, NodeHeartbeat, RegisterNodeManager};
    use wire::rpc::{ClientAuth, ClientOptions, RpcClient, RpcError};

    use super::*;

    async fn client(rm: SocketAddr) -> RpcClient {
        let auth = ClientAuth::Simple {
            user: "node".to_owned(),
        };
        let protocol = resource_tracker::PROTOCOL;
        RpcClient::connect(rm, protocol, auth, &ClientOptions::default())
            .await
            .unwrap()
    }

    #[test]
    fn a_lost_answer_is_given_again_over_the_next_connection() {
        let rm = ScriptedRm::start();
        let node = NodeId {
            host: "n".to_owned(),
            port: 1,
        };
        let registration = RegisterNodeManagerRequestProto {
            node_id: Some((&node).into()),
            ..RegisterNodeManagerRequestProto::default()
        };
        let heartbeat = NodeHeartbeatRequestProto {
            node_status: Some(NodeStatusProto {
                node_id: Some((&node).into()),
                response_id: Some(0),
                ..NodeStatusProto::default()
            }),
            ..NodeHeartbeatRequestProto::default()
        };
        let address = rm.address();
        rm.runtime().block_on(async {
            let first = client(address).await;
            first
                .call::<RegisterNodeManager>(&registration)
                .await
                .unwrap();
            rm.order_queuing_limit(3);
            rm.with(|tracker| tracker.next_answer = Answer::Lost);
            let lost = first.call::<NodeHeartbeat>(&heartbeat).await;
            assert!(
                matches!(lost, Err(RpcError::ConnectionLost { .. })),
                "{lost:?}"
            );
            let answer = loop {
                // The port is closed for a moment.
                let auth = ClientAuth::Simple {
                    user: "node".to_owned(),
                };
                let options = ClientOptions::default();
                let again =
                    RpcClient::connect(address, resource_tracker::PROTOCOL, auth, &options).await;
                if let Ok(again) = again
                    && let Ok(answer) = again.call::<NodeHeartbeat>(&heartbeat).await
                {
                    break answer;
                }
            };
            let limit = answer.container_queuing_limit.unwrap();
            assert_eq!(limit.max_queue_length, Some(3));
        });
        assert_eq!(rm.with(|tracker| tracker.repeated), 1);
    }
}
