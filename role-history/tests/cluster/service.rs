//! A service of three roles that is stopped and started, shrinks and grows, crashes and loses
//! nodes.

use std::collections::BTreeMap;

use records::{ContainerExitStatus, ContainerId, EpochMillis, MonoMillis, Now};
use role_history::{
    Action, CompletedContainer, NodeReport, PlacementPolicy, Ran, Role, RoleHistory,
    RoleHistoryConfig, RoleId, SavedHistory,
};

use super::resource_manager::{ResourceManager, SIZE, host, number};

const ROLES: i32 = 3;
const CONTAINERS: u32 = 50;
const ROUNDS: usize = 6;

/// Seconds for which a node's data of a role are of use.
const FRESH_S: u64 = 1_200;

/// Outcome of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Containers that replaced or brought back others, and those of them on a node where the role
    /// ran recently.
    placed: usize,
    hits: usize,
    /// Seconds from each start, or growth, until the last container was placed.
    pub(crate) placed_s: Vec<u64>,
    pub(crate) nodes_used: usize,
    pub(crate) most_on_a_node: usize,
}

impl Figures {
    pub(crate) fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.placed as f64
    }

    pub(crate) fn mean_placed_s(&self) -> f64 {
        self.placed_s.iter().sum::<u64>() as f64 / self.placed_s.len() as f64
    }

    pub(crate) fn slowest_placed_s(&self) -> u64 {
        self.placed_s.iter().copied().max().unwrap_or(0)
    }
}

pub(crate) struct Service {
    rm: ResourceManager,
    history: RoleHistory,
    with_history: bool,
    now_s: u64,
    /// Second in which a role last ran on a node.
    ran: BTreeMap<(RoleId, usize), u64>,
    figures: Figures,
}

fn roles(with_history: bool) -> Vec<Role> {
    let role = |number| {
        let id = RoleId::new(number).expect("a small number");
        let mut role = Role::new(id, format!("role-{number}"), SIZE);
        role.container_failure_threshold = None;
        if !with_history {
            role.placement_policy = PlacementPolicy::ANYWHERE;
        }
        role
    };
    (1..=ROLES).map(role).collect()
}

impl Service {
    pub(crate) fn new(seed: u64, with_history: bool) -> Self {
        let config = RoleHistoryConfig::default();
        Self {
            rm: ResourceManager::new(seed),
            history: RoleHistory::new(config, roles(with_history), Now::default())
                .expect("roles with names"),
            with_history,
            now_s: 0,
            ran: BTreeMap::new(),
            figures: Figures::default(),
        }
    }

    pub(crate) fn run(mut self) -> Figures {
        self.start(None);
        self.wait_until_placed();
        // What follows comes back to where something ran.
        self.figures = Figures::default();
        for _ in 0..ROUNDS {
            self.live_for(600);
            self.flex(CONTAINERS - 10);
            self.live_for(300);
            self.flex(CONTAINERS);
            self.wait_until_placed();
            self.live_for(300);
            let saved = self.stop();
            self.start(Some(saved));
            self.wait_until_placed();
        }
        let (used, most) = self.rm.spread();
        self.figures.nodes_used = used;
        self.figures.most_on_a_node = most;
        self.figures
    }

    fn now(&self) -> Now {
        let ms = self.now_s * 1_000;
        Now {
            mono: MonoMillis(ms),
            wall: EpochMillis(i64::try_from(ms).expect("hours")),
        }
    }

    /// Starts the service: with a new history, or with the one that was saved.
    fn start(&mut self, saved: Option<SavedHistory>) {
        let config = RoleHistoryConfig::default();
        let now = self.now();
        self.history =
            RoleHistory::new(config, roles(self.with_history), now).expect("roles with names");
        if let Some(saved) = saved {
            self.history.thaw(&saved);
        }
        let reports = self.rm.reports();
        self.perform(|history, now, actions| history.on_nodes_updated(&reports, now, actions));
        self.flex(CONTAINERS);
    }

    /// Stops the service for two minutes.
    fn stop(&mut self) -> SavedHistory {
        let saved = self.history.snapshot(self.now()).history;
        self.perform(|history, _, actions| history.tear_down(actions));
        for _ in 0..120 {
            self.second();
        }
        assert!(self.rm.containers.is_empty());
        saved
    }

    fn flex(&mut self, desired: u32) {
        for role in (1..=ROLES).filter_map(RoleId::new) {
            self.perform(|history, now, actions| {
                history
                    .set_desired(role, desired, now, actions)
                    .expect("a known role");
            });
        }
    }

    fn wait_until_placed(&mut self) {
        let begin = self.now_s;
        while self.history.outstanding().next().is_some() {
            self.second();
            assert!(self.now_s - begin < 3_600, "never placed");
        }
        self.figures.placed_s.push(self.now_s - begin);
    }

    /// Lets time pass, in which every minute a container crashes, or a node fails or returns.
    fn live_for(&mut self, seconds: u64) {
        for second in 0..seconds {
            if second % 120 == 60 {
                let (at, state, lost) = self.rm.toggle_node();
                self.complete(lost, ContainerExitStatus::ABORTED);
                let report = NodeReport {
                    host: host(at),
                    state: Some(state),
                    label: String::new(),
                };
                self.perform(|history, now, actions| {
                    history.on_nodes_updated(&[report], now, actions);
                });
            } else if second % 120 == 0 && !self.rm.containers.is_empty() {
                let which = self.rm.draw(self.rm.containers.len());
                let crashed = self
                    .rm
                    .containers
                    .keys()
                    .copied()
                    .nth(which)
                    .expect("fewer than there are");
                self.rm.end(crashed);
                self.complete(vec![crashed], ContainerExitStatus(1));
            }
            self.second();
        }
    }

    /// Lets a second pass: the ResourceManager answers, and new containers start.
    fn second(&mut self) {
        self.now_s += 1;
        self.rm.churn();
        for (role, at) in self.rm.containers.values() {
            self.ran.insert((*role, *at), self.now_s);
        }
        let released = self.rm.take_released();
        self.complete(released, ContainerExitStatus::ABORTED);
        let allocated = self.rm.allocate();
        let mut actions = Vec::new();
        let now = self.now();
        self.history
            .on_containers_allocated(allocated, now, &mut actions);
        for action in actions.clone() {
            if let Action::Assign(assignment) = action {
                let ran = self.ran.get(&(assignment.role, number(&assignment.host)));
                let is_hit = ran.is_some_and(|&at| self.now_s - at <= FRESH_S);
                self.figures.placed += 1;
                self.figures.hits += usize::from(is_hit);
                let container = assignment.container;
                self.history
                    .on_container_started(container, now, &mut actions)
                    .expect("just assigned");
            }
        }
        self.rm.receive(actions);
        self.perform(RoleHistory::on_tick);
    }

    fn complete(&mut self, containers: Vec<ContainerId>, exit_status: ContainerExitStatus) {
        let completed = containers.into_iter().map(|container| CompletedContainer {
            container,
            exit_status,
            diagnostics: String::new(),
            ran: Ran::SinceStart,
        });
        let completed = completed.collect();
        self.perform(|history, now, actions| {
            history.on_containers_completed(completed, now, actions);
        });
    }

    fn perform(&mut self, operation: impl FnOnce(&mut RoleHistory, Now, &mut Vec<Action>)) {
        let mut actions = Vec::new();
        let now = self.now();
        operation(&mut self.history, now, &mut actions);
        self.rm.receive(actions);
    }
}
