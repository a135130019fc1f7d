//! Pages of role histories: the services of the node, and one of them.

use amrm_proxy::role_history::view::{RoleHistoryView, RoleView};
use hyper::StatusCode;
use maud::{Markup, html};
use node_view::java_date::java_date_of;
use node_view::overview::words::duration;
use records::Now;
use role_history::opt_in::SERVICE_VARIABLE;
use time::UtcOffset;

use super::{Totals, ago, ask_reason, escalates_in_ms, source};
use crate::site::answer::Answer;
use crate::site::pages::{fact, page};
use crate::source::RoleHistories;

/// Answers with the list of services.
pub(super) fn services(histories: &RoleHistories) -> Answer {
    let main = html! {
        @if histories.services.is_empty() {
            p.note {
                "No service keeps a role history here. A job opts in with the variable "
                (SERVICE_VARIABLE) " of its ApplicationMaster, on nodes with an AMRMProxy."
            }
        } @else {
            table {
                tr {
                    th { "Service" } th { "User" } th { "Attempt" } th.n { "Roles" } th.n { "Nodes" }
                    th.n { "Asks" } th.n { "Placed" } th.n { "On a node of the history" }
                    th.n { "Escalated" } th.n { "Nodes left out" }
                }
                @for view in &histories.services {
                    tr { (service_cells(view)) }
                }
            }
        }
    };
    page(StatusCode::OK, "Role histories", main)
}

fn service_cells(view: &RoleHistoryView) -> Markup {
    let totals = Totals::of(view);
    html! {
        td { a href={ "/node/roleHistories/" (view.attempt) } { (view.service) } }
        td { (view.user) }
        td.id { (view.attempt) }
        td.n { (view.roles_total) }
        td.n { (view.nodes) }
        td.n { (view.asks_total) }
        td.n { (totals.placed) }
        td.n { (share(totals.placed_on_history, totals.placed)) }
        td.n { (totals.escalated) }
        td.n { (totals.nodes_excluded) }
    }
}

/// Answers with one service.
pub(super) fn service(view: &RoleHistoryView, now: Now, offset: UtcOffset) -> Answer {
    let totals = Totals::of(view);
    let application = view.attempt.application_id;
    let saved = match view.saved_at {
        Some(at) => format!("{} ({} ago)", java_date_of(at, offset), ago(at, now)),
        None => "not yet by this attempt".to_owned(),
    };
    let asks = if view.is_guaranteed {
        "all"
    } else {
        "opportunistic ones"
    };
    let main = html! {
        table.facts {
            (fact("User", &view.user))
            tr {
                td { "Application" }
                td { a href={ "/node/application/" (application) } { (view.attempt) } }
            }
            (fact("Asks that follow the history", asks))
            (fact("History", source(view)))
            (fact("Saved", saved))
            (fact("Nodes known", view.nodes))
            (fact("On a node of the history", share(totals.placed_on_history, totals.placed)))
        }
        (outstanding(view, now))
        (placements(view, now))
        @for role in &view.roles { (of_role(role, now)) }
        (more(view.roles_total, view.roles.len(), "roles"))
    };
    page(
        StatusCode::OK,
        &format!("Role history of {}", view.service),
        main,
    )
}

fn outstanding(view: &RoleHistoryView, now: Now) -> Markup {
    let escalates = |ask| escalates_in_ms(ask, now).map_or_else(|| "-".to_owned(), duration);
    html! {
        section {
            h2 { "Outstanding asks" }
            @if view.asks.is_empty() { p.note { "None." } } @else {
                table {
                    tr {
                        th { "Role" } th { "Node" } th { "Why" } th.n { "Waits" }
                        th.n { "Any node in" }
                    }
                    @for ask in &view.asks {
                        tr {
                            td { (ask.role) }
                            td { (ask.host.as_deref().unwrap_or("any")) }
                            td { (ask_reason(ask, now)) }
                            td.n { (duration(now.mono.since(ask.asked_at))) }
                            td.n { (escalates(ask)) }
                        }
                    }
                }
            }
            (more(view.asks_total, view.asks.len(), "asks"))
        }
    }
}

fn placements(view: &RoleHistoryView, now: Now) -> Markup {
    html! {
        section {
            h2 { "Last placements" }
            @if view.placements.is_empty() { p.note { "None." } } @else {
                table {
                    tr { th { "Container" } th { "Role" } th { "Node and why" } th.n { "Age" } }
                    @for placement in &view.placements {
                        tr {
                            td.id { (placement.container) }
                            td { (placement.role) }
                            td { (placement.host) ": " (placement.why().to_string()) }
                            td.n { (ago(placement.at, now)) }
                        }
                    }
                }
            }
        }
    }
}

fn of_role(role: &RoleView, now: Now) -> Markup {
    html! {
        section {
            h2 { (role.name) }
            p.note {
                (role.actual) " containers, " (role.requested) " asked for; " (role.placed)
                " placed, " (share(role.placed_on_history, role.placed))
                " on a node of the history; " (role.escalated) " escalated, " (role.failed)
                " failed, " (role.preempted) " preempted"
            }
            @if !role.nodes.is_empty() {
                table {
                    tr { th { "Node" } th.n { "Containers" } th.n { "Last used" } th { "State" } }
                    @for node in &role.nodes {
                        tr {
                            td { (node.host) }
                            td.n { (node.live) }
                            td.n {
                                @match node.last_used {
                                    Some(time) => { (ago(time, now)) " ago" }
                                    None => { "-" }
                                }
                            }
                            td {
                                @if node.is_excluded { "left out: " }
                                @if node.failed_recently > 0 {
                                    (node.failed_recently) " failed recently"
                                }
                            }
                        }
                    }
                }
            }
            (more(role.nodes_total, role.nodes.len(), "nodes"))
        }
    }
}

/// Returns a number as a share of another: `12 of 20`.
fn share(part: u64, of: u64) -> String {
    format!("{part} of {of}")
}

/// Returns the line that counts what a list leaves out; empty if that is nothing.
fn more(total: usize, listed: usize, what: &str) -> Markup {
    let more = total.saturating_sub(listed);
    html! { @if more > 0 { p.note { "and " (more) " more " (what) } } }
}
