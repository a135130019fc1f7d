//! Text of `nm-agent explain`.

use node_view::operator::{ApplicationExplanation, Explanation, ToldOf};
use node_view::overview::words::{duration, number};
use time::format_description::BorrowedFormatItem;
use time::{OffsetDateTime, UtcOffset, macros};

use super::printable;
use super::use_words::used_words;

/// Local time of a step, to the millisecond.
const TIME: &[BorrowedFormatItem<'_>] = macros::format_description!(
    "[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:3]"
);

/// Steps at the beginning that are never left out.
const FIRST_STEPS: usize = 3;

/// Returns the text; times are local ones.
#[must_use]
pub fn explanation_text(explanation: &Explanation, offset: UtcOffset) -> String {
    let mut text = format!("{}\n{}\n", explanation.container, state(explanation));
    if let Some(used) = &explanation.used {
        text.push_str(&format!("{}\n", used_words(used)));
    }
    text.push('\n');
    for (index, step) in explanation.steps.iter().enumerate() {
        if index == FIRST_STEPS && explanation.omitted_steps > 0 {
            let omitted = number(explanation.omitted_steps as u64);
            text.push_str(&format!(
                "{omitted} more steps, which the agent has not kept\n"
            ));
        }
        text.push_str(&line(step.at_ms, None, &step.text, offset));
    }
    text
}

/// Returns the text of an application's story; times are local ones.
#[must_use]
pub fn application_text(explanation: &ApplicationExplanation, offset: UtcOffset) -> String {
    let ApplicationExplanation {
        application,
        containers,
        waiting,
        running,
        omitted_steps,
        ..
    } = explanation;
    let mut text = format!("{application}\n");
    match (&explanation.user, &explanation.state) {
        (Some(user), Some(state)) => {
            let (user, state) = (printable(user), state.to_lowercase().replace('_', " "));
            text.push_str(&format!("of {user}: {state}; "));
        }
        (_, _) => text.push_str("has ended, and its logs are deleted here; "),
    }
    let containers = number(*containers as u64);
    text.push_str(&format!(
        "{running} containers run, {waiting} wait, {containers} are remembered\n"
    ));
    if let Some(used) = &explanation.used {
        text.push_str(&format!("{}\n", used_words(used)));
    }
    text.push('\n');
    if *omitted_steps > 0 {
        let omitted = number(*omitted_steps as u64);
        text.push_str(&format!("{omitted} steps before these\n"));
    }
    for ToldOf { container, told } in &explanation.steps {
        text.push_str(&line(told.at_ms, Some(container), &told.text, offset));
    }
    text
}

fn state(explanation: &Explanation) -> String {
    let Explanation {
        execution_type: Some(kind),
        memory_mb: Some(memory_mb),
        vcores: Some(vcores),
        ..
    } = explanation
    else {
        return "has ended, and the ResourceManager knows it".to_owned();
    };
    let user = printable(explanation.user.as_deref().unwrap_or_default());
    let (kind, memory) = (kind.to_lowercase(), number(*memory_mb));
    let cores = if *vcores == 1 { "vcore" } else { "vcores" };
    let mut words = format!("{kind}, {memory} MiB and {vcores} {cores}, of {user}: ");
    words.push_str(&explanation.state);
    if let Some(for_ms) = explanation.state_for_ms {
        words.push_str(&format!(" for {}", duration(for_ms)));
    }
    if let Some(place) = explanation.place {
        words.push_str(&format!(", now at place {place}"));
    }
    if let Some(wait_ms) = explanation.estimated_wait_ms {
        words.push_str(&format!(", would wait {} more", duration(wait_ms)));
    }
    if let Some(status) = explanation.exit_status {
        words.push_str(&format!(", exit status {status}"));
    }
    words
}

/// Returns the line of a step, of an application's story with the container.
pub(super) fn line(at_ms: i64, container: Option<&str>, text: &str, offset: UtcOffset) -> String {
    let nanos = i128::from(at_ms) * 1_000_000;
    let time = OffsetDateTime::from_unix_timestamp_nanos(nanos)
        .ok()
        .and_then(|time| time.to_offset(offset).format(TIME).ok());
    let time = time.unwrap_or_else(|| format!("{at_ms} ms"));
    let text = printable(text);
    match container {
        Some(container) => format!("{time}  {container}  {text}\n"),
        None => format!("{time}  {text}\n"),
    }
}

#[cfg(test)]
mod tests {
    use node_view::operator::Told;

    use super::*;

    fn waiting() -> Explanation {
        let step = |at_ms, text: &str| Told {
            at_ms,
            text: text.to_owned(),
        };
        Explanation {
            container: "container_1_0001_01_000007".to_owned(),
            user: Some("alice".to_owned()),
            execution_type: Some("OPPORTUNISTIC".to_owned()),
            memory_mb: Some(1_024),
            vcores: Some(1),
            state: "queued".to_owned(),
            state_for_ms: Some(3_000),
            place: Some(2),
            estimated_wait_ms: Some(12_000),
            exit_status: None,
            used: None,
            steps: vec![
                step(1_000, "Accepted from its ApplicationMaster"),
                step(1_005, "Queued at place 3, short of 512 MiB"),
            ],
            omitted_steps: 0,
        }
    }

    #[test]
    fn a_container_that_waits_has_its_place_its_estimate_and_its_steps() {
        let expected = "\
container_1_0001_01_000007
opportunistic, 1,024 MiB and 1 vcore, of alice: queued for 3.0 s, now at place 2, would wait 12 s more

1970-01-01 01:00:01.000  Accepted from its ApplicationMaster
1970-01-01 01:00:01.005  Queued at place 3, short of 512 MiB
";
        let offset = UtcOffset::from_hms(1, 0, 0).unwrap();
        assert_eq!(explanation_text(&waiting(), offset), expected);
    }

    #[test]
    fn a_forgotten_container_and_lost_steps_are_told_as_such() {
        let mut ended = waiting();
        (ended.execution_type, ended.state) = (None, "forgotten".to_owned());
        ended.steps = vec![ended.steps[0].clone(); 5];
        ended.steps[4].text = "Ended\u{1b}[2J\n".to_owned();
        ended.omitted_steps = 1_200;
        let text = explanation_text(&ended, UtcOffset::UTC);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "has ended, and the ResourceManager knows it");
        assert_eq!(lines[6], "1,200 more steps, which the agent has not kept");
        assert!(lines[8].ends_with("Ended\\u{1b}[2J\\u{a}"), "{text}");
    }

    #[test]
    fn an_application_is_one_story_with_the_containers_in_its_lines() {
        let step = |at_ms, container: &str, text: &str| ToldOf {
            container: container.to_owned(),
            told: Told {
                at_ms,
                text: text.to_owned(),
            },
        };
        let mut application = ApplicationExplanation {
            application: "application_1_0001".to_owned(),
            user: Some("al\u{7}ice".to_owned()),
            state: Some("FINISHING_CONTAINERS_WAIT".to_owned()),
            used: None,
            containers: 2_000,
            waiting: 3,
            running: 4,
            steps: vec![
                step(1_000, "container_1_0001_01_000001", "Started at once"),
                step(1_005, "container_1_0001_01_000002", "Said \u{1b}[2J"),
            ],
            omitted_steps: 1_234,
        };
        let expected = "\
application_1_0001
of al\\u{7}ice: finishing containers wait; 4 containers run, 3 wait, 2,000 are remembered

1,234 steps before these
1970-01-01 00:00:01.000  container_1_0001_01_000001  Started at once
1970-01-01 00:00:01.005  container_1_0001_01_000002  Said \\u{1b}[2J
";
        assert_eq!(application_text(&application, UtcOffset::UTC), expected);
        (application.user, application.state) = (None, None);
        let text = application_text(&application, UtcOffset::UTC);
        assert!(text.contains("\nhas ended, and its logs"), "{text}");
    }
}
