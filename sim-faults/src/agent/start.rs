//! The start of an agent: the shipped recovery on the records of the simulated disk, and a core.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dir_handle::DirHandle;
use localize::{ContainerDirs, ContainerFolder};
use log_aggregation::policy::Policy;
use node_core::recovery::{Decided, Leftover, Pending, Recovered, Suspects, decide, judge};
use node_core::{Effect, LogAggregation, Observed, RestoredState, ServiceMetadata};
use node_manager::recovery::{FoundState, KeyWriter, SPACES};
use records::{ContainerId, ContainerName, Resource};
use sched::{ContainerState, Note, RecoveredStage};
use sim::{Clock, Random, Streams};
use sim_agent::{AgentConfig, Shell};
use time::UtcOffset;

use super::proxies::Proxies;
use super::recorded::Recorded;
use super::told::Told;
use super::{Agent, Ground, KeyBuffer, Loop};
use crate::context::Context;
use crate::node_config::NodeConfig;
use crate::observation::{Known, Observation};
use crate::planted::Planted;
use crate::scenario::SERVICE;

/// Longest time that a killed process of nobody lives on, in milliseconds.
const STUCK_MS_MAX: u64 = 30_000;

impl Agent {
    /// Starts an agent, which takes over what the one before has left.
    pub fn start(
        node: usize,
        incarnation: u32,
        clock: Clock,
        config: &NodeConfig,
        ground: &mut Ground<'_>,
        context: &mut Context,
    ) -> Self {
        let mut found = FoundState::from_contents(SPACES.map(|space| ground.disk.records(space)));
        // The seed comes from a copy, so that everything else stays as without proxies.
        let seed = ground.random.clone().seed();
        let proxies = Streams::new(seed).stream("proxies", incarnation.into());
        let mut agent = Self::new(node, incarnation, clock, (config, proxies), &mut found);
        let knows_ended = !context.is_planted(Planted::EndedForgotten);
        let mut noted = ground.machine.noted(knows_ended);
        if context.is_planted(Planted::KeeperIgnored) {
            noted.clear();
        }
        let mut decided = decide(std::mem::take(&mut found.containers), &noted, &[]);
        spoil_recovery(&mut decided, context);
        let pending = Pending::of(&decided.containers, &found.applications);
        let suspects = found.suspects.as_ref().map(Suspects::of_record);
        // Each second end is a crash, so works go on step by step and none fails.
        let has_crashed = incarnation % 2 == 1;
        let judgement = judge(has_crashed, &suspects.unwrap_or_default(), &pending);
        let mut leftovers = agent.kill_leftovers(&decided.leftovers, ground, context);
        if context.is_planted(Planted::LeftoversTakeNothing) {
            leftovers
                .values_mut()
                .for_each(|size| *size = Resource::default());
        }
        for recovered in &decided.containers {
            let paths = recovered.record.used_resources();
            agent.told.recover(recovered.spec.id, paths);
        }
        let dirs = |recovered: Recovered| {
            let dirs = recovered.process.map(|_| dirs_in(&config.directory));
            (recovered, dirs)
        };
        let state = RestoredState {
            applications: found.applications.into_iter().collect(),
            containers: decided.containers.into_iter().map(dirs).collect(),
            used_tokens: found.used.into_iter().collect(),
            arrivals: decided.arrivals,
            leftovers: leftovers.into_iter().collect(),
            settled_logs: found.settled_logs,
            drain: found.drain,
            learnt_runs: found.learnt_runs,
            judgement,
        };
        let now = agent.now(context);
        agent.shell.core.restore(state, now);
        agent.report_ended_leftovers(ground, context);
        let effects = agent.shell.core.take_effects();
        let known = agent.known(&effects);
        context.observe(Observation::AgentStarted { node, known });
        for effect in effects {
            agent.perform(effect, ground, context);
        }
        agent.settle(ground, context);
        agent.plan_beat(context.now_ms(), context);
        agent
    }

    /// Kills processes of which no container is known, and watches their ends. Returns their sizes
    /// by the names of their containers.
    fn kill_leftovers(
        &mut self,
        leftovers: &[Leftover],
        ground: &mut Ground<'_>,
        context: &mut Context,
    ) -> BTreeMap<ContainerName, Resource> {
        let mut sizes = BTreeMap::new();
        for leftover in leftovers {
            sizes.insert(leftover.id, leftover.size.unwrap_or_default());
            let watched = self.leftovers.entry(leftover.id).or_default();
            watched.insert(leftover.process);
            let is_stuck = ground.random.chance(ground.failures.stuck);
            let stuck_ms = if is_stuck {
                ground.random.within(1..=STUCK_MS_MAX)
            } else {
                0
            };
            ground
                .machine
                .kill_leftover(leftover.process, stuck_ms, context);
        }
        sizes
    }

    /// Returns an agent with the keys of the one before and without containers.
    fn new(
        node: usize,
        incarnation: u32,
        clock: Clock,
        (config, proxies): (&NodeConfig, Random),
        found: &mut FoundState,
    ) -> Self {
        let keys = Arc::new(KeyBuffer::default());
        let writer = KeyWriter::to(Arc::<KeyBuffer>::clone(&keys));
        let shell = Shell::new(&agent_config(config));
        let attempts = std::mem::take(&mut found.attempts);
        shell.secrets.restore(writer, found.keys.take(), attempts);
        Self {
            node,
            incarnation,
            clock,
            shell,
            keys,
            stage: Loop::Registering,
            keeps_containers_on_resync: config.keeps_containers_on_resync,
            pending: None,
            is_sending: false,
            waiting: VecDeque::new(),
            beat_at: 0,
            earliest_beat: 0,
            beats_early: false,
            tick_at: None,
            launching: BTreeSet::new(),
            unwanted: BTreeMap::new(),
            leftovers: BTreeMap::new(),
            proxies: Proxies::new(proxies),
            frozen_at: 0,
            queue_limit: None,
            told: Told::default(),
            recorded: Recorded::default(),
            directory: Arc::clone(&config.directory),
        }
    }

    /// Returns what the core knows, for checkers. Containers whose starts are among the effects to
    /// come still wait for them.
    fn known(&self, effects: &[Effect]) -> Known {
        let starting = |effect: &Effect| {
            if let Effect::Observe(Observed::Note(Note::Started { id, .. })) = effect {
                Some(*id)
            } else {
                None
            }
        };
        let starting: Vec<ContainerId> = effects.iter().filter_map(starting).collect();
        let place_of = |id: &ContainerId| starting.iter().position(|other| other == id);
        let snapshot = self.shell.core.snapshot();
        let mut known = Known::default();
        let (mut first, mut waiting, mut started) = (Vec::new(), Vec::new(), Vec::new());
        for container in snapshot.containers {
            let entry = (container.id, container.execution_type);
            known.all.insert(container.id);
            if let Some(place) = place_of(&container.id) {
                first.push((place, entry));
                continue;
            }
            let is_ahead = matches!(
                container.state,
                ContainerState::Localizing
                    | ContainerState::Queued { .. }
                    | ContainerState::Restarting
            );
            if !is_ahead {
                known.begun.insert(container.id);
            }
            match container.state {
                ContainerState::Queued { place } => waiting.push((place, entry)),
                ContainerState::Launching { order }
                | ContainerState::Running { order }
                | ContainerState::Resuming { order }
                | ContainerState::Relaunching { order } => started.push((order, entry)),
                ContainerState::Localizing
                | ContainerState::Pausing
                | ContainerState::Paused { .. }
                | ContainerState::Restarting
                | ContainerState::Killing { .. }
                | ContainerState::Gone { .. }
                | ContainerState::Completing(_)
                | ContainerState::Done(_) => {}
            }
        }
        waiting.sort_unstable();
        started.sort_unstable();
        first.sort_unstable();
        let first = first.into_iter().map(|(_, entry)| entry);
        let waiting = waiting.into_iter().map(|(_, entry)| entry);
        known.waiting = first.chain(waiting).collect();
        known.started = started.into_iter().map(|(_, entry)| entry).collect();
        known
    }

    /// Returns the numbers of applications, of containers, and of containers that wait, which the
    /// core knows.
    #[must_use]
    pub fn entries(&self) -> (usize, usize, usize) {
        let snapshot = self.shell.core.snapshot();
        let waits = |state: ContainerState| matches!(state, ContainerState::Queued { .. });
        let waiting = snapshot.containers.iter();
        let waiting = waiting.filter(|container| waits(container.state)).count();
        (
            snapshot.applications.len(),
            snapshot.containers.len(),
            waiting,
        )
    }

    /// Returns the containers that the core knows and that are not done.
    #[must_use]
    pub fn live_containers(&self) -> usize {
        self.shell.core.live_containers()
    }
}

/// Changes what is recovered as a planted fault does.
fn spoil_recovery(decided: &mut Decided, context: &Context) {
    let waits = |recovered: &Recovered| recovered.stage == RecoveredStage::Waiting;
    let runs = |recovered: &Recovered| recovered.stage == RecoveredStage::Running;
    if context.is_planted(Planted::QueuesReversed) {
        let (mut waiting, others): (Vec<_>, Vec<_>) = std::mem::take(&mut decided.containers)
            .into_iter()
            .partition(waits);
        waiting.reverse();
        decided.containers = others.into_iter().chain(waiting).collect();
    }
    if context.is_planted(Planted::StartsReversed) {
        let (mut running, others): (Vec<_>, Vec<_>) = std::mem::take(&mut decided.containers)
            .into_iter()
            .partition(runs);
        running.reverse();
        decided.containers = running.into_iter().chain(others).collect();
    }
    if context.is_planted(Planted::LeftoversLive) {
        decided.leftovers.clear();
    }
}

/// Returns folders that stand for those of any container: nothing is written into them.
pub(super) fn dirs_in(directory: &Arc<DirHandle>) -> ContainerDirs {
    let folder = || {
        let root = Arc::clone(directory);
        ContainerFolder::new(root, Path::new("/"), PathBuf::new())
    };
    ContainerDirs {
        work_dir: folder(),
        log_dir: folder(),
        local_dirs: Vec::new(),
        local_user_dirs: Vec::new(),
        log_dirs: Vec::new(),
    }
}

fn agent_config(config: &NodeConfig) -> AgentConfig {
    AgentConfig {
        id: config.id.clone(),
        capacity: config.capacity,
        scheduler: config.scheduler,
        log_aggregation: config.aggregates_logs.then_some(LogAggregation {
            policy: Policy::All,
            local_cleanup: true,
            utc_offset: UtcOffset::UTC,
        }),
        log_retain_ms: 60_000,
        services: ServiceMetadata::new([(SERVICE.to_owned(), Vec::new())].into()),
        remembers: true,
        records_events: true,
    }
}
