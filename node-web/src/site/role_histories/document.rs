//! Role histories as values for REST. Times are milliseconds since the epoch.

use amrm_proxy::role_history::view::{
    AskView, HistorySource, PlacementView, RoleHistoryView, RoleNodeView, RoleView,
};
use records::Now;
use role_history::ContainerAllocationOutcome;
use serde::Serialize;

use super::{Totals, ask_reason, escalates_in_ms};

/// Service in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary<'a> {
    service: &'a str,
    user: &'a str,
    attempt: String,
    guaranteed: bool,
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    saved_time: Option<i64>,
    nodes: usize,
    roles: usize,
    asks: usize,
    placed: u64,
    placed_on_history: u64,
    escalated: u64,
    nodes_excluded: usize,
}

impl<'a> Summary<'a> {
    pub(super) fn of(view: &'a RoleHistoryView) -> Self {
        let totals = Totals::of(view);
        Self {
            service: &view.service,
            user: &view.user,
            attempt: view.attempt.to_string(),
            guaranteed: view.is_guaranteed,
            source: match view.source {
                HistorySource::Loading => "LOADING",
                HistorySource::New => "NEW",
                HistorySource::File { .. } => "FILE",
                HistorySource::Unavailable => "UNAVAILABLE",
            },
            saved_time: view.saved_at.map(|at| at.0),
            nodes: view.nodes,
            roles: view.roles_total,
            asks: view.asks_total,
            placed: totals.placed,
            placed_on_history: totals.placed_on_history,
            escalated: totals.escalated,
            nodes_excluded: totals.nodes_excluded,
        }
    }
}

/// Service with its lists. The totals of the summary count what the lists leave out.
#[derive(Debug, Serialize)]
pub(super) struct Details<'a> {
    #[serde(flatten)]
    summary: Summary<'a>,
    role: Vec<Role<'a>>,
    ask: Vec<Ask<'a>>,
    placement: Vec<Placement<'a>>,
}

impl<'a> Details<'a> {
    pub(super) fn of(view: &'a RoleHistoryView, now: Now) -> Self {
        Self {
            summary: Summary::of(view),
            role: view.roles.iter().map(Role::of).collect(),
            ask: view.asks.iter().map(|ask| Ask::of(ask, now)).collect(),
            placement: view.placements.iter().map(Placement::of).collect(),
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Role<'a> {
    name: &'a str,
    requested: u32,
    actual: u32,
    placed: u64,
    placed_on_history: u64,
    escalated: u64,
    failed: u64,
    preempted: u64,
    nodes_excluded: usize,
    nodes: usize,
    node: Vec<RoleNode<'a>>,
}

impl<'a> Role<'a> {
    fn of(role: &'a RoleView) -> Self {
        Self {
            name: &role.name,
            requested: role.requested,
            actual: role.actual,
            placed: role.placed,
            placed_on_history: role.placed_on_history,
            escalated: role.escalated,
            failed: role.failed,
            preempted: role.preempted,
            nodes_excluded: role.nodes_excluded,
            nodes: role.nodes_total,
            node: role.nodes.iter().map(RoleNode::of).collect(),
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RoleNode<'a> {
    host: &'a str,
    live: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_time: Option<i64>,
    failed_recently: u16,
    excluded: bool,
}

impl<'a> RoleNode<'a> {
    fn of(node: &'a RoleNodeView) -> Self {
        Self {
            host: &node.host,
            live: node.live,
            last_used_time: node.last_used.map(|time| time.0),
            failed_recently: node.failed_recently,
            excluded: node.is_excluded,
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Ask<'a> {
    role: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    waiting_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    escalates_in_ms: Option<u64>,
    why: String,
}

impl<'a> Ask<'a> {
    fn of(ask: &'a AskView, now: Now) -> Self {
        Self {
            role: &ask.role,
            host: ask.host.as_deref(),
            waiting_ms: now.mono.since(ask.asked_at),
            escalates_in_ms: escalates_in_ms(ask, now),
            why: ask_reason(ask, now),
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Placement<'a> {
    time: i64,
    container: String,
    role: &'a str,
    host: &'a str,
    outcome: &'static str,
    why: String,
}

impl<'a> Placement<'a> {
    fn of(placement: &'a PlacementView) -> Self {
        Self {
            time: placement.at.0,
            container: placement.container.to_string(),
            role: &placement.role,
            host: &placement.host,
            outcome: match placement.outcome {
                ContainerAllocationOutcome::Unallocated => "UNALLOCATED",
                ContainerAllocationOutcome::Open => "OPEN",
                ContainerAllocationOutcome::Placed => "PLACED",
                ContainerAllocationOutcome::Escalated => "ESCALATED",
            },
            why: placement.why().to_string(),
        }
    }
}
