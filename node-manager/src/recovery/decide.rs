//! The meaning of the records: the state in which each container goes on.
//!
//! A record is written before its effect is told, but a process exists before its record does: the
//! processes that the last agent left to its keeper carry the ids of their containers.

use std::collections::{BTreeMap, BTreeSet};

use keeper::{LeftProcess, ProcessIdentity};
use prost::Message;
use records::{ContainerExitStatus, ContainerId, EpochMillis};
use sched::{ContainerSpec, RecoveredStage};
use wire::proto::hadoop_yarn::{ContainerLaunchContextProto, ContainerTokenIdentifierProto};

use super::record::{Ending, Stage, StateRecord};
use super::stored::StoredContainer;
use crate::container_manager::read_spec;

/// A container that goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    /// Id, size, type and version, of the last token.
    pub spec: ContainerSpec,
    /// Identifier of the last token.
    pub token: ContainerTokenIdentifierProto,
    /// Launch context.
    pub context: ContainerLaunchContextProto,
    /// How far it has come.
    pub stage: RecoveredStage,
    /// First process, alive or not; `None`: it has none, or none any more.
    pub process: Option<ProcessIdentity>,
    /// Time at which it was accepted or entered its stage.
    pub since: EpochMillis,
    /// The last record, with folders, exit status and diagnostics.
    pub record: StateRecord,
}

/// Decisions about all containers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decided {
    /// Containers that go on: those that hold an allocation in the order of their starts, then
    /// those that wait in the order of their queues, then those that were only accepted in the
    /// order of arrival, then those that are finished.
    pub containers: Vec<Recovered>,
    /// Processes of containers that do not go on. They are to be ended.
    pub strangers: Vec<ProcessIdentity>,
    /// Number of the last container that was accepted.
    pub arrivals: u64,
}

/// Decides from records and from the processes that were left.
#[must_use]
pub fn decide(stored: BTreeMap<ContainerId, StoredContainer>, left: &[LeftProcess]) -> Decided {
    let named = |left: &LeftProcess| Some((left.variable.as_ref()?.parse().ok()?, left.process));
    let left: Vec<(ContainerId, ProcessIdentity)> = left.iter().filter_map(named).collect();
    let mut by_container: BTreeMap<ContainerId, ProcessIdentity> = BTreeMap::new();
    for (id, process) in &left {
        // The first process of a container is the oldest.
        let oldest = by_container.entry(*id).or_insert(*process);
        if process.start_time < oldest.start_time {
            *oldest = *process;
        }
    }
    let arrivals = stored.values().map(|stored| stored.start.arrival);
    let arrivals = arrivals.max().unwrap_or(0);
    let mut sorted = BTreeMap::new();
    for (id, StoredContainer { start, state }) in stored {
        let arrival = (start.arrival, id);
        match recover(id, StoredContainer { start, state }, by_container.get(&id)) {
            Ok(recovered) => {
                let key = (rank(&recovered), recovered.record.place, arrival);
                sorted.insert(key, recovered);
            }
            Err(error) => {
                tracing::warn!(container = %id, error, "a container's records make no sense");
            }
        }
    }
    let containers: Vec<Recovered> = sorted.into_values().collect();
    // What a container that goes on has left behind ends with it.
    let go_on = containers.iter();
    let go_on = go_on.filter(|recovered| recovered.process.is_some());
    let go_on: BTreeSet<ContainerId> = go_on.map(|recovered| recovered.spec.id).collect();
    let strangers = left.into_iter().filter(|(id, _)| !go_on.contains(id));
    Decided {
        strangers: strangers.map(|(_, process)| process).collect(),
        containers,
        arrivals,
    }
}

/// Group in the order of [`Decided::containers`].
fn rank(recovered: &Recovered) -> u8 {
    match recovered.stage {
        RecoveredStage::Running | RecoveredStage::Starting | RecoveredStage::Killing => 0,
        RecoveredStage::Paused { .. } => 1,
        RecoveredStage::Waiting => 2,
        RecoveredStage::Accepted => 3,
        RecoveredStage::Done(_) => 4,
    }
}

fn recover(
    id: ContainerId,
    stored: StoredContainer,
    left: Option<&ProcessIdentity>,
) -> Result<Recovered, String> {
    let StoredContainer { start, state } = stored;
    let record = state.unwrap_or_else(|| StateRecord {
        since: start.accepted_at,
        exit_status: ContainerExitStatus::INVALID.0,
        ..StateRecord::default()
    });
    let token = record.token.as_ref().unwrap_or(&start.token);
    let token = ContainerTokenIdentifierProto::decode(token.as_slice())
        .map_err(|error| format!("container token: {error}"))?;
    let spec = read_spec(&token).map_err(|error| error.message)?;
    if spec.id != id {
        return Err(format!("the token is of {}", spec.id));
    }
    let context = ContainerLaunchContextProto::decode(start.context.as_slice())
        .map_err(|error| format!("launch context: {error}"))?;
    let recorded = (record.pid != 0).then_some(ProcessIdentity {
        pid: record.pid,
        start_time: record.start_time,
    });
    let (stage, process) = match record.stage() {
        Stage::Done => (RecoveredStage::Done(ending(record.ending())), None),
        Stage::Accepted | Stage::Waiting | Stage::Launching => match left {
            Some(process) => (RecoveredStage::Running, Some(*process)),
            None => match record.stage() {
                Stage::Accepted => (RecoveredStage::Accepted, None),
                Stage::Launching => (RecoveredStage::Starting, None),
                Stage::Waiting | Stage::Running | Stage::Paused | Stage::Killing | Stage::Done => {
                    (RecoveredStage::Waiting, None)
                }
            },
        },
        stage @ (Stage::Running | Stage::Paused | Stage::Killing) => {
            match (stage, recorded.or(left.copied())) {
                // Killed before its process was known, and no process came to be.
                (Stage::Killing, None) => (RecoveredStage::Done(sched::Ending::Killed), None),
                (_, None) => return Err("it runs without a process".to_owned()),
                (Stage::Killing, process) => (RecoveredStage::Killing, process),
                (Stage::Paused, process) => {
                    let held_mb = record.held_mb;
                    (RecoveredStage::Paused { held_mb }, process)
                }
                (_, process) => (RecoveredStage::Running, process),
            }
        }
    };
    Ok(Recovered {
        spec,
        token,
        context,
        stage,
        process,
        since: EpochMillis(record.since),
        record,
    })
}

fn ending(ending: Ending) -> sched::Ending {
    match ending {
        Ending::Succeeded => sched::Ending::Succeeded,
        Ending::Failed => sched::Ending::Failed,
        Ending::Killed => sched::Ending::Killed,
        Ending::LocalizationFailed => sched::Ending::LocalizationFailed,
    }
}

#[cfg(test)]
mod tests {
    use test_support::ids;

    use super::super::record::StartRecord;
    use super::*;

    fn process(pid: i32) -> ProcessIdentity {
        ProcessIdentity { pid, start_time: 5 }
    }

    fn stored(number: i64, stage: Stage, place: u64, pid: i32) -> (ContainerId, StoredContainer) {
        let id = ids::container(number);
        let token = ContainerTokenIdentifierProto {
            container_id: Some(id.into()),
            ..ContainerTokenIdentifierProto::default()
        };
        let start = StartRecord {
            token: token.encode_to_vec(),
            arrival: u64::try_from(number).unwrap(),
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
        (id, StoredContainer { start, state })
    }

    fn left(number: i64, pid: i32) -> LeftProcess {
        LeftProcess {
            process: process(pid),
            variable: Some(ids::container(number).to_string()),
        }
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
        let decided = decide(records.into(), &[]);
        use RecoveredStage as R;
        assert_eq!(
            outline(&decided),
            [
                (5, R::Running, Some(50)),
                (4, R::Running, Some(40)),
                (8, R::Starting, None),
                (6, R::Paused { held_mb: 0 }, Some(60)),
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
    fn a_process_that_was_not_recorded_yet_is_found_by_its_container() {
        let records = [
            stored(1, Stage::Launching, 1, 0),
            stored(2, Stage::Accepted, 0, 0),
            // The recorded one counts; another of the container ends with it.
            stored(3, Stage::Running, 3, 30),
        ];
        let processes = [left(1, 10), left(2, 20), left(3, 31), left(4, 40)];
        let decided = decide(records.into(), &processes);
        assert_eq!(
            outline(&decided),
            [
                (2, RecoveredStage::Running, Some(20)),
                (1, RecoveredStage::Running, Some(10)),
                (3, RecoveredStage::Running, Some(30)),
            ]
        );
        assert_eq!(decided.strangers, [process(40)]);
    }

    #[test]
    fn a_kill_is_carried_on_or_done_if_nothing_was_started() {
        let records = [
            stored(1, Stage::Killing, 1, 10),
            stored(2, Stage::Killing, 2, 0),
        ];
        let decided = decide(records.into(), &[]);
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
            (ids::container(2), other),
            stored(3, Stage::Waiting, 1, 0),
        ];
        let decided = decide(records.into(), &[left(1, 10)]);
        assert_eq!(outline(&decided), [(3, RecoveredStage::Waiting, None)]);
        assert_eq!(decided.strangers, [process(10)]);
    }
}
