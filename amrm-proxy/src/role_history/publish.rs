//! View of a service for readers. Costs what the view lists, however many nodes the history has.

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
    let unreliable = service.history.nodes().count_unreliable();
    let listed = service.roles.iter().take(ROLES_LISTED_MAX);
    let views = listed.map(|(role, known)| {
        let view = RoleView {
            nodes_excluded: unreliable.get(role).copied().unwrap_or(0),
            ..role_view(service, *role, known)
        };
        (*role, view)
    });
    let roles: BTreeMap<RoleId, RoleView> = views.collect();
    view.nodes = service.history.nodes().len();
    view.roles_total = service.roles.len();
    let names = |role: RoleId| {
        let name = roles.get(&role).map(|role| role.name.clone());
        name.unwrap_or_else(|| role.to_string())
    };
    let outstanding = service.history.outstanding().take(ASKS_LISTED_MAX);
    let asks = outstanding.map(|(ask, asked_at, escalates_at)| AskView {
        role: names(ask.priority.role),
        host: ask.hosts.first().map(Arc::clone),
        asked_at,
        escalates_at,
        reason: ask.reason,
    });
    view.asks = asks.collect();
    view.asks_total = service.history.outstanding_len();
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
    for node in nodes.of_role(role).take(NODES_LISTED_MAX) {
        if let Some(entry) = node.entry(role) {
            view.nodes.push(node_view(service, node, entry));
        }
    }
    view.nodes_total = nodes.count_of_role(role);
    view
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
