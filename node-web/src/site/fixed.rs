//! Answers that do not depend on the node.

use http_server::HostRefusal;
use hyper::StatusCode;
use hyper::header::{self, HeaderValue};

use super::answer::{Answer, text};
use super::pages;

pub(super) fn with_methods(mut answer: Answer) -> Answer {
    let allowed = HeaderValue::from_static("GET, HEAD, OPTIONS");
    answer.headers_mut().insert(header::ALLOW, allowed);
    answer
}

/// Answers where a Java NodeManager shows its log's files.
pub(super) fn own_log() -> Answer {
    let why = "The agent's log goes to its standard error, where a service manager keeps it \
               (journalctl -u nm-agent), or to the file of NM_AGENT_LOG_FILE. NM_AGENT_LOG sets its \
               level at the start.\n";
    text(StatusCode::NOT_FOUND, why)
}

pub(super) fn no_such_page() -> Answer {
    pages::refusal(StatusCode::NOT_FOUND, "There is no such page.")
}

/// Refuses a browser's request without the header, in Hadoop's words.
pub(super) fn lacks_csrf_header() -> Answer {
    let words = "Missing Required Header for CSRF Vulnerability Protection\n";
    last(text(StatusCode::BAD_REQUEST, words))
}

pub(super) fn wrong_host(refusal: HostRefusal) -> Answer {
    let hint = match refusal {
        HostRefusal::Missing => "",
        HostRefusal::Unknown => {
            " Names that the node has for clients can be added to yarn.nodemanager.agent.web.hosts."
        }
    };
    last(text(refusal.status(), format!("{refusal}{hint}\n")))
}

pub(super) fn too_many() -> Answer {
    let refusal = "Too many requests are being answered.\n";
    last(text(StatusCode::SERVICE_UNAVAILABLE, refusal))
}

pub(super) fn stopping() -> Answer {
    last(text(
        StatusCode::SERVICE_UNAVAILABLE,
        "The agent is stopping.\n",
    ))
}

/// The connection ends with this answer.
pub(super) fn last(mut answer: Answer) -> Answer {
    let close = HeaderValue::from_static("close");
    answer.headers_mut().insert(header::CONNECTION, close);
    answer
}
