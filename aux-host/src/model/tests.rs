//! Claims about what services learn, in which order, and about what is kept.

use std::collections::BTreeSet;

use proptest::prelude::*;
use records::ApplicationAttemptId;

use super::*;

fn application(n: i32) -> ApplicationId {
    ApplicationId {
        cluster_timestamp: 1_700_000_000_000,
        id: n,
    }
}

fn container(n: i64) -> ContainerFacts {
    let attempt = ApplicationAttemptId {
        application_id: application(1),
        attempt_id: 1,
    };
    ContainerFacts {
        id: ContainerId { attempt, id: n },
        user: "joe".into(),
        memory_mb: 1_024,
        vcores: 1,
        is_master: false,
    }
}

/// Returns a model whose services run.
fn running(services: usize) -> Model {
    let mut model = Model::new(services);
    model.host_runs();
    model
}

fn begin(model: &mut Model, service: usize, n: i32, data: &[u8]) {
    let user: Arc<str> = "joe".into();
    let taken = model.application_begins(service, application(n), &user, data);
    assert_eq!(taken, Ok(()));
}

/// Takes all that a service gets, answering each event, in words.
fn drain(model: &mut Model, wanted: usize) -> Vec<String> {
    let mut told = Vec::new();
    while let Some((service, sequence, event)) = model.next() {
        assert!(model.done(service, sequence));
        if service == wanted {
            told.push(match event {
                Event::ApplicationBegins { id, data, .. } => {
                    format!("begin {} {}", id.id, String::from_utf8_lossy(&data))
                }
                Event::ApplicationEnds(id) => format!("end {}", id.id),
                Event::ContainerBegins(facts) => format!("+{}", facts.id.id),
                Event::ContainerEnds(facts) => format!("-{}", facts.id.id),
            });
        }
    }
    told
}

#[test]
fn a_service_learns_of_its_own_data_of_every_container_and_of_every_end() {
    let mut model = running(2);
    model.container_begins(container(1));
    begin(&mut model, 1, 1, b"secret");
    model.container_ends(container(1));
    model.application_ends(application(1));
    model.application_ends(application(9));
    assert_eq!(
        drain(&mut model, 1),
        ["+1", "begin 1 secret", "-1", "end 1", "end 9"]
    );
    let mut model = running(2);
    begin(&mut model, 1, 1, b"secret");
    model.application_ends(application(1));
    assert_eq!(drain(&mut model, 0), ["end 1"]);
}

#[test]
fn a_service_that_answers_nothing_delays_no_other() {
    let mut model = running(2);
    for n in 0..1_000 {
        model.container_begins(container(n));
    }
    let mut got = [0, 0];
    while let Some((service, sequence, _)) = model.next() {
        got[service] += 1;
        assert!(service == 0 || model.done(1, sequence));
    }
    assert_eq!(got, [UNDER_WAY_MAX, 1_000]);
    assert!(model.lagging().is_none());
    for n in 0..WAITING_MAX {
        model.container_begins(container(n as i64));
        while let Some((service, sequence, _)) = model.next() {
            assert!(service == 1 && model.done(1, sequence));
        }
    }
    assert_eq!(model.lagging(), Some(0));
}

#[test]
fn an_answer_out_of_order_is_none() {
    let mut model = running(1);
    assert!(!model.done(0, 0));
    model.container_begins(container(1));
    model.container_begins(container(2));
    let (_, first, _) = model.next().unwrap();
    let (_, second, _) = model.next().unwrap();
    assert!(!model.done(0, second) && !model.done(1, first));
    assert!(model.done(0, first) && !model.done(0, first) && model.done(0, second));
}

#[test]
fn a_new_host_learns_of_what_runs_with_the_last_data_and_of_unanswered_ends() {
    let mut model = running(1);
    model.container_begins(container(1));
    begin(&mut model, 0, 1, b"first attempt");
    begin(&mut model, 0, 2, b"other");
    model.container_begins(container(2));
    assert_eq!(drain(&mut model, 0).len(), 4);
    model.application_ends(application(2));
    model.container_ends(container(2));
    let (_, sequence, _) = model.next().unwrap();
    model.host_ended();
    assert!(!model.done(0, sequence), "an answer of the host that ended");
    begin(&mut model, 0, 1, b"second attempt");
    model.application_ends(application(3));
    assert_eq!(model.next(), None);
    model.host_runs();
    let told = drain(&mut model, 0);
    assert_eq!(told, ["end 2", "end 3", "+1", "begin 1 second attempt"]);
}

#[test]
fn data_is_kept_within_bounds_and_given_back_with_the_application() {
    let mut model = running(1);
    let user: Arc<str> = "joe".into();
    let long = vec![0; DATA_BYTES_MAX + 1];
    let refused = model.application_begins(0, application(1), &user, &long);
    assert!(matches!(refused, Err(DataRefused::Long(..))));
    let data = &long[1..];
    let count = i32::try_from(KEPT_BYTES_MAX / DATA_BYTES_MAX).unwrap();
    for n in 0..count {
        // Every container brings the same.
        begin(&mut model, 0, n, data);
        begin(&mut model, 0, n, data);
        drain(&mut model, 0);
    }
    let refused = model.application_begins(0, application(count), &user, data);
    assert_eq!(refused, Err(DataRefused::Full(KEPT_BYTES_MAX)));
    model.application_ends(application(0));
    begin(&mut model, 0, count, data);
    for n in 0..=count {
        model.application_ends(application(n));
    }
    assert_eq!(model.kept_bytes, 0);
}

#[derive(Clone, Debug)]
enum Step {
    Begin(usize, i32),
    End(i32),
    ContainerBegins(i64),
    ContainerEnds(i64),
    Take,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..3_usize, 0..4).prop_map(|(service, n)| Step::Begin(service, n)),
        (0..4).prop_map(Step::End),
        (0..4_i64).prop_map(Step::ContainerBegins),
        (0..4_i64).prop_map(Step::ContainerEnds),
        Just(Step::Take),
        Just(Step::Restart),
    ]
}

/// Knowledge of a service.
#[derive(Debug, Default)]
struct Seen {
    applications: BTreeSet<i32>,
    containers: BTreeSet<i64>,
}

impl Seen {
    fn take(&mut self, event: Event) {
        match event {
            Event::ApplicationBegins { id, .. } => self.applications.insert(id.id),
            Event::ApplicationEnds(id) => self.applications.remove(&id.id),
            Event::ContainerBegins(facts) => self.containers.insert(facts.id.id),
            Event::ContainerEnds(facts) => self.containers.remove(&facts.id.id),
        };
    }
}

proptest! {
    /// Whatever happens and whenever hosts die, each service ends up with the applications and
    /// containers that run.
    #[test]
    fn every_service_ends_up_with_what_runs(steps in prop::collection::vec(step(), 0..60)) {
        let mut model = running(3);
        let mut seen: [Seen; 3] = Default::default();
        for step in steps {
            match step {
                Step::Begin(service, n) => begin(&mut model, service, n, b"data"),
                Step::End(n) => model.application_ends(application(n)),
                Step::ContainerBegins(n) => model.container_begins(container(n)),
                Step::ContainerEnds(n) => model.container_ends(container(n)),
                Step::Take => {
                    if let Some(next) = model.next() {
                        prop_assert!(model.done(next.0, next.1));
                        seen[next.0].take(next.2);
                    }
                }
                Step::Restart => {
                    model.host_ended();
                    // Applications stay on the disk of a service, containers do not.
                    seen.iter_mut().for_each(|seen| seen.containers.clear());
                    model.host_runs();
                }
            }
        }
        while let Some(next) = model.next() {
            prop_assert!(model.done(next.0, next.1));
            seen[next.0].take(next.2);
        }
        for (service, seen) in seen.iter().enumerate() {
            let running = model.applications.iter();
            let running = running.filter(|(_, it)| it.data.contains_key(&service));
            let running = running.map(|(id, _)| id.id);
            prop_assert_eq!(&seen.applications, &running.collect());
            let running = model.containers.keys().map(|id| id.id);
            prop_assert_eq!(&seen.containers, &running.collect());
        }
    }
}
