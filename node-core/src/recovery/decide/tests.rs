use test_support::ids;

use super::super::record::StartRecord;
use super::*;

fn process(pid: i32) -> ProcessIdentity {
    ProcessIdentity { pid, start_time: 5 }
}

fn stored(number: i64, stage: Stage, place: u64, pid: i32) -> (ContainerName, StoredContainer) {
    let id = ids::container(number);
    let token = ContainerTokenIdentifierProto {
        container_id: Some(id.into()),
        ..ContainerTokenIdentifierProto::default()
    };
    let start = StartRecord {
        token: token.encode_to_vec(),
        arrival: number.unsigned_abs(),
        accepted_at: 1_000,
        ..StartRecord::default()
    };
    let state = StateRecord {
        stage: stage.into(),
        place,
        since: 2_000,
        pid,
        start_time: 5,
        ..StateRecord::default()
    };
    let state = (stage != Stage::Accepted).then_some(state);
    let contexts = BTreeMap::new();
    let stored = StoredContainer {
        start,
        state,
        contexts,
    };
    (id.name(), stored)
}

fn left(number: i64, pid: i32) -> LeftProcess {
    LeftProcess {
        process: process(pid),
        variable: Some(ids::container(number).to_string()),
    }
}

/// A child that was started for a container, has this pid and the start time 5.
fn noted(number: i64, pid: i32) -> FoundStart {
    FoundStart::of(&ids::container(number).to_string(), process(pid))
}

fn pids(decided: &Decided) -> Vec<i32> {
    let leftovers = decided.leftovers.iter();
    leftovers.map(|leftover| leftover.process.pid).collect()
}

fn outline(decided: &Decided) -> Vec<(i64, RecoveredStage, Option<i32>)> {
    let outline = |recovered: &Recovered| {
        let pid = recovered.process.map(|process| process.pid);
        (recovered.spec.id.id, recovered.stage, pid)
    };
    decided.containers.iter().map(outline).collect()
}

#[test]
fn starts_and_queue_keep_their_order_and_arrivals_count_last() {
    let records = [
        stored(1, Stage::Accepted, 0, 0),
        stored(2, Stage::Waiting, 9, 0),
        stored(3, Stage::Waiting, 4, 0),
        stored(4, Stage::Running, 8, 40),
        stored(5, Stage::Running, 2, 50),
        stored(6, Stage::Paused, 7, 60),
        stored(7, Stage::Done, 0, 70),
        stored(8, Stage::Launching, 10, 0),
    ];
    let decided = decide(records.into(), &[], &[]);
    use RecoveredStage as R;
    assert_eq!(
        outline(&decided),
        [
            (5, R::Running, Some(50)),
            (4, R::Running, Some(40)),
            (8, R::Starting, None),
            (6, R::Paused, Some(60)),
            (3, R::Waiting, None),
            (2, R::Waiting, None),
            (1, R::Accepted, None),
            (7, R::Done(sched::Ending::Succeeded), None),
        ]
    );
    assert_eq!(decided.containers[6].since, EpochMillis(1_000));
    assert_eq!(decided.containers[0].since, EpochMillis(2_000));
}

#[test]
fn a_process_that_was_not_recorded_yet_is_found_by_its_note() {
    let records = [
        stored(1, Stage::Launching, 1, 0),
        stored(2, Stage::Accepted, 0, 0),
        // The noted one is not later, so that the recorded one counts.
        stored(3, Stage::Running, 3, 30),
        // It is: the record of the launch after the recorded one is lost.
        stored(7, Stage::Running, 6, 70),
        // The noted one is of an earlier launch.
        stored(5, Stage::Launching, 4, 50),
        // Launched again.
        stored(6, Stage::Launching, 5, 60),
    ];
    let later = ProcessIdentity {
        pid: 71,
        start_time: 6,
    };
    let starts = [
        noted(1, 10),
        noted(2, 20),
        noted(3, 31),
        noted(4, 40).with_remark("512 2"),
        noted(5, 50),
        noted(6, 60),
        noted(6, 61),
        FoundStart::of(&ids::container(7).to_string(), later),
    ];
    let decided = decide(records.into(), &starts, &[]);
    assert_eq!(
        outline(&decided),
        [
            (1, RecoveredStage::Running, Some(10)),
            (3, RecoveredStage::Running, Some(30)),
            (5, RecoveredStage::Starting, None),
            (6, RecoveredStage::Running, Some(61)),
            (7, RecoveredStage::Running, Some(71)),
            (2, RecoveredStage::Running, Some(20)),
        ]
    );
    assert_eq!(pids(&decided), [40, 50]);
    let sizes = decided.leftovers.iter().map(|leftover| leftover.size);
    assert_eq!(
        sizes.collect::<Vec<_>>(),
        [Some(Resource::new(512, 2)), None]
    );
}

#[test]
fn a_start_that_no_record_names_is_later_than_all_others() {
    let records = [
        stored(1, Stage::Accepted, 0, 0),
        stored(2, Stage::Accepted, 0, 0),
        stored(3, Stage::Running, 9, 30),
        stored(4, Stage::Waiting, 4, 0),
        stored(5, Stage::Waiting, 3, 0),
        stored(6, Stage::Accepted, 0, 0),
    ];
    let late = |number, pid, start_time| {
        let process = ProcessIdentity { pid, start_time };
        FoundStart::of(&ids::container(number).to_string(), process)
    };
    // Those that waited started in their queue's order, whenever their processes began.
    let starts = [
        late(1, 10, 8),
        late(2, 20, 7),
        late(4, 40, 6),
        late(5, 50, 6),
        // In the clock tick of container 2, before it.
        late(6, 19, 7),
    ];
    let decided = decide(records.into(), &starts, &[]);
    use RecoveredStage::Running;
    assert_eq!(
        outline(&decided),
        [
            (3, Running, Some(30)),
            (5, Running, Some(50)),
            (4, Running, Some(40)),
            (6, Running, Some(19)),
            (2, Running, Some(20)),
            (1, Running, Some(10)),
        ]
    );
}

#[test]
fn no_process_becomes_a_containers_by_what_it_says_of_itself() {
    let records = [
        stored(1, Stage::Launching, 1, 0),
        stored(2, Stage::Waiting, 2, 0),
        stored(3, Stage::Running, 3, 30),
    ];
    let forged = [left(1, 11), left(2, 12), left(3, 13), left(9, 14)];
    // A leader that says that it is another's goes on with its own.
    let of_three = LeftProcess {
        process: process(30),
        ..left(1, 0)
    };
    let forged = forged.into_iter().chain([of_three]).collect::<Vec<_>>();
    let decided = decide(records.into(), &[noted(3, 30)], &forged);
    assert_eq!(
        outline(&decided),
        [
            (1, RecoveredStage::Starting, None),
            (3, RecoveredStage::Running, Some(30)),
            (2, RecoveredStage::Waiting, None),
        ]
    );
    // The other of the third container ends with it.
    assert_eq!(pids(&decided), [11, 12, 14]);
}

#[test]
fn a_container_with_an_id_of_a_node_goes_on_by_its_text() {
    let of_node = stored(-3, Stage::Running, 1, 10);
    let decided = decide([of_node].into(), &[noted(-3, 10)], &[left(-3, 10)]);
    assert_eq!(outline(&decided), [(-3, RecoveredStage::Running, Some(10))]);
    assert_eq!(decided.leftovers, []);
}

#[test]
fn a_kill_is_carried_on_or_done_if_nothing_was_started() {
    let records = [
        stored(1, Stage::Killing, 1, 10),
        stored(2, Stage::Killing, 2, 0),
    ];
    let decided = decide(records.into(), &[], &[]);
    assert_eq!(
        outline(&decided),
        [
            (1, RecoveredStage::Killing, Some(10)),
            (2, RecoveredStage::Done(sched::Ending::Killed), None),
        ]
    );
}

#[test]
fn records_that_make_no_sense_keep_nobody_else_from_going_on() {
    let mut broken = stored(1, Stage::Running, 1, 10);
    broken.1.start.token = vec![0xff];
    let (_, other) = stored(7, Stage::Waiting, 1, 0);
    let records = [
        broken,
        (ids::container(2).name(), other),
        stored(3, Stage::Waiting, 1, 0),
    ];
    let decided = decide(records.into(), &[], &[left(1, 10)]);
    assert_eq!(outline(&decided), [(3, RecoveredStage::Waiting, None)]);
    assert_eq!(pids(&decided), [10]);
}
