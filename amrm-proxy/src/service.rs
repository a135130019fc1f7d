//! ApplicationMasterProtocol on the proxy's port. The local AMRMToken of a connection identifies
//! the calling attempt.

use std::sync::Arc;

use bytes::Bytes;
use wire::exception::{HadoopException, RemoteException};
use wire::protocol::application_master::{PROTOCOL, VERSION};
use wire::rpc::{BoxFuture, Caller, Service};
use wire::server::ServerLimits;

use crate::interceptor::AmMethod;
use crate::pipelines::AmrmProxy;

/// Largest request of an AM, in bytes: twice the memory that its asks may take.
const REQUEST_BYTES_MAX: usize = 2 * sched::ASK_BYTES_MAX;

/// Number of long requests handled at once, each of another attempt. Calls of one attempt run one
/// after the other, and few calls of an AM are long.
const LONG_REQUESTS_MAX: usize = 8;

/// Returns the limits of the proxy's port for its callers.
#[must_use]
pub fn server_limits() -> ServerLimits {
    ServerLimits {
        frame_length_max: REQUEST_BYTES_MAX,
        large_requests_bytes_max: LONG_REQUESTS_MAX * REQUEST_BYTES_MAX,
        large_requests_bytes_per_user_max: REQUEST_BYTES_MAX,
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

    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        method: &'a str,
        request: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, RemoteException>> {
        Box::pin(self.run(caller, method, request))
    }
}
