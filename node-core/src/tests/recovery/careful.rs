//! Crashes in a row: what was in progress at two of them fails, and what was beside it goes on.

use log_aggregation::Outcome;
use log_aggregation::upload::Uploaded;
use wire::proto::hadoop_yarn::{ContainerRetryContextProto, ContainerRetryPolicyProto};

use super::reinit::context;
use super::*;
use crate::order::LogOrder;
use crate::recovery::ApplicationStage;

impl CrashingNode {
    /// Starts a container whose resources are still to be localized.
    fn accept(&mut self, n: i64, execution_type: ExecutionType) {
        self.accept_with(n, execution_type, context("run"));
    }

    fn accept_with(
        &mut self,
        n: i64,
        execution_type: ExecutionType,
        context: ContainerLaunchContextProto,
    ) {
        let mut request = request_for(container_id(n), execution_type);
        let mut token = token(&request.spec);
        token.execution_type = Some(ExecutionTypeProto::from(execution_type).into());
        request.record = Some(Box::new(StartRecord {
            token: token.encode_to_vec(),
            context: context.encode_to_vec(),
            ..StartRecord::default()
        }));
        request.context = LaunchContext::read(context);
        let outcome = self.node.core.start(asker(), request, self.node.now);
        assert!(matches!(outcome, StartOutcome::Started), "{outcome:?}");
        self.settle();
    }

    fn crash_for_a_fault(&mut self) {
        self.localizations.clear();
        self.launches.clear();
        self.start_again(true);
    }

    /// Returns the containers whose localization has been ordered since the last crash.
    fn localizing(&self) -> Vec<i64> {
        let ids = self.localizations.iter().filter_map(|effect| {
            if let Effect::Localize { id, .. } = effect {
                Some(id.id)
            } else {
                None
            }
        });
        ids.collect()
    }

    fn localized_one(&mut self, n: i64) {
        let event = WorkerEvent::Localized {
            id: container_id(n),
            purpose: LocalizeFor::Start,
            took: Duration::ZERO,
            resources: Vec::new(),
        };
        self.node.core.handle(event, self.node.now, 0);
        self.settle();
    }

    /// Lets time pass until the core wants nothing more done in it.
    fn pass(&mut self, ms: u64) {
        let until = self.node.now.mono + ms;
        while let Some(at) = self.node.core.next_deadline().filter(|at| *at <= until) {
            self.node.now.mono = at;
            self.node.core.tick(self.node.now);
            self.settle();
        }
        self.node.now.mono = until;
    }

    /// Returns exit status and diagnostics of a container that is done.
    fn done(&self, n: i64) -> Option<(i32, String)> {
        let view = self.node.core.scheduler.container(&container_id(n))?;
        let is_done = matches!(view.state, ContainerState::Done(_));
        is_done.then_some((view.exit_status.0, view.diagnostics))
    }

    fn runs(&self, n: i64) -> bool {
        matches!(
            self.state(container_id(n)),
            Some(ContainerState::Running { .. })
        )
    }

    fn notice(&self) -> String {
        self.node.core.condition.about().recovery.words()
    }
}

#[test]
fn a_start_that_was_in_progress_at_two_crashes_in_a_row_fails_and_nothing_else_does() {
    let mut machine = CrashingNode::new();
    machine.step(&Step::Start(1, ExecutionType::Guaranteed));
    machine.step(&Step::Launched(1));
    machine.accept(2, ExecutionType::Guaranteed);
    machine.crash_for_a_fault();
    // The adoption goes first, alone.
    assert!(machine.localizing().is_empty());
    machine.pass(5_000);
    assert_eq!(machine.localizing(), [2]);
    machine.crash_for_a_fault();
    assert!(machine.localizing().is_empty());
    assert!(machine.runs(1));
    let (_, diagnostics) = machine.done(2).unwrap();
    assert!(diagnostics.contains("two crashes"), "{diagnostics}");
    assert!(machine.notice().contains("failed"), "{}", machine.notice());
    machine.pass(60_000);
    assert_eq!(machine.disk.suspects, None);
    machine.crash_for_a_fault();
    assert!(machine.runs(1));
}

#[test]
fn one_that_is_killed_from_outside_again_and_again_fails_nothing() {
    let mut machine = CrashingNode::new();
    machine.accept(1, ExecutionType::Guaranteed);
    for _ in 0..5 {
        machine.localizations.clear();
        machine.crash();
        assert_eq!(machine.localizing(), [1]);
        assert_eq!(machine.notice(), "");
    }
    machine.localized_one(1);
    machine.step(&Step::Launched(1));
    assert!(machine.runs(1));
}

#[test]
fn of_several_each_is_tried_alone_and_only_the_guilty_one_fails() {
    let mut machine = CrashingNode::new();
    for n in 1..=3 {
        machine.accept(n, ExecutionType::Guaranteed);
    }
    machine.crash_for_a_fault();
    assert_eq!(machine.localizing(), [1, 2, 3]);
    machine.crash_for_a_fault();
    assert_eq!(machine.localizing(), [1]);
    assert!(machine.notice().contains("2 works"), "{}", machine.notice());
    machine.pass(1_500);
    assert_eq!(machine.localizing(), [1], "the first one still goes on");
    machine.localized_one(1);
    machine.step(&Step::Launched(1));
    machine.pass(1_500);
    assert_eq!(machine.localizing(), [1, 2]);
    // The second is the guilty one.
    machine.crash_for_a_fault();
    assert!(machine.runs(1));
    assert!(machine.done(2).unwrap().1.contains("two crashes"));
    machine.pass(5_000);
    assert_eq!(machine.localizing(), [3]);
    machine.localized_one(3);
    machine.step(&Step::Launched(3));
    assert!(machine.runs(3));
    machine.pass(60_000);
    assert_eq!(machine.disk.suspects, None);
}

#[test]
fn a_slow_one_keeps_the_others_from_going_on_for_a_while_only() {
    let mut machine = CrashingNode::new();
    for n in 1..=2 {
        machine.accept(n, ExecutionType::Guaranteed);
    }
    machine.crash_for_a_fault();
    machine.crash_for_a_fault();
    machine.pass(9_000);
    assert_eq!(machine.localizing(), [1]);
    machine.pass(3_000);
    assert_eq!(machine.localizing(), [1, 2]);
}

#[test]
fn one_that_is_held_can_be_killed_and_its_localization_never_begins() {
    let mut machine = CrashingNode::new();
    for n in 1..=3 {
        machine.accept(n, ExecutionType::Guaranteed);
    }
    machine.crash_for_a_fault();
    machine.crash_for_a_fault();
    machine.step(&Step::Stop(2));
    assert!(machine.done(2).is_some());
    machine.localized_one(1);
    machine.step(&Step::Launched(1));
    machine.pass(2_500);
    assert_eq!(machine.localizing(), [1, 3]);
}

#[test]
fn a_change_of_a_container_whose_launch_is_held_follows_the_launch() {
    let mut machine = CrashingNode::new();
    for n in 1..=2 {
        machine.step(&Step::Start(n, ExecutionType::Opportunistic));
    }
    for _ in 0..2 {
        machine.crash_for_a_fault();
    }
    let launched = |machine: &CrashingNode| -> Vec<i64> {
        let orders = machine.launches.iter();
        orders.map(|order| order.spec.id.id).collect()
    };
    assert_eq!(launched(&machine), [1]);
    let spec = ContainerSpec {
        version: 1,
        ..request_for(container_id(2), ExecutionType::Guaranteed).spec
    };
    let request = update_of(spec, token(&spec));
    let updated = machine
        .node
        .core
        .update_container(asker(), request, machine.node.now);
    updated.unwrap();
    machine.settle();
    assert_eq!(machine.limits, []);
    machine.step(&Step::Launched(1));
    machine.pass(5_000);
    assert_eq!(launched(&machine), [1, 2]);
    assert_eq!(machine.limits, [(2, spec)]);
}

#[test]
fn a_held_adoption_goes_first_when_its_container_is_to_end() {
    let mut machine = CrashingNode::new();
    machine.dirs = Some(some_dirs());
    for n in 1..=2 {
        machine.step(&Step::Start(n, ExecutionType::Guaranteed));
        machine.step(&Step::Launched(n));
    }
    // Nothing is adopted before the first one.
    for _ in 0..3 {
        machine.crash_for_a_fault();
    }
    let suspects = machine.disk.suspects.clone().unwrap();
    assert_eq!(suspects.held.len(), 1, "{suspects:?}");
    assert_eq!(machine.adopted, [1]);
    machine.step(&Step::Stop(2));
    assert_eq!(machine.adopted, [1, 2]);
    assert!(machine.terminated.contains(&container_id(2)));
    // After another crash during the adoption of one, it is given up.
    machine.crash_for_a_fault();
    let (status, diagnostics) = machine.done(1).unwrap();
    assert_eq!(status, 154);
    assert!(diagnostics.contains("two crashes"), "{diagnostics}");
}

#[test]
fn an_upload_at_two_crashes_in_a_row_is_given_up_and_its_logs_stay_for_their_time() {
    let mut machine = CrashingNode::new();
    let logs = LogAggregation {
        policy: log_aggregation::policy::Policy::All,
        local_cleanup: true,
        utc_offset: time::UtcOffset::UTC,
    };
    machine.log_aggregation = Some(logs);
    machine.node.core.config.log_aggregation = Some(logs);
    machine.step(&Step::Start(1, ExecutionType::Guaranteed));
    machine.step(&Step::Launched(1));
    machine.step(&Step::Exit(1, 0));
    machine.node.finish_application();
    machine.settle();
    for expected in [1, 0] {
        machine.uploads.clear();
        machine.crash_for_a_fault();
        assert_eq!(machine.uploads.len(), expected);
    }
    let record = &machine.disk.applications[&APP];
    assert_eq!(record.stage(), ApplicationStage::Finished, "{record:?}");
    assert!(machine.notice().contains("upload"), "{}", machine.notice());
    // A late outcome of nobody changes nothing.
    let late = Outcome {
        application: APP,
        result: Ok(Uploaded::default()),
        is_last: true,
    };
    let now = machine.node.now;
    machine
        .node
        .core
        .handle(WorkerEvent::LogsUploaded(late), now, 0);
    let order = LogOrder::Finish(APP);
    assert!(!machine.uploads.contains(&format!("{order:?}")));
}

#[test]
fn every_launch_of_a_container_whose_files_are_gone_fails_for_that_reason() {
    let mut retried = context("run");
    retried.container_retry_context = Some(ContainerRetryContextProto {
        retry_policy: Some(ContainerRetryPolicyProto::RetryOnAllErrors.into()),
        max_retries: Some(1),
        retry_interval: Some(1_000),
        ..ContainerRetryContextProto::default()
    });
    let mut machine = CrashingNode::new();
    machine.accept_with(1, ExecutionType::Guaranteed, retried);
    machine.localized_one(1);
    assert_eq!(machine.launches.len(), 1);
    machine.launches.clear();
    machine.crash();
    let missing = WorkerEvent::LocalizationFailed {
        id: container_id(1),
        purpose: LocalizeFor::Start,
        took: Duration::ZERO,
        diagnostics: "no such file\n".to_owned(),
    };
    machine.node.core.handle(missing, machine.node.now, 0);
    machine.settle();
    assert_eq!(machine.done(1), None, "it is tried again");
    machine.pass(60_000);
    let (status, diagnostics) = machine.done(1).unwrap();
    assert_eq!(status, ContainerExitStatus::LAUNCH_FAILED.0);
    assert_eq!(
        diagnostics.matches("no such file").count(),
        2,
        "{diagnostics}"
    );
    assert!(machine.launches.is_empty());
}
