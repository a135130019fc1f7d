//! The live page: what runs, what waits and why, as it happens.
//!
//! | Path | What |
//! |---|---|
//! | `/` | the page, whole without a script |
//! | `/live.json` | the same state as JSON, see `document` |
//! | `/live` | server-sent events, each with such a document, whenever the state has changed |
//! | `/static/NAME` | style sheet, script, icon: embedded in the program |

mod chart;
mod document;
mod feed;
mod page;
#[cfg(test)]
mod tests;
mod texts;

use hyper::StatusCode;
use hyper::header::{self, HeaderValue};
use time::UtcOffset;

pub(super) use self::document::{clock, iso};
pub(super) use self::feed::{Events, Feed};

use super::answer::{Answer, HTML, JSON, answer};
use super::body::Body;
use crate::overview::Overview;

/// The page runs its own script and talks to its own server; nothing else.
pub(super) const PAGE_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
     base-uri 'none'; form-action 'none'";

const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
const EVENTS: &str = "text/event-stream";

/// Answers `/`, the live page.
pub(super) fn page(overview: &Overview, offset: UtcOffset) -> Answer {
    let html = page::page(overview, offset);
    let mut page = answer(StatusCode::OK, HTML, Body::full(html));
    page.headers_mut().insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(PAGE_POLICY),
    );
    page
}

/// Answers `/live.json`.
pub(super) fn document(overview: &Overview, offset: UtcOffset) -> Answer {
    answer(
        StatusCode::OK,
        JSON,
        Body::full(document::text(overview, offset)),
    )
}

/// Answers `/live`, the stream of events.
pub(super) fn events(events: Events) -> Answer {
    answer(StatusCode::OK, EVENTS, Body::events(events))
}

/// Answers `/static/NAME`; `None` if there is no such file.
pub(super) fn file(name: &str) -> Option<Answer> {
    let (content_type, text) = match name {
        "agent.css" => (CSS, include_str!("live_page/static/agent.css")),
        "live.js" => (JAVASCRIPT, include_str!("live_page/static/live.js")),
        "follow.js" => (JAVASCRIPT, include_str!("live_page/static/follow.js")),
        "icon.svg" => (SVG, include_str!("live_page/static/icon.svg")),
        _ => return None,
    };
    Some(answer(StatusCode::OK, content_type, Body::full(text)))
}
