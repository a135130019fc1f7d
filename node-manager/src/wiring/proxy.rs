//! The AMRMProxy: made, listening, served.

use std::sync::Arc;
use std::time::Duration;

use amrm_proxy::config::FileAccess;
use amrm_proxy::node_updates::NodeUpdateTask;
use amrm_proxy::store::{self, NoStore, Store, StoredState};
use amrm_proxy::{
    AmrmProxy, AmrmProxyService, LookParts, LookSettings, ProxyParts, ReservationSender,
    ReserveFailure,
};
use late_binding::{PeerError, Peers};
use node_web::metrics::{Metrics, Port, ProxyReading};
use records::NodeId;
use sched::{OpportunisticContainersQueuePolicy, Reservation};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use traces::Traces;
use wire::rpc::{Authorize, BoxFuture};
use wire::server::{RpcServer, ServerAuth};

use super::error::{AgentError, starting};
use super::recovery::Recovery;
use super::service_manager::Sockets;
use crate::audit;
use crate::clock::Clock;
use crate::config::Config;
use crate::descriptors::Descriptors;
use crate::node_identity;
use crate::secrets::NodeSecrets;
use crate::traced::ProxyObserver;

/// The proxy and the task that sends its promotions to their nodes.
type MadeProxy = (Arc<AmrmProxy>, NodeUpdateTask);

/// Makes the proxy, if the configuration enables it.
pub(super) fn make(
    config: &Config,
    clock: Clock,
    (metrics, traces): (&Arc<Metrics>, Option<Traces>),
    (secrets, peers): (&Arc<NodeSecrets>, &Arc<Peers>),
    (files, recovery): (FileAccess, Option<&mut Recovery>),
) -> Option<MadeProxy> {
    if !config.amrm_proxy.enabled {
        return None;
    }
    let (store, found): OpenStore = match recovery {
        Some(recovery) => take_records(recovery),
        None => (Arc::new(NoStore), StoredState::default()),
    };
    let parts = ProxyParts {
        store,
        found,
        node_keys: Arc::clone(secrets) as Arc<_>,
        files,
        looks: look_parts(config),
        reservations: Some(Arc::new(Reservations(Arc::clone(peers)))),
        observer: Arc::new(ProxyObserver {
            metrics: Arc::clone(metrics),
            traces,
        }),
        clock: Arc::new(move || clock.now()),
    };
    let (proxy, update_task) = AmrmProxy::new(config.amrm_proxy.proxy.clone(), parts);
    let proxy = Arc::new(proxy);
    // Not the other way round as well: the proxy holds the metrics.
    let watched = Arc::downgrade(&proxy);
    metrics.watch_proxy(move || {
        let now = clock.now().mono;
        let reading = watched.upgrade().map(|proxy| ProxyReading {
            snapshot: proxy.snapshot(),
            role_histories: proxy.role_histories(),
            now,
        });
        reading.unwrap_or_default()
    });
    Some((proxy, update_task))
}

/// Tells other nodes of the proxy's reservations.
struct Reservations(Arc<Peers>);

impl ReservationSender for Reservations {
    fn reserve(
        &self,
        node: NodeId,
        reservation: Reservation,
    ) -> BoxFuture<'static, Result<(), ReserveFailure>> {
        let peers = Arc::clone(&self.0);
        Box::pin(async move {
            let told = peers.reserve(&node, &reservation).await;
            told.map_err(|error| match error {
                PeerError::NotRegistered | PeerError::Refused(_) => ReserveFailure::Refused,
                PeerError::Silent(_) | PeerError::Foreign(_) => ReserveFailure::NotTaken,
            })
        })
    }
}

/// Returns what looks at other nodes need.
fn look_parts(config: &Config) -> LookParts {
    let clients = config.rm.endpoints.iter().map(|rm| rm.client.to_string());
    LookParts {
        rm_clients: clients.collect(),
        user: node_identity::own_user(),
        settings: look_settings(config),
    }
}

/// Returns the settings of looks that a reload may change.
pub(super) fn look_settings(config: &Config) -> LookSettings {
    let scheduler = &config.scheduler;
    let queue_length_max = match scheduler.opportunistic_queue_policy {
        OpportunisticContainersQueuePolicy::ByQueueLen => {
            usize::try_from(scheduler.opportunistic_queue_length_max).ok()
        }
        OpportunisticContainersQueuePolicy::ByResources => None,
    };
    LookSettings {
        queue_length_max,
        wait_max: Duration::from_millis(config.amrm_proxy.look_wait_ms),
        binds_late: config.amrm_proxy.binds_late,
    }
}

/// The proxy's part of the node's state store, and the records found in it.
type OpenStore = (Arc<dyn Store>, StoredState);

/// Takes the proxy's records: keys, and the pipelines of applications that go on here. Those of
/// others would never end.
fn take_records(recovery: &mut Recovery) -> OpenStore {
    let (space, found) = recovery.take_space(store::KEY_SPACE);
    let mut found = StoredState::from_contents(found);
    found.retain(&space, |attempt| {
        recovery.has_application(attempt.application_id)
    });
    (Arc::new(space), found)
}

/// Sends promotions to their nodes until `stop`.
pub(super) async fn update_nodes(task: NodeUpdateTask, stop: CancellationToken) -> &'static str {
    task.run(stop).await;
    "the AMRMProxy's updates of nodes"
}

/// The proxy's port, listening.
pub(super) struct ProxyPort {
    server: RpcServer,
    proxy: Arc<AmrmProxy>,
}

impl ProxyPort {
    pub(super) async fn listen(
        config: &Config,
        proxy: &Arc<AmrmProxy>,
        metrics: &Metrics,
        authorization: Option<Arc<dyn Authorize>>,
        descriptors: &Descriptors,
        sockets: &Sockets<'_>,
    ) -> Result<Self, AgentError> {
        let address = config.addresses.proxy_bind(&config.amrm_proxy.address);
        let server = RpcServer::builder(ServerAuth::Token(proxy.tokens()))
            .service(AmrmProxyService::new(Arc::clone(proxy)))
            .authorization(authorization)
            .refusals(metrics.refusals(Port::AmrmProxy))
            .on_unauthorized(audit::refused_connections(
                "AMRMToken Authentication",
                "AMRMProxyService",
            ))
            .protections(config.protections.clone())
            .limits(amrm_proxy::server_limits().within_descriptors(descriptors.amrm_proxy));
        let address = node_identity::resolve(&address).await?;
        let (server, address) =
            sockets
                .rpc("amrm-proxy", server, address)
                .await
                .map_err(starting(
                    "the AMRMProxy's port (yarn.nodemanager.amrmproxy.address)",
                ))?;
        tracing::info!(%address, "the AMRMProxy listens");
        Ok(Self {
            server,
            proxy: Arc::clone(proxy),
        })
    }

    pub(super) fn serve(self, stop: &CancellationToken, tasks: &mut JoinSet<&'static str>) {
        let (server_stop, keys_stop) = (stop.clone(), stop.clone());
        tasks.spawn(async move {
            self.server.serve(server_stop).await;
            "the AMRMProxy's server"
        });
        let proxy = self.proxy;
        tasks.spawn(async move {
            proxy.roll_keys(keys_stop).await;
            "the roll of the AMRMProxy's keys"
        });
    }
}
