//! Role histories of the services whose ApplicationMasters call the RM through this node: pages and
//! REST documents of our own, Hadoop has no such thing.
//!
//! | Path | What |
//! |---|---|
//! | `/node/roleHistories` | page: the services |
//! | `/node/roleHistories/ATTEMPT` | page: roles, asks and placements of one service |
//! | `/ws/v1/node/agent/roleHistories`, `…/ATTEMPT` | the same as documents |
//!
//! A history is found by the attempt that works with it. Users and names of services are for
//! everyone who may see the node's applications, as those of applications are. Views are bounded,
//! so a document is, too.

mod document;
mod page;

use amrm_proxy::role_history::view::{AskView, HistorySource, RoleHistoryView};
use hyper::StatusCode;
use node_view::overview::words::duration;
use records::{EpochMillis, Now};
use role_history::AskReason;
use time::UtcOffset;

use self::document::{Details, Summary};
use super::answer::Answer;
use super::model::{Items, Under};
use super::pages;
use super::rest::{RestError, document_answer};
use crate::source::RoleHistories;

/// Answers with a page; `path` is what stands behind `/node/roleHistories`.
pub(super) fn page(histories: &RoleHistories, path: &[&str], offset: UtcOffset) -> Answer {
    match (path, found(histories, path)) {
        ([], _) => page::services(histories),
        (_, Some(view)) => page::service(view, histories.now, offset),
        (_, None) => pages::refusal(StatusCode::NOT_FOUND, &unknown(path)),
    }
}

/// Answers with a document; `path` is what stands behind `/ws/v1/node/agent/roleHistories`.
pub(super) fn rest(histories: &RoleHistories, path: &[&str], xml: bool) -> Answer {
    let now = histories.now;
    match (path, found(histories, path)) {
        ([], _) => {
            let services = histories.services.iter().map(|view| Summary::of(view));
            let services: Vec<_> = services.collect();
            let document = Under("roleHistories", Items("roleHistory", &services));
            document_answer(StatusCode::OK, &document, xml)
        }
        (_, Some(view)) => {
            let document = Under("roleHistory", Details::of(view, now));
            document_answer(StatusCode::OK, &document, xml)
        }
        (_, None) => RestError::not_found(unknown(path)).into_answer(xml),
    }
}

fn found<'a>(histories: &'a RoleHistories, path: &[&str]) -> Option<&'a RoleHistoryView> {
    let [attempt] = path else { return None };
    let attempt = attempt.parse().ok()?;
    let mut services = histories.services.iter();
    let view = services.find(|view| view.attempt == attempt)?;
    Some(view)
}

fn unknown(path: &[&str]) -> String {
    let path = path.join("/");
    format!("{path} is no attempt on this node with a role history")
}

/// Totals over the roles of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    placed: u64,
    placed_on_history: u64,
    escalated: u64,
    nodes_excluded: usize,
}

impl Totals {
    /// Adds up the roles of a view, which are the listed ones.
    fn of(view: &RoleHistoryView) -> Self {
        let mut totals = Self::default();
        for role in &view.roles {
            totals.placed += role.placed;
            totals.placed_on_history += role.placed_on_history;
            totals.escalated += role.escalated;
            totals.nodes_excluded += role.nodes_excluded;
        }
        totals
    }
}

/// Returns the source of a history in words.
fn source(view: &RoleHistoryView) -> String {
    match view.source {
        HistorySource::Loading => "is being loaded".to_owned(),
        HistorySource::New => "began empty".to_owned(),
        HistorySource::File { entries, .. } => format!("{entries} entries of a file"),
        HistorySource::Unavailable => "cannot be loaded or saved".to_owned(),
    }
}

/// Returns the reason for an ask in words.
fn ask_reason(ask: &AskView, now: Now) -> String {
    match ask.reason {
        AskReason::History { last_used } => format!("ran here {} ago", ago(last_used, now)),
        AskReason::NoHistory
        | AskReason::Anywhere
        | AskReason::Escalated
        | AskReason::AntiAffinity => ask.reason.to_string(),
    }
}

/// Returns the milliseconds until an ask is relaxed; `None` if it is not going to be.
fn escalates_in_ms(ask: &AskView, now: Now) -> Option<u64> {
    ask.escalates_at.map(|at| at.since(now.mono))
}

/// Returns the time since `then` in words. The clock may have been set back since.
fn ago(then: EpochMillis, now: Now) -> String {
    duration(u64::try_from(now.wall.0.saturating_sub(then.0)).unwrap_or(0))
}
