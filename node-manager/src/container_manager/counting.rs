//! Counts of calls and of what they are refused, and audit lines of refused tokens.

use std::time::Instant;

use node_core::{Asker, is_unauthorized};
use node_view::outcome::CallOutcome;
use node_web::metrics::RpcMethod;
use records::ContainerId;
use refusals::Reason;
use wire::exception::{HadoopException, RemoteException};

use super::ContainerManager;
use crate::audit::RefusedToken;

/// Use of a container token, as the audit log names it.
#[derive(Clone, Copy, Debug)]
pub(super) enum TokenUse {
    /// To start a container.
    Start,
    /// To change a container.
    Update,
}

impl TokenUse {
    const fn operation(self) -> &'static str {
        match self {
            Self::Start => "Start Container Request",
            Self::Update => "Update Container Request",
        }
    }
}

impl ContainerManager {
    /// Writes the audit line of a container token that is refused. Another error has none.
    pub(super) fn audit_refusal(
        &self,
        asker: &Asker,
        token_use: TokenUse,
        container: Option<ContainerId>,
        error: &RemoteException,
    ) {
        if error.is(HadoopException::InvalidToken) || is_unauthorized(error) {
            self.refused_tokens.write(&RefusedToken {
                user: Some(asker.attempt),
                address: asker.address,
                operation: token_use.operation(),
                target: "ContainerManageImpl",
                description: &error.message,
                container,
            });
        }
    }

    /// Counts the refusal of a token of one container or of a whole call.
    pub(super) fn count_refusal(&self, error: &RemoteException) {
        if error.is(HadoopException::InvalidToken) {
            self.refusals.count(Reason::Unauthorized);
        }
    }

    /// Runs a call and counts it with its outcome and time.
    pub(super) async fn counted<T>(
        &self,
        method: RpcMethod,
        call: impl Future<Output = Result<T, RemoteException>> + Send,
    ) -> Result<T, RemoteException> {
        let began = Instant::now();
        let result = call.await;
        let outcome = match &result {
            Ok(_) => CallOutcome::Ok,
            Err(error) => {
                self.count_refusal(error);
                CallOutcome::Error
            }
        };
        self.metrics.observe_rpc(method, outcome, began.elapsed());
        result
    }
}
