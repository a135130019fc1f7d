//! State and services that several parts of the agent hold.

use std::sync::Arc;

use amrm_proxy::AmrmProxy;
use amrm_proxy::config::FileAccess;
use file_worker::Pool;
use late_binding::Peers;
use node_web::metrics::Metrics;
use records::NodeId;
use service::Vitals;
use tokio::sync::Notify;
use traces::Traces;
use users::Users;

use super::kerberos::Identity;
use super::recovery::Outliving;
use crate::application_tokens::ApplicationTokens;
use crate::clock::Clock;
use crate::core_task::Handle;
use crate::secrets::NodeSecrets;
use crate::service_authorization::PortAuthorization;

/// State and services that several parts hold.
pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) handle: Handle,
    pub(super) secrets: Arc<NodeSecrets>,
    /// Other nodes of the cluster.
    pub(super) peers: Arc<Peers>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) heartbeat_now: Arc<Notify>,
    pub(super) proxy: Option<Arc<AmrmProxy>>,
    /// Traces of containers; `None`: none are made.
    pub(super) traces: Option<Traces>,
    /// File systems of resources, logs and role histories, and the user in whose name they are
    /// used.
    pub(super) files: FileAccess,
    /// Workers that read archives.
    pub(super) archives: Arc<Pool>,
    /// Tokens of the applications, in a secure cluster.
    pub(super) tokens: Arc<ApplicationTokens>,
    /// Accounts that containers run as; `None`: they run as this process's user.
    pub(super) users: Option<Arc<Users>>,
    /// Identity of the node to the ResourceManager.
    pub(super) identity: Identity,
    /// Users and hosts of the node's protocols; `None`: everybody.
    pub(super) authorization: Option<PortAuthorization>,
    /// Vital signs of the parts that make progress.
    pub(super) vitals: Vitals,
    /// `None`: containers end with the agent.
    pub(super) outliving: Option<Outliving>,
}

/// Address of the node, known once its ports listen.
#[derive(Clone, Debug)]
pub(super) struct NodeAddress {
    /// Host and port of the container management service.
    pub(super) node_id: NodeId,
    /// The port of web pages and metrics.
    pub(super) http_port: u16,
}
