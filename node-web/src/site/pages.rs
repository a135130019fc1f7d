//! Pages for people, at the paths that Hadoop's links point to (Hadoop: `NMController` and its
//! pages), but for `/`, which is the live page.
//!
//! Plain HTML without scripts.

use std::fmt::Display;

use hyper::StatusCode;
use maud::{Markup, display, html};
use node_view::java_date::java_date_of;
use node_view::snapshot::{ApplicationSnapshot, ContainerSnapshot};
use records::{ApplicationId, ContainerExitStatus, ContainerName};

use super::Visit;
use super::answer::{Answer, HTML, answer, redirect};
use super::body::{Body, Escape};
use super::html::{Page, path_segment};
use super::logs::{LogName, OpenLog};
use super::lookup::NoLogs;
use super::range;
use super::redirect as links;
use super::usage;

/// Place of a log file in its page. Texts from elsewhere that stand before it are an id and
/// segments of a path, which have no such character.
const FILE: char = '\0';

/// The answer to a request for a page; `path` is what stands behind `/node`.
pub(super) async fn visit(visit: &Visit, path: &[&str]) -> Answer {
    match path {
        [] | ["node" | "info"] => node(visit),
        ["allApplications"] => {
            let apps = visit.node.applications.iter();
            let listed = apps.filter(|app| visit.viewer.lists(app));
            page(StatusCode::OK, "Applications", applications(listed))
        }
        ["allContainers"] => {
            let all = visit.node.containers.iter();
            let listed = all.filter(|each| visit.viewer.lists_container(&visit.node, each));
            page(StatusCode::OK, "Containers", containers(listed))
        }
        ["application", id] => application(visit, id),
        ["container", id] => container(visit, id),
        ["containerlogs", id, user] => logs(visit, id, user).await,
        ["containerlogs", id, user, file] => log(visit, id, user, file).await,
        _ => refusal(StatusCode::NOT_FOUND, "There is no such page."),
    }
}

/// Answers with a page that only gives the reason for a refusal.
pub(super) fn refusal(status: StatusCode, why: &str) -> Answer {
    page(status, why, Markup::default())
}

/// Answers with a page of this title.
pub(super) fn page(status: StatusCode, title: &str, main: Markup) -> Answer {
    answer(status, HTML, Body::full(document(title, main)))
}

fn document(title: &str, main: Markup) -> String {
    let page = Page {
        title,
        head: Markup::default(),
        path: None,
        heading: html! { h1 { (title) } },
        main,
        foot: Markup::default(),
    };
    page.into_string()
}

/// Returns a row of a table of facts.
pub(super) fn fact(name: &str, value: impl Display) -> Markup {
    html! { tr { td { (name) } td { (display(value)) } } }
}

fn node(visit: &Visit) -> Answer {
    let (node, about, numbers) = (&*visit.node, &visit.node.about, &visit.node.numbers);
    let counts = node.counts();
    let date = |time| java_date_of(time, visit.options.utc_offset);
    let yes = |yes| if yes { "yes" } else { "no" };
    let main = html! {
        table.facts {
            (fact("Node", &about.node_id))
            (fact("Registered with the ResourceManager", yes(node.is_registered())))
            (fact("Healthy", yes(about.health.healthy)))
            (fact("Health report", &about.health.report))
            (fact("Health looked at", date(about.health.updated_at)))
            (fact("Started", date(about.started_at)))
            (fact("Offers", numbers.total))
            (fact("Allocated", numbers.allocated))
            (fact("Guaranteed containers running", counts.running.guaranteed))
            (fact("Guaranteed containers queued", counts.queued.guaranteed))
            (fact("Opportunistic containers running", counts.running.opportunistic))
            (fact("Opportunistic containers queued", counts.queued.opportunistic))
            (fact("Opportunistic containers paused", counts.paused))
            (fact("Queue capacity", numbers.opportunistic.opport_queue_capacity))
            @match numbers.limit_length() {
                Some(length) => (fact("Queue limit of the ResourceManager", length)),
                None => (fact("Queue limit of the ResourceManager", "none")),
            }
            (fact("NodeManager version", &about.versions.node_manager_build))
            (fact("Hadoop version", &about.versions.hadoop_build))
        }
    };
    let title = format!("NodeManager {}", about.node_id);
    page(StatusCode::OK, &title, main)
}

fn applications<'a>(apps: impl IntoIterator<Item = &'a ApplicationSnapshot>) -> Markup {
    html! {
        table {
            tr { th { "Application" } th { "User" } th { "State" } th { "Containers" } }
            @for app in apps {
                tr {
                    td { a href={ "/node/application/" (app.id) } { (app.id) } }
                    td { (app.user) }
                    td { (app.state.as_str()) }
                    td { (app.containers.len()) }
                }
            }
        }
    }
}

fn containers<'a>(containers: impl IntoIterator<Item = &'a ContainerSnapshot>) -> Markup {
    html! {
        table {
            tr {
                th { "Container" } th { "User" } th { "State" } th { "Type" } th { "Resource" }
                th { "Logs" }
            }
            @for container in containers {
                tr {
                    td { a href={ "/node/container/" (container.id) } { (container.id) } }
                    td { (container.user) }
                    td { (container.rest_state().as_str()) }
                    td { (container.execution_type.as_str()) }
                    td { (container.resource) }
                    td { (logs_link(&container.id.name(), &container.user, "logs")) }
                }
            }
        }
    }
}

fn logs_link(id: &ContainerName, user: &str, text: &str) -> Markup {
    html! { a href={ "/node/containerlogs/" (id) "/" (path_segment(user)) } { (text) } }
}

fn application(visit: &Visit, text: &str) -> Answer {
    let Ok(id) = text.parse::<ApplicationId>() else {
        return refusal(StatusCode::BAD_REQUEST, "Invalid application ID");
    };
    let Some(app) = visit.node.application(&id) else {
        return refusal(
            StatusCode::NOT_FOUND,
            "Unknown application. Application might have been completed",
        );
    };
    let known = app
        .containers
        .iter()
        .filter_map(|id| visit.node.container(id));
    let used = visit.node.uses.of_application(id);
    let main = html! {
        (usage::tiles(used.as_ref()))
        table.facts { (fact("User", &app.user)) (fact("State", app.state.as_str())) }
        (containers(known))
    };
    page(StatusCode::OK, &id.to_string(), main)
}

fn container(visit: &Visit, text: &str) -> Answer {
    let Ok(id) = text.parse::<ContainerName>() else {
        return refusal(StatusCode::BAD_REQUEST, "Invalid container ID");
    };
    let Some(container) = visit.node.container_named(id) else {
        return refusal(
            StatusCode::NOT_FOUND,
            "Unknown Container. Container might have completed, please go back to the previous page and retry.",
        );
    };
    let exit = match container.exit_status {
        ContainerExitStatus::INVALID => "N/A".to_owned(),
        status => status.to_string(),
    };
    let main = html! {
        table.facts {
            (fact("State", container.rest_state().as_str()))
            (fact("Exit status", exit))
            (fact("Diagnostics", visit.viewer.diagnostics(&visit.node, container)))
            (fact("User", &container.user))
            (fact("Resource", container.resource))
            (fact("Execution type", container.execution_type))
        }
        p { (logs_link(&id, &container.user, "Link to logs")) }
    };
    let used = visit.node.uses.of(&container.id);
    let main = html! { (usage::tiles(used.as_ref())) (main) };
    page(StatusCode::OK, &id.to_string(), main)
}

/// Answers with the list of a container's log files, each with a link to its end.
async fn logs(visit: &Visit, text: &str, user: &str) -> Answer {
    let Ok(id) = text.parse::<ContainerName>() else {
        return refusal(
            StatusCode::BAD_REQUEST,
            &format!("Invalid container ID: {text}"),
        );
    };
    if let Some(elsewhere) = log_server(visit, &id, user, None) {
        return elsewhere;
    }
    let files = match visit.logs_of(id) {
        Ok(logs) => logs.list().await,
        Err(no_logs) => Err(no_logs),
    };
    let files = match files {
        Ok(files) => files,
        Err(no_logs) => return no_logs_page(visit, &no_logs),
    };
    if files.is_empty() {
        let why = format!("No logs available for container {id}");
        return refusal(StatusCode::OK, &why);
    }
    let main = html! {
        @for file in files {
            p {
                a href=(file_link(&id, user, &file.name, "-4096")) {
                    (file.name) " : Total file length is " (file.length) " bytes."
                }
            }
        }
    };
    page(StatusCode::OK, &format!("Logs for {id}"), main)
}

fn file_link(id: &ContainerName, user: &str, name: &str, start: &str) -> String {
    let (user, name) = (path_segment(user), path_segment(name));
    format!("/node/containerlogs/{id}/{user}/{name}/?start={start}")
}

/// Answers with a part of a log file: from `start` to `end`, by default the last 4 KiB.
async fn log(visit: &Visit, text: &str, user: &str, file: &str) -> Answer {
    let Ok(id) = text.parse::<ContainerName>() else {
        return refusal(
            StatusCode::BAD_REQUEST,
            &format!("Invalid container ID: {text}"),
        );
    };
    let Some(name) = LogName::new(file) else {
        return no_logs_page(visit, &NoLogs::NoSuchFile);
    };
    if let Some(elsewhere) = log_server(visit, &id, user, Some(&name)) {
        return elsewhere;
    }
    let (Ok(start), Ok(end)) = (offset(visit, "start"), offset(visit, "end")) else {
        return refusal(
            StatusCode::BAD_REQUEST,
            "Start and end must be whole numbers",
        );
    };
    let log = match visit.logs_of(id) {
        Ok(logs) => logs.open(&name).await,
        Err(no_logs) => Err(no_logs),
    };
    let log = match log {
        Ok(log) => log,
        Err(no_logs) => return no_logs_page(visit, &no_logs),
    };
    match range::page(log.length, start, end) {
        Ok(range) => log_page(&id, user, &name, log, range),
        // A page that says so, as in Hadoop.
        Err(bad) => refusal(StatusCode::OK, &bad.to_string()),
    }
}

fn log_page(
    id: &ContainerName,
    user: &str,
    name: &LogName,
    log: OpenLog,
    range: std::ops::Range<u64>,
) -> Answer {
    let shown = range.end - range.start;
    let main = html! {
        @if shown < log.length {
            p {
                "Showing " (shown) " bytes of " (log.length) " total. Click "
                a href=(file_link(id, user, name.as_str(), "0")) { "here" }
                " for the full log."
            }
        }
        // A parser drops the line break behind the tag, so that one of the log's own survives.
        pre { "\n" (FILE) }
    };
    let page = document(&format!("Logs for {id}"), main);
    let (head, foot) = page.split_once(FILE).unwrap_or((&page, ""));
    let (head, foot) = (head.to_owned(), foot.to_owned());
    let body = Body::around_file(head, log.file, range, Escape::Html, foot);
    answer(StatusCode::OK, HTML, body)
}

/// A parameter that counts bytes; `None` if it is absent or empty.
fn offset(visit: &Visit, name: &str) -> Result<Option<i64>, std::num::ParseIntError> {
    match visit.target.parameter(name) {
        None | Some("") => Ok(None),
        Some(text) => text.parse().map(Some),
    }
}

/// The way to the log server, if this node cannot have the logs or the client asks for the
/// aggregated ones.
fn log_server(
    visit: &Visit,
    id: &ContainerName,
    user: &str,
    file: Option<&LogName>,
) -> Option<Answer> {
    let unknown = visit.node.application(&id.application_id()).is_none();
    let remote = visit.target.parameter("log.aggregation.type") == Some("remote");
    if !visit.options.log_aggregation_enabled || !(unknown || remote) {
        return None;
    }
    let server = visit.options.log_server_url.as_deref()?;
    let node = &visit.node.about.node_id;
    Some(redirect(&links::log_page(
        server,
        node,
        id,
        user,
        file,
        &visit.target,
    )))
}

fn no_logs_page(visit: &Visit, no_logs: &NoLogs) -> Answer {
    let status = match no_logs {
        NoLogs::NotAllowed { .. } => StatusCode::FORBIDDEN,
        NoLogs::UnknownApplication
        | NoLogs::NotYetRunning(_)
        | NoLogs::LocalizationFailed
        | NoLogs::NoSuchFile => StatusCode::NOT_FOUND,
        NoLogs::Unreadable { .. } | NoLogs::Broken(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let no_server =
        visit.options.log_aggregation_enabled && matches!(no_logs, NoLogs::UnknownApplication);
    let main = html! {
        @if no_server {
            p {
                "Failed while trying to construct the redirect url to the log server. \
                 Log Server url may not be configured"
            }
        }
    };
    page(status, &no_logs.to_string(), main)
}
