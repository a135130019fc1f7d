//! Records of a scheduler's events, which may be a stranger's: reading, playing again, playing with
//! other settings.

use event_record::{Begin, Input, Lives, Model, OtherSettings, Reader, Replay, Step};
use records::{ApplicationId, ContainerExitStatus, ExecutionType, MonoMillis, Now, Resource};
use sched::{ContainerScheduler, ContainerSchedulerConfig, ContainerSpec, Event};

use crate::{Memory, Target};

pub(crate) const TARGET: Target = Target {
    name: "event_record",
    bytes_max: 1 << 16,
    memory: Memory {
        base: 4 << 20,
        per_byte: 1_000,
    },
    run,
    seeds,
};

const OTHER: OtherSettings = OtherSettings {
    queue_length_max: Some(1),
    queue_order: Some(sched::QueueOrder::LeastLeft),
    freeze_victims: Some(true),
    pause_max_ms: Some(10),
    limit_length: Some(1),
};

fn run(input: &[u8]) {
    let Ok((mut reader, begin)) = Reader::new(input) else {
        return;
    };
    let mut steps = Vec::new();
    while let Ok(Some(step)) = reader.next_step() {
        let again = Step::read(&step.line());
        assert_eq!(again.ok().as_ref(), Some(&step), "written and read again");
        steps.push(step);
    }
    let Ok(mut replay) = Replay::new(&begin) else {
        return;
    };
    for step in &steps {
        // That a changed input parts is no fault.
        let _parted = replay.step(step);
    }
    let mut lives = Lives::default();
    if lives.begin(&begin).is_err() || !steps.iter().all(|step| lives.step(step)) {
        return;
    }
    lives.end(steps.last().map_or(MonoMillis(0), |step| step.at.mono));
    if let Ok(mut model) = Model::new(&begin, &lives, OTHER) {
        steps.iter().for_each(|step| model.step(step));
        let _fates = model.end();
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let config = ContainerSchedulerConfig {
        queue_length_max: 2,
        ..ContainerSchedulerConfig::default()
    };
    let mut scheduler = ContainerScheduler::new(config, Resource::new(1_024, 1));
    let attempt = ApplicationId::new(1, 1).attempt(1);
    let start = |id, execution_type| {
        Event::Start(ContainerSpec {
            id: attempt.container(id),
            resource: Resource::new(1_024, 1),
            execution_type,
            version: 0,
        })
    };
    let id = attempt.container(1);
    let exited = Event::Exited {
        id,
        status: ContainerExitStatus::TERMINATED,
        diagnostics: String::new(),
    };
    let events = [
        start(1, ExecutionType::Opportunistic),
        Event::Localized(id),
        Event::Launched(id),
        start(2, ExecutionType::Guaranteed),
        Event::Localized(attempt.container(2)),
        exited,
        Event::EstimateWaits,
    ];
    let mut seeds = Vec::new();
    let mut text = Begin::new(Now::default(), scheduler.snapshot(), false).line();
    for (ms, event) in (1..).zip(events) {
        let at = Now {
            mono: MonoMillis(ms),
            ..Now::default()
        };
        let mut actions = Vec::new();
        let refused = scheduler.handle(event.clone(), at, &mut actions).is_err();
        let input = Input::Event(event);
        let step = Step {
            at,
            input,
            refused,
            actions,
        };
        text.extend(step.line());
        if ms == 4 {
            seeds.push(Begin::new(at, scheduler.snapshot(), true).line());
        }
    }
    seeds.push(text);
    seeds
}
