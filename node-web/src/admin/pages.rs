//! Pages for people, at the paths that Hadoop's links point to (Hadoop: `NMController` and its
//! pages), but for `/`, which is the live page.
//!
//! Plain HTML without scripts. Each text that came from elsewhere goes through [`html::escape`] on
//! its way in.

use std::fmt::Write as _;

use hyper::StatusCode;
use records::{ApplicationId, ContainerExitStatus, ContainerId};

use super::Visit;
use super::answer::{Answer, HTML, answer, redirect};
use super::body::{Body, Escape};
use super::html::{escape, path_segment};
use super::logs::{LogName, OpenLog};
use super::lookup::{Logs, NoLogs};
use super::model::java_date_of;
use super::range;
use super::redirect as links;
use crate::snapshot::{ApplicationSnapshot, ContainerSnapshot};

const FOOT: &str = "</main></body></html>\n";

/// The answer to a request for a page; `path` is what stands behind `/node`.
pub(super) async fn visit(visit: &Visit, path: &[&str]) -> Answer {
    match path {
        [] | ["node" | "info"] => node(visit),
        ["allApplications"] => page(
            StatusCode::OK,
            "Applications",
            &applications(&visit.node.applications),
        ),
        ["allContainers"] => page(
            StatusCode::OK,
            "Containers",
            &containers(&visit.node.containers),
        ),
        ["application", id] => application(visit, id),
        ["container", id] => container(visit, id),
        ["containerlogs", id, user] => logs(visit, id, user).await,
        ["containerlogs", id, user, file] => log(visit, id, user, file).await,
        _ => refusal(StatusCode::NOT_FOUND, "There is no such page."),
    }
}

/// Answers with a page that only gives the reason for a refusal.
pub(super) fn refusal(status: StatusCode, why: &str) -> Answer {
    page(status, why, "")
}

fn page(status: StatusCode, title: &str, body: &str) -> Answer {
    let page = format!("{}{body}{FOOT}", head(title));
    answer(status, HTML, Body::full(page))
}

fn head(title: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title>\
         <link rel=\"icon\" href=\"/static/icon.svg\" type=\"image/svg+xml\">\
         <link rel=\"stylesheet\" href=\"/static/agent.css\"></head><body>\
         <header><nav aria-label=\"Pages of this node\"><a href=\"/\">Live</a>\n<a href=\"/node\">Node</a>\n\
         <a href=\"/node/allApplications\">Applications</a>\n<a href=\"/node/allContainers\">Containers</a>\n\
         <a href=\"/metrics\">Metrics</a></nav>\n<h1>{title}</h1></header>\n<main>\n"
    )
}

/// A table of two columns; the right one is escaped here.
fn facts(rows: &[(&str, String)]) -> String {
    let mut table = "<table class=\"facts\">".to_owned();
    for (name, value) in rows {
        row(&mut table, &[(*name).to_owned(), escape(value)]);
    }
    table.push_str("</table>\n");
    table
}

/// A row of cells that are HTML already.
fn row(table: &mut String, cells: &[String]) {
    table.push_str("<tr>");
    for cell in cells {
        table.push_str("<td>");
        table.push_str(cell);
        table.push_str("</td>");
    }
    table.push_str("</tr>\n");
}

fn header(names: &[&str]) -> String {
    format!("<table><tr><th>{}</th></tr>\n", names.join("</th><th>"))
}

fn node(visit: &Visit) -> Answer {
    let node = &*visit.node;
    let offset = visit.options.utc_offset;
    let counts = &node.counts;
    let limit = node
        .queuing_limit
        .as_ref()
        .and_then(|limit| limit.max_queue_length)
        .map_or_else(|| "none".to_owned(), |length| length.to_string());
    let rows = [
        ("Node", node.node_id.to_string()),
        ("Registered with the ResourceManager", yes(node.registered)),
        ("Healthy", yes(node.health.healthy)),
        ("Health report", node.health.report.clone()),
        (
            "Health looked at",
            java_date_of(node.health.updated_at, offset),
        ),
        ("Started", java_date_of(node.started_at, offset)),
        ("Offers", node.total.to_string()),
        ("Allocated", node.allocated.to_string()),
        (
            "Guaranteed containers running",
            counts.running.guaranteed.to_string(),
        ),
        (
            "Guaranteed containers queued",
            counts.queued.guaranteed.to_string(),
        ),
        (
            "Opportunistic containers running",
            counts.running.opportunistic.to_string(),
        ),
        (
            "Opportunistic containers queued",
            counts.queued.opportunistic.to_string(),
        ),
        ("Opportunistic containers paused", counts.paused.to_string()),
        (
            "Queue capacity",
            node.opportunistic.opport_queue_capacity.to_string(),
        ),
        ("Queue limit of the ResourceManager", limit),
        (
            "NodeManager version",
            node.versions.node_manager_build.clone(),
        ),
        ("Hadoop version", node.versions.hadoop_build.clone()),
    ];
    let title = format!("NodeManager {}", node.node_id);
    page(StatusCode::OK, &title, &facts(&rows))
}

fn yes(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

fn applications(apps: &[ApplicationSnapshot]) -> String {
    let mut table = header(&["Application", "User", "State", "Containers"]);
    for app in apps {
        row(
            &mut table,
            &[
                format!("<a href=\"/node/application/{0}\">{0}</a>", app.id),
                escape(&app.user),
                app.state.as_str().to_owned(),
                app.containers.len().to_string(),
            ],
        );
    }
    table.push_str("</table>\n");
    table
}

fn containers<'a>(containers: impl IntoIterator<Item = &'a ContainerSnapshot>) -> String {
    let mut table = header(&["Container", "User", "State", "Type", "Resource", "Logs"]);
    for container in containers {
        row(
            &mut table,
            &[
                format!("<a href=\"/node/container/{0}\">{0}</a>", container.id),
                escape(&container.user),
                container.state.as_str().to_owned(),
                container.execution_type.as_str().to_owned(),
                escape(&container.resource.to_string()),
                logs_link(&container.id, &container.user, "logs"),
            ],
        );
    }
    table.push_str("</table>\n");
    table
}

fn logs_link(id: &ContainerId, user: &str, text: &str) -> String {
    let user = path_segment(user);
    format!("<a href=\"/node/containerlogs/{id}/{user}\">{text}</a>")
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
    let rows = [
        ("User", app.user.clone()),
        ("State", app.state.as_str().to_owned()),
    ];
    let known = app
        .containers
        .iter()
        .filter_map(|id| visit.node.container(id));
    let body = facts(&rows) + &containers(known);
    page(StatusCode::OK, &id.to_string(), &body)
}

fn container(visit: &Visit, text: &str) -> Answer {
    let Ok(id) = text.parse::<ContainerId>() else {
        return refusal(StatusCode::BAD_REQUEST, "Invalid container ID");
    };
    let Some(container) = visit.node.container(&id) else {
        return refusal(
            StatusCode::NOT_FOUND,
            "Unknown Container. Container might have completed, please go back to the previous page and retry.",
        );
    };
    let exit = if container.exit_status == ContainerExitStatus::INVALID {
        "N/A".to_owned()
    } else {
        container.exit_status.to_string()
    };
    let rows = [
        ("State", container.state.as_str().to_owned()),
        ("Exit status", exit),
        ("Diagnostics", container.diagnostics.clone()),
        ("User", container.user.clone()),
        ("Resource", container.resource.to_string()),
        ("Execution type", container.execution_type.to_string()),
    ];
    let link = logs_link(&id, &container.user, "Link to logs");
    let body = format!("{}<p>{link}</p>\n", facts(&rows));
    page(StatusCode::OK, &id.to_string(), &body)
}

/// The list of a container's log files, each with a link to its end.
async fn logs(visit: &Visit, text: &str, user: &str) -> Answer {
    let Ok(id) = text.parse::<ContainerId>() else {
        return refusal(
            StatusCode::BAD_REQUEST,
            &format!("Invalid container ID: {text}"),
        );
    };
    if let Some(elsewhere) = log_server(visit, &id, user, None) {
        return elsewhere;
    }
    let files = match Logs::of(&visit.node, id) {
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
    let mut body = String::new();
    for file in files {
        let link = file_link(&id, user, &file.name, "-4096");
        let (name, length) = (escape(&file.name), file.length);
        // Writing to a string does not fail.
        let _ = writeln!(
            body,
            "<p><a href=\"{link}\">{name} : Total file length is {length} bytes.</a></p>"
        );
    }
    page(StatusCode::OK, &format!("Logs for {id}"), &body)
}

fn file_link(id: &ContainerId, user: &str, name: &str, start: &str) -> String {
    let (user, name) = (path_segment(user), path_segment(name));
    format!("/node/containerlogs/{id}/{user}/{name}/?start={start}")
}

/// Answers with a part of a log file: from `start` to `end`, by default the last 4 KiB.
async fn log(visit: &Visit, text: &str, user: &str, file: &str) -> Answer {
    let Ok(id) = text.parse::<ContainerId>() else {
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
    let log = match Logs::of(&visit.node, id) {
        Ok(logs) => logs.open(&name).await,
        Err(no_logs) => Err(no_logs),
    };
    let log = match log {
        Ok(log) => log,
        Err(no_logs) => return no_logs_page(visit, &no_logs),
    };
    match range::page(log.length, start, end) {
        Ok(range) => log_page(&id, user, &name, log, range),
        Err(bad) => refusal(StatusCode::BAD_REQUEST, &bad.to_string()),
    }
}

fn log_page(
    id: &ContainerId,
    user: &str,
    name: &LogName,
    log: OpenLog,
    range: std::ops::Range<u64>,
) -> Answer {
    let shown = range.end - range.start;
    let mut top = head(&format!("Logs for {id}"));
    if shown < log.length {
        let all = file_link(id, user, name.as_str(), "0");
        let _ = writeln!(
            top,
            "<p>Showing {shown} bytes of {} total. Click <a href=\"{all}\">here</a> for the full log.</p>",
            log.length
        );
    }
    // A parser drops the line break behind the tag, so that one of the log's own survives.
    top.push_str("<pre>\n");
    let foot = format!("</pre>{FOOT}");
    let body = Body::around_file(top, log.file, range, Escape::Html, foot);
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
    id: &ContainerId,
    user: &str,
    file: Option<&LogName>,
) -> Option<Answer> {
    let unknown = visit.node.application(&id.application_id()).is_none();
    let remote = visit.target.parameter("log.aggregation.type") == Some("remote");
    if !visit.options.log_aggregation_enabled || !(unknown || remote) {
        return None;
    }
    let server = visit.options.log_server_url.as_deref()?;
    let node = &visit.node.node_id;
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
        NoLogs::UnknownApplication
        | NoLogs::NotYetRunning(_)
        | NoLogs::LocalizationFailed
        | NoLogs::NoSuchFile => StatusCode::NOT_FOUND,
        NoLogs::Unreadable { .. } | NoLogs::Broken(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let body = match no_logs {
        NoLogs::UnknownApplication if visit.options.log_aggregation_enabled => {
            "<p>Failed while trying to construct the redirect url to the log server. \
             Log Server url may not be configured</p>\n"
        }
        NoLogs::UnknownApplication
        | NoLogs::NotYetRunning(_)
        | NoLogs::LocalizationFailed
        | NoLogs::NoSuchFile
        | NoLogs::Unreadable { .. }
        | NoLogs::Broken(_) => "",
    };
    page(status, &no_logs.to_string(), body)
}
