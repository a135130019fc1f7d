//! Execution of a call, and encoding of its answer.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

use super::budget::Share;
use crate::exception::{HadoopException, RemoteException, RpcErrorCode};
use crate::header::{self, CallRef};
use crate::outbound::Held;
use crate::raw_message::RawMessageError;
use crate::service::{Caller, Service};

/// A call of a hosted service, not started yet.
pub(super) struct ServiceCall {
    pub(super) service: Arc<dyn Service>,
    pub(super) caller: Arc<Caller>,
    pub(super) method: String,
    pub(super) request: Bytes,
}

impl ServiceCall {
    /// Returns the bytes that reading the request takes at most.
    pub(super) fn cost(&self) -> Result<usize, RawMessageError> {
        self.service.request_cost(&self.method, &self.request)
    }
}

/// Place of a call: held from its start until the socket has taken its answer.
pub(super) struct Place {
    pub(super) _slot: OwnedSemaphorePermit,
    pub(super) answer: Share,
}

impl Held for Place {
    fn resize(&mut self, bytes: usize) {
        self.answer.resize(bytes);
    }
}

type CallResult = Result<Bytes, RemoteException>;

/// A running call as a future that owns all it needs. A panic inside fails the call, not the
/// connection.
///
/// The mutex is never locked. It lets a connection that holds a call be shared, as
/// `std::sync::Exclusive` will.
pub(super) struct RunningCall(Mutex<Pin<Box<dyn Future<Output = CallResult> + Send>>>);

impl RunningCall {
    pub(super) fn new(call: ServiceCall) -> Self {
        let ServiceCall {
            service,
            caller,
            method,
            request,
        } = call;
        Self(Mutex::new(Box::pin(async move {
            service.call(&caller, &method, request).await
        })))
    }

    /// Runs to the end. Everything up to its first wait, such as decoding, happens on a thread for
    /// blocking work, with a permit of `heavy`.
    pub(super) async fn finish_off_worker(mut self, heavy: &Arc<Semaphore>) -> CallResult {
        let permit = Arc::clone(heavy).acquire_owned().await;
        let runtime = Handle::current();
        let first = spawn_blocking(move || {
            let polled = poll_fn(|context| Poll::Ready(self.poll_once(context)));
            let result = runtime.block_on(polled);
            drop(permit);
            (self, result)
        });
        match first
            .await
            .expect("a panic of a service is caught, and nothing cancels the task")
        {
            (_, Some(result)) => result,
            // Polled again here, so that its waits wake this task.
            (call, None) => call.await,
        }
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
        let future = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::server::ServerLimits;
    use crate::server::budget::Budgets;

    #[tokio::test]
    async fn an_answer_that_waits_counts_with_its_length() {
        let caller = Caller {
            user: "bob".to_owned(),
            owner: "bob".to_owned(),
            token_identifier: None,
            token_kind: None,
            peer: (Ipv4Addr::LOCALHOST, 1).into(),
        };
        let account = Budgets::new(&ServerLimits::default()).account_of(&caller);
        let slots = Arc::new(Semaphore::new(1));
        let mut place = Place {
            _slot: slots.acquire_owned().await.unwrap(),
            answer: account.reserve_answer(64 * 1024).await,
        };
        for length in [1024 * 1024, 1024] {
            place.resize(length);
            assert_eq!(place.answer.bytes(), length);
        }
    }
}
