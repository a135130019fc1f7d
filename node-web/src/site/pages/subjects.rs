//! The pages of a container and of an application: what it is, what it uses, what happened to it
//! and, of a container, what it printed.

use hyper::StatusCode;
use maud::{Markup, html};
use node_view::operator::Explanation;
use node_view::overview::words::number;
use node_view::snapshot::ContainerSnapshot;
use records::{ApplicationId, ContainerExitStatus, ContainerName};

use super::logs::{file_link, scripted};
use super::{document_of, fact, lists, refusal};
use crate::site::answer::{Answer, HTML, answer};
use crate::site::body::Body;
use crate::site::html::path_segment;
use crate::site::logs::LogFile;
use crate::site::story::{self, Stories};
use crate::site::visible::{TAIL_BYTES, visible, whole_lines};
use crate::site::{Visit, usage};

/// Containers of an application on its page.
const CONTAINERS_MAX: usize = 40;

/// Log files that a container's page names, and those whose tails it shows.
const LOGS_NAMED_MAX: usize = 12;
const TAILS_MAX: usize = 2;

/// Characters of a container's diagnostics on its page.
const DIAGNOSTICS_CHARS_MAX: usize = 8_000;

/// Characters of a user's name. A peer chose it.
const USER_CHARS_MAX: usize = 256;

/// Answers with the page of an application.
pub(super) fn application(visit: &Visit, text: &str) -> Answer {
    let Ok(id) = text.parse::<ApplicationId>() else {
        return refusal(StatusCode::BAD_REQUEST, "Invalid application ID");
    };
    let Some(app) = visit.node.application(&id) else {
        return refusal(
            StatusCode::NOT_FOUND,
            "Unknown application. Application might have been completed",
        );
    };
    let known = app.containers.iter();
    let known = known.filter_map(|id| visit.node.container(id));
    let more = app.containers.len().saturating_sub(CONTAINERS_MAX);
    let used = visit.node.uses.of_application(id);
    let story = match &visit.stories {
        Stories::Application(story) if visit.viewer.may_view(app) => Some(story),
        Stories::Application(_) | Stories::Container(_) | Stories::None => None,
    };
    let main = html! {
        (usage::tiles(used.as_ref()))
        div.columns {
            div {
                section aria-labelledby="facts" {
                    h2 id="facts" { "Application" }
                    table.facts {
                        (fact("User", story::cut(&app.user, USER_CHARS_MAX)))
                        (fact("State", app.state.as_str()))
                        (fact("Containers here", number(app.containers.len() as u64)))
                    }
                }
                section aria-labelledby="containers" {
                    h2 id="containers" { "Containers" }
                    (lists::container_table(visit, known.take(CONTAINERS_MAX)))
                    @if more > 0 {
                        p.note {
                            a href={ "/node/allContainers?q=" (cluster_and_number(&id)) } {
                                "And " (number(more as u64)) " more"
                            }
                        }
                    }
                }
            }
            div {
                @if let Some(story) = story { (story::of_application(story, visit.options.utc_offset)) }
            }
        }
    };
    let html = document_of(&id.to_string(), main, None);
    answer(StatusCode::OK, HTML, Body::full(html))
}

/// Returns the part that an application's id and its containers' ids share.
fn cluster_and_number(id: &ApplicationId) -> String {
    let text = id.to_string();
    text.strip_prefix("application").unwrap_or(&text).to_owned()
}

/// Answers with the page of a container.
pub(super) async fn container(visit: &Visit, text: &str) -> Answer {
    let Ok(id) = text.parse::<ContainerName>() else {
        return refusal(StatusCode::BAD_REQUEST, "Invalid container ID");
    };
    let Some(container) = visit.node.container_named(id) else {
        return refusal(
            StatusCode::NOT_FOUND,
            "Unknown Container. Container might have completed, please go back to the previous page and retry.",
        );
    };
    let printed = printed(visit, &id, container).await;
    let used = visit.node.uses.of(&container.id);
    let may_view = visit.viewer.may_view_container(&visit.node, container);
    let told = match &visit.stories {
        Stories::Container(story) => Some(story),
        Stories::Application(_) | Stories::None => None,
    };
    let offset = visit.options.utc_offset;
    let main = html! {
        (usage::tiles(used.as_ref()))
        div.columns {
            div {
                (facts(visit, container, told))
                (printed)
            }
            div {
                @if let Some(story) = told.filter(|_| may_view) { (story::of_container(story, offset)) }
            }
        }
    };
    let own = format!("/node/container/{id}");
    let html = document_of(&id.to_string(), main, Some(&own));
    scripted(answer(StatusCode::OK, HTML, Body::full(html)))
}

fn facts(visit: &Visit, container: &ContainerSnapshot, told: Option<&Explanation>) -> Markup {
    let exit = match container.exit_status {
        ContainerExitStatus::INVALID => "N/A".to_owned(),
        status => status.to_string(),
    };
    let application = container.id.application_id();
    let diagnostics = visit.viewer.diagnostics(&visit.node, container);
    let diagnostics = story::cut(diagnostics, DIAGNOSTICS_CHARS_MAX);
    html! {
        section aria-labelledby="facts" {
            h2 id="facts" { "Container" }
            table.facts {
                (fact("State", container.rest_state().as_str()))
                @if let Some(told) = told { (fact("Now", story::now_words(told))) }
                (fact("Exit status", exit))
                (fact("Diagnostics", visible(diagnostics.as_bytes())))
                tr {
                    td { "Application" }
                    td { a href={ "/node/application/" (application) } { (application) } }
                }
                (fact("User", story::cut(&container.user, USER_CHARS_MAX)))
                (fact("Resource", container.resource))
                (fact("Execution type", container.execution_type))
            }
        }
    }
}

/// Returns the section with the ends of what a container printed, and links to all of it.
async fn printed(visit: &Visit, id: &ContainerName, container: &ContainerSnapshot) -> Markup {
    let user = &container.user;
    let all = format!("/node/containerlogs/{id}/{}", path_segment(user));
    let files = match visit.logs_of(*id) {
        Ok(logs) => logs.list().await.unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let shown: Vec<&LogFile> = shown_first(&files);
    let mut tails = Vec::new();
    for file in shown.iter().take(TAILS_MAX) {
        tails.push((file.name.as_str(), tail(visit, *id, &file.name).await));
    }
    html! {
        section aria-labelledby="printed" {
            h2 id="printed" { "What it printed" }
            @for (name, text) in &tails {
                h3 { a href=(file_link(id, user, name, "-4096")) { (name) } }
                pre.tail tabindex="0" role="region" aria-label={ "End of " (name) } { "\n" (text) }
            }
            @if tails.is_empty() { p.note { "Nothing yet that may be shown here." } }
            p.note {
                a href=(all) { "Link to logs" }
                @for file in files.iter().take(LOGS_NAMED_MAX) {
                    " · " a href=(file_link(id, user, &file.name, "-4096")) { (file.name) }
                    " " (number(file.length)) " bytes"
                }
            }
        }
    }
}

/// Returns the files with something in them, what a container prints by itself first.
fn shown_first(files: &[LogFile]) -> Vec<&LogFile> {
    let rank = |file: &LogFile| match file.name.as_str() {
        "stderr" => 0,
        "stdout" => 1,
        "syslog" => 2,
        _ => 3,
    };
    let mut shown: Vec<&LogFile> = files.iter().filter(|file| file.length > 0).collect();
    shown.sort_by_key(|file| rank(file));
    shown
}

/// Returns the end of a log file as text; empty where it cannot be read.
async fn tail(visit: &Visit, id: ContainerName, name: &str) -> String {
    let Ok(logs) = visit.logs_of(id) else {
        return String::new();
    };
    match logs.tail(name, TAIL_BYTES).await {
        Some((piece, true)) => visible(whole_lines(&piece)),
        Some((piece, false)) => visible(&piece),
        None => String::new(),
    }
}
