//! Master keys that roll while nodes and AMs run.

use prost::Message as _;
use wire::proto::hadoop_yarn::{
    ContainerTokenIdentifierProto, MasterKeyProto, NmTokenIdentifierProto,
};

use super::*;

/// Expiry interval of nodes and AMs, in milliseconds; both keys are valid for half as much again.
const EXPIRY: u64 = 100_000;
const OVERLAP: u64 = EXPIRY * 3 / 2;
const INTERVAL: u64 = 1_000_000;

const TIMES: [(&str, &str); 5] = [
    ("yarn.nm.liveness-monitor.expiry-interval-ms", "100000"),
    ("yarn.am.liveness-monitor.expiry-interval-ms", "100000"),
    (
        "yarn.resourcemanager.container-tokens.master-key-rolling-interval-secs",
        "1000",
    ),
    (
        "yarn.resourcemanager.nm-tokens.master-key-rolling-interval-secs",
        "1000",
    ),
    (
        "yarn.resourcemanager.am-rm-tokens.master-key-rolling-interval-secs",
        "1000",
    ),
];

/// A node and an AM that both stay in contact.
struct Pair {
    world: World,
    attempt: ApplicationAttemptId,
    /// Key ids that the node knows: of container tokens and of NMTokens.
    known: (i32, i32),
    /// Identifier of the AMRMToken that the AM presents.
    token: bytes::Bytes,
    response_id: i32,
}

/// Key ids in the answer to one heartbeat: of container tokens and of NMTokens.
type SentKeys = (Option<i32>, Option<i32>);

impl Pair {
    fn start() -> Self {
        let mut world = World::new(&TIMES);
        let request = RegisterNodeManagerRequestProto {
            node_id: Some(node(1).into()),
            resource: Some(Resource::new(64 * SLOT_MB, 64).into()),
            ..RegisterNodeManagerRequestProto::default()
        };
        let registered = world
            .core
            .register_node(&request, DEFAULT_RACK, world.now)
            .unwrap();
        let id = |key: Option<MasterKeyProto>| key.unwrap().key_id();
        let known = (
            id(registered.container_token_master_key),
            id(registered.nm_token_master_key),
        );
        world.submit();
        let mut effects = world.core.take_effects();
        let Effect::Launch(launch) = effects.remove(0);
        let attempt = launch.attempt;
        world.core.master_launched(attempt, Ok(()), world.now);
        let register = RegisterApplicationMasterRequestProto::default();
        world
            .core
            .register_master(attempt, &register, world.now)
            .unwrap();
        Self {
            world,
            attempt,
            known,
            token: launch.master_token.identifier,
            response_id: 0,
        }
    }

    fn heartbeat(&mut self) -> SentKeys {
        let key = |id| {
            Some(MasterKeyProto {
                key_id: Some(id),
                bytes: None,
            })
        };
        let request = NodeHeartbeatRequestProto {
            node_status: Some(NodeStatusProto {
                node_id: Some(node(1).into()),
                response_id: Some(self.response_id),
                ..NodeStatusProto::default()
            }),
            last_known_container_token_master_key: key(self.known.0),
            last_known_nm_token_master_key: key(self.known.1),
            ..NodeHeartbeatRequestProto::default()
        };
        let answer = self.world.core.heartbeat(request, self.world.now);
        assert_eq!(answer.node_action(), NodeActionProto::Normal);
        self.response_id = answer.response_id();
        let id = |key: Option<MasterKeyProto>| key.map(|key| key.key_id());
        let sent = (
            id(answer.container_token_master_key),
            id(answer.nm_token_master_key),
        );
        self.known.0 = sent.0.unwrap_or(self.known.0);
        self.known.1 = sent.1.unwrap_or(self.known.1);
        sent
    }

    /// Asks for a container; returns the key ids of its container token and of the NMToken, if one
    /// comes with it, and whether a new AMRMToken came, which is used from then on.
    fn allocate(&mut self) -> (i32, Option<i32>, bool) {
        let attempt = self.attempt;
        let request = AllocateRequestProto {
            response_id: Some(self.world.core.sessions[&attempt.application_id].response_id),
            ask: vec![asking(
                1,
                Resource::new(SLOT_MB, 1),
                ExecutionType::Guaranteed,
            )],
            ..AllocateRequestProto::default()
        };
        let answer = self
            .world
            .core
            .allocate(attempt, &self.token, &request, self.world.now)
            .unwrap();
        let container = answer.allocated_containers[0].container_token.as_ref();
        let container = container.unwrap().identifier.clone();
        let container = ContainerTokenIdentifierProto::decode(container).unwrap();
        let nm = answer.nm_tokens.first().map(|token| {
            let identifier = token.token.as_ref().unwrap().identifier.clone();
            NmTokenIdentifierProto::decode(identifier).unwrap().key_id()
        });
        let renewed = answer.am_rm_token.is_some();
        if let Some(token) = answer.am_rm_token {
            self.token = token.identifier;
        }
        (container.master_key_id(), nm, renewed)
    }

    /// Lets time pass, with calls of both often enough that neither expires.
    fn pass(&mut self, ms: u64) {
        let step = EXPIRY / 2;
        let mut left = ms;
        while left > 0 {
            let now = left.min(step);
            self.world.pass(now);
            left -= now;
            if left > 0 {
                self.heartbeat();
                let request = AllocateRequestProto {
                    response_id: Some(
                        self.world.core.sessions[&self.attempt.application_id].response_id,
                    ),
                    ..AllocateRequestProto::default()
                };
                let answer = self
                    .world
                    .core
                    .allocate(self.attempt, &self.token, &request, self.world.now)
                    .unwrap();
                if let Some(token) = answer.am_rm_token {
                    self.token = token.identifier;
                }
            }
        }
    }
}

#[test]
fn a_node_hears_of_new_keys_once_and_long_before_they_sign() {
    let mut pair = Pair::start();
    let first = pair.known;
    assert_eq!(pair.heartbeat(), (None, None));
    pair.pass(INTERVAL);
    let (container, nm) = pair.heartbeat();
    assert!(container.is_some_and(|id| id != first.0));
    assert!(nm.is_some_and(|id| id != first.1));
    assert_eq!(pair.heartbeat(), (None, None));
    // Other nodes may not know the new key yet.
    assert_eq!(pair.allocate().0, first.0);
    pair.pass(OVERLAP);
    assert_eq!(Some(pair.allocate().0), container);
    assert_eq!(pair.heartbeat(), (None, None));
}

#[test]
fn a_master_gets_an_nm_token_once_per_node_and_again_when_its_key_has_rolled() {
    let mut pair = Pair::start();
    let first = pair.known.1;
    assert_eq!(pair.allocate().1, Some(first));
    assert_eq!(pair.allocate().1, None);
    pair.pass(INTERVAL);
    assert_eq!(pair.allocate().1, None);
    pair.pass(OVERLAP);
    let second = pair.allocate().1;
    assert!(second.is_some_and(|id| id != first && id == pair.known.1));
    assert_eq!(pair.allocate().1, None);
}

#[test]
fn a_master_gets_a_new_token_until_it_shows_it() {
    let mut pair = Pair::start();
    let old = pair.token.clone();
    assert!(!pair.allocate().2);
    pair.pass(INTERVAL - 1);
    assert!(!pair.allocate().2);
    pair.pass(1);
    assert!(pair.allocate().2);
    assert!(!pair.allocate().2);
    pair.token = old;
    assert!(pair.allocate().2, "it may not have taken the new one");
}

#[test]
fn a_node_that_joins_while_both_keys_count_learns_both() {
    let mut pair = Pair::start();
    pair.pass(INTERVAL);
    let request = RegisterNodeManagerRequestProto {
        node_id: Some(node(2).into()),
        resource: Some(Resource::new(SLOT_MB, 1).into()),
        ..RegisterNodeManagerRequestProto::default()
    };
    let now = pair.world.now;
    let registered = pair.world.core.register_node(&request, DEFAULT_RACK, now);
    let current = registered.unwrap().container_token_master_key.unwrap();
    assert_eq!(current.key_id(), pair.allocate().0);
    let request = NodeHeartbeatRequestProto {
        node_status: Some(NodeStatusProto {
            node_id: Some(node(2).into()),
            response_id: Some(0),
            ..NodeStatusProto::default()
        }),
        last_known_container_token_master_key: Some(current.clone()),
        ..NodeHeartbeatRequestProto::default()
    };
    let answer = pair.world.core.heartbeat(request, now);
    let next = answer.container_token_master_key.unwrap();
    assert_ne!(next.key_id(), current.key_id());
}
