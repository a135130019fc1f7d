//! The page for people: what this ResourceManager is and is not, its nodes and its applications.
//! Plain HTML without scripts.

use std::borrow::Cow;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use records::Resource;

use crate::applications::Application;
use crate::core::{Core, RM_VERSION};
use crate::nodes::Node;

/// Rows of a table: a page stays readable and below some 500 KiB whatever the cluster is. REST has
/// all.
const ROWS_MAX: usize = 1_000;

/// Characters of a text from elsewhere in a cell.
const CELL_CHARS_MAX: usize = 300;

/// The look of the agent's pages. Colours repeat the words.
const STYLE: PreEscaped<&str> = PreEscaped(include_str!("page.css"));

/// Returns the whole page.
pub(super) fn cluster(core: &Core) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "ResourceManager for trials" }
                style { (STYLE) }
            }
            body {
                (introduction())
                (nodes(core))
                (applications(core))
            }
        }
    };
    page.into_string()
}

fn introduction() -> Markup {
    html! {
        h1 { "A ResourceManager for trials" }
        p.is-not {
            strong { "This is not a cluster manager." }
            " It has one queue and no shares in it, no high availability, and it keeps nothing over a \
             restart. There is no security beyond the tokens of masters and nodes: anybody may submit \
             applications and end them."
        }
        p {
            "Speaks the protocols of Hadoop " (RM_VERSION) ". As JSON: "
            a href="/ws/v1/cluster/info" { "info" } ", "
            a href="/ws/v1/cluster/metrics" { "metrics" } ", "
            a href="/ws/v1/cluster/nodes" { "nodes" } ", "
            a href="/ws/v1/cluster/apps" { "applications" } ", "
            a href="/ws/v1/cluster/scheduler" { "scheduler" } "."
        }
    }
}

fn nodes(core: &Core) -> Markup {
    let count = core.nodes().count();
    html! {
        h2 { "Nodes: " (count) }
        p {
            @match core.queue_limit() {
                Some(limit) => { "Each may keep " (limit) " opportunistic containers waiting." }
                None => { "Nothing limits their queues." }
            }
        }
        (note_of_cut(count))
        div {
            table {
                tr {
                    th { "Node" } th { "State" } th.n { "Running, guaranteed" } th { "Promised to them" }
                    th { "Offers" } th.n { "Running, opportunistic" } th.n { "Waiting" }
                    th.n { "Room to wait" }
                }
                @for each in core.nodes().take(ROWS_MAX) { (node(core, each)) }
            }
        }
    }
}

fn node(core: &Core, node: &Node) -> Markup {
    html! {
        tr {
            td {
                a href={ "http://" (node.http_address) "/" } { (cut(&node.id.to_string())) }
                br;
                small { (cut(&node.rack)) }
            }
            td { (node.state.as_str()) br; small { (cut(&node.health_report)) } }
            td.n { (core.guaranteed_of(node)) }
            td { (size(core.used_of(node))) }
            td { (size(node.capability)) }
            td.n { (node.opportunistic.running) }
            td.n { (node.opportunistic.queued) }
            td.n {
                @match core.load_of(node) {
                    Some(load) => (load.queue_capacity),
                    None => "-",
                }
            }
        }
    }
}

fn applications(core: &Core) -> Markup {
    let count = core.applications().count();
    html! {
        h2 { "Applications: " (count) }
        (note_of_cut(count))
        div {
            table {
                tr {
                    th { "Application" } th { "Name" } th { "User" } th { "State" } th.n { "Containers" }
                    th { "Promised" } th.n { "Progress" }
                }
                @for each in core.applications().rev().take(ROWS_MAX) { (application(core, each)) }
            }
        }
    }
}

fn application(core: &Core, application: &Application) -> Markup {
    let attempt = application.attempt();
    let (containers, promised) = core.holdings(application);
    let final_status = super::json::final_status(application);
    let (url, diagnostics) = (&attempt.tracking_url, &application.diagnostics);
    html! {
        tr {
            td { a href={ "/ws/v1/cluster/apps/" (application.id) } { (application.id) } }
            td {
                (cut(application.submission.application_name()))
                br;
                small { (cut(application.submission.application_type())) }
            }
            td { (cut(&application.user)) }
            td {
                (application.state.as_str())
                @if final_status != "UNDEFINED" { ", " (final_status) }
                @if attempt.id.attempt_id > 1 { ", attempt " (attempt.id.attempt_id) }
            }
            td.n { (containers) }
            td { (size(promised)) }
            td.n { (format_args!("{:.0} %", attempt.progress * 100.0)) }
        }
        @if !url.is_empty() || !diagnostics.is_empty() {
            tr.more {
                td colspan="7" {
                    small {
                        (link(url))
                        @if !url.is_empty() && !diagnostics.is_empty() { br; }
                        (cut(diagnostics))
                    }
                }
            }
        }
    }
}

/// Returns a text from elsewhere, cut at [`CELL_CHARS_MAX`].
fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(CELL_CHARS_MAX) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

/// Returns a link, if the text is an address of the web; otherwise the text.
fn link(address: &str) -> Markup {
    let is_web = address.starts_with("http://") || address.starts_with("https://");
    html! {
        @if is_web { a href=(address) { (cut(address)) } } @else { (cut(address)) }
    }
}

/// A size in words; Hadoop's own text for it has angle brackets.
fn size(resource: Resource) -> String {
    let cores = if resource.vcores == 1 {
        "vcore"
    } else {
        "vcores"
    };
    format!("{} MB, {} {cores}", resource.memory_mb, resource.vcores)
}

fn note_of_cut(count: usize) -> Markup {
    html! {
        @if count > ROWS_MAX { p { (ROWS_MAX) " of them are shown." } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_nothing_that_a_browser_takes_for_an_element() {
        assert_eq!(size(Resource::new(1_024, 1)), "1024 MB, 1 vcore");
        assert_eq!(size(Resource::new(0, 0)), "0 MB, 0 vcores");
    }

    #[test]
    fn long_texts_are_cut() {
        let long = "é".repeat(1_000);
        let text = cut(&long);
        assert_eq!(text.chars().count(), CELL_CHARS_MAX + 1);
    }

    #[test]
    fn only_addresses_of_the_web_become_links() {
        assert_eq!(
            link("javascript:alert(1)").into_string(),
            "javascript:alert(1)"
        );
        assert_eq!(
            link("http://m:1/\"").into_string(),
            "<a href=\"http://m:1/&quot;\">http://m:1/&quot;</a>"
        );
    }
}
