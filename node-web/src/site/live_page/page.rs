//! The live page as HTML, whole without a script. Its script fetches this page anew at each change
//! and puts what differs in place, so that the page's structure and words are here only.
//!
//! - `data-ms`: a duration in milliseconds that goes on; its text grows by itself
//! - `data-key`: what an element stands for; it is kept as long as a new page has the same
//! - `data-text`, `data-cell`, `data-word`: names of places, for tests and people's scripts

use std::sync::LazyLock;

use amrm_proxy::attempts::AttemptActivity;
use maud::{Markup, html};
use node_view::overview::words::{duration, number};
use node_view::overview::{ListedContainer, RecentDecision};
use records::Resource;
use regex::Regex;
use time::UtcOffset;

use super::chart;
use super::document::{clock, iso};
use super::texts::{AttemptTexts, Texts};
use crate::overview::Overview;
use crate::site::html::{LIVE, Page, path_segment};

/// Returns the whole page, which needs no script.
pub(super) fn page(overview: &Overview, offset: UtcOffset) -> String {
    let texts = Texts::of(overview);
    let page = Page {
        title: &format!("{} · nm-agent", texts.node_id),
        head: html! { script src="/static/live.js" defer {} },
        path: Some(LIVE),
        heading: heading(overview, &texts, offset),
        main: main(overview, &texts, offset),
        foot: foot(overview),
    };
    page.into_string()
}

fn heading(overview: &Overview, texts: &Texts, offset: UtcOffset) -> Markup {
    let at = clock(overview.now.wall, offset);
    let (contact, since) = overview.node.rm;
    let (before, after) = texts.rm.split_once("{}").unwrap_or((texts.rm, ""));
    html! {
        div.head {
            h1 {
                span.kind { "NodeManager" } " "
                span data-text="node_id" { (texts.node_id) }
            }
            // Belongs to the script once it runs.
            p.feed data-at=(at) {
                span data-text="feed" role="status" {
                    "As of " (at) ". Reload the page for newer numbers."
                }
                " "
                button type="button" id="pause" hidden { "Pause" }
            }
        }
        p.contact id="contact" data-state=(contact.as_str()) {
            span.sign aria-hidden="true" {}
            span data-text="rm" { (before) (age(overview.ms_since(since))) (after) }
        }
        p.contact id="unhealthy" data-state="unhealthy" hidden[texts.unhealthy.is_empty()] {
            span.sign aria-hidden="true" {}
            span data-text="unhealthy" { (texts.unhealthy) }
        }
    }
}

/// Returns a duration that goes on.
fn age(ms: u64) -> Markup {
    html! { span data-ms=(ms) { (duration(ms)) } }
}

fn main(overview: &Overview, texts: &Texts, offset: UtcOffset) -> Markup {
    html! {
        section aria-labelledby="now" {
            h2.unseen id="now" { "Now" }
            (tiles(overview, texts))
        }
        div.columns {
            div {
                (chart::section(overview))
                (queue(overview, texts))
                (running(overview, texts))
                (masters(overview, texts))
            }
            div { (decisions(overview, texts, offset)) }
        }
    }
}

/// Returns the figures at the top.
fn tiles(overview: &Overview, texts: &Texts) -> Markup {
    let tile = |title: &str, place: [&str; 2], figure: &str, note: &str| {
        html! {
            div {
                dt { (title) }
                dd.figure data-text=(place[0]) { (figure) }
                dd data-text=(place[1]) { (note) }
            }
        }
    };
    let guaranteed = ["running_guaranteed", "guaranteed_note"];
    let opportunistic = ["running_opportunistic", "opportunistic_note"];
    html! {
        dl.tiles {
            (tile("Running, guaranteed", guaranteed, &texts.running_guaranteed, texts.guaranteed_note))
            (tile("Running, opportunistic", opportunistic, &texts.running_opportunistic, texts.opportunistic_note))
            (tile("Waiting", ["waiting", "waiting_note"], &texts.waiting, &texts.waiting_note))
            div {
                dt { "Longest wait" }
                dd.figure data-ms=[overview.longest_wait_ms()] data-text="longest_wait" {
                    (texts.longest_wait)
                }
                dd data-text="wait_note" { (texts.wait_note) }
            }
            (tile("Queue limit", ["limit", "limit_note"], &texts.limit, &texts.limit_note))
            (tile("Memory allocated", ["memory", "memory_note"], &texts.memory, &texts.memory_note))
            (tile("Memory in use", ["used", "used_note"], &texts.used, &texts.used_note))
        }
    }
}

/// Returns the line below a table.
fn note(place: &str, text: &str) -> Markup {
    html! { p.note data-text=(place) { (text) } }
}

fn queue(overview: &Overview, texts: &Texts) -> Markup {
    let waiting = &overview.node.waiting.first;
    html! {
        section aria-labelledby="queue" {
            h2 id="queue" { "Queue" }
            table id="queue-table" hidden[waiting.is_empty()] {
                thead {
                    tr {
                        th.n scope="col" { "Place" } th scope="col" { "Container" }
                        th scope="col" { "Asks for" } th.n scope="col" { "Waits" }
                    }
                }
                tbody {
                    @for (index, each) in waiting.iter().enumerate() {
                        tr data-key=(each.summary.spec.id) {
                            td.n data-cell="place" { (index + 1) }
                            (container_cells(each, each.is_paused().then_some("paused"), None, overview))
                        }
                    }
                }
            }
            (note("queue_more", &texts.queue_more))
        }
    }
}

fn running(overview: &Overview, texts: &Texts) -> Markup {
    let running = &overview.node.running.first;
    html! {
        section aria-labelledby="running" {
            h2 id="running" { "Running" }
            table id="running-table" hidden[running.is_empty()] {
                thead {
                    tr {
                        th scope="col" { "Container" } th scope="col" { "Holds" }
                        th scope="col" { "Uses" } th.n scope="col" { "For" }
                    }
                }
                tbody {
                    @for each in running {
                        tr data-key=(each.summary.spec.id) {
                            (container_cells(each, Some(each.progress()), Some(used_words(each, overview)), overview))
                        }
                    }
                }
            }
            (note("running_more", &texts.running_more))
        }
    }
}

/// Returns the cells with a container's id, type, state and user, its size, what it uses if the
/// table has that, and the time since it is in that state.
fn container_cells(
    container: &ListedContainer,
    state: Option<&str>,
    used: Option<String>,
    overview: &Overview,
) -> Markup {
    let summary = &container.summary;
    let execution_type = summary.spec.execution_type.as_str();
    let since = overview.ms_since(summary.since);
    html! {
        td.id {
            (container_link(&summary.spec.id.to_string()))
            span.by data-cell="by" data-type=(execution_type) {
                (execution_type.to_lowercase()) ", "
                @if let Some(state) = state { (state) ", " }
                (container.user)
            }
        }
        td data-cell="resource" { (amount(summary.spec.resource)) }
        @if let Some(used) = used { td data-cell="used" { (used) } }
        td.n data-cell="age" data-ms=(since) { (duration(since)) }
    }
}

fn container_link(id: &str) -> Markup {
    html! { a data-cell="container" href={ "/node/container/" (path_segment(id)) } { (with_ids(id)) } }
}

/// Returns what a container uses, in words; empty: not measured yet.
fn used_words(container: &ListedContainer, overview: &Overview) -> String {
    let used = overview.uses.of(&container.summary.spec.id);
    used.map_or_else(String::new, |used| {
        format!("{} MiB, {} CPUs", number(used.memory_mb), used.cpus())
    })
}

fn amount(resource: Resource) -> String {
    let Resource { memory_mb, vcores } = resource;
    let unit = if vcores == 1 { "vcore" } else { "vcores" };
    format!("{} MiB, {vcores} {unit}", number(memory_mb))
}

fn masters(overview: &Overview, texts: &Texts) -> Markup {
    let masters = overview.masters.as_ref();
    let attempts = masters.map_or(&[][..], |masters| &masters.most_active);
    html! {
        section id="masters" aria-labelledby="masters-head" hidden[masters.is_none()] {
            h2 id="masters-head" { "Applications passing the proxy" }
            table id="masters-table" class="masters" hidden[attempts.is_empty()] {
                thead {
                    tr {
                        th scope="col" { "Attempt" }
                        @for (title, _) in ATTEMPT_COLUMNS { th scope="col" { (title) } }
                    }
                }
                tbody { @for each in attempts { (attempt(each, overview)) } }
            }
            (note("masters_more", &texts.masters_more))
        }
    }
}

/// Cell of an attempt's row behind the first.
type AttemptCell = fn(&AttemptActivity, &AttemptTexts, &Overview) -> Markup;

/// Columns of the table of attempts behind the first. A narrow screen shows the titles in the rows.
const ATTEMPT_COLUMNS: [(&str, AttemptCell); 4] = [
    ("Calls", |master, texts, overview| {
        let last = master.numbers.last_call_at.map(|at| overview.ms_since(at));
        html! {
            span data-word="calls" { (texts.calls) }
            span.sub data-cell="last" hidden[last.is_none()] {
                "last " (age(last.unwrap_or_default())) " ago"
            }
        }
    }),
    ("Adds to a call", |_, texts, _| {
        html! {
            span data-word="own" { (texts.own) }
            span.sub data-word="rm" { (texts.rm) }
        }
    }),
    ("Opportunistic containers", |master, texts, overview| {
        let nodes = master
            .numbers
            .gauges
            .nodes_at
            .map(|at| overview.ms_since(at));
        html! {
            span data-word="wanted" { (texts.wanted) }
            span.sub data-word="given" { (texts.given) }
            span.sub data-cell="nodes" hidden[nodes.is_none()] {
                "list of nodes " (age(nodes.unwrap_or_default())) " old"
            }
        }
    }),
    ("Done by this node", |_, texts, _| {
        html! { span data-word="done" { (texts.done) } }
    }),
];

fn attempt(master: &AttemptActivity, overview: &Overview) -> Markup {
    let texts = AttemptTexts::of(master);
    let application = master.attempt.application_id;
    html! {
        tr data-key=(master.attempt) {
            td.id {
                a data-cell="attempt" href={ "/node/application/" (application) } {
                    (with_ids(&master.attempt.to_string()))
                }
                span.sub data-word="user" { (texts.user) }
            }
            @for (title, cell) in ATTEMPT_COLUMNS {
                td data-label=(title) { (cell(master, &texts, overview)) }
            }
        }
    }
}

fn decisions(overview: &Overview, texts: &Texts, offset: UtcOffset) -> Markup {
    let decisions = &overview.node.decisions;
    html! {
        section aria-labelledby="decisions" {
            h2 id="decisions" { "Recent decisions" }
            table id="decisions-table" class="decisions" hidden[decisions.is_empty()] {
                thead {
                    tr {
                        th scope="col" { "Time" } th scope="col" { "Container" }
                        th scope="col" { "Decision" }
                    }
                }
                tbody { @for each in decisions { (decision(each, offset)) } }
            }
            (note("decisions_more", texts.decisions_more))
        }
    }
}

fn decision(recent: &RecentDecision, offset: UtcOffset) -> Markup {
    html! {
        tr data-key=(recent.sequence) {
            td {
                time data-cell="time" datetime=(iso(recent.at)) { (clock(recent.at, offset)) }
            }
            td.id {
                @match recent.decision.container() {
                    Some(id) => (container_link(&id.to_string())),
                    None => a data-cell="container" { "this node" },
                }
            }
            td.words data-cell="words" data-kind=(recent.decision.kind().as_str()) {
                (with_ids(&recent.words()))
            }
        }
    }
}

fn foot(overview: &Overview) -> Markup {
    let uptime = overview.uptime_ms();
    html! {
        footer {
            p {
                (overview.node.about.versions.node_manager_build) " · up "
                span data-ms=(uptime) data-text="uptime" { (duration(uptime)) }
                " · the same as JSON: " a href="/live.json" { "/live.json" }
            }
        }
    }
}

/// Returns a text in which the part that all ids of containers and attempts of a cluster share
/// stands back.
fn with_ids(text: &str) -> Markup {
    static ID: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"((?:container_(?:e\d+_)?|appattempt_)\d+_)\d+_\d+")
            .expect("the pattern is a constant, and a test uses it")
    });
    let mut rest = 0;
    let shared = |found: regex::Captures<'_>| found.get(1).map(|shared| shared.range());
    let pieces: Vec<(&str, &str)> = ID
        .captures_iter(text)
        .filter_map(shared)
        .map(|shared| {
            let before = &text[rest..shared.start];
            rest = shared.end;
            (before, &text[shared])
        })
        .collect();
    html! {
        @for (before, shared) in pieces { (before) span.dim { (shared) } }
        (text[rest..])
    }
}
