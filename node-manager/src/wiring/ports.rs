//! The servers, RPC, web and the AMRMProxy's: first they listen, since the node is named by its
//! port, and later they serve.

use std::sync::Arc;

use amrm_proxy::node_updates::NodeUpdateTask;
use container_runtime::open_files;
use hadoop_conf::HostPort;
use http_server::{HttpServer, Limits};
use node_core::ServiceMetadata;
use node_web::metrics::{Metrics, Port};
use node_web::site::{WebError, WebOptions, WebServer};
use records::NodeId;
use tls_server::TlsServer;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use traces::Export;
use wire::protocol::container_management::ContainerManagementService;
use wire::protocol::late_binding::LateBindingService;
use wire::server::{RpcServer, RpcServerBuilder, ServerAuth};

use super::error::{AgentError, starting};
use super::pages;
use super::process::Process;
use super::proxy::{self, ProxyPort};
use super::service_manager::{self, Sockets};
use super::shared::{NodeAddress, Shared};
use super::slices;
use crate::audit;
use crate::aux_services::{ListeningServices, StartedServices};
use crate::config::{AddressConfig, Config};
use crate::container_manager::{ContainerManager, server_limits};
use crate::core_task::Handle;
use crate::descriptors::Descriptors;
use crate::late_binding::LateBinding;
use crate::node_identity;
use crate::operators::Operators;
use crate::reload_orders::ReloadOrders;
use crate::service_authorization::PortAuthorization;

/// The servers, listening, and what is known by their ports.
pub(super) struct Ports {
    rpc: RpcServer,
    web: WebServer<Handle>,
    /// The admin socket with the node that it asks; `None`: there is none.
    operators: Option<(node_admin::AdminServer, Handle)>,
    proxy: Option<ProxyPort>,
    pub(super) services: ListeningServices,
    pub(super) address: NodeAddress,
}

/// Tasks that run with the ports.
#[derive(Default)]
pub(super) struct BesidePorts {
    /// Task of the AMRMProxy that updates nodes.
    pub(super) updates: Option<NodeUpdateTask>,
    /// Task that sends traces.
    pub(super) export: Option<Export>,
}

impl Ports {
    pub(super) async fn listen(
        config: &Config,
        process: &Process,
        shared: &Shared,
    ) -> Result<Self, AgentError> {
        let sockets = &Sockets(&process.manager);
        let limit = open_files::limit().map_err(starting("the ports: limit of open files"))?;
        let descriptors = Descriptors::divide(limit);
        tracing::info!("{descriptors}");
        let hosted = start_hosted(config).await?;
        let services = ListeningServices::listen(
            &config.aux_services,
            descriptors.shuffle,
            sockets.manager(),
            hosted,
        )?;
        let limits = server_limits().within_descriptors(descriptors.container_management);
        let rpc = container_management(shared, services.metadata())
            .protections(config.protections.clone())
            .limits(limits);
        let address = node_identity::resolve(&config.addresses.node_bind()).await?;
        let (rpc, address) = sockets
            .rpc("container-management", rpc, address)
            .await
            .map_err(starting(
                "the container management port (yarn.nodemanager.address)",
            ))?;
        let stuck = service_manager::stuck_parts(&shared.vitals);
        let options = WebOptions {
            remote_logs: slices::remote_logs(config, &shared.files),
            log_levels: process.log_levels.clone(),
            kerberos: pages::kerberos(config.web.proof.as_ref()).await?,
            tls: web_tls(config)?,
            ..slices::web(config, process.utc_offset, &descriptors, stuck)
        };
        let web = listen_web(config, shared, sockets, options).await?;
        let operators = listen_to_operators(config, &shared.metrics)?;
        let proxy = match &shared.proxy {
            Some(proxy) => {
                let metrics = &shared.metrics;
                let rule = shared.authorization.as_ref().map(PortAuthorization::rule);
                let port = ProxyPort::listen(config, proxy, metrics, rule, &descriptors, sockets);
                Some(port.await?)
            }
            None => None,
        };
        let host = node_identity::node_host(&config.addresses.node).await?;
        let node_id = NodeId {
            host,
            port: address.port(),
        };
        process.manager.drop_rest();
        // Before any peer is served: tokens are checked against it.
        shared.secrets.set_node_id(node_id.clone());
        let http_port = web.local_address().port();
        let web = web.with_host_names(node_identity::web_names(&config.addresses, &node_id.host));
        Ok(Self {
            rpc,
            web,
            operators: operators.map(|server| (server, shared.handle.clone())),
            proxy,
            services,
            address: NodeAddress { node_id, http_port },
        })
    }

    /// Serves all but the auxiliary services, which have threads of their own. With the ports run
    /// the tasks beside them.
    pub(super) fn serve(
        self,
        stop: &CancellationToken,
        beside: BesidePorts,
        reloads: ReloadOrders,
    ) -> JoinSet<&'static str> {
        let mut servers = JoinSet::new();
        let (rpc_stop, web_stop) = (stop.clone(), stop.clone());
        servers.spawn(async move {
            self.rpc.serve(rpc_stop).await;
            "the container management server"
        });
        servers.spawn(async move {
            self.web.serve(web_stop).await;
            "the web server"
        });
        if let Some((server, handle)) = self.operators {
            let node = Operators { handle, reloads };
            let stop = stop.clone();
            servers.spawn(async move {
                server.serve(node, stop).await;
                "the admin socket"
            });
        }
        if let Some(proxy) = self.proxy {
            proxy.serve(stop, &mut servers);
        }
        if let Some(update_task) = beside.updates {
            servers.spawn(proxy::update_nodes(update_task, stop.clone()));
        }
        if let Some(export) = beside.export {
            let stop = stop.clone();
            servers.spawn(async move {
                export.run(stop).await;
                "the export of traces"
            });
        }
        servers
    }
}

/// Starts the host of the services that are Java classes, on a thread that may wait for it.
async fn start_hosted(config: &Config) -> Result<Option<StartedServices>, AgentError> {
    let host = config.aux_host.clone();
    let services = config.aux_services.clone();
    let recovery = config.recovery.clone();
    let start = move || StartedServices::start(host.as_ref(), &services, &recovery);
    match tokio::task::spawn_blocking(start).await {
        Ok(started) => Ok(started?),
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

/// Listens on the admin socket. The default path may not be possible, for example without the right
/// to make folders in `/run`: the agent then runs without it.
fn listen_to_operators(
    config: &Config,
    metrics: &Metrics,
) -> Result<Option<node_admin::AdminServer>, AgentError> {
    let Some(path) = &config.admin.socket else {
        return Ok(None);
    };
    match node_admin::AdminServer::bind(path, slices::admin_rules(config)) {
        Ok(server) => {
            tracing::info!(socket = %server.path().display(), "operators are answered");
            Ok(Some(server.with_refusals(metrics.refusals(Port::Admin))))
        }
        Err(error) if config.admin.is_required => Err(AgentError::Admin(error)),
        Err(error) => {
            tracing::warn!(
                error = records::error_chain(&error),
                "nm-agent status and its like will not reach this agent: \
                 set yarn.nodemanager.agent.admin.socket to a path that it can use"
            );
            Ok(None)
        }
    }
}

/// Returns the server of ContainerManagementProtocol, which AMs call with NMTokens.
fn container_management(shared: &Shared, service_metadata: ServiceMetadata) -> RpcServerBuilder {
    let manager = ContainerManager::new(
        shared.handle.clone(),
        Arc::clone(&shared.secrets),
        Arc::clone(&shared.metrics),
        shared.clock,
        shared.proxy.clone(),
        service_metadata,
    );
    let late_binding = LateBinding::new(shared.handle.clone(), shared.proxy.clone());
    let secrets = Arc::clone(&shared.secrets);
    RpcServer::builder(ServerAuth::Token(secrets))
        .service(ContainerManagementService::new(Arc::new(manager)))
        .service(LateBindingService::new(Arc::new(late_binding)))
        .authorization(shared.authorization.as_ref().map(PortAuthorization::rule))
        .refusals(shared.metrics.refusals(Port::ContainerManagement))
        .on_unauthorized(audit::refused_connections(
            "NMToken Authentication",
            "ContainerManageImpl",
        ))
}

/// Listens for web clients, on the socket of an earlier agent if one was kept.
async fn listen_web(
    config: &Config,
    shared: &Shared,
    sockets: &Sockets<'_>,
    options: WebOptions,
) -> Result<WebServer<Handle>, AgentError> {
    let address = node_identity::resolve(&config.addresses.web_bind()).await?;
    let (source, metrics) = (Arc::new(shared.handle.clone()), Arc::clone(&shared.metrics));
    let web = match sockets.take("web", address) {
        Some(kept) => WebServer::listening(kept, source, metrics, options)
            .map_err(|source| WebError::Bind { address, source }),
        None => WebServer::bind(address, source, metrics, options).await,
    };
    let property = config.addresses.web_property();
    let web = web.map_err(|source| AgentError::Web { property, source })?;
    sockets.keep("web", &web);
    match &config.addresses.metrics {
        Some(address) => Ok(web.with_metrics_port(listen_metrics(address, sockets).await?)),
        None => Ok(web),
    }
}

/// Returns bounds for some scrapers, whose connections come out of what is kept for containers.
fn metrics_limits() -> Limits {
    Limits {
        connections: 16,
        connections_per_address: 8,
        ..Limits::default()
    }
}

/// Listens on the port of `/metrics` alone.
async fn listen_metrics(
    address: &HostPort,
    sockets: &Sockets<'_>,
) -> Result<HttpServer, AgentError> {
    let address = node_identity::resolve(address).await?;
    let port = match sockets.take("metrics", address) {
        Some(kept) => HttpServer::listening(kept, metrics_limits()),
        None => HttpServer::bind(address, metrics_limits()).await,
    };
    let port = port.map_err(|source| AgentError::Web {
        property: AddressConfig::METRICS,
        source: WebError::Bind { address, source },
    })?;
    tracing::info!(address = %port.local_address(), "/metrics has a port of its own");
    sockets.keep("metrics", &port);
    Ok(port)
}

/// Reads the key stores of the web port; `None`: it is without TLS.
fn web_tls(config: &Config) -> Result<Option<Arc<TlsServer>>, AgentError> {
    let tls = config.web.tls.clone().map(TlsServer::load).transpose();
    let tls = tls.map_err(|error| AgentError::WebTls(Box::new(error)))?;
    Ok(tls.map(Arc::new))
}
