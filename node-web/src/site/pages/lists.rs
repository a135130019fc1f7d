//! The lists of applications and containers: searched, filtered, and a page at a time, so that each
//! is short whatever the node holds. Works without scripts.

use hyper::StatusCode;
use hyper::header::{self, HeaderValue};
use maud::{Markup, html};
use node_view::overview::words::number;
use node_view::snapshot::{ApplicationSnapshot, ContainerSnapshot};
use node_view::usage::Used;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::page_at;
use crate::site::Visit;
use crate::site::answer::Answer;
use crate::site::html::path_segment;
use crate::site::story::cut;

/// Rows of a page.
const ROWS: usize = 60;

/// Characters of a user's name in a row. A peer chose it.
const USER_CHARS_MAX: usize = 64;

/// Characters of a search.
const SEARCH_CHARS_MAX: usize = 128;

/// Pages with a form that asks for themselves.
const LIST_POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; \
     form-action 'self'";

/// Choice of rows, from the parameters of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Choice {
    /// Part of an id or of a user's name.
    search: String,
    /// State as REST names it; empty: any.
    state: String,
    /// Execution type; empty: any.
    kind: String,
    /// The most memory in use first, instead of the order of ids.
    by_memory: bool,
    /// Number of the page, from 1.
    page: usize,
}

impl Choice {
    fn of(visit: &Visit) -> Self {
        let text = |name: &str| {
            let text = visit.target.parameter(name).unwrap_or_default().trim();
            text.chars().take(SEARCH_CHARS_MAX).collect::<String>()
        };
        let page = visit.target.parameter("page");
        Self {
            search: text("q"),
            state: text("state"),
            kind: text("type"),
            by_memory: visit.target.parameter("sort") == Some("memory"),
            page: page.and_then(|page| page.parse().ok()).unwrap_or(1).max(1),
        }
    }

    fn takes_text(&self, id: &str, user: &str) -> bool {
        self.search.is_empty() || id.contains(&self.search) || user.contains(&self.search)
    }

    fn takes_state(&self, state: &str) -> bool {
        self.state.is_empty() || self.state == state
    }

    /// Returns the address of another page of the same choice.
    fn link(&self, path: &str, page: usize) -> String {
        let mut link = format!("{path}?page={page}");
        let sort = if self.by_memory { "memory" } else { "" };
        for (name, value) in [
            ("q", self.search.as_str()),
            ("state", &self.state),
            ("type", &self.kind),
            ("sort", sort),
        ] {
            if !value.is_empty() {
                let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
                link.push_str(&format!("&{name}={value}"));
            }
        }
        link
    }

    /// Returns the rows of the page and the links to the pages beside it.
    fn cut<'a, T>(&self, path: &str, all: &'a [T]) -> (&'a [T], Markup) {
        let pages = all.len().div_ceil(ROWS).max(1);
        let page = self.page.min(pages);
        let first = (page - 1) * ROWS;
        let rows = &all[first.min(all.len())..(first + ROWS).min(all.len())];
        let links = html! {
            @if pages > 1 {
                nav.pages aria-label="Pages of this list" {
                    @if page > 1 { a href=(self.link(path, page - 1)) rel="prev" { "Before" } " " }
                    span {
                        (number((first + 1) as u64)) " to " (number((first + rows.len()) as u64))
                        " of " (number(all.len() as u64))
                    }
                    @if page < pages { " " a href=(self.link(path, page + 1)) rel="next" { "After" } }
                }
            }
        };
        (rows, links)
    }
}

fn select(name: &str, label: &str, chosen: &str, values: &[&str]) -> Markup {
    html! {
        label {
            (label) " "
            select name=(name) {
                option value="" { "any" }
                @for value in values {
                    option value=(value) selected[chosen == *value] { (value.to_lowercase().replace('_', " ")) }
                }
            }
        }
    }
}

fn form(path: &str, choice: &Choice, selects: Markup) -> Markup {
    html! {
        form.choice action=(path) method="get" role="search" {
            label { "Search " input type="search" name="q" value=(choice.search) maxlength=(SEARCH_CHARS_MAX); }
            " " (selects) " "
            button type="submit" { "Show" }
        }
    }
}

/// States of containers that the list can be cut down to.
const CONTAINER_STATES: [&str; 9] = [
    "LOCALIZING",
    "SCHEDULED",
    "RUNNING",
    "PAUSED",
    "KILLING",
    "EXITED_WITH_SUCCESS",
    "EXITED_WITH_FAILURE",
    "CONTAINER_CLEANEDUP_AFTER_KILL",
    "DONE",
];

/// Answers with the list of containers.
pub(super) fn containers(visit: &Visit) -> Answer {
    const PATH: &str = "/node/allContainers";
    let choice = Choice::of(visit);
    let node = &visit.node;
    let mut listed: Vec<&ContainerSnapshot> = node
        .containers
        .iter()
        .filter(|each| choice.takes_state(each.rest_state().as_str()))
        .filter(|each| choice.kind.is_empty() || choice.kind == each.execution_type.as_str())
        .filter(|each| choice.takes_text(&each.id.to_string(), &each.user))
        .filter(|each| visit.viewer.lists_container(node, each))
        .collect();
    if choice.by_memory {
        let used = |id| node.uses.of(id).map_or(0, |used| used.memory_mb);
        listed.sort_by_cached_key(|each| std::cmp::Reverse(used(&each.id)));
    }
    let (rows, links) = choice.cut(PATH, &listed);
    let selects = html! {
        (select("state", "State", &choice.state, &CONTAINER_STATES)) " "
        (select("type", "Type", &choice.kind, &["GUARANTEED", "OPPORTUNISTIC"])) " "
        label {
            "Order "
            select name="sort" {
                option value="" { "by id" }
                option value="memory" selected[choice.by_memory] { "most memory in use first" }
            }
        }
    };
    let main = html! {
        (form(PATH, &choice, selects))
        section aria-label="Containers" {
            (container_table(visit, rows.iter().copied()))
            @if rows.is_empty() { p.note { "No such container." } }
            (links)
        }
    };
    list_page(PATH, "Containers", main)
}

/// Returns a table of containers.
pub(super) fn container_table<'a>(
    visit: &Visit,
    containers: impl IntoIterator<Item = &'a ContainerSnapshot>,
) -> Markup {
    html! {
        table.rows {
            thead {
                tr {
                    th scope="col" { "Container" } th scope="col" { "User" } th scope="col" { "State" }
                    th scope="col" { "Type" } th scope="col" { "Asked" } th scope="col" { "In use" }
                    th scope="col" { "Logs" }
                }
            }
            tbody {
                @for container in containers {
                    @let used = visit.node.uses.of(&container.id);
                    tr {
                        td.id { a href={ "/node/container/" (container.id) } { (container.id) } }
                        td data-label="User" { (cut(&container.user, USER_CHARS_MAX)) }
                        td data-label="State" { (container.rest_state().as_str()) }
                        td data-label="Type" { (container.execution_type.as_str()) }
                        td data-label="Asked" { (asked(container)) }
                        td data-label="In use" { (used.as_ref().map_or_else(String::new, in_use)) }
                        td data-label="Logs" { (logs_link(container)) }
                    }
                }
            }
        }
    }
}

fn asked(container: &ContainerSnapshot) -> String {
    let resource = container.resource;
    format!(
        "{} MiB, {} vcores",
        number(resource.memory_mb),
        resource.vcores
    )
}

fn in_use(used: &Used) -> String {
    format!("{} MiB, {} CPUs", number(used.memory_mb), used.cpus())
}

/// Returns a link to a container's logs; empty where the user's name is too long for a row.
fn logs_link(container: &ContainerSnapshot) -> Markup {
    let (id, user) = (container.id, &container.user);
    html! {
        @if user.len() <= USER_CHARS_MAX {
            a href={ "/node/containerlogs/" (id) "/" (path_segment(user)) } { "logs" }
        }
    }
}

/// Answers with the list of applications.
pub(super) fn applications(visit: &Visit) -> Answer {
    const PATH: &str = "/node/allApplications";
    let choice = Choice::of(visit);
    let node = &visit.node;
    let mut listed: Vec<&ApplicationSnapshot> = node
        .applications
        .iter()
        .filter(|each| choice.takes_state(each.state.as_str()))
        .filter(|each| choice.takes_text(&each.id.to_string(), &each.user))
        .filter(|each| visit.viewer.lists(each))
        .collect();
    let used = node.uses.by_application();
    let used = |id| {
        let place = used.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        used.get(place).map(|(_, used)| used)
    };
    if choice.by_memory {
        let memory = |id| used(id).map_or(0, |used| used.memory_mb);
        listed.sort_by_cached_key(|each| std::cmp::Reverse(memory(each.id)));
    }
    let (rows, links) = choice.cut(PATH, &listed);
    let states = [
        "NEW",
        "INITING",
        "RUNNING",
        "FINISHING_CONTAINERS_WAIT",
        "FINISHED",
    ];
    let main = html! {
        (form(PATH, &choice, select("state", "State", &choice.state, &states)))
        section aria-label="Applications" {
            table.rows {
                thead {
                    tr {
                        th scope="col" { "Application" } th scope="col" { "User" }
                        th scope="col" { "State" } th.n scope="col" { "Containers" }
                        th scope="col" { "In use" }
                    }
                }
                tbody {
                    @for app in rows {
                        tr {
                            td.id { a href={ "/node/application/" (app.id) } { (app.id) } }
                            td data-label="User" { (cut(&app.user, USER_CHARS_MAX)) }
                            td data-label="State" { (app.state.as_str()) }
                            td.n data-label="Containers" { (app.containers.len()) }
                            td data-label="In use" { (used(app.id).map_or_else(String::new, in_use)) }
                        }
                    }
                }
            }
            @if rows.is_empty() { p.note { "No such application." } }
            (links)
        }
    };
    list_page(PATH, "Applications", main)
}

fn list_page(path: &str, title: &str, main: Markup) -> Answer {
    let mut page = page_at(StatusCode::OK, path, title, main);
    let policy = HeaderValue::from_static(LIST_POLICY);
    page.headers_mut()
        .insert(header::CONTENT_SECURITY_POLICY, policy);
    page
}
