//! The AM against a cluster that does anything: whatever happens, in whatever order, the job ends,
//! and no task has two containers or is started twice in one.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use records::{ContainerExitStatus, ContainerId, ExecutionType, MonoMillis, NodeId};
use wire::proto::hadoop_common::TokenProto;

use super::Master;
use crate::job::Job;
use crate::master::asks::request_id;
use crate::master::testing::{container, node};
use crate::master::vocabulary::{
    Action, Answer, ChangeRefusal, Changed, Completed, Event, Granted, Heartbeat, Seen,
};
use crate::summary::{Outcome, Summary};

/// Next action of the cluster; numbers are indices into what there is.
#[derive(Clone, Debug)]
enum Step {
    /// Answers the heartbeat with this number of containers.
    Answer { granted: usize },
    /// Accepts or refuses the start on a node.
    Start { is_accepted: bool },
    /// Answers a poll of a node, with this number of containers running.
    PollStatus { running: usize, is_reached: bool },
    /// Answers a change of containers, or does not get it.
    Update { is_reached: bool },
    /// Ends a container; reported by the ResourceManager or found by a poll only.
    End { which: usize, exit_status: i32 },
    /// Reports an end that was reported before, or of an unknown container.
    Stray { which: i64 },
    /// Makes the ResourceManager forget the AM.
    Resync,
    /// Grants or refuses a promotion.
    Promote { is_granted: bool },
    /// Lets time pass.
    Pass { ms: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let status = prop::sample::select(vec![0, 0, 0, 1, 143, -100, -102, -106, -108, -108, -1000]);
    let step = prop_oneof![
        4 => (0_usize..5).prop_map(|granted| Step::Answer { granted }),
        3 => prop::bool::weighted(0.8).prop_map(|is_accepted| Step::Start { is_accepted }),
        3 => (0_usize..4, any::<bool>()).prop_map(|(running, is_reached)| Step::PollStatus { running, is_reached }),
        2 => any::<bool>().prop_map(|is_reached| Step::Update { is_reached }),
        3 => (any::<usize>(), status).prop_map(|(which, exit_status)| Step::End { which, exit_status }),
        1 => (0_i64..40).prop_map(|which| Step::Stray { which }),
        1 => Just(Step::Resync),
        1 => any::<bool>().prop_map(|is_granted| Step::Promote { is_granted }),
        3 => (1_u64..3_000).prop_map(|ms| Step::Pass { ms }),
    ];
    prop::collection::vec(step, 0..120)
}

/// The ResourceManager, the nodes and the clock around the AM.
struct World {
    master: Master,
    now: u64,
    next_id: i64,
    /// Outstanding containers by type, as the ResourceManager counts them.
    missing: BTreeMap<ExecutionType, u32>,
    heartbeat: Option<Heartbeat>,
    is_registering: bool,
    starting: Vec<(u16, Vec<(ContainerId, u32)>)>,
    looking: Vec<(u16, Vec<ContainerId>)>,
    updating: Vec<(NodeId, Vec<(ContainerId, TokenProto)>)>,
    /// Existing containers, with the node of each and its task once it has one.
    alive: BTreeMap<ContainerId, (u16, Option<u32>)>,
    completed: Vec<Completed>,
    promotions: BTreeSet<ContainerId>,
    changed: Vec<Changed>,
    refused: Vec<(ContainerId, ChangeRefusal)>,
    ever_started: BTreeSet<ContainerId>,
    summary: Option<Summary>,
}

impl World {
    fn new(job: Job) -> Self {
        let mut world = Self {
            master: Master::new(job, "u".to_owned(), MonoMillis(0)),
            now: 0,
            next_id: 2,
            missing: BTreeMap::new(),
            heartbeat: None,
            is_registering: true,
            starting: Vec::new(),
            looking: Vec::new(),
            updating: Vec::new(),
            alive: BTreeMap::new(),
            completed: Vec::new(),
            promotions: BTreeSet::new(),
            changed: Vec::new(),
            refused: Vec::new(),
            ever_started: BTreeSet::new(),
            summary: None,
        };
        world.register();
        world
    }

    fn tell(&mut self, event: Event) {
        let actions = self.master.handle(event, MonoMillis(self.now));
        for action in actions {
            assert!(self.summary.is_none(), "{action:?} after the end");
            self.perform(action);
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Register => self.is_registering = true,
            Action::Allocate(heartbeat) => {
                assert!(self.heartbeat.is_none(), "two heartbeats at once");
                assert!(!self.is_registering, "a heartbeat without a registration");
                self.heartbeat = Some(heartbeat);
            }
            Action::Start { node, containers } => {
                let number = node.host[1..].parse().unwrap();
                let mut starts = Vec::new();
                for start in containers {
                    assert!(self.ever_started.insert(start.id), "{} twice", start.id);
                    let held = self
                        .alive
                        .values()
                        .filter(|(_, task)| *task == Some(start.task));
                    assert_eq!(held.count(), 0, "task {} has two containers", start.task);
                    if let Some(alive) = self.alive.get_mut(&start.id) {
                        alive.1 = Some(start.task);
                    }
                    starts.push((start.id, start.task));
                }
                self.starting.push((number, starts));
            }
            Action::PollStatus { node, containers } => {
                let number = node.host[1..].parse().unwrap();
                assert!(self.looking.iter().all(|(other, _)| *other != number));
                self.looking.push((number, containers));
            }
            Action::Update { node, changes } => {
                assert!(self.updating.iter().all(|(other, _)| *other != node));
                let mut changes_of = changes.iter().map(|(id, _)| id);
                assert!(changes_of.all(|id| self.ever_started.contains(id)));
                self.updating.push((node, changes));
            }
            Action::StopContainers { .. } => {}
            Action::Finish { summary, loss } => {
                assert_eq!(loss, None);
                self.summary = Some(*summary);
            }
        }
    }

    fn register(&mut self) {
        if self.is_registering {
            self.is_registering = false;
            self.missing.clear();
            self.tell(Event::Registered { largest: None });
        }
    }

    fn answer(&mut self, granted_max: usize) {
        self.register();
        let Some(heartbeat) = self.heartbeat.take() else {
            return;
        };
        for ask in &heartbeat.asks {
            assert!(ask.count <= 12, "{ask:?} is more than the job has");
            self.missing.insert(ask.execution_type, ask.count);
        }
        for id in heartbeat.releases {
            self.alive.remove(&id);
        }
        for promote in heartbeat.promotions {
            self.promotions.insert(promote.id);
        }
        let mut answer = Answer {
            completed: std::mem::take(&mut self.completed),
            changed: std::mem::take(&mut self.changed),
            refused: std::mem::take(&mut self.refused),
            ..Answer::default()
        };
        for (execution_type, missing) in &mut self.missing {
            while *missing > 0 && answer.granted.len() < granted_max {
                *missing -= 1;
                let id = container(self.next_id);
                self.next_id += 1;
                let number = u16::try_from(self.next_id % 3).unwrap();
                self.alive.insert(id, (number, None));
                answer.granted.push(Granted {
                    id,
                    node: node(number),
                    node_http: String::new(),
                    execution_type: *execution_type,
                    allocation_request_id: request_id(*execution_type),
                    version: 0,
                });
            }
        }
        self.tell(Event::Answered(answer));
    }

    fn start(&mut self, is_accepted: bool) {
        let Some((_, starts)) = self.starting.pop() else {
            return;
        };
        let ids = starts.into_iter().map(|(id, _)| id);
        let (accepted, refused) = if is_accepted {
            (ids.collect(), Vec::new())
        } else {
            let refused: Vec<_> = ids.map(|id| (id, "refused".to_owned())).collect();
            for (id, _) in &refused {
                self.alive.remove(id);
            }
            (Vec::new(), refused)
        };
        self.tell(Event::Started { accepted, refused });
    }

    fn poll(&mut self, running: usize, is_reached: bool) {
        let Some((number, asked)) = self.looking.pop() else {
            return;
        };
        let alive = asked.into_iter().filter(|id| self.alive.contains_key(id));
        let seen = alive.enumerate().map(|(at, id)| {
            if at < running {
                Seen::Running(id)
            } else {
                Seen::Waiting(id)
            }
        });
        let seen = is_reached.then(|| seen.collect());
        let node = node(number);
        self.tell(Event::StatusPolled { node, seen });
    }

    fn update(&mut self, is_reached: bool) {
        let Some((node, changes)) = self.updating.pop() else {
            return;
        };
        self.tell(Event::Updated {
            node,
            settled: if is_reached { changes } else { Vec::new() },
            has_failed: !is_reached,
        });
    }

    fn end(&mut self, which: usize, exit_status: i32) {
        let started: Vec<ContainerId> = self
            .alive
            .iter()
            .filter(|(id, (_, task))| task.is_some() && !self.is_starting(**id))
            .map(|(id, _)| *id)
            .collect();
        if started.is_empty() {
            return;
        }
        let id = started[which % started.len()];
        self.alive.remove(&id);
        self.completed.push(Completed {
            id,
            exit_status: ContainerExitStatus(exit_status),
            diagnostics: String::new(),
        });
    }

    fn is_starting(&self, id: ContainerId) -> bool {
        let mut starting = self.starting.iter().flat_map(|(_, starts)| starts);
        starting.any(|(starting, _)| *starting == id)
    }

    fn promote(&mut self, is_granted: bool) {
        let Some(id) = self.promotions.pop_first() else {
            return;
        };
        if is_granted {
            self.changed.push(Changed {
                id,
                version: 1,
                execution_type: ExecutionType::Guaranteed,
                token: Some(TokenProto::default()),
            });
        } else {
            self.refused
                .push((id, ChangeRefusal::Version { current: 0 }));
        }
    }

    fn pass(&mut self, ms: u64) {
        let end = self.now + ms;
        while let Some(wake) = self.master.next_wake().filter(|wake| wake.0 <= end) {
            self.now = self.now.max(wake.0);
            self.tell(Event::Tick);
            let again = self.master.next_wake();
            assert!(
                again.is_none_or(|again| again.0 > self.now),
                "wakes without an end"
            );
        }
        self.now = end;
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Answer { granted } => self.answer(granted),
            Step::Start { is_accepted } => self.start(is_accepted),
            Step::PollStatus {
                running,
                is_reached,
            } => self.poll(running, is_reached),
            Step::Update { is_reached } => self.update(is_reached),
            Step::End { which, exit_status } => self.end(which, exit_status),
            Step::Stray { which } => {
                let id = container(which);
                if !self.alive.contains_key(&id) {
                    self.completed.push(Completed {
                        id,
                        exit_status: ContainerExitStatus(0),
                        diagnostics: String::new(),
                    });
                }
            }
            Step::Resync => {
                if self.heartbeat.take().is_some() {
                    self.tell(Event::Resync);
                }
            }
            Step::Promote { is_granted } => self.promote(is_granted),
            Step::Pass { ms } => self.pass(ms),
        }
    }

    /// Lets a cluster without faults run until the job ends.
    fn settle(&mut self) {
        for _ in 0..2_000 {
            if self.summary.is_some() {
                return;
            }
            self.answer(100);
            while !self.starting.is_empty() {
                self.start(true);
            }
            while !self.looking.is_empty() {
                self.poll(100, true);
            }
            for _ in 0..self.alive.len() {
                self.end(0, 0);
            }
            self.pass(500);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn whatever_happens_the_job_ends_with_every_task_accounted_for(
        guaranteed in 0_u32..6,
        opportunistic in 0_u32..6,
        retries_max in 0_u32..4,
        promote_after_ms in prop::option::of(0_u64..2_000),
        steps in steps(),
    ) {
        prop_assume!(guaranteed + opportunistic > 0);
        let job = Job {
            guaranteed,
            opportunistic,
            retries_max,
            promote_after_ms,
            ..Job::new(vec!["true".to_owned()])
        };
        let mut world = World::new(job);
        for step in &steps {
            if world.summary.is_some() {
                break;
            }
            world.step(step);
            let counts = world.master.counts();
            let sum = counts.waiting + counts.queued + counts.running + counts.ended();
            prop_assert_eq!(sum, counts.tasks);
        }
        world.settle();
        let summary = world.summary.expect("a good cluster ends every job");
        prop_assert_eq!(summary.counts.ended(), guaranteed + opportunistic);
        let is_success = summary.counts.failed == 0;
        prop_assert_eq!(is_success, summary.outcome == Outcome::Succeeded);
        let taken = summary.counts.evicted + summary.counts.shed + summary.counts.preempted + summary.counts.lost;
        prop_assert!(taken <= (retries_max + 1) * summary.counts.tasks);
    }
}
