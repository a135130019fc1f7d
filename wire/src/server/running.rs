//! Execution of a call, and encoding of its answer.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};

use crate::exception::{HadoopException, RemoteException, RpcErrorCode};
use crate::header::{self, CallRef};
use crate::rpc::{Caller, Service};

/// A call of a hosted service, not started yet.
pub(super) struct ServiceCall {
    pub(super) service: Arc<dyn Service>,
    pub(super) caller: Arc<Caller>,
    pub(super) method: String,
    pub(super) request: Bytes,
}

type CallResult = Result<Bytes, RemoteException>;

/// A running call as a future that owns all it needs. A panic inside fails the call, not the
/// connection.
pub(super) struct RunningCall(Pin<Box<dyn Future<Output = CallResult> + Send>>);

impl RunningCall {
    pub(super) fn new(call: ServiceCall) -> Self {
        let ServiceCall {
            service,
            caller,
            method,
            request,
        } = call;
        Self(Box::pin(async move {
            service.call(&caller, &method, request).await
        }))
    }

    /// Polls once; returns the result if the call has finished.
    pub(super) fn poll_once(&mut self, context: &mut Context<'_>) -> Option<CallResult> {
        match Pin::new(self).poll(context) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }
}

impl Future for RunningCall {
    type Output = CallResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<CallResult> {
        let future = &mut self.0;
        // After a panic the future is never polled again, so a half-done change inside is not
        // observed.
        std::panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))).unwrap_or_else(
            |_| {
                tracing::error!("a service panicked in a call");
                Poll::Ready(Err(RemoteException::with_code(
                    HadoopException::RpcServer,
                    "internal error of the server",
                    RpcErrorCode::RpcServer,
                )))
            },
        )
    }
}

/// Appends the answer to a call.
pub(super) fn put_answer(out: &mut BytesMut, call: &CallRef, result: CallResult) {
    let failure = match result {
        Ok(response) => match header::put_success(out, call, &response) {
            Ok(()) => return,
            Err(error) => RemoteException::with_code(
                HadoopException::RpcServer,
                error.to_string(),
                RpcErrorCode::SerializingResponse,
            ),
        },
        // A service may fail its call, but not end the connection with the calls of others.
        Err(exception) if exception.code.is_fatal() => RemoteException {
            code: RpcErrorCode::Application,
            ..exception
        },
        Err(exception) => exception,
    };
    if let Err(error) = header::put_failure(out, call, &failure) {
        let short = RemoteException::with_code(
            HadoopException::RpcServer,
            error.to_string(),
            RpcErrorCode::SerializingResponse,
        );
        header::put_failure(out, call, &short).expect("a class name and one line fit into a frame");
    }
}
