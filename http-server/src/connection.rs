//! One connection: its socket options, hyper's settings, and the body that comes before a service.

use std::convert::Infallible;
use std::error::Error as _;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use refusals::{Reason, Refusals};
use socket2::SockRef;
use tls_server::{Refused, TlsServer, TlsStream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::Limits;
use crate::activity::{Activity, Phase};
use crate::outgoing::{Content, Outgoing};
use crate::peer_io::PeerIo;
use crate::places::PeerKey;
use crate::service::Service;

/// Bytes of a connection's send buffer (`SO_SNDBUF`; Linux doubles the figure for its overhead).
/// The kernel's automatic size would let each slow reader hold some megabytes. A write waits until
/// about a third of the buffer is free, which a peer must take within the stall timeout. Enough for
/// 2.5 MB/s over 50 ms.
const SEND_BUFFER_BYTES: usize = 128 * 1024;

/// A connection's signals to close.
#[derive(Debug)]
pub(crate) struct Closing {
    /// The server stops: answers under way may end within the grace.
    pub(crate) shutdown: CancellationToken,
    /// The place goes to another peer: the connection closes at once.
    pub(crate) evicted: CancellationToken,
    /// Counts of the server.
    pub(crate) refusals: Arc<Refusals>,
}

/// Answers the requests of one connection until it closes, after the handshake where there is TLS.
pub(crate) async fn run<S: Service>(
    (stream, tls): (TcpStream, Option<Arc<TlsServer>>),
    service: Arc<S>,
    activity: Arc<Activity>,
    limits: Limits,
    closing: Closing,
    peer: PeerKey,
) {
    if let Err(error) = set_options(&stream, SEND_BUFFER_BYTES, limits.stall_timeout) {
        tracing::debug!(%error, "cannot set options of a web connection");
    }
    let Some(tls) = tls else {
        return serve(stream, service, activity, limits, closing, peer).await;
    };
    // Idle until then: a newcomer evicts it before those that are answered.
    if let Some(stream) = handshake(&tls, stream, limits.request_timeout, &closing).await {
        activity.enter(Phase::Idle);
        serve(stream, service, activity, limits, closing, peer).await;
    }
}

/// Performs the handshake within a deadline; `None` if there is none.
async fn handshake(
    tls: &TlsServer,
    stream: TcpStream,
    within: Duration,
    closing: &Closing,
) -> Option<Box<TlsStream>> {
    let result = tokio::select! {
        result = timeout(within, tls.accept(stream)) => result,
        () = closing.evicted.cancelled() => {
            closing.refusals.count(Reason::Evicted);
            return None;
        }
        () = closing.shutdown.cancelled() => return None,
    };
    match result {
        Ok(Ok(stream)) => Some(Box::new(stream)),
        Ok(Err(failed)) => {
            match failed.refused {
                Some(Refused::Malformed) => closing.refusals.count(Reason::Malformed),
                Some(Refused::Certificate) => closing.refusals.count(Reason::Unauthorized),
                None => {}
            }
            tracing::debug!(error = %failed.source, "a web client's TLS handshake failed");
            None
        }
        Err(_) => {
            closing.refusals.count(Reason::Late);
            None
        }
    }
}

/// Answers the requests of one connection.
async fn serve<S: Service>(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    service: Arc<S>,
    activity: Arc<Activity>,
    limits: Limits,
    closing: Closing,
    peer: PeerKey,
) {
    let io = PeerIo::new(
        stream,
        Arc::clone(&activity),
        limits.request_timeout,
        limits.stall_timeout,
    );
    let (phases, counts) = (Arc::clone(&activity), Arc::clone(&closing.refusals));
    let answering = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        let (service, activity) = (Arc::clone(&service), Arc::clone(&activity));
        let counts = Arc::clone(&counts);
        async move { Ok::<_, Infallible>(answer(&*service, request, activity, &limits, &counts).await) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.idle_timeout)
            .max_buf_size(limits.head_bytes)
            .max_headers(limits.head_fields)
            .half_close(false)
            .serve_connection(TokioIo::new(io), answering)
    );
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = closing.evicted.cancelled() => return closing.refusals.count(Reason::Evicted),
        () = closing.shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            match timeout(limits.shutdown_grace, connection).await {
                Ok(result) => result,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = result {
        if let Some(reason) = refusal_of(&error, phases.phase()) {
            closing.refusals.count(reason);
        }
        // Peers go away, stall and send nonsense: no fault of this program.
        tracing::debug!(%error, "a web client's connection ended early");
    }
}

/// Returns the reason for which a connection was ended; `None` if its peer ended it or was idle.
fn refusal_of(error: &hyper::Error, phase: Phase) -> Option<Reason> {
    if error.is_parse_too_large() {
        return Some(Reason::TooLarge);
    }
    if error.is_parse() {
        return Some(Reason::Malformed);
    }
    let cause = error.source()?.downcast_ref::<io::Error>()?;
    (cause.kind() == io::ErrorKind::TimedOut).then_some(match phase {
        Phase::Idle | Phase::Receiving | Phase::Kept => Reason::Late,
        Phase::Answering => Reason::Stalled,
    })
}

/// Sets the options of a connection whose peer may be slow: small packets go at once, the kernel
/// holds at most `send_buffer_bytes` for the peer (`SO_SNDBUF`; Linux doubles the figure for its
/// overhead), and what is left after the last write for `stall_timeout`.
///
/// # Errors
/// The system's.
pub fn set_options(
    stream: &TcpStream,
    send_buffer_bytes: usize,
    stall_timeout: Duration,
) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    socket.set_send_buffer_size(send_buffer_bytes)?;
    socket.set_tcp_user_timeout(Some(stall_timeout))
}

async fn answer<S: Service>(
    service: &S,
    request: Request<Incoming>,
    activity: Arc<Activity>,
    limits: &Limits,
    refusals: &Refusals,
) -> Response<Outgoing<S::Body>> {
    activity.enter(Phase::Answering);
    let (head, body) = request.into_parts();
    match receive(body, limits).await {
        Ok(body) => {
            let answer = service.answer(Request::from_parts(head, body)).await;
            answer.map(|body| Outgoing::new(Content::Service(body), activity))
        }
        Err((reason, why)) => {
            refusals.count(reason);
            refusal(reason, why, activity)
        }
    }
}

type Refusal = (Reason, &'static str);

/// Reads a request's body, within its limit and deadline.
async fn receive(body: Incoming, limits: &Limits) -> Result<Bytes, Refusal> {
    const TOO_LONG: Refusal = (Reason::TooLarge, "The request's body is too long.\n");
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    if limits.body_bytes == 0 || body.size_hint().lower() > limits.body_bytes as u64 {
        return Err(TOO_LONG);
    }
    let body = Limited::new(body, limits.body_bytes).collect();
    match timeout(limits.request_timeout, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(TOO_LONG),
        Ok(Err(_)) => Err((Reason::Malformed, "The request's body cannot be read.\n")),
        Err(_) => Err((Reason::Late, "The request's body did not arrive in time.\n")),
    }
}

/// Answers in the service's place, and closes the connection: a rest of the body may be on its way.
fn refusal<B>(reason: Reason, why: &'static str, activity: Arc<Activity>) -> Response<Outgoing<B>> {
    let content = Content::Refusal(Bytes::from_static(why.as_bytes()));
    let mut answer = Response::new(Outgoing::new(content, activity));
    *answer.status_mut() = match reason {
        Reason::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Reason::Late => StatusCode::REQUEST_TIMEOUT,
        Reason::Malformed
        | Reason::Unauthorized
        | Reason::Stalled
        | Reason::Evicted
        | Reason::NoPlace
        | Reason::NoMemory => StatusCode::BAD_REQUEST,
    };
    let headers = answer.headers_mut();
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, text);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}
