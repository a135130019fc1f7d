//! Reasons for which the agent does not start, or ends otherwise than in order.

use node_web::site::WebError;
use state_store::StoreError;
use thiserror::Error;

use super::pages::PagesError;
use crate::aux_services::{HostedError, ServiceFailed};
use crate::node_identity::IdentityError;
use crate::node_labels::ProviderError;
use crate::resource_manager::UpdaterError;

/// Reason for which the agent did not start, or ended otherwise than in order.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The node's name or an address cannot be found out.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The web port cannot be had.
    #[error("starting the web port ({property})")]
    Web {
        /// Property of the port.
        property: &'static str,
        /// Reason.
        #[source]
        source: WebError,
    },
    /// The key stores of the web port cannot be used.
    #[error("starting TLS of the web port (ssl-server.xml)")]
    WebTls(#[source] Box<tls_server::TlsError>),
    /// The admin socket cannot be had.
    #[error("starting the admin socket (yarn.nodemanager.agent.admin.socket)")]
    Admin(#[source] node_admin::BindError),
    /// A local or log directory cannot be used.
    #[error("preparing the local and log directories")]
    Dirs(#[source] localize::DirsError),
    /// Containers are to run as other users, which this process may not do, or with a group that
    /// the system does not have.
    #[error("running containers as other users (yarn.nodemanager.container-executor.class): {}", .0.join("; "))]
    CannotRunAsUsers(Vec<String>),
    /// The system does not say which group the folders of users are to have.
    #[error("looking up the group of the folders of users")]
    Group(#[source] users::GroupError),
    /// The node's state store cannot be opened.
    #[error(transparent)]
    StateStore(StoreError),
    /// The notes of processes that an earlier agent started cannot be used.
    #[error("starting the recovery (yarn.nodemanager.recovery.dir)")]
    Starts(#[source] keeper::StartsError),
    /// An auxiliary service cannot be started.
    #[error(transparent)]
    AuxService(#[from] ServiceFailed),
    /// The host of services that are Java classes cannot be started.
    #[error("starting auxiliary services (yarn.nodemanager.aux-services)")]
    AuxHost(#[from] HostedError),
    /// A provider of the node's labels or attributes cannot be started.
    #[error(transparent)]
    NodeLabels(#[from] ProviderError),
    /// The cluster is secure, and the library for that is missing.
    #[error("starting Kerberos (hadoop.security.authentication)")]
    Kerberos(#[source] gssapi::StartError),
    /// Pages are to ask for Kerberos, and cannot.
    #[error("starting the proof of callers of pages (hadoop.http.authentication.type)")]
    Pages(#[from] PagesError),
    /// A thread or port cannot be had.
    #[error("starting {what}")]
    Start {
        /// Part that cannot be started.
        what: &'static str,
        /// Error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The ResourceManager refuses the node, or nobody answered.
    #[error(transparent)]
    ResourceManager(Box<UpdaterError>),
    /// A task ended that should not have.
    #[error("{0} ended unexpectedly")]
    TaskEnded(&'static str),
}

impl AgentError {
    /// Returns whether the configuration is at fault, so that another start with it would fail in
    /// the same way.
    #[must_use]
    pub fn is_of_configuration(&self) -> bool {
        use node_admin::BindError::{NoSuchGroup, TooLong};
        matches!(
            self,
            Self::CannotRunAsUsers(_) | Self::Admin(NoSuchGroup(_) | TooLong { .. })
        )
    }
}

impl From<UpdaterError> for AgentError {
    fn from(error: UpdaterError) -> Self {
        Self::ResourceManager(Box::new(error))
    }
}

/// Returns the error for a part that cannot be started.
pub(super) fn starting(what: &'static str) -> impl FnOnce(std::io::Error) -> AgentError {
    move |source| AgentError::Start { what, source }
}
