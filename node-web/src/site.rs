//! The agent's web server: the live page, metrics, health, Hadoop's REST resources and pages,
//! container logs.
//!
//! It reads a [`NodeSnapshot`] for each request and changes nothing: only `GET`, `HEAD` and
//! `OPTIONS` are served. Anybody who reaches the port may ask, so everything is bounded:
//! connections, the time to send a request and to take an answer, the size of a request, the
//! answers made at once, the memory that a log takes on its way.

mod accept;
mod access;
mod aggregated;
mod answer;
mod beans;
mod body;
mod caller;
pub mod conf;
pub mod filters;
mod fixed;
mod hadoop_beans;
mod hadoop_metrics;
mod html;
mod live_page;
mod log_level;
mod logs;
mod lookup;
mod measuring;
mod model;
mod options;
mod pages;
mod process;
mod proven;
mod range;
mod redirect;
mod rest;
mod role_histories;
mod server;
mod shared;
mod story;
mod stuck;
mod target;
mod usage;
mod viewer;
mod visible;
mod xml;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use access_control::Groups;
use bytes::Bytes;
use http_server::HostNames;
use hyper::header::{self, HeaderMap};
use hyper::{Method, Request, StatusCode};
use node_view::snapshot::{DrainNotice, NodeNumbers, NodeSnapshot};
use records::{ContainerName, EpochMillis};
use refusals::Refusals;
use time::UtcOffset;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

pub use aggregated::{OpenRemoteLog, RemoteLog, RemoteLogs, RemoteReader};
pub use hadoop_beans::BeanOptions;
pub use log_level::LogLevels;
pub use options::WebOptions;
pub use proven::{KerberosPages, TokenJudge, Verdict};
pub use server::{WebError, WebServer};
pub use stuck::StuckParts;

use crate::metrics::{Metrics, Port};
use crate::overview::Overview;
use crate::source::{NodeSource, RoleHistories};
use accept::wants_xml;
use answer::{Answer, METRICS, answer, text};
use body::Body;
use caller::{Caller, Callers};
use fixed::{
    lacks_csrf_header, last, no_such_page, own_log, stopping, too_many, with_methods, wrong_host,
};
use hadoop_metrics::HadoopMetrics;
use lookup::{Logs, NoLogs};
use shared::{Freshness, Pace, Shared};
use story::Stories;
use target::Target;
use viewer::Viewer;

/// Answers made at once, besides `/metrics` and `/health`. Each may hold the whole list of
/// containers (megabytes) or a thread that reads a disk. More wait for a moment, then get 503.
const WORK_MAX: usize = 16;
/// Length in KiB from which an answer is booked as a long one. Shorter ones of all connections come
/// to 16 MiB.
const LONG_ANSWER_KIB: u32 = 64;
/// Bound on the long answers that wait for their readers, in KiB: 64 MiB, a dozen lists of 10,000
/// containers. Further ones get 503. Log files are read as they are sent and are not booked.
const LONG_ANSWERS_KIB_MAX: u32 = 64 * 1024;
/// How long a request waits for its turn.
const WORK_WAIT: Duration = Duration::from_secs(5);
/// Longest time that a request waits for a snapshot of the node, which takes microseconds unless
/// something is badly wrong.
const SNAPSHOT_WAIT: Duration = Duration::from_secs(2);

/// State that all requests share.
#[derive(Debug)]
struct Site<S> {
    source: Arc<S>,
    metrics: Arc<Metrics>,
    refusals: Arc<Refusals>,
    options: Arc<WebOptions>,
    hosts: HostNames,
    work: Semaphore,
    /// Memory for long answers, in KiB.
    memory: Arc<Semaphore>,
    snapshot: Shared<Arc<NodeSnapshot>>,
    overview: Shared<Arc<Overview>>,
    /// Pace of stories: each is made by the core, and may cost a walk over its queue.
    stories: Pace,
    feed: live_page::Feed,
    callers: Callers,
    groups: Groups,
}

/// A request for a page or a REST document, with the data that answers it.
#[derive(Debug)]
struct Visit {
    node: Arc<NodeSnapshot>,
    options: Arc<WebOptions>,
    target: Target,
    /// The client wants REST documents in XML.
    xml: bool,
    viewer: Viewer,
    stories: Stories,
}

impl Visit {
    /// The logs of a container, for this visit's viewer.
    fn logs_of(&self, id: ContainerName) -> Result<Logs<'_>, NoLogs> {
        Logs::of(&self.node, &self.viewer, id)
    }
}

impl<S: NodeSource> Site<S> {
    fn new(source: Arc<S>, metrics: Arc<Metrics>, options: WebOptions) -> Self {
        Self {
            source,
            refusals: metrics.refusals(Port::Web),
            metrics,
            hosts: HostNames::with_machine(&options.hosts),
            work: Semaphore::new(WORK_MAX),
            memory: Arc::new(Semaphore::new(LONG_ANSWERS_KIB_MAX as usize)),
            snapshot: Shared::new(),
            overview: Shared::new(),
            stories: Pace::default(),
            feed: live_page::Feed::new(),
            callers: Callers::new(options.tls.is_some()),
            groups: Groups::default(),
            options: Arc::new(options),
        }
    }

    async fn respond(&self, request: &Request<Bytes>) -> Answer {
        let mut answer = self.unfiltered(request).await;
        let filters = &self.options.filters;
        filters.complete(request.headers(), answer.headers_mut());
        answer
    }

    async fn unfiltered(&self, request: &Request<Bytes>) -> Answer {
        if let Some(csrf) = &self.options.filters.csrf
            && !csrf.allows(request.method().as_str(), request.headers())
        {
            return lacks_csrf_header();
        }
        if !matches!(
            *request.method(),
            Method::GET | Method::HEAD | Method::OPTIONS
        ) {
            let refusal = text(StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD.\n");
            return last(with_methods(refusal));
        }
        // Load balancers check health under names of their own, and the answer is no secret.
        if request.uri().path() != "/health"
            && let Err(refusal) = self.hosts.check(request)
        {
            return wrong_host(refusal);
        }
        let target = match Target::parse(request.uri()) {
            Ok(target) => target,
            Err(bad) if request.uri().path().starts_with("/ws/") => {
                let xml = wants_xml(request.headers());
                return rest::RestError::from(bad).into_answer(xml);
            }
            Err(bad) => return pages::refusal(StatusCode::BAD_REQUEST, &bad.to_string()),
        };
        let Caller {
            name,
            cookie,
            challenge,
        } = match self.caller(request, &target).await {
            Ok(caller) => caller,
            Err(refusal) => return refusal,
        };
        let mut answer = if *request.method() == Method::OPTIONS {
            // Clients of Hadoop ask so for their cookie (`PseudoAuthenticator`).
            with_methods(text(StatusCode::OK, ""))
        } else {
            self.answer_to(target, name, request.headers()).await
        };
        if let Some(cookie) = cookie {
            answer.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        if let Some(challenge) = challenge {
            let headers = answer.headers_mut();
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        answer
    }

    async fn answer_to(&self, target: Target, name: Option<String>, headers: &HeaderMap) -> Answer {
        let path: Vec<&str> = target.segments.iter().map(String::as_str).collect();
        match path.as_slice() {
            ["health"] => self.health().await,
            ["static", name] => live_page::file(name).unwrap_or_else(no_such_page),
            ["metrics" | "jmx" | "prom" | "conf" | "stacks"] => {
                match self.may_measure(name).await {
                    Ok(()) => self.measured(&target, headers).await,
                    Err(refusal) => refusal,
                }
            }
            ["logs", ..] => match self.require_administrator(name).await {
                Ok(()) => own_log(),
                Err(refusal) => refusal,
            },
            ["logLevel"] => self.log_level(&target, name, headers).await,
            []
            | ["live" | "live.json"]
            | ["node", "roleHistories", ..]
            | ["ws", "v1", "node", "agent", "roleHistories", ..]
                if !self.may_watch(&name).await =>
            {
                access::only_for_administrators(&path)
            }
            [] => self.overview_as(live_page::page).await,
            ["live"] => self.events().await,
            ["live.json"] => self.overview_as(live_page::document).await,
            _ => self.visit(target, name, wants_xml(headers)).await,
        }
    }

    /// A page or a REST document, when it is its turn.
    async fn visit(&self, target: Target, name: Option<String>, xml: bool) -> Answer {
        let Some(_turn) = self.turn().await else {
            return too_many();
        };
        let path: Vec<&str> = target.segments.iter().map(String::as_str).collect();
        let answer = match path.as_slice() {
            ["ws", "v1", "node", "agent", "roleHistories", path @ ..] => {
                let rest = |all: &_| role_histories::rest(all, path, xml);
                self.role_histories(rest).await
            }
            ["node", "roleHistories", path @ ..] => {
                let offset = self.options.utc_offset;
                let page = |all: &_| role_histories::page(all, path, offset);
                self.role_histories(page).await
            }
            _ => self.visit_node(target, name, xml).await,
        };
        self.bounded(answer)
    }

    async fn visit_node(&self, target: Target, name: Option<String>, xml: bool) -> Answer {
        let Some(node) = self.snapshot(Freshness::Current).await else {
            return stopping();
        };
        let viewer = self.viewer(name, &node).await;
        let stories = self.stories(&target).await;
        let visit = Visit {
            node,
            options: Arc::clone(&self.options),
            target,
            xml,
            viewer,
            stories,
        };
        let path: Vec<&str> = visit.target.segments.iter().map(String::as_str).collect();
        match path.as_slice() {
            ["ws", "v1", "node", path @ ..] => rest::visit(&visit, path).await,
            ["node", path @ ..] => pages::visit(&visit, path).await,
            _ => no_such_page(),
        }
    }

    async fn stories(&self, target: &Target) -> Stories {
        let path: Vec<&str> = target.segments.iter().map(String::as_str).collect();
        let story = async {
            match path.as_slice() {
                ["node", "container", id] => {
                    let id = id.parse().ok()?;
                    let take = async || self.source.explanation(id).await;
                    self.stories.take(take).await.map(Stories::Container)
                }
                ["node", "application", id] => {
                    let (id, last) = (id.parse().ok()?, story::APPLICATION_STEPS_MAX);
                    let take = async || self.source.application_explanation(id, last).await;
                    self.stories.take(take).await.map(Stories::Application)
                }
                _ => None,
            }
        };
        let story = timeout(SNAPSHOT_WAIT, story).await;
        story.ok().flatten().unwrap_or(Stories::None)
    }

    /// Answers with the overview in one of its forms, after a wait for a permit.
    async fn overview_as(&self, form: fn(&Overview, UtcOffset) -> Answer) -> Answer {
        let Some(_turn) = self.turn().await else {
            return too_many();
        };
        match self.overview().await {
            Some(view) => self.bounded(form(&view, self.options.utc_offset)),
            None => stopping(),
        }
    }

    /// Answers with the overview again after each change.
    async fn events(&self) -> Answer {
        let Ok(place) = self.feed.join() else {
            return too_many();
        };
        match self.overview().await {
            Some(view) => live_page::events(place.stream(&view, self.options.utc_offset)),
            None => stopping(),
        }
    }

    /// Waits for a permit to make an answer. It is given back before the answer is sent: a peer
    /// that reads slowly holds none.
    async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        timeout(WORK_WAIT, self.work.acquire()).await.ok()?.ok()
    }

    /// Books the memory of a long answer until its last byte is sent.
    fn bounded(&self, answer: Answer) -> Answer {
        let kib = u32::try_from(answer.body().held_bytes() / 1024).unwrap_or(u32::MAX);
        if kib < LONG_ANSWER_KIB {
            return answer;
        }
        // One answer may be longer than the bound; then it is the only one.
        let share = kib.min(LONG_ANSWERS_KIB_MAX);
        match Arc::clone(&self.memory).try_acquire_many_owned(share) {
            Ok(permit) => answer.map(|body| body.holding(permit)),
            Err(_) => too_many(),
        }
    }

    /// What the path names of the agent itself, rather than of what runs on the node.
    async fn measured(&self, target: &Target, headers: &HeaderMap) -> Answer {
        match target.segments.first().map(String::as_str) {
            Some("prom") => self.hadoop_metrics(HadoopMetrics::prom).await,
            Some("jmx") => self.jmx(target).await,
            Some("conf") => self.conf(target, headers).await,
            Some("stacks") => self.stacks().await,
            _ => self.metrics().await,
        }
    }

    async fn jmx(&self, target: &Target) -> Answer {
        let Some(_turn) = self.turn().await else {
            return too_many();
        };
        let Some(node) = self.snapshot(Freshness::Recent).await else {
            return stopping();
        };
        let Some(now) = self.numbers().await else {
            return stopping();
        };
        let own_bean = HadoopMetrics::of(&node, &now, &self.metrics).bean();
        if target.parameter("qry") == Some(hadoop_metrics::BEAN) {
            return beans::jmx(&[own_bean], target);
        }
        let metrics = Arc::clone(&self.metrics);
        let options = self.options.beans;
        let target = target.clone();
        // The list of open files may be long, and so may the document: calls of containers share
        // the threads here.
        let making = move || {
            let own = process::OwnUse::read();
            let mut beans = vec![own_bean];
            beans.extend(hadoop_beans::beans(&node, &metrics, &own, options));
            beans.extend(process::beans(&node, &metrics, &own, wall_clock()));
            beans::jmx(&beans, &target)
        };
        let made = tokio::task::spawn_blocking(making).await;
        made.unwrap_or_else(|_| stopping())
    }

    async fn conf(&self, target: &Target, headers: &HeaderMap) -> Answer {
        let Some(_turn) = self.turn().await else {
            return too_many();
        };
        let accept = headers.get(header::ACCEPT);
        let accept = accept.and_then(|value| value.to_str().ok());
        let properties = &self.options.properties;
        self.bounded(conf::conf(properties, target, accept.unwrap_or_default()))
    }

    async fn stacks(&self) -> Answer {
        let Some(_turn) = self.turn().await else {
            return too_many();
        };
        match tokio::task::spawn_blocking(process::threads).await {
            Ok(threads) => self.bounded(text(StatusCode::OK, threads)),
            Err(_) => stopping(),
        }
    }

    async fn metrics(&self) -> Answer {
        // Without a snapshot the gauges keep their last values; the counters are worth having all
        // the same.
        if let Some(node) = self.snapshot(Freshness::Recent).await {
            self.metrics.set_node(&node);
        }
        let metrics = Arc::clone(&self.metrics);
        // The list of open files and the text may be long, as in `jmx`.
        let encoding = move || metrics.encode() + &process::metrics();
        match tokio::task::spawn_blocking(encoding).await {
            Ok(text) => answer(StatusCode::OK, METRICS, Body::full(text)),
            Err(_) => stopping(),
        }
    }

    /// The agent's numbers under Hadoop's names.
    async fn hadoop_metrics(&self, form: impl FnOnce(&HadoopMetrics) -> Answer) -> Answer {
        match self.snapshot(Freshness::Recent).await {
            Some(node) => form(&HadoopMetrics::of(&node, &node.numbers, &self.metrics)),
            None => stopping(),
        }
    }

    async fn role_histories(&self, form: impl FnOnce(&RoleHistories) -> Answer) -> Answer {
        let histories = timeout(SNAPSHOT_WAIT, self.source.role_histories()).await;
        match histories.ok().flatten() {
            Some(histories) => form(&histories),
            None => stopping(),
        }
    }

    /// For load balancers and supervisors: 200 while the RM may place containers here.
    async fn health(&self) -> Answer {
        // Before anything that a stuck part would hold up.
        let stuck = self.options.stuck.read();
        if !stuck.is_empty() {
            let stuck = format!("stuck: {}\n", stuck.join("; "));
            return text(StatusCode::SERVICE_UNAVAILABLE, stuck);
        }
        let Some(node) = self.snapshot(Freshness::Recent).await else {
            return stopping();
        };
        let (registered, health) = (node.is_registered(), &node.about.health);
        if registered && health.healthy {
            let words = node.about.drain.as_ref().map(DrainNotice::words);
            return text(
                StatusCode::OK,
                words.map_or("ok\n".to_owned(), |words| words + "\n"),
            );
        }
        let why = if health.healthy {
            "not registered with the ResourceManager\n".to_owned()
        } else {
            format!("unhealthy: {}\n", health.report)
        };
        text(StatusCode::SERVICE_UNAVAILABLE, why)
    }

    async fn snapshot(&self, freshness: Freshness) -> Option<Arc<NodeSnapshot>> {
        let take = async || self.source.snapshot().await;
        let snapshot = self.snapshot.get(freshness, take);
        timeout(SNAPSHOT_WAIT, snapshot).await.ok().flatten()
    }

    async fn numbers(&self) -> Option<NodeNumbers> {
        let numbers = timeout(SNAPSHOT_WAIT, self.source.numbers());
        numbers.await.ok().flatten()
    }

    async fn overview(&self) -> Option<Arc<Overview>> {
        let take = async || self.source.overview().await.map(Arc::new);
        let view = self.overview.get(Freshness::Current, take);
        timeout(SNAPSHOT_WAIT, view).await.ok().flatten()
    }
}

fn wall_clock() -> EpochMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    EpochMillis(since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }))
}

#[cfg(test)]
mod tests;
