//! For people a page at `/`, for programs REST: `/ws/v1/cluster/…` as Hadoop's ResourceManager answers it in JSON, as far as
//! it has the facts. All is read-only except the state of an application, which may be set to KILLED.

mod json;
mod page;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hadoop_conf::HostPort;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use records::{ApplicationId, Now};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::RmError;
use crate::core_task::Handle;
use crate::refusal::Refusal;

/// Open connections; further ones wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 64;
/// Bytes of a request's head.
const REQUEST_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a request's body: `{"state":"KILLED"}` and some space.
const BODY_BYTES_MAX: usize = 4 * 1024;
/// For a request to come in.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// For a connection as a whole: a client that does not read its answer holds its place no longer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause after a failed accept: the likely cause, no descriptors left, does not go away at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const PREFIX: &str = "/ws/v1/cluster";

/// A web server that has its port.
#[derive(Debug)]
pub struct WebServer {
    listener: TcpListener,
    address: SocketAddr,
    handle: Handle,
}

impl WebServer {
    /// Takes the port.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub async fn bind(address: &HostPort, handle: Handle) -> Result<Self, RmError> {
        const PROPERTY: &str = "yarn.resourcemanager.webapp.address";
        let address = crate::resolve(PROPERTY, address).await?;
        let failed = |source| RmError::Bind {
            property: PROPERTY,
            address,
            source,
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self {
            listener,
            address,
            handle,
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`; then cuts what is open.
    pub async fn serve(self, stop: CancellationToken) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let connections = TaskTracker::new();
        loop {
            let place = Arc::clone(&places).acquire_owned();
            let accepted = async {
                let place = place.await.expect("the semaphore is never closed");
                self.listener
                    .accept()
                    .await
                    .map(|(stream, _)| (stream, place))
            };
            let (stream, place) = tokio::select! {
                () = stop.cancelled() => break,
                accepted = accepted => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a web client");
                        sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
            };
            let (handle, stop) = (self.handle.clone(), stop.clone());
            connections.spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    _ = timeout(CONNECTION_TIMEOUT, converse(stream, handle)) => {}
                }
                drop(place);
            });
        }
        connections.close();
        connections.wait().await;
    }
}

async fn converse(stream: TcpStream, handle: Handle) {
    let service = service_fn(move |request| {
        let handle = handle.clone();
        async move { Ok::<_, Infallible>(respond(&handle, request).await) }
    });
    let connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(REQUEST_TIMEOUT)
            .max_buf_size(REQUEST_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service)
    );
    if let Err(error) = connection.await {
        // Clients go away and send nonsense; that is theirs to notice.
        tracing::debug!(%error, "a web client's connection ended early");
    }
}

/// What an answer says.
#[derive(Debug)]
enum Content {
    Json(Value),
    Page(String),
}

/// An answer before it is bytes.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    content: Content,
}

impl Answer {
    fn ok(body: Value) -> Self {
        Self {
            status: StatusCode::OK,
            content: Content::Json(body),
        }
    }

    fn page(page: String) -> Self {
        Self {
            status: StatusCode::OK,
            content: Content::Page(page),
        }
    }

    /// Hadoop's form of an error.
    fn error(status: StatusCode, exception: &str, message: &str) -> Self {
        Self {
            status,
            content: Content::Json(
                json!({"RemoteException": {"exception": exception, "message": message}}),
            ),
        }
    }

    fn not_found(what: &str) -> Self {
        Self::error(StatusCode::NOT_FOUND, "NotFoundException", what)
    }

    fn stopping() -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::error(
            status,
            "RetriableException",
            "the ResourceManager is stopping",
        )
    }
}

async fn respond(handle: &Handle, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let answer = route(handle, request).await;
    let (kind, body) = match answer.content {
        Content::Json(value) => ("application/json; charset=utf-8", value.to_string()),
        Content::Page(page) => ("text/html; charset=utf-8", page),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'"),
    );
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn route(handle: &Handle, request: Request<Incoming>) -> Answer {
    let path = request.uri().path().to_owned();
    let is_page = ["/", "/cluster", "/cluster/"].contains(&path.as_str());
    if is_page && request.method() == Method::GET {
        let page = handle.run(|core, _| page::cluster(core)).await;
        return page.map_or_else(|_| Answer::stopping(), Answer::page);
    }
    let Some(path) = path.strip_prefix(PREFIX) else {
        return Answer::not_found("only / and /ws/v1/cluster are served here");
    };
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if request.method() == Method::PUT {
        return match parts.as_slice() {
            ["apps", id, "state"] => put_state(handle, id, request).await,
            _ => method_not_allowed(),
        };
    }
    if request.method() != Method::GET {
        return method_not_allowed();
    }
    let parts: Vec<String> = parts.into_iter().map(str::to_owned).collect();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let look = move |core: &mut crate::core::Core, now: Now| {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        get(core, &parts, &query, now)
    };
    handle
        .run(look)
        .await
        .unwrap_or_else(|_| Answer::stopping())
}

fn method_not_allowed() -> Answer {
    let status = StatusCode::METHOD_NOT_ALLOWED;
    Answer::error(
        status,
        "WebApplicationException",
        "not a method of this resource",
    )
}

fn get(core: &crate::core::Core, parts: &[&str], query: &str, now: Now) -> Answer {
    match parts {
        [] | ["info"] => Answer::ok(json::info(core)),
        ["metrics"] => Answer::ok(json::metrics(core)),
        ["scheduler"] => Answer::ok(json::scheduler(core)),
        ["nodes"] => Answer::ok(json::nodes(core, query)),
        ["nodes", id] => match id.parse().ok().and_then(|id| core.node(&id)) {
            Some(node) => Answer::ok(json!({"node": json::node(core, node)})),
            None => Answer::not_found("no node of this id"),
        },
        ["apps"] => Answer::ok(json::applications(core, query, now)),
        ["apps", id, rest @ ..] => {
            let id = id.parse::<ApplicationId>().ok();
            let application = id.and_then(|id| core.application(id).ok());
            match (application, rest) {
                (Some(application), []) => {
                    Answer::ok(json!({"app": json::application(core, application, now)}))
                }
                (Some(application), ["state"]) => {
                    Answer::ok(json!({"state": application.state.as_str()}))
                }
                (Some(application), ["appattempts"]) => {
                    Answer::ok(json::attempts(core, application))
                }
                (Some(application), ["appattempts", attempt, "containers"]) => {
                    let attempts = application.attempts().iter();
                    match attempts
                        .map(|each| each.id)
                        .find(|id| id.to_string() == *attempt)
                    {
                        Some(id) => Answer::ok(json::containers(core, id)),
                        None => Answer::not_found("no attempt of this id"),
                    }
                }
                (Some(_), _) => Answer::not_found("no such resource of an application"),
                (None, _) => Answer::not_found("no application of this id"),
            }
        }
        _ => Answer::not_found("no such resource"),
    }
}

async fn put_state(handle: &Handle, id: &str, request: Request<Incoming>) -> Answer {
    let bad = |why: &str| Answer::error(StatusCode::BAD_REQUEST, "BadRequestException", why);
    let Ok(id) = id.parse::<ApplicationId>() else {
        return Answer::not_found("no application of this id");
    };
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect();
    let Ok(Ok(body)) = timeout(REQUEST_TIMEOUT, body).await else {
        return bad("the body is too long or did not come");
    };
    let wanted = serde_json::from_slice::<Value>(&body.to_bytes());
    if !wanted.is_ok_and(|wanted| wanted["state"] == "KILLED") {
        return bad("the only state that can be set is KILLED");
    }
    let why = "Application was killed by a user through REST.";
    match handle.run(move |core, now| core.kill(id, why, now)).await {
        Ok(Ok(_)) => Answer::ok(json!({"state": "KILLED"})),
        Ok(Err(refusal @ Refusal::UnknownApplication(_))) => {
            Answer::not_found(&refusal.to_string())
        }
        Ok(Err(refusal)) => bad(&refusal.to_string()),
        Err(_) => Answer::stopping(),
    }
}
