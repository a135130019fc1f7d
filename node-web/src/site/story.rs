//! The story of a container, or of an application's containers, on their pages. Pure.

use maud::{Markup, html};
use node_view::operator::{ApplicationExplanation, Explanation, Told};
use node_view::overview::words::{duration, number};
use records::EpochMillis;
use time::UtcOffset;

use super::html::path_segment;
use super::live_page::{clock, iso};

/// Story of what the page is about. Holds output of containers.
#[derive(Debug)]
pub(super) enum Stories {
    Container(Explanation),
    Application(ApplicationExplanation),
    None,
}

/// Steps of an application on its page.
pub(super) const APPLICATION_STEPS_MAX: usize = 60;

/// Steps at the beginning of a container's story that are never left out.
const FIRST_STEPS: usize = 3;

/// Characters of a step: some hold output of the container.
const STEP_CHARS_MAX: usize = 300;

/// Returns the place and the estimate of a container that waits, and how long it is in its state.
pub(super) fn now_words(story: &Explanation) -> String {
    let mut words = story.state.clone();
    if let Some(for_ms) = story.state_for_ms {
        words.push_str(&format!(" for {}", duration(for_ms)));
    }
    if let Some(place) = story.place {
        words.push_str(&format!(", at place {}", number(place as u64)));
    }
    if let Some(wait_ms) = story.estimated_wait_ms {
        words.push_str(&format!(", about {} more to wait", duration(wait_ms)));
    }
    words
}

/// Returns the section with a container's steps.
pub(super) fn of_container(story: &Explanation, offset: UtcOffset) -> Markup {
    let (first, rest) = story.steps.split_at(FIRST_STEPS.min(story.steps.len()));
    html! {
        section aria-labelledby="story" {
            h2 id="story" { "What happened" }
            table.story {
                thead { tr { th scope="col" { "Time" } th scope="col" { "Step" } } }
                tbody {
                    @for step in first { (row(step, None, offset)) }
                    @if story.omitted_steps > 0 {
                        tr { td {} td.note { (number(story.omitted_steps as u64)) " more steps, which the agent has not kept" } }
                    }
                    @for step in rest { (row(step, None, offset)) }
                }
            }
        }
    }
}

/// Returns the section with the steps of an application's containers, the newest first.
pub(super) fn of_application(story: &ApplicationExplanation, offset: UtcOffset) -> Markup {
    html! {
        section aria-labelledby="story" {
            h2 id="story" { "What happened" }
            table.story {
                thead {
                    tr {
                        th scope="col" { "Time" } th scope="col" { "Container" }
                        th scope="col" { "Step" }
                    }
                }
                tbody {
                    @for step in story.steps.iter().rev() {
                        (row(&step.told, Some(&step.container), offset))
                    }
                }
            }
            @if story.omitted_steps > 0 {
                p.note {
                    (number(story.omitted_steps as u64))
                    " steps before these. nm-agent explain on this machine shows what the agent has kept of them."
                }
            }
        }
    }
}

fn row(step: &Told, container: Option<&str>, offset: UtcOffset) -> Markup {
    let at = EpochMillis(step.at_ms);
    html! {
        tr {
            td { time datetime=(iso(at)) { (clock(at, offset)) } }
            @if let Some(id) = container {
                td.id { a href={ "/node/container/" (path_segment(id)) } { (short(id)) } }
            }
            td { (cut(&step.text, STEP_CHARS_MAX)) }
        }
    }
}

/// Returns the part of a container's id that differs within an application.
fn short(id: &str) -> &str {
    let mut underscores = id.rmatch_indices('_').map(|(place, _)| place);
    let attempt = underscores.nth(1);
    attempt.and_then(|place| id.get(place + 1..)).unwrap_or(id)
}

/// Returns a text of at most so many characters.
pub(super) fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_of_an_application_is_named_by_attempt_and_number() {
        assert_eq!(
            short("container_e17_1763900000000_0001_01_000007"),
            "01_000007"
        );
        assert_eq!(short("x"), "x");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(cut("äöü", 2), "äö…");
        assert_eq!(cut("äöü", 3), "äöü");
    }
}
