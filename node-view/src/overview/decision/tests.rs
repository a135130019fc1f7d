//! What each decision reads like.

use records::ExecutionType;
use sched::QueueOrder;
use test_support::ids::container as container_id;

use super::*;

const O: ExecutionType = ExecutionType::Opportunistic;

fn completed(status: i32, said: &str) -> Decision {
    Decision::Completed {
        completion: Completion {
            id: container_id(1),
            exit_status: ContainerExitStatus(status),
            execution_type: O,
        },
        said: said.to_owned(),
    }
}

fn limit(length: Option<usize>, wait_ms: Option<u64>) -> Decision {
    Decision::QueuingLimit(ContainerQueuingLimit {
        max_queue_length: length,
        max_queue_wait_time_ms: wait_ms,
    })
}

#[track_caller]
fn reads(decision: Decision, kind: DecisionKind, words: &str) {
    assert_eq!(decision_words(&decision), words);
    assert_eq!(decision.kind(), kind, "{words}");
}

#[track_caller]
fn note_reads(note: Note, kind: DecisionKind, words: &str) {
    let decision = Decision::Note(note);
    assert_eq!(decision.container(), Some(container_id(1)), "{words}");
    reads(decision, kind, words);
}

#[test]
fn a_queued_or_started_container_reads_with_its_place_or_wait() {
    let id = container_id(1);
    let started = |queue_wait_ms, estimated_wait_ms, resumed| Note::Started {
        id,
        execution_type: O,
        queue_wait_ms,
        // The wait of the containers that came before this one says nothing about it.
        reported_wait_ms: Some(0),
        estimated_wait_ms,
        resumed,
    };
    let queued = |memory_mb, vcores| Note::Queued {
        id,
        execution_type: O,
        position: 3,
        missing: records::Resource::new(memory_mb, vcores),
    };
    for (memory_mb, vcores, words) in [
        (0, 0, "Queued at place 3"),
        (1_024, 0, "Queued at place 3, short of 1,024 MiB"),
        (0, 1, "Queued at place 3, short of 1 vcore"),
        (512, 2, "Queued at place 3, short of 512 MiB and 2 vcores"),
    ] {
        note_reads(queued(memory_mb, vcores), DecisionKind::Queued, words);
    }
    note_reads(
        started(0, Some(0), false),
        DecisionKind::Started,
        "Started at once",
    );
    note_reads(
        started(1_230, None, false),
        DecisionKind::Started,
        "Started after waiting 1.2 s",
    );
    note_reads(
        started(1_230, Some(900), false),
        DecisionKind::Started,
        "Started after waiting 1.2 s, estimated 900 ms",
    );
    note_reads(
        started(61_000, None, true),
        DecisionKind::Started,
        "Resumed after a pause of 1 min 01 s",
    );
}

#[test]
fn a_container_that_starts_out_of_turn_reads_with_the_one_that_it_passes() {
    let passed = |reason| Note::Passed {
        id: container_id(1),
        passed: container_id(2),
        reason,
    };
    let other = "container_1700000000000_0001_01_000002";
    let order = PassReason::Order {
        order: QueueOrder::Shortest,
        expected_ms: 6_000,
        passed_expected_ms: 26_000,
    };
    let words = format!(
        "Passes {other}, which waits longer: expected to run 6.0 s, the other 26 s (order shortest)"
    );
    note_reads(passed(order), DecisionKind::Started, &words);
    let words = format!(
        "Passes {other}, which does not fit and is not expected to start later for it: its room is \
         expected in 1.5 s"
    );
    let backfill = PassReason::Backfill { room_in_ms: 1_500 };
    note_reads(passed(backfill), DecisionKind::Started, &words);
}

#[test]
fn a_container_that_may_not_wait_reads_with_the_reason() {
    let id = container_id(1);
    note_reads(
        Note::Rejected {
            id,
            reason: RejectReason::QueueFull,
        },
        DecisionKind::Rejected,
        "Rejected because the queue is full",
    );
    note_reads(
        Note::Rejected {
            id,
            reason: RejectReason::NeverFits,
        },
        DecisionKind::Rejected,
        "Rejected because it asks for more than this node has",
    );
    let shed = |reason| Note::Shed { id, reason };
    note_reads(
        shed(ShedReason::QueueLength { limit: 4 }),
        DecisionKind::Shed,
        "Shed over the ResourceManager's limit of 4 waiting",
    );
}

#[test]
fn an_evicted_container_reads_with_the_one_that_needs_its_room() {
    let evicted = |paused| Note::Evicted {
        id: container_id(1),
        for_container: container_id(2),
        paused,
        ran_ms: 12_345,
    };
    let other = "container_1700000000000_0001_01_000002";
    let words = format!("Evicted for {other} after 12 s");
    note_reads(evicted(false), DecisionKind::Evicted, &words);
    let words = format!("Paused for {other} after 12 s");
    note_reads(evicted(true), DecisionKind::Evicted, &words);
}

#[test]
fn a_container_killed_while_paused_reads_with_the_reason() {
    let killed = |reason| Note::PausedKilled {
        id: container_id(1),
        reason,
        paused_ms: 300_000,
        ran_ms: 7,
    };
    note_reads(
        killed(PauseEnd::TooLong),
        DecisionKind::Evicted,
        "Killed after a pause of 5 min 00 s because no room came for it",
    );
    note_reads(
        killed(PauseEnd::MemoryNeeded),
        DecisionKind::Evicted,
        "Killed after a pause of 5 min 00 s because the memory that it holds is needed",
    );
}

#[test]
fn a_failure_that_is_retried_reads_with_the_time_of_the_next_start() {
    let retried = |remaining| Note::Retried {
        id: container_id(1),
        status: ContainerExitStatus(7),
        after_ms: 1_000,
        remaining,
    };
    note_reads(
        retried(Some(2)),
        DecisionKind::Failed,
        "Failed with exit status 7, starts again in 1.0 s, 2 retries left",
    );
    note_reads(
        retried(None),
        DecisionKind::Failed,
        "Failed with exit status 7, starts again in 1.0 s",
    );
}

#[test]
fn a_change_of_type_reads_with_the_new_one() {
    let id = container_id(1);
    note_reads(
        Note::Promoted(id),
        DecisionKind::Promoted,
        "Promoted to guaranteed",
    );
    note_reads(
        Note::Demoted(id),
        DecisionKind::Demoted,
        "Demoted to opportunistic",
    );
}

#[test]
fn an_end_reads_with_who_ended_it_or_its_own_status() {
    for (status, kind, words) in [
        (0, DecisionKind::Succeeded, "Completed with exit status 0"),
        (3, DecisionKind::Failed, "Completed with exit status 3"),
        (
            137,
            DecisionKind::Failed,
            "Ended by signal 9 from outside (exit status 137)",
        ),
        (
            -1,
            DecisionKind::Failed,
            "Could not be launched (exit status -1)",
        ),
        (
            -1000,
            DecisionKind::Failed,
            "Could not be localized (exit status -1000)",
        ),
        (
            -105,
            DecisionKind::Killed,
            "Killed by its ApplicationMaster (exit status -105)",
        ),
        (
            -106,
            DecisionKind::Killed,
            "Killed by the ResourceManager (exit status -106)",
        ),
        (
            -107,
            DecisionKind::Killed,
            "Killed by the end of its application (exit status -107)",
        ),
        (
            -108,
            DecisionKind::Killed,
            "Killed by this node's scheduler (exit status -108)",
        ),
        (
            -104,
            DecisionKind::Killed,
            "Killed by its limit of memory (exit status -104)",
        ),
    ] {
        reads(completed(status, ""), kind, words);
    }
    reads(
        completed(1, "no such file"),
        DecisionKind::Failed,
        "Completed with exit status 1: no such file",
    );
}

#[test]
fn what_happens_to_the_node_names_no_container() {
    for (decision, words) in [
        (
            limit(Some(4), None),
            "The ResourceManager limits the queue to 4 waiting",
        ),
        (
            limit(None, Some(1_500)),
            "The ResourceManager limits the queue to a wait of 1.5 s",
        ),
        (
            limit(Some(4), Some(1_500)),
            "The ResourceManager limits the queue to 4 waiting and a wait of 1.5 s",
        ),
        (
            limit(None, None),
            "The ResourceManager no longer limits the queue",
        ),
        (Decision::Registered, "Registered with the ResourceManager"),
        (
            Decision::Resync,
            "The ResourceManager asks this node to register again; nothing starts until then",
        ),
        (
            Decision::RmSilent,
            "The ResourceManager does not answer heartbeats; containers go on",
        ),
        (
            Decision::RmBack,
            "The ResourceManager answers heartbeats again",
        ),
    ] {
        assert_eq!(decision.container(), None);
        reads(decision, DecisionKind::Node, words);
    }
}
