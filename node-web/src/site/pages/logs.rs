//! Pages of a container's log files (Hadoop: `ContainerLogsPage`).

use hyper::StatusCode;
use hyper::header::{self, HeaderValue};
use maud::html;
use records::ContainerName;

use super::{document_of, page, refusal};
use crate::site::Visit;
use crate::site::answer::{Answer, HTML, answer, redirect};
use crate::site::body::{Body, Escape};
use crate::site::html::path_segment;
use crate::site::live_page::PAGE_POLICY;
use crate::site::logs::{LogName, OpenLog};
use crate::site::lookup::NoLogs;
use crate::site::range;
use crate::site::redirect as links;
use crate::site::visible::TAIL_BYTES;

/// Place of a log file in its page. Texts from elsewhere that stand before it are an id and
/// segments of a path, which have no such character.
const FILE: char = '\0';

/// Log files that a page names; more are on disk. A container chooses how many it makes.
const FILES_LISTED_MAX: usize = 100;

/// Answers with the list of a container's log files, each with a link to its end.
pub(super) async fn logs(visit: &Visit, text: &str, user: &str) -> Answer {
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
    let more = files.len().saturating_sub(FILES_LISTED_MAX);
    let main = html! {
        section aria-label="Log files" {
            @for file in files.iter().take(FILES_LISTED_MAX) {
                p {
                    a href=(file_link(&id, user, &file.name, "-4096")) {
                        (file.name) " : Total file length is " (file.length) " bytes."
                    }
                }
            }
            @if more > 0 { p.note { "And " (more) " more." } }
        }
        p.note { a href={ "/node/container/" (id) } { "The container" } }
    };
    page(StatusCode::OK, &format!("Logs for {id}"), main)
}

pub(super) fn file_link(id: &ContainerName, user: &str, name: &str, start: &str) -> String {
    let (user, name) = (path_segment(user), path_segment(name));
    format!("/node/containerlogs/{id}/{user}/{name}/?start={start}")
}

/// Answers with a part of a log file: from `start` to `end`, by default the last 4 KiB.
pub(super) async fn log(visit: &Visit, text: &str, user: &str, file: &str) -> Answer {
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
    let tail = file_link(id, user, name.as_str(), &format!("-{TAIL_BYTES}"));
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
        p.note {
            a href={ "/node/container/" (id) } { "The container" } " "
            a href={ "/node/containerlogs/" (id) "/" (path_segment(user)) } { "Its log files" }
        }
    };
    let page = document_of(&format!("Logs for {id}"), main, Some(&tail));
    let (head, foot) = page.split_once(FILE).unwrap_or((&page, ""));
    let (head, foot) = (head.to_owned(), foot.to_owned());
    let body = Body::around_file(head, log.file, range, Escape::Html, foot);
    scripted(answer(StatusCode::OK, HTML, body))
}

/// Returns a page that may run the script that follows a log.
pub(super) fn scripted(mut page: Answer) -> Answer {
    let policy = HeaderValue::from_static(PAGE_POLICY);
    page.headers_mut()
        .insert(header::CONTENT_SECURITY_POLICY, policy);
    page
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
