//! View of a service for readers, in one pass over its nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use records::EpochMillis;
use role_history::{NodeEntry, NodeInstance, RoleId};

use super::service::{KnownRole, Service};
use super::view::{
    ASKS_LISTED_MAX, AskView, NODES_LISTED_MAX, ROLES_LISTED_MAX, RoleHistoryView, RoleNodeView,
    RoleView,
};

/// Fills in what the service knows: roles, nodes, asks and placements.
pub(super) fn fill(view: &mut RoleHistoryView, service: &Service) {
    let mut roles: BTreeMap<RoleId, RoleView> = BTreeMap::new();
    for (role, known) in service.roles.iter().take(ROLES_LISTED_MAX) {
        roles.insert(*role, role_view(service, *role, known));
    }
    for node in service.history.nodes().iter() {
        for entry in node.entries() {
            if let Some(role) = roles.get_mut(&entry.role()) {
                add_node(role, service, node, entry);
            }
        }
    }
    view.nodes = service.history.nodes().len();
    view.roles_total = service.roles.len();
    let names = |role: RoleId| {
        let name = roles.get(&role).map(|role| role.name.clone());
        name.unwrap_or_else(|| role.to_string())
    };
    let mut total = 0;
    let mut asks = Vec::new();
    for (ask, asked_at, escalates_at) in service.history.outstanding() {
        total += 1;
        if asks.len() < ASKS_LISTED_MAX {
            asks.push(AskView {
                role: names(ask.priority.role),
                host: ask.hosts.first().map(Arc::clone),
                asked_at,
                escalates_at,
                reason: ask.reason,
            });
        }
    }
    view.asks = asks;
    view.asks_total = total;
    view.roles = roles.into_values().collect();
    view.placements = service.placements.iter().cloned().collect();
}

fn role_view(service: &Service, role: RoleId, known: &KnownRole) -> RoleView {
    let status = service.history.status(role);
    let mut view = RoleView {
        requested: service.history.requested(role),
        placed: known.counts.placed,
        placed_on_history: known.counts.placed_on_history,
        escalated: known.counts.escalated,
        ..RoleView::default()
    };
    if let Some(status) = status {
        view.actual = status.actual;
        view.failed = status.failed;
        view.preempted = status.preempted;
    }
    let nodes = service.history.nodes();
    let name = service.history.roles().find(|(known, _)| known.id == role);
    view.name = name.map(|(role, _)| role.name.clone()).unwrap_or_default();
    for node in nodes.ready(role).take(NODES_LISTED_MAX) {
        if let Some(entry) = node.entry(role) {
            view.nodes.push(node_view(service, node, entry));
        }
    }
    view
}

/// Counts a node of the role, and lists it if it is not among the ready ones and there is space.
fn add_node(role: &mut RoleView, service: &Service, node: &NodeInstance, entry: &NodeEntry) {
    role.nodes_total += 1;
    let is_excluded = service.history.nodes().is_unreliable(node, entry.role());
    role.nodes_excluded += usize::from(is_excluded);
    let is_listed = |role: &RoleView| role.nodes.iter().any(|known| known.host == *node.host());
    if role.nodes.len() < NODES_LISTED_MAX && !is_listed(role) {
        role.nodes.push(node_view(service, node, entry));
    }
}

fn node_view(service: &Service, node: &NodeInstance, entry: &NodeEntry) -> RoleNodeView {
    let last_used = entry.last_used();
    RoleNodeView {
        host: Arc::clone(node.host()),
        live: entry.live(),
        last_used: (last_used > EpochMillis(0)).then_some(last_used),
        failed_recently: entry.failed_recently(),
        is_excluded: service.history.nodes().is_unreliable(node, entry.role()),
    }
}
