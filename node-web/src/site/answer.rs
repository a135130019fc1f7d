//! Answers: status, headers that every answer carries, and the refusals that pages and REST share.

use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};

use super::body::Body;

/// Answer to a request.
pub(super) type Answer = Response<Body>;

pub(super) const HTML: &str = "text/html; charset=utf-8";
pub(super) const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const JSON: &str = "application/json; charset=utf-8";
pub(super) const XML: &str = "application/xml; charset=utf-8";
pub(super) const OCTETS: &str = "application/octet-stream; charset=utf-8";
/// Prometheus' text format.
pub(super) const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Containers choose much of what pages show: should an escape be missing somewhere, still nothing
/// of it runs.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'";

/// An answer of this status and type. What it says of frames and origins is added by the filters
/// ([`super::filters::Filters::complete`]).
pub(super) fn answer(status: StatusCode, content_type: &'static str, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Returns an answer of plain text.
pub(super) fn text(status: StatusCode, text: impl Into<String>) -> Answer {
    answer(status, TEXT, Body::full(text.into()))
}

/// Go and look there (307, as Hadoop answers). A location that cannot stand in a header comes from
/// the configured URL, since everything else in it is encoded; that is this node's fault.
pub(super) fn redirect(location: &str) -> Answer {
    match HeaderValue::try_from(location) {
        Ok(location) => {
            let mut answer = text(StatusCode::TEMPORARY_REDIRECT, "");
            answer.headers_mut().insert(header::LOCATION, location);
            answer
        }
        Err(_) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The configured log server URL cannot be sent in a header.\n",
        ),
    }
}
