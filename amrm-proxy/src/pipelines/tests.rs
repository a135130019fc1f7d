//! Tests of the proxy's pipelines from inside.

use std::time::Duration;

use bytes::Bytes;
use records::{EpochMillis, MonoMillis};
use state_store::StateStore;
use wire::credentials::Credentials;
use wire::exception::HadoopException;
use wire::secrets::RollTimes;
use wire::token::kind;

use super::*;
use crate::call::AmMethod;
use crate::config::{DistributedAllocatorConfig, InterceptorKind, ThrottleConfig};
use crate::node_keys::NodeTokenKeys;
use crate::observe::NoObserver;
use crate::rm_forwarder::RmConfig;
use crate::store::{KEY_SPACE, NoStore};
use crate::testing::ATTEMPT;

mod answers;
mod effects;
mod example;
mod stored;

struct Unregistered;

impl NodeKeys for Unregistered {
    fn current(&self) -> Option<NodeTokenKeys> {
        None
    }
}

/// Returns a configuration without interceptors.
fn config_of(rm: String) -> ProxyConfig {
    ProxyConfig {
        pipeline: vec![InterceptorKind::Forwarder],
        rm: RmConfig {
            addresses: vec![rm],
            max_wait: None,
            retry_interval: Duration::from_secs(1),
            distributed_scheduling: false,
            protections: wire::protection::Protections::default(),
        },
        token: TokenPolicy::default(),
        keys: RollTimes {
            interval: 1000,
            overlap: 300,
        },
        throttle: ThrottleConfig::default(),
        relabel: Vec::new(),
        role_history: None,
        allocator: DistributedAllocatorConfig::default(),
    }
}

/// Makes a proxy whose ResourceManager does not listen.
fn proxy(store: Arc<dyn Store>) -> Arc<AmrmProxy> {
    proxy_of("127.0.0.1:1".to_owned(), store, StoredState::default())
}

fn proxy_of(rm: String, store: Arc<dyn Store>, found: StoredState) -> Arc<AmrmProxy> {
    configured(config_of(rm), store, found)
}

fn configured(config: ProxyConfig, store: Arc<dyn Store>, found: StoredState) -> Arc<AmrmProxy> {
    let parts = ProxyParts {
        store,
        found,
        node_keys: Arc::new(Unregistered),
        files: FileAccess::default(),
        looks: LookParts::default(),
        reservations: None,
        observer: Arc::new(NoObserver),
        clock: Arc::new(|| Now {
            mono: MonoMillis(0),
            wall: EpochMillis(0),
        }),
    };
    let (proxy, _update_task) = AmrmProxy::new(config, parts);
    Arc::new(proxy)
}

fn begin(proxy: &Arc<AmrmProxy>) -> PendingStart {
    let token = Token {
        identifier: Bytes::from_static(b"identifier"),
        password: Bytes::from_static(b"password"),
        kind: kind::AM_RM_TOKEN.to_owned(),
        service: String::new(),
    };
    let credentials = Credentials {
        tokens: BTreeMap::from([(String::new(), token)]),
        ..Credentials::default()
    };
    let start = AmStart {
        attempt: ATTEMPT,
        user: "alice",
        tags: Vec::new(),
        role_history: None,
        credentials: &credentials.write_v0(),
    };
    match proxy.admit(&start) {
        Ok(Admission::Admitted { start, .. }) => start,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_for_another_is_held_no_longer_than_one_that_did_not() {
    let proxy = proxy(Arc::new(NoStore));
    begin(&proxy).succeeded();
    let pipeline = proxy.lock().get(ATTEMPT).cloned().unwrap();
    let hold = async |after: u64| {
        tokio::time::sleep(Duration::from_secs(after)).await;
        let began = tokio::time::Instant::now();
        let call = pipeline.call(AmMethod::Allocate, b"", Bytes::new());
        let refusal = call.await.unwrap_err();
        assert!(refusal.is(HadoopException::Retriable), "{refusal}");
        began.elapsed().as_secs()
    };
    // No server listens at the ResourceManager's address.
    let (first, second) = tokio::join!(hold(0), hold(30));
    assert!((50..=60).contains(&first), "{first}");
    assert!((50..=60).contains(&second), "{second}");
}

/// Runs a proxy over a store and returns what it stored of the attempt.
fn stored_after(steps: impl FnOnce(&Arc<AmrmProxy>)) -> Option<AttemptParts> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    {
        let store = StateStore::open(&path).unwrap();
        steps(&proxy(Arc::new(store.key_space(KEY_SPACE))));
    }
    let found = StateStore::open(&path).unwrap().take_found(KEY_SPACE);
    StoredState::from_contents(found).attempts.remove(&ATTEMPT)
}

fn renewed() -> Token {
    Token {
        identifier: Bytes::from_static(b"renewed"),
        password: Bytes::new(),
        kind: kind::AM_RM_TOKEN.to_owned(),
        service: String::new(),
    }
}

#[test]
fn a_call_on_its_last_steps_writes_nothing_once_its_attempt_is_forgotten() {
    let stored = stored_after(|proxy| begin(proxy).succeeded());
    let first = stored.unwrap();
    assert_eq!(first.len(), 1);
    let end_and_write = |proxy: &Arc<AmrmProxy>| {
        begin(proxy).succeeded();
        let pipeline = proxy.lock().get(ATTEMPT).cloned().unwrap();
        proxy.application_ended(ATTEMPT.application_id);
        pipeline.persist_identity(&renewed(), None);
        pipeline
    };
    assert_eq!(
        stored_after(|proxy| {
            end_and_write(proxy);
        }),
        None
    );
    // A later pipeline of the same attempt has records of its own.
    let stored = stored_after(|proxy| {
        let old = end_and_write(proxy);
        begin(proxy).succeeded();
        old.persist_identity(&renewed(), None);
    });
    assert_eq!(stored, Some(first));
}
