//! The servers, RPC, web and the AMRMProxy's: first they listen, since the node is named by its
//! port, and later they serve.

use std::sync::Arc;

use container_runtime::open_files;
use node_web::admin::AdminServer;
use records::NodeId;
use time::UtcOffset;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::protocol::container_management::ContainerManagementService;
use wire::server::{RpcServer, ServerAuth};

use super::proxy::ProxyPort;
use super::shared::{NodeAddress, Shared};
use super::{AgentError, slices, starting};
use crate::aux_services::ListeningServices;
use crate::config::Config;
use crate::container_manager::{ContainerManager, server_limits};
use crate::core_task::Handle;
use crate::descriptors::Descriptors;
use crate::node_identity;

/// The servers, listening, and what is known by their ports.
pub(super) struct Ports {
    rpc: RpcServer,
    web: AdminServer<Handle>,
    proxy: Option<ProxyPort>,
    pub(super) services: ListeningServices,
    pub(super) address: NodeAddress,
}

impl Ports {
    pub(super) async fn listen(
        config: &Config,
        utc_offset: UtcOffset,
        shared: &Shared,
    ) -> Result<Self, AgentError> {
        let limit = open_files::limit().map_err(starting("the ports: limit of open files"))?;
        let descriptors = Descriptors::divide(limit);
        tracing::info!("{descriptors}");
        let services = ListeningServices::listen(&config.aux_services, descriptors.shuffle)?;
        let manager = ContainerManager::new(
            shared.handle.clone(),
            Arc::clone(&shared.secrets),
            Arc::clone(&shared.metrics),
            shared.clock,
            shared.proxy.clone(),
            services.metadata(),
        );
        let secrets = Arc::clone(&shared.secrets);
        let (rpc, address) = RpcServer::builder(ServerAuth::Token(secrets))
            .service(ContainerManagementService::new(Arc::new(manager)))
            .limits(server_limits().within_descriptors(descriptors.container_management))
            .bind(node_identity::resolve(&config.addresses.node_bind()).await?)
            .await
            .map_err(starting(
                "the container management port (yarn.nodemanager.address)",
            ))?;
        let web = AdminServer::bind(
            node_identity::resolve(&config.addresses.web_bind()).await?,
            Arc::new(shared.handle.clone()),
            Arc::clone(&shared.metrics),
            slices::admin(config, utc_offset, &descriptors),
        )
        .await
        .map_err(AgentError::Web)?;
        let proxy = match &shared.proxy {
            Some(proxy) => Some(ProxyPort::listen(config, proxy, &descriptors).await?),
            None => None,
        };
        let host = node_identity::node_host(&config.addresses.node)?;
        let node_id = NodeId {
            host,
            port: address.port(),
        };
        // Before any peer is served: tokens are checked against it.
        shared.secrets.set_node_id(node_id.clone());
        let http_port = web.local_address().port();
        let web = web.with_host_names(node_identity::web_names(&config.addresses, &node_id.host));
        Ok(Self {
            rpc,
            web,
            proxy,
            services,
            address: NodeAddress { node_id, http_port },
        })
    }

    /// Serves all but the auxiliary services, which have threads of their own.
    pub(super) fn serve(self, stop: &CancellationToken) -> JoinSet<&'static str> {
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
        if let Some(proxy) = self.proxy {
            proxy.serve(stop, &mut servers);
        }
        servers
    }
}
