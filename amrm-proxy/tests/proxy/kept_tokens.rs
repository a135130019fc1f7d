//! Masters that keep the ResourceManager's token: they may call through their node or go straight.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use amrm_proxy::config::{ProxyConfig, TokenPolicy};
use amrm_proxy::store::{AttemptRecords, KEY_SPACE, Part, Store, StoredState};
use bytes::Bytes;
use prost::Message as _;
use records::{ApplicationAttemptId, MonoMillis};
use state_store::StateStore;
use wire::client::RpcError;
use wire::exception::HadoopException;
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::AllocateResponseProto;
use wire::token::{Token, kind};

use crate::node::{Am, Node, config, connect, start_scheduler};
use crate::recovery::open_again;
use test_support::ids::{application, attempt};
use test_support::scripted::{KEYS, ScriptedScheduler, always};

fn keeping(rm: SocketAddr) -> ProxyConfig {
    ProxyConfig {
        token: TokenPolicy::Keep,
        ..config(&[rm])
    }
}

fn is_invalid<T>(result: Result<T, RpcError>) -> bool {
    let error = result.err();
    let exception = error.as_ref().and_then(RpcError::remote);
    exception.is_some_and(|exception| exception.is(HadoopException::InvalidToken))
}

/// Lets the scheduler renew the token of an attempt; returns the new one.
fn renew(rm: &ScriptedScheduler, attempt: ApplicationAttemptId, at: u64) -> Token {
    rm.secrets.tick(MonoMillis(at));
    let token = rm.secrets.token_for(attempt);
    let renewing = AllocateResponseProto {
        response_id: Some(1),
        am_rm_token: Some(TokenProto::from(token.clone())),
        num_cluster_nodes: Some(1),
        ..AllocateResponseProto::default()
    };
    rm.set_script(always(renewing.encode_to_vec()));
    token
}

/// Makes a call; returns the token in its answer.
async fn told(am: &Am) -> Option<Token> {
    let answer = am.call("allocate", Bytes::new()).await.unwrap();
    let answer = AllocateResponseProto::decode(answer).unwrap();
    answer.am_rm_token.map(Token::from)
}

#[tokio::test]
async fn a_kept_token_opens_both_doors_and_what_the_node_has_not_seen_none_here() {
    let rm = start_scheduler(always(Bytes::new())).await;
    let node = Node::start(keeping(rm.address)).await;
    let token = rm.token(attempt(1));
    let job_brings = Token {
        identifier: rm.token(attempt(9)).identifier,
        password: Bytes::from_static(b"chosen by the job"),
        ..token.clone()
    };
    let given = BTreeMap::from([
        (String::new(), token.clone()),
        ("mine".to_owned(), job_brings.clone()),
    ]);
    let (kept, start) = node.begin_with(attempt(1), given.clone()).unwrap();
    start.succeeded();
    assert_eq!(kept, given);
    for door in [node.address, rm.address] {
        let am = connect(door, token.clone()).await.unwrap();
        assert_eq!(am.call("allocate", Bytes::new()).await, Ok(Bytes::new()));
    }
    let forged = Token {
        password: Bytes::from_static(b"a guess"),
        ..token.clone()
    };
    let of_a_stranger = rm.token(attempt(2));
    let of_another_attempt = rm.token(application(1).attempt(2));
    let local = node.proxy.tokens().local().token_for(attempt(1));
    for other in [forged, of_a_stranger, of_another_attempt, local, job_brings] {
        assert!(node.connect(other).await.is_err());
    }
    assert_eq!(token.kind, kind::AM_RM_TOKEN);
}

#[tokio::test]
async fn a_masters_token_is_that_of_its_own_attempt() {
    let rm = start_scheduler(always(Bytes::new())).await;
    let node = Node::start(keeping(rm.address)).await;
    let second = application(1).attempt(2);
    let tokens = [rm.token(attempt(1)), rm.token(second)];
    for (attempt, token) in [attempt(1), second].into_iter().zip(&tokens) {
        node.admit(attempt, token.clone());
    }
    let [former, present] = tokens;
    assert!(is_invalid(node.connect(former).await), "it has ended here");
    assert!(node.connect(present.clone()).await.is_ok());
    node.proxy.application_ended(second.application_id);
    assert!(is_invalid(node.connect(present).await));
}

#[tokio::test]
async fn a_renewed_token_reaches_the_master_and_both_stay_valid_here() {
    let rm = start_scheduler(always(Bytes::new())).await;
    let node = Node::start(keeping(rm.address)).await;
    let old = node.admit(attempt(1), rm.token(attempt(1)));
    let am = node.connect(old.clone()).await.unwrap();
    let new = renew(&rm, attempt(1), KEYS.interval);
    assert_ne!(new, old);
    // The first answer comes before the token is stored.
    let told_three_times = [told(&am).await, told(&am).await, told(&am).await];
    assert_eq!(
        told_three_times,
        [None, Some(new.clone()), Some(new.clone())]
    );
    let renewed = node.connect(new.clone()).await.unwrap();
    assert_eq!(told(&renewed).await, None);
    assert!(node.connect(old.clone()).await.is_ok());
    // The ResourceManager's key becomes the only one: a master that missed it calls on.
    rm.secrets.tick(MonoMillis(KEYS.interval + KEYS.overlap));
    assert!(is_invalid(connect(rm.address, old).await));
    assert_eq!(told(&am).await, Some(new.clone()));
    assert!(connect(rm.address, new).await.is_ok());
}

type Stored = Box<dyn FnOnce() + Send>;

/// Store that writes when the test says so, and keeps nothing.
#[derive(Clone, Default)]
struct SlowDisk(Arc<Mutex<Vec<Stored>>>);

impl SlowDisk {
    fn write(&self) {
        let waiting = std::mem::take(&mut *self.0.lock().unwrap());
        waiting.into_iter().for_each(|stored| stored());
    }
}

impl Store for SlowDisk {
    fn put_keys(&self, _: Vec<u8>) {}

    fn put_nodes(&self, _: Option<Vec<u8>>) {}

    fn attempt(&self, _: ApplicationAttemptId) -> Box<dyn AttemptRecords> {
        Box::new(self.clone())
    }
}

impl AttemptRecords for SlowDisk {
    fn put(&self, _: Part, _: Option<Vec<u8>>) {}

    fn when_stored(&self, stored: Stored) {
        self.0.lock().unwrap().push(stored);
    }

    fn end(&self) {}
}

#[tokio::test]
async fn a_master_has_no_token_that_the_next_agent_would_not_know() {
    let rm = start_scheduler(always(Bytes::new())).await;
    let disk = SlowDisk::default();
    let store = Arc::new(disk.clone());
    let node = Node::start_with(keeping(rm.address), store, StoredState::default()).await;
    let old = node.admit(attempt(1), rm.token(attempt(1)));
    let am = node.connect(old).await.unwrap();
    let new = renew(&rm, attempt(1), KEYS.interval);
    for _ in 0..2 {
        assert_eq!(told(&am).await, None);
    }
    disk.write();
    assert_eq!(told(&am).await, Some(new));
}

/// Starts an agent over the records in a file, which the former one has left.
async fn start_over(config: ProxyConfig, file: &Path) -> (Node, StateStore) {
    let (store, found) = open_again(file).await;
    let space = Arc::new(store.key_space(KEY_SPACE));
    (Node::start_with(config, space, found).await, store)
}

#[tokio::test]
async fn a_restarted_agent_knows_both_tokens_whatever_is_configured_by_then() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.redb");
    let rm = start_scheduler(always(Bytes::new())).await;
    let (node, store) = start_over(keeping(rm.address), &file).await;
    let old = node.admit(attempt(1), rm.token(attempt(1)));
    let am = node.connect(old.clone()).await.unwrap();
    let new = renew(&rm, attempt(1), KEYS.interval);
    while told(&am).await.is_none() {
        tokio::task::yield_now().await;
    }
    drop((am, node, store));
    for policy in [TokenPolicy::Keep, TokenPolicy::Replace] {
        let config = ProxyConfig {
            token: policy,
            ..keeping(rm.address)
        };
        let (node, _store) = start_over(config, &file).await;
        for token in [&old, &new] {
            let am = node.connect(token.clone()).await.unwrap();
            let newer = Some(&new).filter(|_| token == &old);
            assert_eq!(told(&am).await.as_ref(), newer, "{policy:?}");
        }
        // The ResourceManager is called with the newest one.
        let last = rm.calls().pop().unwrap();
        assert_eq!(last.identifier, new.identifier);
    }
}

#[tokio::test]
async fn a_master_with_a_local_token_goes_on_when_tokens_are_kept_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.redb");
    let rm = start_scheduler(always(Bytes::new())).await;
    let (node, store) = start_over(config(&[rm.address]), &file).await;
    let local = node.admit(attempt(1), rm.token(attempt(1)));
    drop((node, store));
    let (node, _store) = start_over(keeping(rm.address), &file).await;
    let am = node.connect(local).await.unwrap();
    assert_eq!(am.call("allocate", Bytes::new()).await, Ok(Bytes::new()));
}
