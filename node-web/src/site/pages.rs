//! Pages for people, at the paths that Hadoop's links point to (Hadoop: `NMController` and its
//! pages), but for `/`, which is the live page.
//!
//! HTML that is whole without scripts. The pages of a container and of a log have one, which
//! follows them.

mod lists;
mod logs;
mod subjects;

use std::fmt::Display;

use hyper::StatusCode;
use maud::{Markup, display, html};
use node_view::java_date::java_date_of;
use node_view::overview::words::number;

use super::answer::{Answer, HTML, answer};
use super::body::Body;
use super::html::Page;
use super::{Visit, usage};

/// The answer to a request for a page; `path` is what stands behind `/node`.
pub(super) async fn visit(visit: &Visit, path: &[&str]) -> Answer {
    match path {
        [] | ["node" | "info"] => node(visit),
        ["allApplications"] => lists::applications(visit),
        ["allContainers"] => lists::containers(visit),
        ["application", id] => subjects::application(visit, id),
        ["container", id] => subjects::container(visit, id).await,
        ["containerlogs", id, user] => logs::logs(visit, id, user).await,
        ["containerlogs", id, user, file] => logs::log(visit, id, user, file).await,
        _ => refusal(StatusCode::NOT_FOUND, "There is no such page."),
    }
}

/// Answers with a page that only gives the reason for a refusal.
pub(super) fn refusal(status: StatusCode, why: &str) -> Answer {
    page(status, why, Markup::default())
}

/// Answers with a page of this title.
pub(super) fn page(status: StatusCode, title: &str, main: Markup) -> Answer {
    answer(status, HTML, Body::full(document_of(title, main, None)))
}

/// Answers with a page of this title that every page links to.
fn page_at(status: StatusCode, path: &str, title: &str, main: Markup) -> Answer {
    let page = Page {
        title,
        head: Markup::default(),
        path: Some(path),
        heading: html! { h1 { (title) } },
        main,
        foot: Markup::default(),
    };
    answer(status, HTML, Body::full(page.into_string()))
}

/// Returns the HTML of a page; `followed` is what the script fetches to follow it.
fn document_of(title: &str, main: Markup, followed: Option<&str>) -> String {
    let page = Page {
        title,
        head: html! {
            @if followed.is_some() { script src="/static/follow.js" defer {} }
        },
        path: None,
        heading: html! {
            div.head {
                h1 { (title) }
                @if let Some(path) = followed {
                    // Belongs to the script once it runs.
                    p.feed data-follow=(path) hidden {
                        span role="status" {} " "
                        button type="button" { "Follow" }
                    }
                }
            }
        },
        main,
        foot: Markup::default(),
    };
    page.into_string()
}

/// Returns a row of a table of facts.
pub(super) fn fact(name: &str, value: impl Display) -> Markup {
    html! { tr { td { (name) } td { (display(value)) } } }
}

fn node(visit: &Visit) -> Answer {
    let (node, about, numbers) = (&*visit.node, &visit.node.about, &visit.node.numbers);
    let counts = node.counts();
    let date = |time| java_date_of(time, visit.options.utc_offset);
    let yes = |yes| if yes { "yes" } else { "no" };
    let used = node.uses.of_all();
    let main = html! {
        (usage::tiles(used.as_ref()))
        section aria-label="Facts" { table.facts {
            (fact("Node", &about.node_id))
            (fact("Registered with the ResourceManager", yes(node.is_registered())))
            (fact("Healthy", yes(about.health.healthy)))
            (fact("Health report", &about.health.report))
            (fact("Health looked at", date(about.health.updated_at)))
            (fact("Started", date(about.started_at)))
            (fact("Offers", numbers.total))
            (fact("Allocated", numbers.allocated))
            @if node.uses.machine_memory_mb > 0 {
                (fact("Memory of the machine in use", format!("{} MiB", number(node.uses.machine_memory_mb))))
            }
            (fact("Guaranteed containers running", counts.running.guaranteed))
            (fact("Guaranteed containers queued", counts.queued.guaranteed))
            (fact("Opportunistic containers running", counts.running.opportunistic))
            (fact("Opportunistic containers queued", counts.queued.opportunistic))
            (fact("Opportunistic containers paused", counts.paused))
            (fact("Queue capacity", numbers.opportunistic.opport_queue_capacity))
            @match numbers.limit_length() {
                Some(length) => (fact("Queue limit of the ResourceManager", length)),
                None => (fact("Queue limit of the ResourceManager", "none")),
            }
            (fact("NodeManager version", &about.versions.node_manager_build))
            (fact("Hadoop version", &about.versions.hadoop_build))
        } }
    };
    let title = format!("NodeManager {}", about.node_id);
    page_at(StatusCode::OK, "/node", &title, main)
}
