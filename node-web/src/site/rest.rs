//! Hadoop's REST resources of a node, below `/ws/v1/node` (Hadoop: `NMWebServices`).
//!
//! JSON, or XML for a client that accepts only that. Errors are Hadoop's `RemoteException`
//! documents.

use std::sync::Arc;

use hyper::StatusCode;
use node_view::java_date::java_date;
use node_view::snapshot::ApplicationState;
use node_view::usage::Used;
use records::{ApplicationId, ContainerName};
use serde::Serialize;
use serde_json::json;

use super::Visit;
use super::aggregated::{Frame, RemotePart};
use super::answer::{Answer, JSON, OCTETS, TEXT, XML, answer, redirect, text};
use super::body::{Body, Escape};
use super::logs::LogName;
use super::lookup::{NoLogs, list_all};
use super::model::{AppInfo, ContainerInfo, Items, NodeInfo, Under, all_logs};
use super::target::BadTarget;
use super::usage::{UsageInfo, UsedInfo};
use super::{range, redirect as links, xml};

/// An error as Hadoop's clients read it.
#[derive(Debug)]
pub(super) struct RestError {
    status: StatusCode,
    java_class: &'static str,
    message: String,
}

impl RestError {
    fn bad_request(message: impl Into<String>) -> Self {
        Self::bad_request_by("java.lang.Exception", message)
    }

    /// Returns a bad request with the Java class of its cause, which Hadoop puts before the text.
    fn bad_request_by(cause_class: &str, message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            java_class: "org.apache.hadoop.yarn.webapp.BadRequestException",
            message: format!("{cause_class}: {}", message.into()),
        }
    }

    fn illegal_argument(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            java_class: "java.lang.IllegalArgumentException",
            message: message.into(),
        }
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            java_class: "org.apache.hadoop.yarn.webapp.NotFoundException",
            message: format!("java.lang.Exception: {}", message.into()),
        }
    }

    /// Returns the error's document as an answer.
    pub(super) fn into_answer(self, xml: bool) -> Answer {
        let simple_name = self.java_class.rsplit('.').next();
        let document = json!({"RemoteException": {
            "exception": simple_name,
            "message": self.message,
            "javaClassName": self.java_class,
        }});
        document_answer(self.status, &document, xml)
    }
}

impl From<BadTarget> for RestError {
    fn from(bad: BadTarget) -> Self {
        Self::bad_request(bad.to_string())
    }
}

impl From<NoLogs> for RestError {
    /// Hadoop wraps these and answers 503 for all; a client that sees 403 or 404 need not try
    /// again.
    fn from(no_logs: NoLogs) -> Self {
        let message = no_logs.to_string();
        match no_logs {
            NoLogs::NotAllowed { .. } => Self {
                status: StatusCode::FORBIDDEN,
                java_class: "org.apache.hadoop.yarn.webapp.ForbiddenException",
                message: format!("java.lang.Exception: {message}"),
            },
            NoLogs::UnknownApplication
            | NoLogs::NotYetRunning(_)
            | NoLogs::LocalizationFailed
            | NoLogs::NoSuchFile => Self::not_found(message),
            NoLogs::Unreadable { .. } | NoLogs::Broken(_) => Self {
                status: StatusCode::INTERNAL_SERVER_ERROR,
                java_class: "org.apache.hadoop.yarn.exceptions.YarnException",
                message,
            },
        }
    }
}

/// The answer to a request below `/ws/v1/node`; `path` is what stands behind that.
pub(super) async fn visit(visit: &Visit, path: &[&str]) -> Answer {
    let result = match path {
        [] | ["info"] => document(visit, &Under("nodeInfo", NodeInfo::of(&visit.node))),
        ["apps"] => apps(visit),
        ["apps", id] => app(visit, id),
        ["containers"] => containers(visit).await,
        ["containers", id] => container(visit, id).await,
        ["containers", id, "logs"] => logs_info(visit, id).await,
        ["containers", id, "logs", file] | ["containerlogs", id, file] => {
            log_file(visit, id, file).await
        }
        ["agent", "usage"] => {
            let usage = UsageInfo::of(&visit.node, &visit.viewer);
            document(visit, &Under("usage", usage))
        }
        ["agent", "containers", id] => container_use(visit, id),
        ["agent", "apps", id] => application_use(visit, id),
        ["resources", _] => document(visit, &json!({})),
        ["auxiliaryservices"] => Err(RestError::bad_request(
            "Auxiliary services manifest is not enabled",
        )),
        _ => Err(RestError::not_found("HTTP 404 Not Found")),
    };
    result.unwrap_or_else(|error| error.into_answer(visit.xml))
}

/// Answers `/apps?state=&user=`.
fn apps(visit: &Visit) -> Result<Answer, RestError> {
    let state = match visit.target.parameter("state") {
        None | Some("") => None,
        Some(name) => Some(ApplicationState::from_name(name).ok_or_else(|| {
            RestError::illegal_argument(format!(
                "No enum constant org.apache.hadoop.yarn.server.nodemanager.containermanager.application.ApplicationState.{name}"
            ))
        })?),
    };
    let user = visit.target.parameter("user");
    if user == Some("") {
        return Err(RestError::bad_request(
            "Error: You must specify a non-empty string for the user",
        ));
    }
    let apps: Vec<_> = visit
        .node
        .applications
        .iter()
        .filter(|app| state.is_none_or(|state| app.state == state))
        .filter(|app| user.is_none_or(|user| app.user == user))
        .filter(|app| visit.viewer.lists(app))
        .map(AppInfo::of)
        .collect();
    document(visit, &Under("apps", Items("app", &apps)))
}

/// Answers `/apps/{id}`.
fn app(visit: &Visit, text: &str) -> Result<Answer, RestError> {
    if text.is_empty() {
        return Err(RestError::not_found("appId, , is empty or null"));
    }
    let id: ApplicationId = text.parse().map_err(|_| {
        let message = if text.starts_with("application_") {
            format!("Invalid ApplicationId: {text}")
        } else {
            format!(
                "Invalid ApplicationId prefix: {text}. The valid ApplicationId should start with prefix application"
            )
        };
        RestError::bad_request_by("java.lang.IllegalArgumentException", message)
    })?;
    let app = visit
        .node
        .application(&id)
        .ok_or_else(|| RestError::not_found(format!("app with id {text} not found")))?;
    document(visit, &Under("app", AppInfo::of(app)))
}

/// Answers `/agent/apps/{id}`: what the application's containers use.
fn application_use(visit: &Visit, text: &str) -> Result<Answer, RestError> {
    let node = &visit.node;
    let id: Option<ApplicationId> = text.parse().ok();
    let app = id.and_then(|id| node.application(&id));
    let app = app.filter(|app| visit.viewer.lists(app));
    let used = app.and_then(|app| node.uses.of_application(app.id));
    use_document(visit, text, used)
}

/// Answers `/agent/containers/{id}`: what the container uses.
fn container_use(visit: &Visit, text: &str) -> Result<Answer, RestError> {
    let (node, id) = (&visit.node, container_id(text)?);
    let container = node.container_named(id);
    let container = container.filter(|each| visit.viewer.lists_container(node, each));
    let used = container.and_then(|container| node.uses.of(&container.id));
    use_document(visit, text, used)
}

fn use_document(visit: &Visit, id: &str, used: Option<Used>) -> Result<Answer, RestError> {
    let why = || RestError::not_found(format!("{id} has no process here that was measured"));
    let used = used.ok_or_else(why)?;
    let info = UsedInfo::of(Some(id.to_owned()), &used);
    document(visit, &Under("used", info))
}

/// `/containers`: files are looked for, and a document of up to megabytes is made, on a blocking
/// thread.
async fn containers(visit: &Visit) -> Result<Answer, RestError> {
    let (node, viewer, xml) = (Arc::clone(&visit.node), visit.viewer.clone(), visit.xml);
    let making = move || {
        let infos: Vec<_> = node
            .containers
            .iter()
            .zip(list_all(&node, &viewer))
            .filter(|(container, _)| viewer.lists_container(&node, container))
            .map(|(container, files)| ContainerInfo::of(&node, &viewer, container, files))
            .collect();
        document_answer(
            StatusCode::OK,
            &Under("containers", Items("container", &infos)),
            xml,
        )
    };
    let made = tokio::task::spawn_blocking(making).await;
    Ok(made.map_err(NoLogs::from)?)
}

/// Answers `/containers/{id}`.
async fn container(visit: &Visit, text: &str) -> Result<Answer, RestError> {
    let id = container_id(text)?;
    let container = visit
        .node
        .container_named(id)
        .ok_or_else(|| RestError::not_found(format!("container with id, {text}, not found")))?;
    let files = match visit.logs_of(id) {
        Ok(logs) => logs.list().await?,
        Err(_) => Vec::new(),
    };
    let info = ContainerInfo::of(&visit.node, &visit.viewer, container, files);
    document(visit, &Under("container", info))
}

/// Answers `/containers/{id}/logs`.
async fn logs_info(visit: &Visit, text: &str) -> Result<Answer, RestError> {
    let id = container_id(text)?;
    let files = match visit.logs_of(id) {
        Ok(logs) => logs.list().await,
        Err(no_logs) => Err(no_logs),
    };
    let files = match (files, &visit.options.log_server_web_service_url) {
        (Ok(files), _) => files,
        (Err(no_logs @ NoLogs::NotAllowed { .. }), _) => return Err(no_logs.into()),
        (Err(_), Some(server)) => {
            return Ok(redirect(&links::log_service(
                server,
                &id,
                None,
                &visit.target,
            )));
        }
        (Err(no_logs), None) => return Err(no_logs.into()),
    };
    let offset = visit.options.utc_offset;
    let all = all_logs(&visit.node, &id, files, offset);
    if visit.xml {
        let list = Under("containerLogsInfoes", Under("containerLogsInfo", all));
        return document(visit, &list);
    }
    document(visit, &Under("containerLogsInfo", all))
}

/// `/containers/{id}/logs/{file}?size=&format=`: text, errors too, as Hadoop has it.
async fn log_file(visit: &Visit, text_id: &str, file: &str) -> Result<Answer, RestError> {
    let Ok(id) = text_id.parse::<ContainerName>() else {
        let message = format!("invalid container id, {text_id}");
        return Ok(text(StatusCode::BAD_REQUEST, message));
    };
    let Some(name) = LogName::new(file) else {
        return Ok(text(StatusCode::NOT_FOUND, NoLogs::NoSuchFile.to_string()));
    };
    let size = match visit.target.parameter("size") {
        None | Some("") => i64::MAX,
        Some(size) => size.parse().map_err(|_| RestError {
            status: StatusCode::BAD_REQUEST,
            java_class: "java.lang.NumberFormatException",
            message: format!("For input string: \"{size}\""),
        })?,
    };
    let content_type = match visit.target.parameter("format") {
        None | Some("" | "text") => TEXT,
        Some("octet-stream") => OCTETS,
        Some(_) => {
            return Ok(text(
                StatusCode::BAD_REQUEST,
                "The valid values for the parameter : format are [text, octet-stream]",
            ));
        }
    };
    match framed_log(visit, id, &name, size).await {
        Ok(body) => Ok(answer(StatusCode::OK, content_type, body)),
        Err(no_logs) => Ok(no_log_file(visit, &id, &name, &no_logs)),
    }
}

fn no_log_file(visit: &Visit, id: &ContainerName, name: &LogName, no_logs: &NoLogs) -> Answer {
    let status = match no_logs {
        // Without the class of an exception, as in Hadoop.
        NoLogs::NotAllowed { .. } => return text(StatusCode::FORBIDDEN, no_logs.to_string()),
        NoLogs::UnknownApplication
        | NoLogs::NotYetRunning(_)
        | NoLogs::LocalizationFailed
        | NoLogs::NoSuchFile => {
            if let Some(server) = &visit.options.log_server_web_service_url {
                return redirect(&links::log_service(server, id, Some(name), &visit.target));
            }
            StatusCode::NOT_FOUND
        }
        NoLogs::Unreadable { .. } | NoLogs::Broken(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    text(status, format!("java.lang.Exception: {no_logs}"))
}

/// A part of a log file between the lines that the `yarn logs` command prints on, and behind it the
/// same part of each file of its name that was uploaded before (Hadoop:
/// `NMWebServices.getContainerLogFile`).
async fn framed_log(
    visit: &Visit,
    id: ContainerName,
    name: &LogName,
    size: i64,
) -> Result<Body, NoLogs> {
    let logs = visit.logs_of(id)?;
    let log = logs.open(name).await?;
    let frame = Frame {
        container: &id,
        node: &visit.node.about.node_id.to_string(),
        kind: "LOCAL",
        name: name.as_str(),
        modified: java_date(log.modified_s, visit.options.utc_offset),
        length: log.length,
    };
    let running = if logs.is_running() {
        format!(".This log file belongs to a running container ({id}) and so may not be complete.")
    } else {
        ".".to_owned()
    };
    let (head, tail) = (frame.head(), frame.tail(&running));
    let range = range::sized(log.length, size);
    let body = Body::around_file(head, log.file, range, Escape::Raw, tail);
    let wanted = logs.uploaded(name);
    Ok(match &visit.options.remote_logs {
        Some(reader) if !wanted.is_empty() => {
            let offset = visit.options.utc_offset;
            body.followed_by(RemotePart::new(reader.clone(), wanted, size, offset))
        }
        _ => body,
    })
}

fn container_id(text: &str) -> Result<ContainerName, RestError> {
    text.parse()
        .map_err(|_| RestError::bad_request(format!("invalid container id, {text}")))
}

fn document(visit: &Visit, document: &impl Serialize) -> Result<Answer, RestError> {
    Ok(document_answer(StatusCode::OK, document, visit.xml))
}

/// Answers with a document as JSON or XML.
pub(super) fn document_answer(status: StatusCode, document: &impl Serialize, xml: bool) -> Answer {
    let made = if xml {
        serde_json::to_value(document).map(|value| (XML, xml::document(&value)))
    } else {
        serde_json::to_string(document).map(|text| (JSON, text))
    };
    match made {
        Ok((content_type, text)) => answer(status, content_type, Body::full(text)),
        Err(error) => {
            tracing::error!(%error, "a REST document cannot be written");
            text(StatusCode::INTERNAL_SERVER_ERROR, "")
        }
    }
}
