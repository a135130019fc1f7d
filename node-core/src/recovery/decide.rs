//! The meaning of the records: the state in which each container goes on.
//!
//! A record is written before its effect is told, but a process exists before its record does. So
//! each process notes its container before it runs anything ([`keeper::StartSlots`]). What a
//! process says of itself later, in its environment, is believed only when it is to be ended.

use std::collections::{BTreeMap, BTreeSet};

use container_runtime::launch::size_in;
use keeper::{FoundStart, LeftProcess, ProcessIdentity};
use prost::Message;
use records::{ContainerExitStatus, ContainerName, EpochMillis, Resource};
use sched::{ContainerSpec, RecoveredStage};
use wire::proto::hadoop_yarn::{ContainerLaunchContextProto, ContainerTokenIdentifierProto};

use super::record::{ContextRecord, Ending, Stage, StateRecord, StoredContainer};
use super::work::Work;
use crate::token::{ContainerToken, read_spec};

/// Exit status of a process that nobody has waited for (Hadoop: `ExitCode.LOST`).
const EXIT_LOST: i32 = 154;

/// A container that goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    /// Id, size, type and version, of the last token.
    pub spec: ContainerSpec,
    /// The rest of the last token.
    pub token: ContainerToken,
    /// Launch context in force.
    pub context: ContainerLaunchContextProto,
    /// All its launch contexts, by their numbers.
    pub contexts: BTreeMap<u64, ContainerLaunchContextProto>,
    /// How far it has come.
    pub stage: RecoveredStage,
    /// First process, alive or not; `None`: it has none, or none any more.
    pub process: Option<ProcessIdentity>,
    /// Time at which it was accepted or entered its stage.
    pub since: EpochMillis,
    /// The last record, with folders, exit status and diagnostics.
    pub record: StateRecord,
}

/// Process of a container that does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Name of the container.
    pub id: ContainerName,
    /// The process, alive or not.
    pub process: ProcessIdentity,
    /// Size of the container; `None`: nobody noted it.
    pub size: Option<Resource>,
}

/// Decisions about all containers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decided {
    /// Containers that go on: those that hold an allocation in the order of their starts, then
    /// those that wait in the order of their queues, then those that were only accepted in the
    /// order of arrival, then those that are finished.
    pub containers: Vec<Recovered>,
    /// Processes of containers that do not go on. They are to be ended.
    pub leftovers: Vec<Leftover>,
    /// Number of the last container that was accepted.
    pub arrivals: u64,
}

impl Decided {
    /// Gives up a container whose process must not be taken over: it has failed, and its process is
    /// a leftover.
    pub fn give_up(&mut self, name: ContainerName) {
        let mut containers = self.containers.iter_mut();
        let Some(goes) = containers.find(|goes| goes.spec.id.name() == name) else {
            return;
        };
        goes.stage = RecoveredStage::Done(sched::Ending::Failed);
        let record = &mut goes.record;
        record.set_stage(Stage::Done);
        record.set_ending(Ending::Failed);
        record.exit_status = EXIT_LOST;
        record.diagnostics.push_str(&Work::Adoption(name).failure());
        let size = Some(goes.spec.resource);
        let process = goes.process.take();
        self.leftovers.extend(process.map(|process| Leftover {
            id: name,
            process,
            size,
        }));
    }
}

/// Decides from records, from the notes of the processes that were started, and from the processes
/// that were left.
#[must_use]
pub fn decide(
    stored: BTreeMap<ContainerName, StoredContainer>,
    noted: &[FoundStart],
    left: &[LeftProcess],
) -> Decided {
    let noted = noted.iter().filter_map(|start| {
        let id: ContainerName = start.name.parse().ok()?;
        let process = start.process(left)?;
        Some((id, Noted { start, process }))
    });
    let noted: Vec<(ContainerName, Noted<'_>)> = noted.collect();
    // A container may have several starts; the last one comes last.
    let by_container: BTreeMap<ContainerName, Noted<'_>> = noted.iter().copied().collect();
    let arrivals = stored.values().map(|stored| stored.start.arrival);
    let arrivals = arrivals.max().unwrap_or(0);
    let mut sorted = BTreeMap::new();
    for (id, stored) in stored {
        let arrival = (stored.start.arrival, id);
        match recover(id, stored, by_container.get(&id).copied()) {
            Ok(recovered) => {
                let key = (rank(&recovered), order_of_start(&recovered), arrival);
                sorted.insert(key, recovered);
            }
            Err(error) => {
                tracing::warn!(container = %id, error, "a container's records make no sense");
            }
        }
    }
    let containers: Vec<Recovered> = sorted.into_values().collect();
    Decided {
        leftovers: leftovers(&containers, noted, left),
        containers,
        arrivals,
    }
}

/// Returns the processes that nobody would ever end: those of containers that do not go on. What a
/// container that goes on has left behind ends with it.
fn leftovers(
    containers: &[Recovered],
    noted: Vec<(ContainerName, Noted<'_>)>,
    left: &[LeftProcess],
) -> Vec<Leftover> {
    let go_on = containers.iter();
    let go_on = go_on.filter(|recovered| recovered.process.is_some());
    let go_on: BTreeSet<ContainerName> = go_on.map(|goes| goes.spec.id.name()).collect();
    let named = |left: &LeftProcess| {
        let id = left.variable.as_ref()?.parse().ok()?;
        let (process, size) = (left.process, None);
        Some(Leftover { id, process, size })
    };
    let noted = noted.into_iter().map(|(id, noted)| Leftover {
        id,
        process: noted.process,
        size: size_in(&noted.start.remark),
    });
    let noted: Vec<Leftover> = noted.collect();
    let known: BTreeSet<ProcessIdentity> = noted.iter().map(|noted| noted.process).collect();
    let named = left.iter().filter_map(named);
    // A leader is known by its note, so what its environment claims does not count.
    let named = named.filter(|named| !known.contains(&named.process));
    let all = noted.into_iter().chain(named);
    all.filter(|leftover| !go_on.contains(&leftover.id))
        .collect()
}

/// Start that a container's process noted, and that process.
#[derive(Clone, Copy)]
struct Noted<'a> {
    start: &'a FoundStart,
    process: ProcessIdentity,
}

/// Group in the order of [`Decided::containers`].
fn rank(recovered: &Recovered) -> u8 {
    match recovered.stage {
        RecoveredStage::Running | RecoveredStage::Starting | RecoveredStage::Killing => 0,
        RecoveredStage::Paused => 1,
        RecoveredStage::Waiting => 2,
        RecoveredStage::Accepted => 3,
        RecoveredStage::Done(_) => 4,
    }
}

/// Records that tell when a container started, in the order of these starts: records are written in
/// their order, so what none names is later than all that one names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    Start,
    /// Containers that waited start in the order of their queue. Their processes may have begun in
    /// another, or in the same clock tick.
    PlaceInQueue,
    /// Nothing but the process. The kernel numbers those of one clock tick in their order, unless
    /// its numbers begin anew between them.
    Acceptance,
}

/// Returns what orders the containers of one group: what is known, the place or the time of the
/// start, and the number of a process that only its time tells from others.
fn order_of_start(recovered: &Recovered) -> (Known, u64, i32) {
    let record = &recovered.record;
    match (recovered.stage, record.stage(), recovered.process) {
        (RecoveredStage::Running, Stage::Waiting, Some(_)) => {
            (Known::PlaceInQueue, record.place, 0)
        }
        (RecoveredStage::Running, Stage::Accepted, Some(process)) => {
            (Known::Acceptance, process.start_time, process.pid)
        }
        _ => (Known::Start, record.place, 0),
    }
}

fn recover(
    id: ContainerName,
    stored: StoredContainer,
    noted: Option<Noted<'_>>,
) -> Result<Recovered, String> {
    let StoredContainer {
        start,
        state,
        contexts,
    } = stored;
    let mut record = state.unwrap_or_else(|| StateRecord {
        since: start.accepted_at,
        clock: start.clock,
        exit_status: ContainerExitStatus::INVALID.0,
        ..StateRecord::default()
    });
    let token = record.token.as_ref().unwrap_or(&start.token);
    let token = ContainerTokenIdentifierProto::decode(token.as_slice())
        .map_err(|error| format!("container token: {error}"))?;
    let spec = read_spec(&token).map_err(|error| error.message)?;
    if spec.id.name() != id {
        return Err(format!("the token is of {}", spec.id));
    }
    let later = noted.filter(|noted| is_of_later_launch(&record, noted));
    let (stage, process) = progress(&record, noted, later)?;
    if later.is_some_and(|later| process == Some(later.process)) {
        record.restarted();
    }
    let contexts = read_contexts(&start.context, contexts)?;
    let context = contexts.get(&record.context).cloned();
    let context = context.ok_or_else(|| format!("launch context {} is lost", record.context))?;
    Ok(Recovered {
        spec,
        token: token.into(),
        context,
        contexts,
        stage,
        process,
        since: EpochMillis(record.since),
        record,
    })
}

/// Returns how far a container came, and the process that it has. `later` is the noted process if
/// it is of a launch after the recorded one.
fn progress(
    record: &StateRecord,
    noted: Option<Noted<'_>>,
    later: Option<Noted<'_>>,
) -> Result<(RecoveredStage, Option<ProcessIdentity>), String> {
    Ok(match (record.stage(), later) {
        (Stage::Done, _) => (RecoveredStage::Done(ending(record.ending())), None),
        // The recorded one is of an earlier launch, whose end was stored.
        (Stage::Accepted | Stage::Waiting | Stage::Launching, Some(later)) => {
            (RecoveredStage::Running, Some(later.process))
        }
        (Stage::Accepted, None) => (RecoveredStage::Accepted, None),
        (Stage::Waiting, None) => (RecoveredStage::Waiting, None),
        (Stage::Launching, None) => (RecoveredStage::Starting, None),
        (stage @ (Stage::Running | Stage::Paused | Stage::Killing), _) => {
            let recorded = recorded_process(record);
            let noted = noted.map(|noted| noted.process);
            // After the recorded one, whose end and what followed are on no record.
            let is_later = |noted: &ProcessIdentity| {
                let recorded = recorded.map(|process| process.start_time);
                stage == Stage::Running && recorded.is_none_or(|at| noted.start_time > at)
            };
            let process = noted.filter(is_later).or(recorded).or(noted);
            match (stage, process) {
                // Killed before its process was known, and no process came to be.
                (Stage::Killing, None) => (RecoveredStage::Done(sched::Ending::Killed), None),
                (_, None) => return Err("it runs without a process".to_owned()),
                (Stage::Killing, process) => (RecoveredStage::Killing, process),
                (Stage::Paused, process) => (RecoveredStage::Paused, process),
                (_, process) => (RecoveredStage::Running, process),
            }
        }
    })
}

fn recorded_process(record: &StateRecord) -> Option<ProcessIdentity> {
    (record.pid != 0).then_some(ProcessIdentity {
        pid: record.pid,
        start_time: record.start_time,
    })
}

/// Returns whether the noted process is of a launch after the recorded one.
fn is_of_later_launch(record: &StateRecord, noted: &Noted<'_>) -> bool {
    !recorded_process(record).is_some_and(|process| noted.start.is(&process))
}

/// Reads the launch contexts: that of the acceptance, which has the number 0, and the others.
fn read_contexts(
    first: &[u8],
    others: BTreeMap<u64, ContextRecord>,
) -> Result<BTreeMap<u64, ContainerLaunchContextProto>, String> {
    let others = others
        .iter()
        .map(|(number, other)| (*number, &*other.context));
    let read = |(number, bytes)| {
        let context = ContainerLaunchContextProto::decode(bytes)
            .map_err(|error| format!("launch context {number}: {error}"))?;
        Ok((number, context))
    };
    std::iter::once((0, first))
        .chain(others)
        .map(read)
        .collect()
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
mod tests;
