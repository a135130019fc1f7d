use test_support::ids::{application, container_of};

use super::*;
use crate::policy::Policy;
use crate::selection::LogAggregationContext;

const HOUR: Duration = Duration::from_secs(3600);

fn begin(schedule: &mut Schedule, number: i32, user: &str, rolled: &str, now: Instant) {
    let context = LogAggregationContext {
        rolled_include: rolled.to_owned(),
        ..Default::default()
    };
    let begun = Application {
        id: application(number),
        user: user.parse().unwrap(),
        acls: Vec::new(),
        selection: Selection::new(context, Policy::Failed),
    };
    schedule.begin(begun, now);
}

fn end(schedule: &mut Schedule, id: ContainerId, exit_status: i32) {
    schedule.container_ended(&ContainerEnd {
        id,
        role: ContainerRole::Task,
        exit_status: ContainerExitStatus(exit_status),
    });
}

fn failure() -> Result<Uploaded, UploadError> {
    Err(UploadError::for_test())
}

fn file(container: ContainerId) -> UploadedFile {
    UploadedFile {
        container,
        name: "log.1".to_owned(),
        modified_s: 7,
        length: 3,
    }
}

#[test]
fn nothing_is_uploaded_before_the_application_has_finished() {
    let now = Instant::now();
    let mut schedule = Schedule::new(None, 1);
    begin(&mut schedule, 1, "joe", "log", now);
    end(&mut schedule, container_of(1, 2), 1);
    end(&mut schedule, container_of(1, 3), 0);
    assert!(schedule.next(now + HOUR).is_none());
    assert!(schedule.finish(application(1)).is_none());
    let upload = schedule.next(now).unwrap();
    let taken = [(container_of(1, 2), Phase::ApplicationFinished)];
    assert_eq!(upload.containers, taken, "the policy takes the failed one");
    assert_eq!(upload.settled, [container_of(1, 3)].into());
    assert!(upload.is_last);
    let outcome = schedule.uploaded(&upload, Ok(Uploaded::default()), now);
    assert!(outcome.unwrap().is_last);
    assert!(!schedule.has_last_uploads());
}

#[test]
fn an_application_that_is_not_known_has_nothing_to_upload() {
    let mut schedule = Schedule::new(None, 1);
    let outcome = schedule.finish(application(9)).unwrap();
    assert!(outcome.is_last && outcome.result.is_ok());
}

#[test]
fn a_last_upload_that_fails_is_tried_again_after_pauses_and_then_given_up() {
    let mut now = Instant::now();
    let mut schedule = Schedule::new(None, 1);
    begin(&mut schedule, 1, "joe", "", now);
    schedule.finish(application(1));
    for pause in PAUSES {
        let upload = schedule.next(now).unwrap();
        let outcome = schedule.uploaded(&upload, failure(), now).unwrap();
        assert!(!outcome.is_last);
        assert!(schedule.next(now).is_none());
        now += pause;
    }
    let upload = schedule.next(now).unwrap();
    assert!(schedule.uploaded(&upload, failure(), now).unwrap().is_last);
    assert!(schedule.next(now + HOUR).is_none());
}

#[test]
fn a_stop_ends_the_pauses() {
    let now = Instant::now();
    let mut schedule = Schedule::new(None, 1);
    begin(&mut schedule, 1, "joe", "", now);
    schedule.finish(application(1));
    let upload = schedule.next(now).unwrap();
    schedule.uploaded(&upload, failure(), now);
    schedule.stop();
    let upload = schedule.next(now).unwrap();
    assert!(schedule.uploaded(&upload, failure(), now).unwrap().is_last);
}

#[test]
fn a_rolling_application_is_uploaded_at_each_interval() {
    let now = Instant::now();
    let mut schedule = Schedule::new(Some(HOUR), 1);
    begin(&mut schedule, 1, "joe", "log", now);
    let (task, failed) = (container_of(1, 2), container_of(1, 3));
    schedule.container_started(task, ContainerRole::Task);
    schedule.container_started(failed, ContainerRole::Task);
    end(&mut schedule, failed, 1);
    assert!(schedule.next(now).is_none());

    let upload = schedule.next(now + HOUR).unwrap();
    assert_eq!(
        upload.containers,
        [(failed, Phase::ContainerEnded)],
        "the policy does not take containers that run"
    );
    assert!(!upload.is_last && upload.is_rolling);
    let taken = Uploaded {
        files: vec![file(failed)],
        bytes: 3,
        remote: None,
    };
    let outcome = schedule.uploaded(&upload, Ok(taken), now + HOUR).unwrap();
    assert!(!outcome.is_last);

    end(&mut schedule, task, 1);
    assert!(schedule.next(now + HOUR).is_none());
    let upload = schedule.next(now + HOUR * 2).unwrap();
    assert_eq!(upload.containers, [(task, Phase::ContainerEnded)]);
    assert!(upload.uploaded.is_empty());
    schedule.finish(application(1));
    assert!(schedule.next(now + HOUR * 2).is_none(), "one at a time");
    schedule.uploaded(&upload, failure(), now + HOUR * 2);
    let upload = schedule.next(now + HOUR * 2).unwrap();
    assert_eq!(upload.containers, [(task, Phase::ApplicationFinished)]);
}

#[test]
fn files_of_running_containers_are_remembered_until_the_container_is_complete() {
    let now = Instant::now();
    let mut schedule = Schedule::new(Some(HOUR), 1);
    let context = LogAggregationContext {
        rolled_include: "log".to_owned(),
        ..Default::default()
    };
    let begun = Application {
        id: application(1),
        user: "joe".parse().unwrap(),
        acls: Vec::new(),
        selection: Selection::new(context, Policy::All),
    };
    schedule.begin(begun, now);
    let task = container_of(1, 2);
    schedule.container_started(task, ContainerRole::Task);
    let upload = schedule.next(now + HOUR).unwrap();
    assert_eq!(upload.containers, [(task, Phase::Running)]);
    let taken = Uploaded {
        files: vec![file(task)],
        bytes: 3,
        remote: None,
    };
    schedule.uploaded(&upload, Ok(taken), now + HOUR);
    end(&mut schedule, task, 0);
    let upload = schedule.next(now + HOUR * 2).unwrap();
    assert_eq!(upload.uploaded.len(), 1);
    schedule.uploaded(&upload, Ok(Uploaded::default()), now + HOUR * 2);
    schedule.finish(application(1));
    let upload = schedule.next(now + HOUR * 2).unwrap();
    assert!(upload.containers.is_empty() && upload.uploaded.is_empty());
}

#[test]
fn one_user_does_not_take_all_threads() {
    let now = Instant::now();
    let mut schedule = Schedule::new(None, 2);
    for number in 1..=5 {
        begin(&mut schedule, number, "joe", "", now);
        schedule.finish(application(number));
    }
    begin(&mut schedule, 6, "ann", "", now);
    schedule.finish(application(6));
    let started = std::iter::from_fn(|| schedule.next(now));
    let mut users: Vec<_> = started.map(|upload| upload.user).collect();
    users.sort();
    assert_eq!(users, ["ann", "joe", "joe"]);
}
