//! Rules and scenarios of the documents, each a test. The service under test has a role `store`
//! (id 1) and a role `query` (id 4): ids may be sparse.

mod allocations;
mod anti_affinity;
mod escalation;
mod failures;
mod flexing;
mod nodes;
mod placing;
mod restarts;
mod sequences;

use records::{ApplicationId, ContainerExitStatus, ContainerId, EpochMillis, Resource};

use super::*;
use crate::action::{
    Action, AllocatedContainer, AskedBy, CompletedContainer, LiveContainer, NodeReport, Ran,
};
use crate::container_priority::ContainerPriority;
use crate::node_entry::NodeEntry;
use crate::node_instance::NodeState;
use crate::role::PlacementPolicy;
use crate::saved::{SavedEntry, SavedHistory};

const STORE: RoleId = RoleId::new(1).unwrap();
const QUERY: RoleId = RoleId::new(4).unwrap();

/// Size of every container.
const SIZE: Resource = Resource::new(256, 1);

/// Wall time at which a test begins. The monotonic clock begins at 0.
const BEGIN: i64 = 1_452_081_600_000;

fn id(number: i64) -> ContainerId {
    ApplicationId::new(1, 1).attempt(1).container(number)
}

fn role(id: RoleId, name: &str) -> Role {
    Role::new(id, name, SIZE)
}

/// A service with its history, a clock, and the actions since they were last read.
struct Service {
    history: RoleHistory,
    actions: Vec<Action>,
    now_ms: u64,
    last_container: i64,
}

impl Service {
    /// Creates a service without history.
    fn new() -> Self {
        Self::with(RoleHistoryConfig::default(), role(STORE, "store"))
    }

    fn with_policy(policy: PlacementPolicy) -> Self {
        let mut store = role(STORE, "store");
        store.placement_policy = policy;
        Self::with(RoleHistoryConfig::default(), store)
    }

    fn with(config: RoleHistoryConfig, store: Role) -> Self {
        let roles = [store, role(QUERY, "query")];
        let now = Now {
            mono: MonoMillis(0),
            wall: EpochMillis(BEGIN),
        };
        Self {
            history: RoleHistory::new(config, roles, now).unwrap(),
            actions: Vec::new(),
            now_ms: 0,
            last_container: 0,
        }
    }

    /// Loads a history in which `store` was last used on these hosts, so many milliseconds before
    /// the save, which is at the beginning of the test.
    fn thawed(mut self, used: &[(&str, i64)]) -> Self {
        let mut saved = SavedHistory::new(EpochMillis(BEGIN), 2, None);
        for &(host, before) in used {
            let entry = SavedEntry {
                role: 1,
                active: false,
                last_used: EpochMillis(BEGIN - before),
            };
            saved.push(host, entry);
        }
        self.history.thaw(&saved);
        self
    }

    fn now(&self) -> Now {
        Now {
            mono: MonoMillis(self.now_ms),
            wall: EpochMillis(BEGIN + i64::try_from(self.now_ms).unwrap()),
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
    }

    /// Returns the actions since the last call, a line each.
    fn done(&mut self) -> Vec<String> {
        self.actions.drain(..).map(|action| line(&action)).collect()
    }

    fn flex(&mut self, role: RoleId, desired: u32) {
        let now = self.now();
        self.history
            .set_desired(role, desired, now, &mut self.actions)
            .unwrap();
    }

    fn allocate_for(&mut self, role: RoleId, hosts: &[&str]) -> Vec<ContainerId> {
        let allocated: Vec<_> = hosts
            .iter()
            .map(|&host| {
                self.last_container += 1;
                AllocatedContainer {
                    container: id(self.last_container),
                    host: host.to_owned(),
                    asked_by: AskedBy::Role(role),
                    resource: SIZE,
                }
            })
            .collect();
        let ids = allocated.iter().map(|a| a.container).collect();
        let now = self.now();
        self.history
            .on_containers_allocated(allocated, now, &mut self.actions);
        ids
    }

    fn allocate(&mut self, hosts: &[&str]) -> Vec<ContainerId> {
        self.allocate_for(STORE, hosts)
    }

    fn start(&mut self, containers: &[ContainerId]) {
        let now = self.now();
        for &container in containers {
            self.history
                .on_container_started(container, now, &mut self.actions)
                .unwrap();
        }
    }

    /// Brings up one container on each host.
    fn run(&mut self, hosts: &[&str]) -> Vec<ContainerId> {
        let desired = self.status().desired + u32::try_from(hosts.len()).unwrap();
        self.flex(STORE, desired);
        let containers = self.allocate(hosts);
        self.start(&containers);
        self.actions.clear();
        containers
    }

    fn complete(&mut self, container: ContainerId, exit_status: i32) {
        self.complete_that_ran(container, exit_status, Ran::SinceStart);
    }

    fn complete_that_ran(&mut self, container: ContainerId, exit_status: i32, ran: Ran) {
        let completed = CompletedContainer {
            container,
            exit_status: ContainerExitStatus(exit_status),
            diagnostics: "exit".to_owned(),
            ran,
        };
        let now = self.now();
        self.history
            .on_containers_completed(vec![completed], now, &mut self.actions);
    }

    fn report(&mut self, reports: &[(&str, NodeState, &str)]) {
        let reports: Vec<_> = reports
            .iter()
            .map(|&(host, state, label)| NodeReport {
                host: host.to_owned(),
                state: Some(state),
                label: label.to_owned(),
            })
            .collect();
        let now = self.now();
        self.history
            .on_nodes_updated(&reports, now, &mut self.actions);
    }

    fn up(&mut self, hosts: &[&str]) {
        let reports: Vec<_> = hosts.iter().map(|&h| (h, NodeState::Running, "")).collect();
        self.report(&reports);
    }

    fn tick(&mut self) {
        let now = self.now();
        self.history.on_tick(now, &mut self.actions);
    }

    fn status(&self) -> &RoleStatus {
        self.history.status(STORE).unwrap()
    }

    fn entry(&self, host: &str) -> &NodeEntry {
        let node = self.history.nodes().get(host).unwrap();
        node.entry(STORE).unwrap()
    }

    /// Returns the hosts that `store` would ask for, in this order.
    fn ready(&self) -> Vec<&str> {
        let ready = self.history.nodes().ready(STORE);
        ready.map(|node| node.host().as_ref()).collect()
    }
}

/// Returns an action as a line: `request 1: n1`, `request 2: any`, `release 3`.
fn line(action: &Action) -> String {
    let ask_text = |ask: &Ask| {
        let hosts = ask.hosts.join(" ");
        let count = match ask.containers {
            1 => String::new(),
            count => format!("{count} of "),
        };
        let target = match (ask.relax_locality, hosts.is_empty()) {
            (true, true) => "any".to_owned(),
            (true, false) => format!("{hosts} or any"),
            (false, _) => format!("{count}{hosts}"),
        };
        let label = ask.label.as_deref();
        let label = label.map_or(String::new(), |label| format!(" labelled {label}"));
        format!("{}: {target}{label}", ask.request.0)
    };
    match action {
        Action::Save => "save".to_owned(),
        Action::Request(ask) => format!("request {}", ask_text(ask)),
        Action::Escalate { from, to } => format!("escalate {} to {}", ask_text(from), ask_text(to)),
        Action::Cancel(ask) => format!("cancel {}", ask_text(ask)),
        Action::Satisfied {
            request,
            container,
            remaining: 0,
        } => format!("satisfied {} by {}", request.0, container.id),
        Action::Satisfied {
            request,
            container,
            remaining,
        } => format!(
            "satisfied {} by {}, {remaining} remain",
            request.0, container.id
        ),
        Action::Assign(assignment) => format!(
            "assign {} on {} {:?}",
            assignment.container.id, assignment.host, assignment.outcome
        ),
        Action::Release(container) => format!("release {}", container.id),
        Action::UpdateBlacklist {
            additions,
            removals,
        } => format!(
            "blacklist +[{}] -[{}]",
            additions.join(" "),
            removals.join(" ")
        ),
        Action::FailApplication {
            role,
            failed_recently,
            ..
        } => format!("fail application: role {role} failed {failed_recently} times"),
    }
}

#[test]
fn roles_with_one_id_or_one_name_are_refused() {
    let now = Now::default();
    let config = RoleHistoryConfig::default();
    let same_id = [role(STORE, "store"), role(STORE, "query")];
    assert_eq!(
        RoleHistory::new(config, same_id, now).unwrap_err(),
        RoleError::DuplicateId {
            id: STORE,
            first: "store".to_owned(),
            second: "query".to_owned()
        }
    );
    let same_name = [role(STORE, "store"), role(QUERY, "store")];
    assert!(matches!(
        RoleHistory::new(config, same_name, now),
        Err(RoleError::DuplicateName { .. })
    ));
}

#[test]
fn defaults_are_sliders() {
    let config = RoleHistoryConfig::default();
    assert_eq!(config.short_life_ms, 60_000);
    assert_eq!(
        config.failure_window_ms.map(NonZeroU64::get),
        Some(21_600_000)
    );
    assert_eq!(config.age_limit_ms.map(NonZeroU64::get), Some(604_800_000));
    assert!(!config.blacklist);
    let role = role(STORE, "store");
    assert_eq!(role.placement_timeout_ms, 30_000);
    assert_eq!(role.node_failure_threshold, Some(3));
    assert_eq!(
        role.container_failure_threshold.map(NonZeroU32::get),
        Some(5)
    );
}
