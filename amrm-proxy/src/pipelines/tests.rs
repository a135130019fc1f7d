//! Tests of what only this module can bring about.

use std::time::Duration;

use bytes::Bytes;
use records::{EpochMillis, MonoMillis};
use wire::credentials::Credentials;
use wire::exception::HadoopException;
use wire::secrets::RollTimes;
use wire::token::kind;

use super::*;
use crate::config::{DistributedAllocatorConfig, ThrottleConfig};
use crate::distributed_scheduler::NodeTokenKeys;
use crate::interceptor::AmMethod;
use crate::observe::NoObserver;
use crate::rm_forwarder::RmConfig;
use crate::testing::ATTEMPT;

/// Keeps records in memory.
#[derive(Default)]
struct Records(Mutex<BTreeMap<RecordKey, Vec<u8>>>);

impl Records {
    fn of(&self, attempt: ApplicationAttemptId) -> usize {
        let records = self.0.lock().unwrap();
        let of_attempt =
            |key: &&RecordKey| matches!(key, RecordKey::Attempt(of, _) if *of == attempt);
        records.keys().filter(of_attempt).count()
    }
}

impl Store for Records {
    fn put(&self, key: RecordKey, value: Option<Vec<u8>>) {
        let mut records = self.0.lock().unwrap();
        match value {
            Some(value) => records.insert(key, value),
            None => records.remove(&key),
        };
    }
}

struct Unregistered;

impl NodeKeys for Unregistered {
    fn current(&self) -> Option<NodeTokenKeys> {
        None
    }
}

fn proxy(store: &Arc<Records>) -> Arc<AmrmProxy> {
    let config = ProxyConfig {
        pipeline: vec![InterceptorKind::Forwarder],
        rm: RmConfig {
            addresses: vec!["127.0.0.1:1".to_owned()],
            max_wait: None,
            retry_interval: Duration::from_secs(1),
            distributed_scheduling: false,
        },
        keys: RollTimes {
            interval: 1000,
            overlap: 300,
        },
        throttle: ThrottleConfig::default(),
        relabel: Vec::new(),
        allocator: DistributedAllocatorConfig::default(),
    };
    let parts = ProxyParts {
        store: Arc::clone(store) as Arc<_>,
        found: BTreeMap::new(),
        node_keys: Arc::new(Unregistered),
        observer: Arc::new(NoObserver),
        clock: Arc::new(|| Now {
            mono: MonoMillis(0),
            wall: EpochMillis(0),
        }),
    };
    Arc::new(AmrmProxy::new(config, parts))
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
    let start = MasterStart {
        attempt: ATTEMPT,
        user: "alice",
        tags: Vec::new(),
        credentials: &credentials.write_v0(),
    };
    match proxy.admit(&start) {
        Ok(Admission::Admitted { start, .. }) => start,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_for_another_is_held_no_longer_than_one_that_did_not() {
    let proxy = proxy(&Arc::new(Records::default()));
    begin(&proxy).succeeded();
    let pipeline = proxy.lock().get(ATTEMPT).cloned().unwrap();
    let held = async |after: u64| {
        tokio::time::sleep(Duration::from_secs(after)).await;
        let began = tokio::time::Instant::now();
        let call = pipeline.call(AmMethod::Allocate, b"", Bytes::new());
        let refusal = call.await.unwrap_err();
        assert!(refusal.is(HadoopException::Retriable), "{refusal}");
        began.elapsed().as_secs()
    };
    // Nobody listens where the ResourceManager should.
    let (first, second) = tokio::join!(held(0), held(30));
    assert!((50..=60).contains(&first), "{first}");
    assert!((50..=60).contains(&second), "{second}");
}

#[test]
fn a_call_on_its_last_steps_writes_nothing_once_its_attempt_is_forgotten() {
    let store = Arc::new(Records::default());
    let proxy = proxy(&store);
    begin(&proxy).succeeded();
    assert_eq!(store.of(ATTEMPT), 1);
    let pipeline = proxy.lock().get(ATTEMPT).cloned().unwrap();
    proxy.application_ended(ATTEMPT.application_id);
    let renewed = Token {
        identifier: Bytes::new(),
        password: Bytes::new(),
        kind: kind::AM_RM_TOKEN.to_owned(),
        service: String::new(),
    };
    pipeline.keep_master(&renewed);
    assert_eq!(store.of(ATTEMPT), 0);
    // What comes after it for the same attempt has records of its own.
    begin(&proxy).succeeded();
    pipeline.keep_master(&renewed);
    assert_eq!(store.of(ATTEMPT), 1);
}
