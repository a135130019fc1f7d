//! Web server of the ResourceManager: a page for people at `/`, and REST at `/ws/v1/cluster/…` in
//! JSON as Hadoop answers it, as far as the facts are known. All is read-only except the state of
//! an application, which may be set to KILLED.

mod json;
mod page;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use http_server::{HostNames, HostRefusal, HttpServer, Limits, Service};
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use records::{ApplicationId, Now};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::core_task::Handle;
use crate::refusal::Refusal;
use crate::{Config, RmError};

/// Bounds on peers: some browsers and scripts.
const LIMITS: Limits = Limits {
    connections: 128,
    connections_per_address: 64,
    head_bytes: 16 * 1024,
    head_fields: 64,
    // `{"state":"KILLED"}` and some white space.
    body_bytes: 4 * 1024,
    request_timeout: Duration::from_secs(10),
    idle_timeout: Duration::from_secs(60),
    stall_timeout: Duration::from_secs(30),
    shutdown_grace: Duration::ZERO,
};

const ADDRESS_PROPERTY: &str = "yarn.resourcemanager.webapp.address";

const PREFIX: &str = "/ws/v1/cluster";

/// A web server that has its port.
#[derive(Debug)]
pub(crate) struct WebServer {
    server: HttpServer,
    site: Arc<Site>,
}

/// State that all requests share.
#[derive(Debug)]
struct Site {
    handle: Handle,
    hosts: HostNames,
}

impl Site {
    /// Makes a site that answers to the names that other programs find the services under, and to
    /// the machine's.
    fn new(config: &Config, handle: Handle) -> Self {
        let addresses = [
            &config.web,
            &config.client,
            &config.scheduler,
            &config.tracker,
        ];
        let hosts = HostNames::with_machine(addresses.map(|address| &address.host));
        Self { handle, hosts }
    }
}

impl WebServer {
    /// Listens on the configured address, for at most so many connections.
    ///
    /// # Errors
    /// [`RmError`], when the address cannot be resolved or listened on.
    pub(crate) async fn bind(
        config: &Config,
        descriptors: usize,
        handle: Handle,
    ) -> Result<Self, RmError> {
        let address = crate::resolve(ADDRESS_PROPERTY, &config.web).await?;
        let failed = |source| RmError::Bind {
            property: ADDRESS_PROPERTY,
            address,
            source,
        };
        let server = HttpServer::bind(address, LIMITS.within_descriptors(descriptors))
            .await
            .map_err(failed)?;
        let site = Arc::new(Site::new(config, handle));
        Ok(Self { server, site })
    }

    /// Address that the server listens on, with the real port.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.server.local_address()
    }

    /// Serves until `stop`, then closes all connections.
    pub(crate) async fn serve(self, stop: CancellationToken) {
        self.server.serve(self.site, stop).await;
    }
}

impl Service for Site {
    type Body = Full<Bytes>;

    async fn answer(&self, request: Request<Bytes>) -> Response<Full<Bytes>> {
        let answer = match self.hosts.check(&request) {
            Ok(()) => route(&self.handle, request).await,
            Err(refusal) => Answer::wrong_host(refusal),
        };
        answer.into_response()
    }
}

/// Content of an answer.
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

    fn wrong_host(refusal: HostRefusal) -> Self {
        let hint = match refusal {
            HostRefusal::Missing => String::new(),
            HostRefusal::Unknown => format!(" It answers to that of {ADDRESS_PROPERTY}."),
        };
        let status = refusal.status();
        Self::error(status, "BadRequestException", &format!("{refusal}{hint}"))
    }

    fn into_response(self) -> Response<Full<Bytes>> {
        let (kind, body) = match self.content {
            Content::Json(value) => ("application/json; charset=utf-8", value.to_string()),
            Content::Page(page) => ("text/html; charset=utf-8", page),
        };
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        for (name, value) in [
            (CONTENT_TYPE, kind),
            (
                CONTENT_SECURITY_POLICY,
                "default-src 'none'; style-src 'unsafe-inline'",
            ),
            (CACHE_CONTROL, "no-cache"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

async fn route(handle: &Handle, request: Request<Bytes>) -> Answer {
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

async fn put_state(handle: &Handle, id: &str, request: Request<Bytes>) -> Answer {
    let bad = |why: &str| Answer::error(StatusCode::BAD_REQUEST, "BadRequestException", why);
    let Ok(id) = id.parse::<ApplicationId>() else {
        return Answer::not_found("no application of this id");
    };
    let wanted = serde_json::from_slice::<Value>(request.body());
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
