//! A record's way: written, read, played again, and played with other settings.

#![expect(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too: a panic is a failed test"
)]

use std::collections::BTreeMap;

use event_record::{
    Begin, Came, FORMAT, Fates, Input, Lives, Model, OtherSettings, Parted, Reader, Replay, Step,
    table,
};
use records::{ContainerExitStatus, EpochMillis, ExecutionType, MonoMillis, Now, Resource};
use sched::{
    Action, ContainerRetryContext, ContainerScheduler, ContainerSchedulerConfig, ContainerSpec,
    Event, Note, RejectReason, RetryOn,
};
use test_support::ids::container;

fn at(ms: u64) -> Now {
    Now {
        mono: MonoMillis(ms),
        wall: EpochMillis(1_700_000_000_000),
    }
}

/// Node of two places, whose queue takes one, with containers that run for a second each: 1 and 2
/// run, 3 waits, 4 is rejected, and 5, guaranteed, evicts 2.
fn recorded() -> (Begin, Vec<Step>) {
    let config = ContainerSchedulerConfig {
        queue_length_max: 1,
        memory_ceiling_mb: 8_192,
        ..ContainerSchedulerConfig::default()
    };
    let mut scheduler = ContainerScheduler::new(config, Resource::new(2_048, 2));
    let begin = Begin::new(at(0), scheduler.snapshot(), false);
    let mut due: BTreeMap<(u64, usize), Event> = BTreeMap::new();
    let mut steps = Vec::new();
    for (number, id) in (1..=5).enumerate() {
        let execution_type = match id {
            5 => ExecutionType::Guaranteed,
            _ => ExecutionType::Opportunistic,
        };
        let start = Event::Start(ContainerSpec {
            id: container(id),
            resource: Resource::new(1_024, 1),
            execution_type,
            version: 0,
        });
        due.insert((10 * number as u64, 0), start);
    }
    while let Some(((ms, _), event)) = due.pop_first() {
        let mut actions = Vec::new();
        let refused = scheduler
            .handle(event.clone(), at(ms), &mut actions)
            .is_err();
        for action in &actions {
            let exited = |id, status| Event::Exited {
                id,
                status,
                diagnostics: "a secret text".to_owned(),
            };
            let (delay, event) = match action {
                Action::Localize(id) => (0, Event::Localized(*id)),
                Action::Launch(id) => (2, Event::Launched(*id)),
                Action::Terminate(id) => (3, exited(*id, ContainerExitStatus::TERMINATED)),
                Action::CleanUp(id) => (0, Event::CleanedUp(*id)),
                Action::RollBack(_)
                | Action::Pause(_)
                | Action::Resume(_)
                | Action::ForceKill(_)
                | Action::ApplyLimits(_)
                | Action::Completed(_)
                | Action::Note(_) => continue,
            };
            due.insert((ms + delay, due.len() + 1_000), event);
        }
        if let Event::Launched(id) = event {
            let (status, diagnostics) = (ContainerExitStatus::SUCCESS, String::new());
            let exit = Event::Exited {
                id,
                status,
                diagnostics,
            };
            due.insert((ms + 1_000, due.len() + 2_000), exit);
        }
        steps.push(Step {
            at: at(ms),
            input: Input::Event(event),
            refused,
            actions,
        });
    }
    (begin, steps)
}

fn text(begin: &Begin, steps: &[Step]) -> Vec<u8> {
    let mut text = begin.line();
    for step in steps {
        text.extend(step.line());
    }
    text
}

fn read(text: &[u8]) -> (Begin, Vec<Step>) {
    let (mut reader, begin) = Reader::new(text).unwrap();
    let mut steps = Vec::new();
    while let Some(step) = reader.next_step().unwrap() {
        steps.push(step);
    }
    (begin, steps)
}

#[test]
fn a_record_that_was_written_and_read_plays_with_the_same_actions() {
    let (begin, steps) = recorded();
    let text = text(&begin, &steps);
    let words = String::from_utf8(text.clone()).unwrap();
    assert!(!words.contains("secret"), "{words}");
    let (begin, steps) = read(&text);
    let mut replay = Replay::new(&begin).unwrap();
    for step in &steps {
        replay.step(step).unwrap();
    }
    assert!(steps.len() > 15 && replay.steps() == steps.len() as u64);
    let next = Begin::new(at(9_000), replay.snapshot(), true);
    replay.follow(&next).unwrap();
    assert_eq!(replay.follow(&begin), Err(Parted::State));
}

#[test]
fn the_step_at_which_a_replay_parts_is_named() {
    let (begin, mut steps) = recorded();
    let changed = steps.iter_mut().find(|step| {
        let rejects = |action: &Action| matches!(action, Action::Note(Note::Rejected { .. }));
        step.actions.iter().any(rejects)
    });
    let changed = changed.unwrap();
    for action in &mut changed.actions {
        if let Action::Note(Note::Rejected { reason, .. }) = action {
            *reason = RejectReason::NeverFits;
        }
    }
    let mut replay = Replay::new(&begin).unwrap();
    let parted = steps.iter().find_map(|step| replay.step(step).err());
    let words = parted.unwrap().to_string();
    assert!(
        words.contains("recorded: [Note(Rejected") && words.contains("NeverFits"),
        "{words}"
    );
    assert!(words.starts_with("at 30 ms"), "{words}");
}

#[test]
fn other_settings_say_who_would_have_waited_or_been_frozen() {
    let (begin, steps) = recorded();
    let mut fates = Fates::default();
    let mut lives = Lives::default();
    lives.begin(&begin).unwrap();
    for step in &steps {
        step.actions.iter().for_each(|action| fates.observe(action));
        assert!(lives.step(step));
    }
    lives.end(steps.last().unwrap().at.mono);
    let modelled = |settings| {
        let mut model = Model::new(&begin, &lives, settings).unwrap();
        steps.iter().for_each(|step| model.step(step));
        // The record ends before those that it turned away would.
        let mut later = steps.last().unwrap().clone();
        (later.at, later.input) = (at(60_000), Input::Event(Event::EstimateWaits));
        model.step(&later);
        model.end()
    };
    let (unchanged, _) = modelled(OtherSettings::default());
    assert_eq!(unchanged, fates);
    let longer = OtherSettings {
        queue_length_max: Some(5),
        ..OtherSettings::default()
    };
    let (longer, assumed) = modelled(longer);
    assert!(fates.of[&container(4)].rejected);
    let fourth = &longer.of[&container(4)];
    assert!(!fourth.rejected && fourth.waited_ms.is_some(), "{fourth:?}");
    assert_eq!(
        assumed, 2,
        "that of the evicted one and of the rejected one"
    );
    let frozen = OtherSettings {
        freeze_victims: Some(true),
        ..OtherSettings::default()
    };
    let (frozen, _) = modelled(frozen);
    assert_eq!(fates.of[&container(2)].killed, 1);
    let second = &frozen.of[&container(2)];
    assert_eq!((second.killed, second.frozen), (0, 1));
    assert_eq!(second.status, Some(ContainerExitStatus::SUCCESS));
    let plays = [
        ("recorded".to_owned(), &fates),
        ("queue of 5".to_owned(), &longer),
    ];
    let shown = table(&plays);
    assert!(shown.lines().count() == 5, "{shown}");
    let (count, listed) = event_record::differences(&fates, &longer);
    assert_eq!(count, 1, "{listed}");
    assert!(listed.contains("rejected; then started after"), "{listed}");
}

#[test]
fn what_is_no_record_is_refused_with_its_line() {
    let (begin, steps) = recorded();
    let text = text(&begin, &steps);
    let refused = |text: &[u8]| Reader::new(text).unwrap_err().to_string();
    assert_eq!(refused(b""), "line 1: the first line is missing or cut off");
    assert!(refused(b"{}\n").starts_with("line 1: missing field"));
    let other = String::from_utf8(begin.line()).unwrap();
    let later = other.replace("\"version\":1,", "\"version\":2,");
    assert!(
        refused(later.as_bytes()).starts_with("line 1: version 2; this program reads 1"),
        "{later}"
    );
    assert!(refused(b"{\"format\":\"x\",\"version\":1}\n").contains(FORMAT));
    let cut = &text[..text.len() - 5];
    let (mut reader, _) = Reader::new(cut).unwrap();
    while reader.next_step().unwrap().is_some() {}
    assert!(reader.is_cut());
    let mut broken = begin.line();
    broken.extend_from_slice(b"{\"at\":{}}\n");
    let (mut reader, _) = Reader::new(&broken[..]).unwrap();
    let error = reader.next_step().unwrap_err().to_string();
    assert!(error.starts_with("line 2: missing field"), "{error}");
}

/// A change of a name in `sched` changes the form, and so its version.
#[test]
fn the_form_of_version_1_is_as_it_was() {
    let (begin, steps) = recorded();
    let now = String::from_utf8(text(&begin, &steps)).unwrap();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/version-1.jsonl");
    if std::env::var_os("NM_AGENT_WRITE_SAMPLES").is_some() {
        std::fs::write(file, &now).unwrap();
    }
    let kept = std::fs::read_to_string(file).unwrap();
    for (kept, now) in kept.lines().zip(now.lines()) {
        assert_eq!(kept, now);
    }
    assert_eq!(kept.lines().count(), now.lines().count());
}

#[test]
fn a_container_that_would_be_launched_again_for_ever_runs_once_in_the_model() {
    let config = ContainerSchedulerConfig {
        retry_minimum_interval_ms: 0,
        ..ContainerSchedulerConfig::default()
    };
    let mut scheduler = ContainerScheduler::new(config, Resource::new(2_048, 2));
    let id = container(1);
    let policy = ContainerRetryContext {
        on: RetryOn::AllErrors,
        max_retries: None,
        ..ContainerRetryContext::default()
    };
    let start = Event::Start(ContainerSpec {
        id,
        resource: Resource::new(1_024, 1),
        execution_type: ExecutionType::Guaranteed,
        version: 0,
    });
    let mut actions = Vec::new();
    for event in [
        start,
        Event::RetryPolicy { id, policy },
        Event::Localized(id),
    ] {
        scheduler.handle(event, at(0), &mut actions).unwrap();
    }
    let begin = Begin::new(at(0), scheduler.snapshot(), false);
    let (status, diagnostics) = (ContainerExitStatus(1), String::new());
    let exited = Event::Exited {
        id,
        status,
        diagnostics,
    };
    let step = |event, ms| Step {
        at: at(ms),
        input: Input::Event(event),
        refused: false,
        actions: Vec::new(),
    };
    let last = 1 << 52;
    let steps = [
        step(Event::Launched(id), 0),
        step(exited, 0),
        step(Event::EstimateWaits, last),
    ];
    let mut lives = Lives::default();
    lives.begin(&begin).unwrap();
    assert!(steps.iter().all(|step| lives.step(step)));
    lives.end(MonoMillis(last));
    let mut model = Model::new(&begin, &lives, OtherSettings::default()).unwrap();
    steps.iter().for_each(|step| model.step(step));
    let (fates, _) = model.end();
    assert_eq!(fates.of[&id].status, Some(status));
}

#[test]
fn tasks_are_of_containers_that_ended_by_themselves_with_their_waits() {
    let (begin, steps) = recorded();
    let (mut lives, mut came) = (Lives::default(), Came::default());
    lives.begin(&begin).unwrap();
    for step in &steps {
        assert!(lives.step(step) && came.step(step));
    }
    lives.end(steps.last().unwrap().at.mono);
    let tasks = came.take_ended(&lives);
    let told: Vec<_> = tasks
        .iter()
        .map(|task| (task.id, task.execution_type, task.ran_ms))
        .collect();
    let (guaranteed, opportunistic) = (ExecutionType::Guaranteed, ExecutionType::Opportunistic);
    assert_eq!(
        told,
        [
            (container(1), opportunistic, 1_000),
            (container(3), opportunistic, 1_000),
            (container(5), guaranteed, 1_000),
        ]
    );
    let waited = |number: usize| tasks[number].waited_ms.unwrap();
    assert!(
        waited(0) == 0 && waited(1) > 900 && waited(2) < 100,
        "{tasks:?}"
    );
    assert_eq!(tasks[1].resource, Resource::new(1_024, 1));
    assert_eq!(came.left(), 2, "one was evicted, one rejected");
}
