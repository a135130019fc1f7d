//! Tokens and the ports that accept them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use amrm_proxy::store::{AttemptRecords, NoStore, Store, StoredState};
use bytes::Bytes;
use prost::Message as _;
use records::ApplicationAttemptId;
use tokio_util::sync::CancellationToken;
use wire::client::RpcError;
use wire::exception::HadoopException;
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::AllocateResponseProto;
use wire::secrets::RollTimes;
use wire::token::Token;

use crate::node::{Node, config, connect, start_scheduler};
use test_support::ids::{application, attempt};
use test_support::scripted::{always, silent};

fn assert_invalid_token<T>(result: Result<T, RpcError>) {
    let error = result.err().expect("such a token opens nothing");
    let exception = error.remote().expect("the other side says why");
    assert!(exception.is(HadoopException::InvalidToken), "{exception}");
}

#[tokio::test]
async fn each_token_opens_its_own_door_only() {
    let rm = start_scheduler(always(Bytes::new())).await;
    let node = Node::start(config(&[rm.address])).await;
    let rm_token = rm.token(attempt(1));
    let local = node.admit(attempt(1), rm_token.clone());
    assert_invalid_token(connect(rm.address, local.clone()).await);
    assert_invalid_token(node.connect(rm_token.clone()).await);
    assert!(node.connect(local).await.is_ok());
    assert!(connect(rm.address, rm_token).await.is_ok());
}

#[tokio::test]
async fn the_rms_new_token_stays_here_and_is_used_at_once() {
    let rm = start_scheduler(always(Bytes::new())).await;
    let node = Node::start(config(&[rm.address])).await;
    let old = rm.token(attempt(1));
    let local = node.admit(attempt(1), old.clone());
    let am = node.connect(local).await.unwrap();
    rm.secrets.tick(records::MonoMillis(1_000_000));
    let new = rm.secrets.token_for(attempt(1));
    assert_ne!(new.identifier, old.identifier);
    let renewing = AllocateResponseProto {
        response_id: Some(1),
        am_rm_token: Some(TokenProto::from(new.clone())),
        num_cluster_nodes: Some(1),
        ..AllocateResponseProto::default()
    };
    rm.set_script(always(renewing.encode_to_vec()));
    let answer = am.call("allocate", Bytes::new()).await.unwrap();
    let expected = AllocateResponseProto {
        am_rm_token: None,
        ..renewing
    };
    assert_eq!(answer, expected.encode_to_vec(), "nothing else has changed");
    // The token is sent again until the ResourceManager sees it.
    for _ in 0..2 {
        am.call("allocate", Bytes::new()).await.unwrap();
    }
    let seen: Vec<Bytes> = rm.calls().into_iter().map(|call| call.identifier).collect();
    assert_eq!(
        seen,
        [old.identifier, new.identifier.clone(), new.identifier]
    );
}

#[tokio::test]
async fn a_roll_of_the_local_key_reaches_the_master_until_it_comes_back_with_it() {
    let rm = start_scheduler(always(Bytes::new())).await;
    let mut config = config(&[rm.address]);
    config.keys = RollTimes {
        interval: 1000,
        overlap: 300,
    };
    let node = Node::start(config).await;
    let local = node.admit(attempt(1), rm.token(attempt(1)));
    let am = node.connect(local.clone()).await.unwrap();
    assert_eq!(am.call("allocate", Bytes::new()).await, Ok(Bytes::new()));
    let tokens = node.proxy.tokens();
    let secrets = tokens.local();
    secrets.tick(records::MonoMillis(1000));
    let mut renewed = Vec::new();
    for _ in 0..2 {
        let answer = am.call("allocate", Bytes::new()).await.unwrap();
        let answer = AllocateResponseProto::decode(answer).unwrap();
        renewed.push(Token::from(answer.am_rm_token.unwrap()));
    }
    assert_eq!(renewed[0], renewed[1]);
    assert_ne!(renewed[0].identifier, local.identifier);
    assert_eq!(renewed[0].service, "");
    let again = node.connect(renewed.remove(0)).await.unwrap();
    assert_eq!(again.call("allocate", Bytes::new()).await, Ok(Bytes::new()));
    // Both tokens are valid until the overlap ends, and then only the new one.
    assert!(node.connect(local.clone()).await.is_ok());
    secrets.tick(records::MonoMillis(1300));
    assert_invalid_token(node.connect(local).await);
    assert_eq!(again.call("allocate", Bytes::new()).await, Ok(Bytes::new()));
}

#[tokio::test(start_paused = true)]
async fn the_keys_task_rolls_by_the_clock_and_ends_when_told() {
    let rm = start_scheduler(silent()).await;
    let mut config = config(&[rm.address]);
    config.keys = RollTimes {
        interval: 1000,
        overlap: 300,
    };
    let node = Node::start(config).await;
    let before = node.proxy.tokens().local().keys();
    let stop = CancellationToken::new();
    let proxy = Arc::clone(&node.proxy);
    let stopped = stop.clone();
    let task = tokio::spawn(async move { proxy.roll_keys(stopped).await });
    node.set_clock_ms(1000);
    while node.proxy.tokens().local().keys() == before {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let (current, next) = node.proxy.tokens().local().keys();
    assert_eq!(current, before.0);
    assert!(next.is_some());
    stop.cancel();
    task.await.unwrap();
}

/// Store that keeps all written keys, the newest last, and nothing of attempts.
#[derive(Default)]
struct KeyWrites(Mutex<Vec<Vec<u8>>>);

impl Store for KeyWrites {
    fn put_keys(&self, value: Vec<u8>) {
        self.0.lock().unwrap().push(value);
    }

    fn put_nodes(&self, _: Option<Vec<u8>>) {}

    fn attempt(&self, attempt: ApplicationAttemptId) -> Box<dyn AttemptRecords> {
        NoStore.attempt(attempt)
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_is_stored_when_it_has_rolled_and_only_then() {
    let rm = start_scheduler(silent()).await;
    let mut config = config(&[rm.address]);
    config.keys = RollTimes {
        interval: 1000,
        overlap: 300,
    };
    let writes = Arc::new(KeyWrites::default());
    let store = Arc::clone(&writes) as Arc<dyn Store>;
    let node = Node::start_with(config.clone(), store, StoredState::default()).await;
    let stop = CancellationToken::new();
    let (proxy, stopped) = (Arc::clone(&node.proxy), stop.clone());
    let task = tokio::spawn(async move { proxy.roll_keys(stopped).await });
    // The runtime's clock moves at once; the keys are checked at each of its seconds.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(writes.0.lock().unwrap().len(), 1, "the first key");
    node.set_clock_ms(1000);
    tokio::time::sleep(Duration::from_secs(2)).await;
    stop.cancel();
    task.await.unwrap();
    let mut written = writes.0.lock().unwrap().clone();
    assert_eq!(written.len(), 2);
    let found = StoredState {
        keys: written.pop(),
        ..StoredState::default()
    };
    let restarted = Node::start_with(config, Arc::new(NoStore), found).await;
    assert_eq!(
        restarted.proxy.tokens().local().keys(),
        node.proxy.tokens().local().keys()
    );
}

#[tokio::test]
async fn the_end_of_an_application_ends_its_tokens_and_the_call_under_way() {
    let rm = start_scheduler(silent()).await;
    let node = Node::start(config(&[rm.address])).await;
    let local = node.admit(attempt(1), rm.token(attempt(1)));
    let other = node.admit(attempt(2), rm.token(attempt(2)));
    let am = node.connect(local.clone()).await.unwrap();
    let calling = {
        let am = am.clone();
        tokio::spawn(async move { am.call("allocate", Bytes::new()).await })
    };
    while rm.calls().is_empty() {
        tokio::task::yield_now().await;
    }
    node.proxy.application_ended(attempt(1).application_id);
    let ended = calling.await.unwrap().unwrap_err();
    assert!(
        ended.is(HadoopException::ApplicationAttemptNotFound),
        "{ended}"
    );
    let later = am.call("allocate", Bytes::new()).await.unwrap_err();
    assert!(
        later.is(HadoopException::ApplicationAttemptNotFound),
        "{later}"
    );
    assert_invalid_token(node.connect(local).await);
    assert_eq!(node.proxy.snapshot().pipelines, 1);
    assert!(node.connect(other).await.is_ok());
}

#[tokio::test]
async fn a_second_attempt_takes_the_place_of_the_first() {
    let rm = start_scheduler(always(Bytes::new())).await;
    let node = Node::start(config(&[rm.address])).await;
    let first = node.admit(attempt(1), rm.token(attempt(1)));
    let am = node.connect(first.clone()).await.unwrap();
    let second = node.admit(
        application(1).attempt(2),
        rm.token(application(1).attempt(2)),
    );
    let refusal = am.call("allocate", Bytes::new()).await.unwrap_err();
    assert!(
        refusal.is(HadoopException::ApplicationAttemptNotFound),
        "{refusal}"
    );
    assert_invalid_token(node.connect(first).await);
    let am = node.connect(second).await.unwrap();
    assert!(am.call("allocate", Bytes::new()).await.is_ok());
    assert_eq!(node.proxy.snapshot().pipelines, 1);
}

#[tokio::test]
async fn a_start_that_was_refused_leaves_nothing() {
    let rm = start_scheduler(always(Bytes::new())).await;
    let node = Node::start(config(&[rm.address])).await;
    let token = rm.token(attempt(1));
    let (local, start) = node.begin(attempt(1), token).unwrap();
    // The AM may call as soon as it runs.
    let am = node.connect(local.clone()).await.unwrap();
    assert!(am.call("allocate", Bytes::new()).await.is_ok());
    drop(start);
    assert_invalid_token(node.connect(local).await);
    assert_eq!(node.proxy.snapshot().pipelines, 0);
}

#[tokio::test]
async fn a_later_attempt_whose_start_is_refused_leaves_the_running_one_alone() {
    let rm = start_scheduler(always(Bytes::new())).await;
    let node = Node::start(config(&[rm.address])).await;
    let first = node.admit(attempt(1), rm.token(attempt(1)));
    let am = node.connect(first.clone()).await.unwrap();
    let second = node.begin(
        application(1).attempt(2),
        rm.token(application(1).attempt(2)),
    );
    assert!(am.call("allocate", Bytes::new()).await.is_ok());
    drop(second);
    assert!(am.call("allocate", Bytes::new()).await.is_ok());
    assert!(node.connect(first).await.is_ok());
}

#[tokio::test]
async fn an_earlier_attempt_that_comes_late_is_refused() {
    let rm = start_scheduler(always(Bytes::new())).await;
    let node = Node::start(config(&[rm.address])).await;
    let second = node.admit(
        application(1).attempt(2),
        rm.token(application(1).attempt(2)),
    );
    let am = node.connect(second).await.unwrap();
    let late = node.begin(attempt(1), rm.token(attempt(1)));
    let refusal = late.expect_err("a later attempt has started").to_string();
    assert!(
        refusal.contains(&application(1).attempt(2).to_string()),
        "{refusal}"
    );
    assert!(am.call("allocate", Bytes::new()).await.is_ok());
}

#[tokio::test]
async fn of_two_deliveries_of_one_start_the_refused_one_leaves_the_master_alone() {
    let rm = start_scheduler(always(Bytes::new())).await;
    let node = Node::start(config(&[rm.address])).await;
    let token = rm.token(attempt(1));
    let (_, refused) = node.begin(attempt(1), token.clone()).unwrap();
    let local = node.admit(attempt(1), token);
    drop(refused);
    let am = node.connect(local).await.unwrap();
    assert!(am.call("allocate", Bytes::new()).await.is_ok());
}
