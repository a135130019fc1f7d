//! Random sequences of operations: what must hold after each of them.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::avro::{ReadLimits, read_history, write_history};
use crate::node_entry::Phase;
use crate::node_instance::NodeInstance;

const HOSTS: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];

/// Operation with numbers that are taken modulo what there is.
#[derive(Clone, Debug)]
enum Op {
    Flex {
        store: bool,
        desired: u32,
    },
    /// Answers outstanding asks as the ResourceManager would.
    Answer(Vec<(usize, usize)>),
    /// Allocates a container that no ask explains. Only for roles that are not anti-affine.
    Surprise {
        host: usize,
    },
    Start(usize),
    FailStart(usize),
    Release(usize),
    Complete {
        which: usize,
        exit_status: i32,
    },
    CompleteUnknown,
    Report {
        host: usize,
        state: usize,
        label: usize,
    },
    Pass(u64),
    /// Stops the ApplicationMaster and starts another, with or without the live containers.
    Restart {
        replay: bool,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let which = 0..64_usize;
    let exits = prop::sample::select(vec![0, 1, -100, -101, -102, -104, -108]);
    prop_oneof![
        3 => (any::<bool>(), 0..8_u32).prop_map(|(store, desired)| Op::Flex { store, desired }),
        6 => prop::collection::vec((which.clone(), which.clone()), 1..4).prop_map(Op::Answer),
        1 => which.clone().prop_map(|host| Op::Surprise { host }),
        4 => which.clone().prop_map(Op::Start),
        1 => which.clone().prop_map(Op::FailStart),
        1 => which.clone().prop_map(Op::Release),
        3 => (which.clone(), exits).prop_map(|(which, exit_status)| {
            Op::Complete { which, exit_status }
        }),
        1 => Just(Op::CompleteUnknown),
        2 => (which.clone(), which.clone(), which).prop_map(|(host, state, label)| {
            Op::Report { host, state, label }
        }),
        2 => (0..40_000_u64).prop_map(Op::Pass),
        1 => any::<bool>().prop_map(|replay| Op::Restart { replay }),
    ]
}

/// Service, and the ledger of its asks as a ResourceManager would see them.
struct World {
    service: Service,
    policy: PlacementPolicy,
    /// Containers that each ask still wants.
    asks: BTreeMap<u64, u32>,
    last_ask: u64,
    released: Vec<ContainerId>,
}

impl World {
    fn new(policy: PlacementPolicy) -> Self {
        Self {
            service: service(policy),
            policy,
            asks: BTreeMap::new(),
            last_ask: 0,
            released: Vec::new(),
        }
    }

    fn apply(&mut self, op: Op) {
        let now = self.service.now();
        let actions = &mut self.service.actions;
        let history = &mut self.service.history;
        match op {
            Op::Flex { store, desired } => {
                let role = if store { STORE } else { QUERY };
                history.set_desired(role, desired, now, actions).unwrap();
            }
            Op::Answer(answers) => self.answer(&answers),
            Op::Surprise { host } => {
                self.service
                    .allocate_for(QUERY, &[HOSTS[host % HOSTS.len()]]);
            }
            Op::Start(which) => {
                if let Some(container) = self.pick(which, |phase| phase == Phase::Starting) {
                    self.service.start(&[container]);
                }
            }
            Op::FailStart(which) => {
                if let Some(container) = self.pick(which, |phase| phase == Phase::Starting) {
                    let actions = &mut self.service.actions;
                    let history = &mut self.service.history;
                    history
                        .on_container_start_failed(container, "", now, actions)
                        .unwrap();
                    self.service.complete(container, -1);
                }
            }
            Op::Release(which) => {
                if let Some(container) = self.pick(which, |_| true) {
                    // May be on its way out already.
                    let _ = self.service.history.submit_release(container);
                }
            }
            Op::Complete { which, exit_status } => {
                let container = match self.released.pop() {
                    Some(container) => Some(container),
                    None => self.pick(which, |_| true),
                };
                if let Some(container) = container {
                    self.service.complete(container, exit_status);
                }
            }
            Op::CompleteUnknown => self.service.complete(id(1_000_000), 1),
            Op::Report { host, state, label } => {
                let states = [NodeState::Running, NodeState::Running, NodeState::Lost];
                let labels = ["", "", "ssd"];
                self.service.report(&[(
                    HOSTS[host % HOSTS.len()],
                    states[state % states.len()],
                    labels[label % labels.len()],
                )]);
            }
            Op::Pass(ms) => {
                self.service.pass(ms);
                self.service.tick();
            }
            Op::Restart { replay } => self.restart(replay),
        }
        self.read_actions();
        check(&self.service.history, self.policy);
        let known: Vec<_> = self.service.history.outstanding().collect();
        let known = known
            .iter()
            .map(|(ask, ..)| (ask.request.0, ask.containers));
        assert_eq!(known.collect::<BTreeMap<_, _>>(), self.asks);
    }

    /// Answers asks in one batch: a strict one on a host that it names, each host once.
    fn answer(&mut self, answers: &[(usize, usize)]) {
        let mut allocated = Vec::new();
        let mut left: Vec<_> = self.service.history.outstanding().map(|o| o.0).collect();
        for &(which, host) in answers {
            if left.is_empty() {
                break;
            }
            let at = which % left.len();
            let ask = &mut left[at];
            let host = if ask.relax_locality {
                HOSTS[host % HOSTS.len()].to_owned()
            } else {
                let at = host % ask.hosts.len();
                ask.hosts.remove(at).as_ref().to_owned()
            };
            ask.containers -= 1;
            let asked_by = AskedBy::Priority(ask.priority);
            if ask.containers == 0 {
                left.remove(at);
            }
            self.service.last_container += 1;
            allocated.push(AllocatedContainer {
                container: id(self.service.last_container),
                host,
                asked_by,
                resource: SIZE,
            });
        }
        let now = self.service.now();
        let actions = &mut self.service.actions;
        self.service
            .history
            .on_containers_allocated(allocated, now, actions);
    }

    fn pick(&self, which: usize, phase: impl Fn(Phase) -> bool) -> Option<ContainerId> {
        let containers = self.service.history.containers.iter();
        let fitting: Vec<_> = containers
            .filter(|(_, tracked)| phase(tracked.phase))
            .map(|(container, _)| container)
            .collect();
        (!fitting.is_empty()).then(|| fitting[which % fitting.len()])
    }

    fn restart(&mut self, replay: bool) {
        let snapshot = self.service.history.snapshot(self.service.now()).history;
        let containers = self.service.history.containers.iter();
        let live: Vec<_> = containers
            .filter(|(_, tracked)| tracked.phase == Phase::Live)
            .map(|(container, tracked)| LiveContainer {
                container,
                host: self
                    .service
                    .history
                    .nodes
                    .node(tracked.node)
                    .host()
                    .to_string(),
                role: tracked.role,
            })
            .collect();
        if replay {
            // The ApplicationMaster was lost. Its asks died with it.
            self.asks.clear();
        } else {
            self.service.history.tear_down(&mut self.service.actions);
            self.read_actions();
            assert!(self.asks.is_empty(), "a teardown ends every ask");
        }
        let mut next = service(self.policy);
        next.now_ms = self.service.now_ms;
        next.last_container = self.service.last_container;
        let file = through_a_file(&snapshot);
        next.history.thaw(&file);
        check_thawed(&snapshot, &next.history);
        self.service = next;
        self.last_ask = 0;
        self.released.clear();
        if replay {
            let now = self.service.now();
            let actions = &mut self.service.actions;
            self.service.history.replay_live(live, now, actions);
            self.service.history.review(now, actions);
        }
    }

    /// Checks that each ask begins once, ends once, and changes only in between.
    fn read_actions(&mut self) {
        for action in self.service.actions.drain(..) {
            match action {
                Action::Request(ask) => {
                    assert!(ask.request.0 > self.last_ask, "numbers are never reused");
                    assert!(ask.relax_locality || !ask.hosts.is_empty());
                    assert!(ask.label.is_none() || ask.hosts.is_empty());
                    assert!(ask.containers as usize <= ask.hosts.len().max(1));
                    self.last_ask = ask.request.0;
                    self.asks.insert(ask.request.0, ask.containers);
                }
                Action::Escalate { from, to } => {
                    assert_eq!(from.request, to.request);
                    assert!(!from.relax_locality && to.relax_locality);
                    assert!(self.asks.contains_key(&from.request.0));
                }
                Action::Cancel(ask) => {
                    let left = self.asks.remove(&ask.request.0);
                    assert_eq!(left, Some(ask.containers), "ends once: {ask:?}");
                }
                Action::Satisfied {
                    request, remaining, ..
                } => {
                    let left = self.asks.remove(&request.0);
                    assert_eq!(left, Some(remaining + 1), "{request:?}");
                    if remaining > 0 {
                        self.asks.insert(request.0, remaining);
                    }
                }
                Action::Release(container) => self.released.push(container),
                Action::Assign(_)
                | Action::Save
                | Action::UpdateBlacklist { .. }
                | Action::FailApplication { .. } => {}
            }
        }
    }
}

fn service(policy: PlacementPolicy) -> Service {
    let mut service = Service::with_policy(policy);
    // The application never fails, so that every sequence goes on to its end.
    for state in service.history.roles.values_mut() {
        state.role.container_failure_threshold = None;
    }
    service.up(&HOSTS);
    service
}

/// Checks that every count is what the containers and requests say.
fn check(history: &RoleHistory, policy: PlacementPolicy) {
    for (role, status) in history.roles() {
        let of_role = history.containers.iter();
        let of_role: Vec<_> = of_role.filter(|(_, t)| t.role == role.id).collect();
        assert_eq!(status.actual as usize, of_role.len());
        let releasing = of_role.iter().filter(|(_, t)| t.releasing).count();
        assert_eq!(status.releasing as usize, releasing);
        let held = status.actual + history.requested(role.id) + status.pending_anti_affine;
        assert!(
            held >= status.desired,
            "nothing that is missing is forgotten"
        );
        let mut listed = Vec::new();
        for node in history.nodes.iter() {
            let Some(entry) = node.entry(role.id) else {
                continue;
            };
            check_entry(history, node.host(), entry);
            if policy.is_anti_affine() && role.id == STORE {
                assert!(entry.is_anti_affine(), "{} {entry:?}", node.host());
            }
            let reliable = !history.nodes.is_unreliable(node, role.id);
            let usable = node.state().accepts_work() && reliable;
            if entry.is_listed()
                && role.placement_policy.consults_history()
                && (usable || role.placement_policy.is_strict())
            {
                listed.push((-entry.last_used().0, node.host().clone()));
            }
        }
        listed.sort();
        let listed: Vec<_> = listed.into_iter().map(|(_, host)| host).collect();
        let ready: Vec<_> = history
            .nodes
            .ready(role.id)
            .map(|n| n.host().clone())
            .collect();
        assert_eq!(ready, listed, "ready nodes are a function of the entries");
        check_nodes_of(history, role.id);
    }
}

/// Checks that the nodes of a role are those with an entry, each once.
fn check_nodes_of(history: &RoleHistory, role: RoleId) {
    let nodes = &history.nodes;
    let mut known: Vec<_> = nodes.of_role(role).map(NodeInstance::host).collect();
    assert_eq!(known.len(), nodes.count_of_role(role));
    known.sort();
    let with_entry = nodes.iter().filter(|node| node.entry(role).is_some());
    assert_eq!(
        known,
        with_entry.map(NodeInstance::host).collect::<Vec<_>>()
    );
    let unreliable = nodes.iter().filter(|node| nodes.is_unreliable(node, role));
    let counted = nodes.count_unreliable().get(&role).copied();
    assert_eq!(counted.unwrap_or(0), unreliable.count());
}

fn check_entry(history: &RoleHistory, host: &str, entry: &NodeEntry) {
    let node = history.nodes.find(host).unwrap();
    let here = history.containers.iter();
    let here: Vec<_> = here
        .map(|(_, tracked)| tracked)
        .filter(|t| t.node == node && t.role == entry.role())
        .collect();
    let count = |phase| here.iter().filter(|t| t.phase == phase).count();
    assert_eq!(entry.starting() as usize, count(Phase::Starting));
    assert_eq!(entry.live() as usize, count(Phase::Live));
    let releasing = here.iter().filter(|t| t.releasing).count();
    assert_eq!(entry.releasing() as usize, releasing);
    let asked = history.outstanding.iter();
    let asked = asked.filter(|r| r.role == entry.role() && r.node() == Some(node));
    assert_eq!(usize::from(entry.is_requested()), asked.count());
    // Available: nothing active beyond what is being released, and nothing asked for.
    let available = here.len() == releasing && !entry.is_requested();
    assert_eq!(entry.is_available(), available);
    assert!(
        !entry.is_listed() || available,
        "a listed node is available"
    );
}

/// Writes a history and reads it again.
fn through_a_file(history: &SavedHistory) -> SavedHistory {
    let mut bytes = Vec::new();
    write_history(history, &mut bytes).unwrap();
    let read = read_history(bytes.as_slice(), ReadLimits::default()).unwrap();
    assert_eq!(read.warnings, []);
    read.history
}

/// Checks that every entry of a file is there after its thaw, free, with the last use of the file,
/// and nothing else. A role that was running counts as used at the time of the save.
fn check_thawed(file: &SavedHistory, history: &RoleHistory) {
    let expected = file.iter().map(|(host, saved)| {
        let last_used = if saved.active {
            file.saved
        } else {
            saved.last_used
        };
        (host.to_owned(), saved.role, last_used)
    });
    let found = history.nodes.iter().flat_map(|node| {
        node.entries().iter().map(|entry| {
            assert!(entry.is_available() && entry.failed() == 0, "{entry:?}");
            (
                node.host().to_string(),
                entry.role().number(),
                entry.last_used(),
            )
        })
    });
    assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

fn run(policy: PlacementPolicy, ops: Vec<Op>) {
    let mut world = World::new(policy);
    for op in ops {
        world.apply(op);
    }
    world.restart(false);
}

proptest! {
    #[test]
    fn counts_and_asks_are_exact_for_default_roles(ops in prop::collection::vec(op(), 0..120)) {
        run(PlacementPolicy::default(), ops);
    }

    #[test]
    fn counts_and_asks_are_exact_for_strict_roles(ops in prop::collection::vec(op(), 0..120)) {
        run(PlacementPolicy::STRICT, ops);
    }

    #[test]
    fn no_node_gets_two_containers_of_an_anti_affine_role(ops in prop::collection::vec(op(), 0..120)) {
        run(PlacementPolicy::ANTI_AFFINITY_REQUIRED, ops);
    }
}
