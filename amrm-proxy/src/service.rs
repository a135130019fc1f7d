//! ApplicationMasterProtocol on the proxy's port. The local AMRMToken of a connection identifies
//! the calling attempt.

use std::sync::Arc;

use bytes::Bytes;
use wire::decode_cost;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, FinishApplicationMasterRequestProto,
    RegisterApplicationMasterRequestProto,
};
use wire::protocol::application_master::{PROTOCOL, VERSION};
use wire::raw_message::RawMessageError;
use wire::rpc::{BoxFuture, Caller, Service};
use wire::server::ServerLimits;

use crate::call::AmMethod;
use crate::pipelines::AmrmProxy;

/// Largest request of an AM, in bytes: twice the memory that its asks may take.
const REQUEST_BYTES_MAX: usize = 2 * sched::ASK_BYTES_MAX;

/// Memory for the requests of all AMs, in bytes; those of one user get half. The longest request,
/// split into its fields, fits into a half; a long one usually takes a hundredth of it.
const REQUESTS_BYTES_MAX: usize = 4 * REQUEST_BYTES_MAX;

/// Returns the limits of the proxy's port for its callers.
#[must_use]
pub fn server_limits() -> ServerLimits {
    ServerLimits {
        frame_length_max: REQUEST_BYTES_MAX,
        requests_bytes_max: REQUESTS_BYTES_MAX,
        // Every AM may have a call that waits for the ResourceManager, whose answer is mostly
        // short: 2,048 of them, and 64 MiB of answers that the AMs of one user leave unread.
        answers_bytes_max: 128 * 1024 * 1024,
        answer_bytes_reserved: 64 * 1024,
        ..ServerLimits::default()
    }
}

/// RPC service in front of the proxy. Passes messages on unparsed; only interceptors read them.
pub struct AmrmProxyService(Arc<AmrmProxy>);

impl AmrmProxyService {
    /// Makes the service of this proxy.
    #[must_use]
    pub const fn new(proxy: Arc<AmrmProxy>) -> Self {
        Self(proxy)
    }

    async fn run(
        &self,
        caller: &Caller,
        method: &str,
        request: Bytes,
    ) -> Result<Bytes, RemoteException> {
        let Some(method) = AmMethod::from_name(method) else {
            return Err(RemoteException::new(
                HadoopException::NoSuchMethod,
                format!("{PROTOCOL} has no method {method}"),
            ));
        };
        let identifier = caller.token_identifier.as_deref().ok_or_else(|| {
            RemoteException::new(HadoopException::AccessControl, "an AMRMToken is needed")
        })?;
        let pipeline = self.0.pipeline_of(identifier)?;
        pipeline.call(method, identifier, request).await
    }
}

impl Service for AmrmProxyService {
    fn protocol(&self) -> &'static str {
        PROTOCOL
    }

    fn version(&self) -> u64 {
        VERSION
    }

    fn request_cost(&self, method: &str, request: &[u8]) -> Result<usize, RawMessageError> {
        use decode_cost::of_one_field_at_a_time as cost;
        match AmMethod::from_name(method) {
            Some(AmMethod::Register) => cost::<RegisterApplicationMasterRequestProto>(request),
            Some(AmMethod::Allocate) => cost::<AllocateRequestProto>(request),
            Some(AmMethod::Finish) => cost::<FinishApplicationMasterRequestProto>(request),
            None => Ok(0),
        }
    }

    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        method: &'a str,
        request: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, RemoteException>> {
        Box::pin(self.run(caller, method, request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_thousand_calls_may_wait_for_the_resource_manager() {
        let limits = server_limits();
        let calls = limits.answers_bytes_max / limits.answer_bytes_reserved;
        assert_eq!(calls, 2_048);
    }
}
