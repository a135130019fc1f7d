//! Counts of calls and of what they are refused.

use std::time::Instant;

use node_web::metrics::{CallOutcome, RpcMethod};
use refusals::Reason;
use wire::exception::{HadoopException, RemoteException};

use super::ContainerManager;

impl ContainerManager {
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
