//! Crashes: a model of the disk takes the records, and another core goes on from there.

use std::collections::{BTreeMap, BTreeSet};

use keeper::{FoundStart, ProcessIdentity};
use proptest::prelude::*;
use prost::Message as _;
use records::ContainerName;
use sched::ContainerState;
use wire::proto::hadoop_yarn::{ContainerLaunchContextProto, ExecutionTypeProto};

mod careful;
mod leftovers;
mod reinit;
mod served;

use super::*;
use crate::recovery::{
    self, ApplicationRecord, DrainRecord, LearntRunsRecord, Pending, StartRecord, StoredContainer,
    Suspects, SuspectsRecord, decide, judge,
};

/// Records as the store would have them.
#[derive(Clone, Debug, Default)]
struct Disk {
    containers: BTreeMap<ContainerName, StoredContainer>,
    applications: BTreeMap<ApplicationId, ApplicationRecord>,
    used: BTreeMap<ContainerName, EpochMillis>,
    settled_logs: BTreeMap<ApplicationId, BTreeSet<ContainerName>>,
    drain: Option<DrainRecord>,
    learnt_runs: Option<LearntRunsRecord>,
    suspects: Option<SuspectsRecord>,
}

impl Disk {
    fn write(&mut self, order: StoreOrder) {
        match order {
            StoreOrder::Start(id, record) => {
                self.containers.entry(id.name()).or_default().start = *record;
            }
            StoreOrder::State(id, record) => {
                self.containers.entry(id.name()).or_default().state = Some(*record);
            }
            StoreOrder::Context(id, number, context) => {
                let contexts = &mut self.containers.entry(id.name()).or_default().contexts;
                match context {
                    Some(context) => contexts.insert(number, *context),
                    None => contexts.remove(&number),
                };
            }
            StoreOrder::Forget(id, used_until) => {
                self.containers.remove(&id.name());
                self.used.extend(used_until.map(|until| (id.name(), until)));
            }
            StoreOrder::ForgetUses(names) => {
                self.used.retain(|name, _| !names.contains(name));
            }
            StoreOrder::Application(id, Some(record)) => {
                self.applications.insert(id, *record);
            }
            StoreOrder::Application(id, None) => {
                self.applications.remove(&id);
                self.settled_logs.remove(&id);
            }
            StoreOrder::LogsSettled(name) => {
                let settled = self.settled_logs.entry(name.application_id());
                settled.or_default().insert(name);
            }
            StoreOrder::LearntRuns(record) => self.learnt_runs = Some(*record),
            StoreOrder::Drain(record) => self.drain = record.map(|record| *record),
            StoreOrder::Suspects(record) => self.suspects = record.map(|record| *record),
        }
    }
}

/// A node whose core is replaced at each crash, with its disk and the processes of its containers.
struct CrashingNode {
    node: Node,
    disk: Disk,
    processes: BTreeMap<ContainerId, ProcessIdentity>,
    last_pid: i32,
    /// Orders that the performer got.
    launches: Vec<LaunchOrder>,
    /// Changes of limits, each with the number of launches before it.
    limits: Vec<(usize, ContainerSpec)>,
    localizations: Vec<Effect>,
    terminated: Vec<ContainerId>,
    adopted: Vec<i64>,
    uploads: Vec<String>,
    /// Notices to services.
    served: Vec<Effect>,
    log_aggregation: Option<LogAggregation>,
    /// Folders of every process; without them none is taken over.
    dirs: Option<ContainerDirs>,
}

fn remembering_core() -> Core {
    let mut core = unregistered_core();
    core.recorder = Recorder::new(true, 1);
    core
}

impl CrashingNode {
    fn new() -> Self {
        let mut machine = Self {
            node: Node::new(),
            disk: Disk::default(),
            processes: BTreeMap::new(),
            last_pid: 100,
            launches: Vec::new(),
            limits: Vec::new(),
            localizations: Vec::new(),
            terminated: Vec::new(),
            adopted: Vec::new(),
            uploads: Vec::new(),
            served: Vec::new(),
            log_aggregation: None,
            dirs: None,
        };
        machine.node.core = remembering_core();
        machine.registered();
        machine
    }

    fn registered(&mut self) {
        let now = self.node.now;
        self.node.core.registered(RM_IDENTIFIER, None, now);
        self.settle();
    }

    /// Performs what needs no time: records reach the disk, freezing is answered.
    fn settle(&mut self) {
        loop {
            self.end_unlaunched();
            let effects = self.node.core.take_effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                if let Effect::Store(order) = effect {
                    self.disk.write(order);
                } else if let Effect::Pause(id) = effect {
                    self.isolation(IsolationEvent::Paused { id, held_mb: None });
                } else if let Effect::Resume(id) = effect {
                    self.isolation(IsolationEvent::Resumed(id));
                } else if let Effect::Launch(order) = effect {
                    self.launches.push(*order);
                } else if let Effect::ApplyLimits(spec) = effect {
                    self.limits.push((self.launches.len(), spec));
                } else if let Effect::Terminate(id) = effect {
                    self.terminated.push(id);
                } else if let Effect::Adopt(order) = effect {
                    self.adopted.push(order.spec.id.id);
                } else if let Effect::Logs(order @ LogOrder::Finish(_)) = effect {
                    self.uploads.push(format!("{order:?}"));
                } else if let Effect::Localize { .. } = effect {
                    self.localizations.push(effect);
                } else if matches!(
                    effect,
                    Effect::ContainerInitialized(_) | Effect::ContainerStopped(_)
                ) {
                    self.served.push(effect);
                }
            }
        }
    }

    /// Answers for the launcher, which never starts what is to end.
    fn end_unlaunched(&mut self) {
        let containers = self.node.core.scheduler.containers();
        let killed = containers.filter(|view| matches!(view.state, ContainerState::Killing { .. }));
        let killed = killed.map(|view| view.spec.id);
        let unlaunched: Vec<_> = killed
            .filter(|id| !self.processes.contains_key(id))
            .collect();
        for id in unlaunched {
            self.node.handle(LaunchEvent::LaunchFailed {
                id,
                status: ContainerExitStatus::TERMINATED,
                diagnostics: String::new(),
                is_of_node: false,
            });
        }
    }

    fn isolation(&mut self, event: IsolationEvent) {
        let event = WorkerEvent::Isolation(event);
        self.node.core.handle(event, self.node.now, 0);
    }

    fn step(&mut self, step: &Step) {
        self.node.now.mono = self.node.now.mono + 10;
        self.node.now.wall.0 += 10;
        let now = self.node.now;
        match *step {
            Step::Start(n, execution_type) => {
                let mut request = request_for(container_id(n), execution_type);
                let mut token = token(&request.spec);
                token.execution_type = Some(ExecutionTypeProto::from(execution_type).into());
                let start = StartRecord {
                    token: token.encode_to_vec(),
                    context: ContainerLaunchContextProto::default().encode_to_vec(),
                    ..StartRecord::default()
                };
                request.record = Some(Box::new(start));
                let _outcome = self.node.core.start(asker(), request, now);
            }
            Step::Launched(n) => {
                let id = container_id(n);
                if let Some(ContainerState::Launching { .. }) = self.state(id) {
                    self.last_pid += 1;
                    let process = ProcessIdentity {
                        pid: self.last_pid,
                        start_time: self.last_pid.unsigned_abs().into(),
                    };
                    self.processes.insert(id, process);
                    self.node.handle(LaunchEvent::Launched {
                        id,
                        pid: process.pid,
                        start_time: process.start_time,
                        timings: LaunchTimings::default(),
                        signals: Vec::new(),
                    });
                }
            }
            Step::Exit(n, status) => {
                if self.processes.remove(&container_id(n)).is_some() {
                    self.node.exit(n, status);
                }
            }
            Step::Stop(n) => {
                let id = container_id(n);
                let _outcome = self.node.core.stop_container(asker(), id, now);
            }
            Step::Acknowledge(n) => self.node.acknowledge(n),
        }
        self.settle();
    }

    fn state(&self, id: ContainerId) -> Option<ContainerState> {
        let summary = self.node.core.scheduler.summary(&id);
        summary.map(|summary| summary.state)
    }

    /// Lets the agent be killed and another one go on.
    fn crash(&mut self) {
        self.start_again(false);
    }

    /// Starts another agent after one that has ended, for a fault of its own or not.
    fn start_again(&mut self, has_crashed: bool) {
        let noted: Vec<FoundStart> = self
            .processes
            .iter()
            .map(|(id, process)| FoundStart::of(&id.to_string(), *process))
            .collect();
        let mut decided = decide(self.disk.containers.clone(), &noted, &[]);
        assert!(decided.leftovers.is_empty(), "{:?}", decided.leftovers);
        let pending = Pending::of(&decided.containers, &self.disk.applications);
        let suspects = self.disk.suspects.as_ref().map(Suspects::of_record);
        let judgement = judge(has_crashed, &suspects.unwrap_or_default(), &pending);
        self.disk.suspects = judgement.suspects.record();
        if let Some(recovery::Work::Adoption(name)) = judgement.failed {
            decided.give_up(name);
        }
        self.adopted.clear();
        self.node.core = remembering_core();
        self.node.core.config.log_aggregation = self.log_aggregation;
        // A few milliseconds of the wall clock, and a monotonic clock that began long before.
        self.node.now.wall.0 += 7;
        self.node.now.mono = self.node.now.mono + 7;
        let with_dirs = decided.containers.into_iter().map(|recovered| {
            let dirs = recovered.process.and_then(|_| self.dirs.clone());
            (recovered, dirs)
        });
        let state = RestoredState {
            applications: self.disk.applications.clone().into_iter().collect(),
            containers: with_dirs.collect(),
            used_tokens: self.disk.used.clone().into_iter().collect(),
            arrivals: decided.arrivals,
            leftovers: Vec::new(),
            settled_logs: self.disk.settled_logs.clone(),
            drain: self.disk.drain.clone(),
            learnt_runs: self.disk.learnt_runs.clone(),
            judgement,
        };
        self.node.core.restore(state, self.node.now);
        self.settle();
        self.registered();
    }

    /// What peers have been told, or will see by the order of starts.
    fn told(&self) -> Told {
        let mut told = Told::default();
        let mut unstarted = BTreeMap::new();
        let mut running = BTreeMap::new();
        for view in self.node.core.scheduler.containers() {
            let id = view.spec.id.id;
            match view.state {
                ContainerState::Launching { order } => {
                    unstarted.insert((view.spec.execution_type, 0, order), id);
                }
                ContainerState::Queued { place } => {
                    unstarted.insert((view.spec.execution_type, 1, place.arrival()), id);
                }
                ContainerState::Running { order } => {
                    running.insert(order, id);
                }
                ContainerState::Done(_) => {
                    told.done.insert(id, (view.exit_status.0, view.diagnostics));
                }
                ContainerState::Paused { .. } => told.paused.push(id),
                ContainerState::Killing { .. } => {
                    told.killing.insert(id, view.exit_status.0);
                }
                other @ (ContainerState::Localizing
                | ContainerState::Pausing
                | ContainerState::Resuming { .. }
                | ContainerState::Relaunching { .. }
                | ContainerState::Restarting
                | ContainerState::Gone { .. }
                | ContainerState::Completing(_)) => panic!("{id} is {other:?}"),
            }
        }
        let of = |wanted| {
            let of_type = unstarted.iter().filter(|((of, ..), _)| *of == wanted);
            of_type.map(|(_, id)| *id).collect()
        };
        told.guaranteed = of(ExecutionType::Guaranteed);
        told.opportunistic = of(ExecutionType::Opportunistic);
        told.running = running.into_values().collect();
        told
    }
}

/// Facts that a crash must not change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Told {
    /// Those without a process, in the order in which they start.
    guaranteed: Vec<i64>,
    opportunistic: Vec<i64>,
    /// In the order of their starts, which is the order of evictions from the end.
    running: Vec<i64>,
    paused: Vec<i64>,
    killing: BTreeMap<i64, i32>,
    done: BTreeMap<i64, (i32, String)>,
}

#[derive(Clone, Debug)]
enum Step {
    Start(i64, ExecutionType),
    Launched(i64),
    Exit(i64, i32),
    Stop(i64),
    Acknowledge(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let n = 1..24_i64;
    let execution_type = prop_oneof![
        Just(ExecutionType::Guaranteed),
        Just(ExecutionType::Opportunistic),
        Just(ExecutionType::Opportunistic),
    ];
    prop_oneof![
        6 => (n.clone(), execution_type).prop_map(|(n, of)| Step::Start(n, of)),
        6 => n.clone().prop_map(Step::Launched),
        2 => (n.clone(), prop_oneof![Just(0), Just(3), Just(143)])
            .prop_map(|(n, status)| Step::Exit(n, status)),
        1 => n.clone().prop_map(Step::Stop),
        1 => n.prop_map(Step::Acknowledge),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A crash at any moment changes nothing that anybody was told: results, who runs and in which
    /// order they started, who waits and in which order they start.
    #[test]
    fn what_was_told_survives_any_crash(
        before in prop::collection::vec(step(), 1..80),
        between in prop::collection::vec(step(), 0..40),
    ) {
        let mut machine = CrashingNode::new();
        for steps in [before, between] {
            steps.iter().for_each(|step| machine.step(step));
            let told = machine.told();
            machine.crash();
            let after = machine.told();
            prop_assert_eq!(&after.done, &told.done);
            prop_assert_eq!(&after.running, &told.running);
            prop_assert_eq!(&after.killing, &told.killing);
            prop_assert_eq!(&after.guaranteed, &told.guaranteed);
            prop_assert_eq!(&after.opportunistic, &told.opportunistic);
            prop_assert_eq!(&after.paused, &told.paused);
            for id in told.done.keys() {
                let used = machine.node.refusal(request(*id));
                prop_assert!(used.message.contains("with id") || used.message.contains("has finished"), "{}", used.message);
            }
        }
    }
}

#[test]
fn waits_and_run_times_are_right_after_a_restart_over_a_change_of_the_wall_clock() {
    const DAY: i64 = 24 * 3_600_000;
    for set_by in [-DAY, DAY] {
        let mut machine = CrashingNode::new();
        for n in 1..=8 {
            machine.step(&Step::Start(n, ExecutionType::Guaranteed));
            machine.step(&Step::Launched(n));
        }
        machine.step(&Step::Start(9, ExecutionType::Opportunistic));
        let waits_since = machine.node.now.mono;
        machine.node.now.mono = machine.node.now.mono + 10_000;
        machine.node.now.wall.0 += 10_000 + set_by;
        machine.crash();
        let now = machine.node.now;
        let waits = &machine.node.core.operator_queue(1, now).containers[0];
        assert_eq!(waits.waited_ms, now.mono.since(waits_since), "{waits:?}");
        let running = machine
            .node
            .core
            .operator_running(8, &node_view::usage::Uses::default(), now)
            .containers;
        let ages: Vec<u64> = running.iter().map(|each| each.state_for_ms).collect();
        assert_eq!(ages.len(), 8);
        assert!(
            ages.iter().all(|ms| (10_000..11_000).contains(ms)),
            "{ages:?}"
        );
        // A record is not written anew for it.
        let before = machine.disk.containers.clone();
        machine.crash();
        assert_eq!(machine.disk.containers, before);
    }
}

#[test]
fn a_start_whose_answer_died_with_the_agent_may_be_repeated_and_starts_nothing() {
    let mut machine = CrashingNode::new();
    machine.step(&Step::Start(1, ExecutionType::Guaranteed));
    machine.step(&Step::Launched(1));
    machine.crash();
    let now = machine.node.now;
    let request = request_for(container_id(1), ExecutionType::Guaranteed);
    let outcome = machine.node.core.start(asker(), request, now);
    assert!(matches!(outcome, StartOutcome::Started), "{outcome:?}");
    let effects = machine.node.core.take_effects();
    assert!(effects.is_empty(), "{effects:?}");
    assert_eq!(machine.told().running, [1]);
    // Once it has ended its token is used.
    machine.step(&Step::Exit(1, 0));
    let refusal = machine
        .node
        .refusal(request_for(container_id(1), ExecutionType::Guaranteed));
    assert!(refusal.message.contains("with id"), "{}", refusal.message);
}

/// A container whose application is over ends, and may be forgotten, before its start is answered.
#[test]
fn a_start_that_is_over_before_it_is_answered_leaves_no_record() {
    let mut machine = CrashingNode::new();
    machine.step(&Step::Start(1, ExecutionType::Guaranteed));
    machine.step(&Step::Launched(1));
    machine.step(&Step::Exit(1, 0));
    machine.node.finish_application();
    machine.settle();
    machine.step(&Step::Start(2, ExecutionType::Guaranteed));
    assert_eq!(machine.state(container_id(2)), None);
    assert_eq!(
        machine.disk.containers.keys().collect::<Vec<_>>(),
        Vec::<&_>::new()
    );
    machine.localizations.clear();
    machine.crash();
    assert_eq!(machine.state(container_id(2)), None);
    assert!(machine.localizations.is_empty());
    let repeated = request_for(container_id(2), ExecutionType::Guaranteed);
    let refusal = machine.node.refusal(repeated);
    assert!(refusal.message.contains("with id"), "{}", refusal.message);
}

#[test]
fn a_process_that_no_record_names_yet_is_taken_over() {
    let mut machine = CrashingNode::new();
    machine.step(&Step::Start(1, ExecutionType::Guaranteed));
    let process = ProcessIdentity {
        pid: 77,
        start_time: 1,
    };
    machine.processes.insert(container_id(1), process);
    machine.crash();
    assert_eq!(machine.told().running, [1]);
    let record = &machine.disk.containers[&container_id(1).name()];
    assert_eq!(record.state.as_ref().unwrap().pid, 77);
    machine.step(&Step::Exit(1, 3));
    assert_eq!(machine.told().done[&1].0, 3);
}
