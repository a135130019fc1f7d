//! The live page as HTML: whole without a script, and what the script then keeps up to date.
//!
//! The frame is `static/live.html`; its places in double braces are filled here, once and in one
//! pass, with HTML whose texts from elsewhere are escaped.

use std::sync::LazyLock;

use maud::html;
use regex::{Captures, Regex};

use super::chart;
use super::document::{Decision, Document, QueuedContainer, RunningContainer};
use super::masters::{Masters, ProxiedAttempt};
use crate::admin::html::path_segment;
use crate::overview::words::{duration, number};

const FRAME: &str = include_str!("static/live.html");

/// Returns a text as HTML.
fn escape(text: &str) -> String {
    html! { (text) }.into_string()
}

/// Returns the whole page, which needs no script.
pub(super) fn page(document: &Document) -> String {
    let mut page = String::with_capacity(2 * FRAME.len());
    let mut rest = FRAME;
    while let Some((before, after)) = rest.split_once("{{") {
        page.push_str(before);
        let (place, after) = after
            .split_once("}}")
            .expect("the frame is a constant of this program, and a test renders it");
        page.push_str(&fill(document, place));
        rest = after;
    }
    page.push_str(rest);
    page
}

/// Returns the HTML for a place of the frame.
fn fill(document: &Document, place: &str) -> String {
    let hidden = |hidden: bool| if hidden { " hidden" } else { "" }.to_owned();
    match place {
        "at_local" => escape(&document.at_local),
        "version" => escape(&document.node.version),
        "uptime" => duration(document.node.uptime_ms),
        "rm_state" => document.resource_manager.state.to_owned(),
        "rm" => {
            let since = duration(document.resource_manager.since_ms);
            escape(&document.texts["rm"].replace("{}", &since))
        }
        "healthy_hidden" => hidden(document.node.healthy),
        "charts" => chart::all(document),
        "window" => window_words(document),
        "axis_begin" => format!("{} min ago", chart::window_s(document) / 60),
        "masters_hidden" => hidden(document.masters.is_none()),
        "masters_table_hidden" => hidden(attempts(document.masters.as_ref()).is_empty()),
        "queue_hidden" => hidden(document.queue.containers.is_empty()),
        "running_hidden" => hidden(document.running.containers.is_empty()),
        "decisions_hidden" => hidden(document.decisions.is_empty()),
        "queue_rows" => queue_rows(&document.queue.containers),
        "running_rows" => document
            .running
            .containers
            .iter()
            .map(running_row)
            .collect(),
        "master_rows" => attempts(document.masters.as_ref())
            .iter()
            .map(|attempt| master_row(Some(attempt)))
            .collect(),
        "decision_rows" => document.decisions.iter().map(decision_row).collect(),
        "queue_row_template" => Row::default().queued(),
        "running_row_template" => Row::default().running(),
        "master_row_template" => master_row(None),
        "decision_row_template" => Row::default().decided(),
        text => document
            .texts
            .get(text)
            .map(|text| escape(text))
            .unwrap_or_default(),
    }
}

fn window_words(document: &Document) -> String {
    match chart::window_s(document) / 60 {
        1 => "Last minute".to_owned(),
        minutes => format!("Last {minutes} minutes"),
    }
}

/// The cells of a row, as HTML; of the template for the script when all are empty.
#[derive(Default)]
struct Row {
    place: String,
    /// A link, or what it stands for.
    container: String,
    href: String,
    by: String,
    resource: String,
    age_ms: u64,
    age: String,
    execution_type: &'static str,
    kind: &'static str,
    at_iso: String,
    at_local: String,
    words: String,
}

impl Row {
    fn container(&self) -> String {
        let href = if self.href.is_empty() {
            String::new()
        } else {
            format!(" href=\"{}\"", self.href)
        };
        format!("<a data-cell=\"container\"{href}>{}</a>", self.container)
    }

    fn age(&self) -> String {
        let Self { age_ms, age, .. } = self;
        format!("<td class=\"n\" data-cell=\"age\" data-ms=\"{age_ms}\">{age}</td>")
    }

    /// A container with its type, what it does and whose it is.
    fn owned_container(&self) -> String {
        let Self {
            execution_type, by, ..
        } = self;
        format!(
            "<td class=\"id\">{}<span class=\"by\" data-cell=\"by\" data-type=\"{execution_type}\">{by}</span></td>",
            self.container()
        )
    }

    fn queued(&self) -> String {
        let Self {
            place, resource, ..
        } = self;
        format!(
            "<tr><td class=\"n\" data-cell=\"place\">{place}</td>{}<td data-cell=\"resource\">{resource}</td>{}</tr>",
            self.owned_container(),
            self.age()
        )
    }

    fn running(&self) -> String {
        let Self { resource, .. } = self;
        format!(
            "<tr>{}<td data-cell=\"resource\">{resource}</td>{}</tr>",
            self.owned_container(),
            self.age()
        )
    }

    fn decided(&self) -> String {
        let Self {
            kind,
            at_iso,
            at_local,
            words,
            ..
        } = self;
        format!(
            "<tr><td><time data-cell=\"time\" datetime=\"{at_iso}\">{at_local}</time></td><td class=\"id\">{}</td>\
             <td class=\"words\" data-cell=\"words\" data-kind=\"{kind}\">{words}</td></tr>",
            self.container()
        )
    }
}

fn queue_rows(queued: &[QueuedContainer]) -> String {
    let rows = queued.iter().enumerate().map(|(index, container)| {
        let paused = if container.paused { "paused, " } else { "" };
        let row = Row {
            place: (index + 1).to_string(),
            container: with_ids(&container.container),
            href: container_href(&container.container),
            by: by(container.execution_type, paused, &container.user),
            resource: amount(container.memory_mb, container.vcores),
            age_ms: container.waited_ms,
            age: duration(container.waited_ms),
            execution_type: container.execution_type,
            ..Row::default()
        };
        row.queued()
    });
    rows.collect()
}

fn running_row(container: &RunningContainer) -> String {
    let row = Row {
        container: with_ids(&container.container),
        href: container_href(&container.container),
        by: by(
            container.execution_type,
            &format!("{}, ", container.progress),
            &container.user,
        ),
        resource: amount(container.memory_mb, container.vcores),
        age_ms: container.since_ms,
        age: duration(container.since_ms),
        execution_type: container.execution_type,
        ..Row::default()
    };
    row.running()
}

fn attempts(masters: Option<&Masters>) -> &[ProxiedAttempt] {
    masters.map_or(&[], |masters| &masters.attempts)
}

/// A row; the template for the script without an attempt.
fn master_row(attempt: Option<&ProxiedAttempt>) -> String {
    let words = |name: &str| {
        let words = attempt.and_then(|attempt| attempt.words.get(name));
        words.map(|words| escape(words)).unwrap_or_default()
    };
    let word = |name: &str, class: &str| {
        format!("<span{class} data-word=\"{name}\">{}</span>", words(name))
    };
    let age = |name: &str, before: &str, after: &str, since: Option<u64>| {
        let hidden = if since.is_some() { "" } else { " hidden" };
        let ms = since.unwrap_or_default();
        format!(
            "<span class=\"sub\" data-cell=\"{name}\"{hidden}>{before}<span data-ms=\"{ms}\">{}</span>{after}</span>",
            duration(ms)
        )
    };
    let sub = " class=\"sub\"";
    let id = attempt.map_or_else(String::new, |attempt| with_ids(&attempt.attempt));
    let href = attempt.map_or_else(String::new, |attempt| {
        let path = path_segment(&attempt.application);
        format!(" href=\"/node/application/{path}\"")
    });
    let last = age(
        "last",
        "last ",
        " ago",
        attempt.and_then(|attempt| attempt.last_call_ms),
    );
    let nodes = age(
        "nodes",
        "list of nodes ",
        " old",
        attempt.and_then(|attempt| attempt.nodes_age_ms),
    );
    format!(
        "<tr><td class=\"id\"><a data-cell=\"attempt\"{href}>{id}</a>{}</td>\
         <td data-label=\"Calls\">{}{last}</td><td data-label=\"Adds to a call\">{}{}</td>\
         <td data-label=\"Opportunistic containers\">{}{}{nodes}</td>\
         <td data-label=\"Done by this node\">{}</td></tr>",
        word("user", sub),
        word("calls", ""),
        word("own", ""),
        word("rm", sub),
        word("wanted", ""),
        word("given", sub),
        word("done", ""),
    )
}

fn decision_row(decision: &Decision) -> String {
    let id = decision.container.as_deref();
    let row = Row {
        container: id.map_or_else(|| "this node".to_owned(), with_ids),
        href: id.map(container_href).unwrap_or_default(),
        kind: decision.kind,
        at_iso: decision.at_iso.clone(),
        at_local: escape(&decision.at_local),
        words: with_ids(&decision.words),
        ..Row::default()
    };
    row.decided()
}

fn by(execution_type: &str, state: &str, user: &str) -> String {
    let execution_type = execution_type.to_lowercase();
    format!("{execution_type}, {state}{}", escape(user))
}

fn container_href(id: &str) -> String {
    format!("/node/container/{}", path_segment(id))
}

fn amount(memory_mb: u64, vcores: u32) -> String {
    let unit = if vcores == 1 { "vcore" } else { "vcores" };
    format!("{} MB, {vcores} {unit}", number(memory_mb))
}

/// A text as HTML in which the part that all ids of containers and attempts of a cluster share
/// stands back.
fn with_ids(text: &str) -> String {
    static ID: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"((?:container_(?:e\d+_)?|appattempt_)\d+_)(\d+_\d+)")
            .expect("the pattern is a constant, and a test uses it")
    });
    // No mark of HTML is part of an id, so the escaped text has the same ids.
    let escaped = escape(text);
    let dimmed =
        |found: &Captures<'_>| format!("<span class=\"dim\">{}</span>{}", &found[1], &found[2]);
    ID.replace_all(&escaped, dimmed).into_owned()
}
