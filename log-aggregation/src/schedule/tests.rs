use test_support::ids::application;

use super::*;
use crate::policy::Policy;
use crate::selection::LogAggregationContext;

const HOUR: Duration = Duration::from_secs(3600);

/// Name of a container of an application's first attempt.
fn container_of(application: i32, number: i64) -> ContainerName {
    test_support::ids::container_of(application, number).name()
}

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
        settled: BTreeSet::new(),
    };
    schedule.begin(begun, now);
}

fn end(schedule: &mut Schedule, id: ContainerName, exit_status: i32) {
    schedule.container_ended(&ContainerEnd {
        id,
        role: ContainerRole::Task,
        exit_status: ContainerExitStatus(exit_status),
    });
}

fn failure() -> Result<Uploaded, UploadError> {
    Err(UploadError::for_test())
}

fn file(container: ContainerName) -> UploadedFile {
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

fn refused_token() -> Result<Uploaded, UploadError> {
    Err(UploadError::of_token())
}

/// Returns a schedule whose last upload is under way, with the upload.
fn with_last_upload(wait: Option<Duration>, now: Instant) -> (Schedule, Upload) {
    let mut schedule = Schedule::new(None, 1).with_token_wait(wait);
    begin(&mut schedule, 1, "joe", "", now);
    schedule.finish(application(1));
    let upload = schedule.next(now).unwrap();
    (schedule, upload)
}

#[test]
fn a_last_upload_whose_token_is_refused_waits_for_another_one() {
    let mut now = Instant::now();
    let (mut schedule, mut upload) = with_last_upload(Some(HOUR), now);
    for _ in 0..5 {
        let outcome = schedule.uploaded(&upload, refused_token(), now).unwrap();
        assert!(!outcome.is_last);
        now += HOUR / 6;
        assert!(schedule.next(now).is_none());
        schedule.tokens_came(application(2));
        assert!(schedule.next(now).is_none(), "of another application");
        schedule.tokens_came(application(1));
        upload = schedule.next(now).unwrap();
        assert!(schedule.next(now + HOUR).is_none(), "once for each");
    }
    let outcome = schedule.uploaded(&upload, Ok(Uploaded::default()), now);
    assert!(outcome.unwrap().is_last);
    schedule.tokens_came(application(1));
    assert!(schedule.next(now + HOUR).is_none());
}

#[test]
fn the_wait_for_a_token_ends_with_one_more_upload() {
    let now = Instant::now();
    let (mut schedule, upload) = with_last_upload(Some(HOUR), now);
    schedule.uploaded(&upload, refused_token(), now);
    let half = now + HOUR / 2;
    schedule.tokens_came(application(1));
    let upload = schedule.next(half).unwrap();
    schedule.uploaded(&upload, refused_token(), half);
    assert_eq!(schedule.next_deadline(), Some(now + HOUR));
    let end = now + HOUR;
    let upload = schedule.next(end).unwrap();
    let outcome = schedule.uploaded(&upload, refused_token(), end).unwrap();
    assert!(outcome.is_last);
    assert!(!schedule.has_last_uploads());
}

#[test]
fn tokens_that_come_during_an_upload_are_tried_at_once() {
    let now = Instant::now();
    let (mut schedule, upload) = with_last_upload(Some(HOUR), now);
    schedule.tokens_came(application(1));
    schedule.uploaded(&upload, refused_token(), now);
    let upload = schedule.next(now).unwrap();
    schedule.uploaded(&upload, refused_token(), now);
    assert!(schedule.next(now).is_none());
}

#[test]
fn nothing_waits_for_tokens_at_a_stop_or_without_a_wait() {
    let now = Instant::now();
    let (mut schedule, upload) = with_last_upload(Some(HOUR), now);
    schedule.uploaded(&upload, refused_token(), now);
    schedule.stop();
    let upload = schedule.next(now).unwrap();
    let outcome = schedule.uploaded(&upload, refused_token(), now).unwrap();
    assert!(outcome.is_last);
    let (mut schedule, upload) = with_last_upload(Some(Duration::ZERO), now);
    let outcome = schedule.uploaded(&upload, refused_token(), now).unwrap();
    assert!(outcome.is_last);
    // In a cluster without tokens it is a failure as any other.
    let (mut schedule, upload) = with_last_upload(None, now);
    let outcome = schedule.uploaded(&upload, refused_token(), now).unwrap();
    assert!(!outcome.is_last);
    assert_eq!(schedule.next_deadline(), Some(now + PAUSES[0]));
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
        files: 1,
        bytes: 3,
        ..Uploaded::default()
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
        settled: BTreeSet::new(),
    };
    schedule.begin(begun, now);
    let task = container_of(1, 2);
    schedule.container_started(task, ContainerRole::Task);
    let upload = schedule.next(now + HOUR).unwrap();
    assert_eq!(upload.containers, [(task, Phase::Running)]);
    let taken = Uploaded {
        left: vec![file(task)],
        ..Uploaded::default()
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

/// Begins a rolling application of Joe's and starts its container 2.
fn begin_rolling(schedule: &mut Schedule, number: i32, user: &str, now: Instant) {
    let context = LogAggregationContext {
        rolled_include: "log".to_owned(),
        ..Default::default()
    };
    let begun = Application {
        id: application(number),
        user: user.parse().unwrap(),
        acls: Vec::new(),
        selection: Selection::new(context, Policy::All),
        settled: BTreeSet::new(),
    };
    schedule.begin(begun, now);
    schedule.container_started(container_of(number, 2), ContainerRole::Task);
}

#[test]
fn remembered_files_are_bounded_with_a_share_for_each_user() {
    let now = Instant::now();
    let mut schedule = Schedule::new(Some(HOUR), 10);
    for (number, user) in [(1, "joe"), (2, "joe"), (3, "ann")] {
        begin_rolling(&mut schedule, number, user, now);
        let upload = schedule.next(now + HOUR).unwrap();
        let left = (0..REMEMBERED_OF_USER_MAX).map(|n| UploadedFile {
            name: format!("log.{n}"),
            ..file(container_of(number, 2))
        });
        let taken = Uploaded {
            left: left.collect(),
            ..Uploaded::default()
        };
        schedule.uploaded(&upload, Ok(taken), now + HOUR);
    }
    let kept = schedule.applications.values().map(|it| it.uploaded.len());
    let expected = [REMEMBERED_OF_USER_MAX, 0, REMEMBERED_OF_USER_MAX];
    assert_eq!(kept.collect::<Vec<_>>(), expected);
}

#[test]
fn a_container_of_which_an_upload_left_a_part_is_taken_again() {
    let now = Instant::now();
    let mut schedule = Schedule::new(Some(HOUR), 1);
    begin(&mut schedule, 1, "joe", "log", now);
    let (whole, part) = (container_of(1, 2), container_of(1, 3));
    end(&mut schedule, whole, 1);
    end(&mut schedule, part, 1);
    let upload = schedule.next(now + HOUR).unwrap();
    let taken = Uploaded {
        unfinished: [part].into(),
        ..Uploaded::default()
    };
    schedule.uploaded(&upload, Ok(taken), now + HOUR);
    schedule.finish(application(1));
    let upload = schedule.next(now + HOUR).unwrap();
    assert_eq!(upload.containers, [(part, Phase::ApplicationFinished)]);
    assert_eq!(upload.settled, [whole].into());
}

#[test]
fn containers_that_an_earlier_agent_settled_are_settled_in_the_upload() {
    let now = Instant::now();
    let mut schedule = Schedule::new(None, 1);
    let begun = Application {
        id: application(1),
        user: "joe".parse().unwrap(),
        acls: Vec::new(),
        selection: Selection::new(LogAggregationContext::default(), Policy::Failed),
        settled: [container_of(1, 2)].into(),
    };
    schedule.begin(begun, now);
    schedule.finish(application(1));
    let upload = schedule.next(now).unwrap();
    assert_eq!(upload.settled, [container_of(1, 2)].into());
}
