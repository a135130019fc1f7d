//! Who may use the node's protocols, as its ports ask: callers are attempts of applications, who
//! have proved a token.

use std::sync::Arc;

use access_control::User;
use service_authorization::ServiceAuthorization;
use wire::exception::{HadoopException, RemoteException, RpcErrorCode};
use wire::rpc::{Authorize, BoxFuture, Caller};

use crate::config::Policies;

/// The policies in force, for all ports of the node.
#[derive(Clone, Debug)]
pub(crate) struct PortAuthorization(Arc<ServiceAuthorization>);

impl PortAuthorization {
    pub(crate) fn new(policies: Policies) -> Self {
        Self(Arc::new(ServiceAuthorization::new(policies)))
    }

    /// Puts other policies into force.
    pub(crate) async fn replace(&self, policies: Policies) {
        self.0.replace(policies).await;
    }

    /// Returns the rule for a port.
    pub(crate) fn rule(&self) -> Arc<dyn Authorize> {
        Arc::new(self.clone())
    }
}

impl Authorize for PortAuthorization {
    fn authorize<'a>(
        &'a self,
        caller: &'a Caller,
        protocol: &'a str,
    ) -> BoxFuture<'a, Result<(), RemoteException>> {
        Box::pin(async move {
            // No account of the system has the name of an attempt, so that it is in no group.
            let user = User {
                name: caller.user.clone(),
                groups: Vec::new(),
            };
            let method = if caller.token_kind.is_some() {
                "TOKEN"
            } else {
                "SIMPLE"
            };
            let allowed = self.0.authorize(protocol, &user, method, caller.peer.ip());
            allowed.await.map_err(|denial| {
                RemoteException::with_code(
                    HadoopException::Authorization,
                    denial.to_string(),
                    RpcErrorCode::FatalUnauthorized,
                )
            })
        })
    }
}
