//! A proxy that is restarted over its stored records.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use amrm_proxy::config::InterceptorKind;
use amrm_proxy::store::{KEY_SPACE, StoredState};
use bytes::Bytes;
use prost::Message as _;
use records::Resource;
use state_store::{StateStore, StoreError};
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{AllocateRequestProto, AllocateResponseProto, ExecutionTypeProto};

use crate::node::{Node, config, start_scheduler};
use test_support::ids::attempt;
use test_support::scripted::{IdleScheduler, ScriptedAmRmClient, always, answering};

fn open(path: &Path) -> Result<(StateStore, StoredState), StoreError> {
    let mut store = StateStore::open(path)?;
    let found = StoredState::from_contents(store.take_found(KEY_SPACE));
    Ok((store, found))
}

/// Opens a store whose server was dropped: it keeps the store open until its last call has ended.
pub(crate) async fn open_again(path: &Path) -> (StateStore, StoredState) {
    loop {
        match open(path) {
            Ok(opened) => return opened,
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

#[tokio::test]
async fn a_master_goes_on_with_its_token_and_the_rms_newest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let rm = start_scheduler(always(Bytes::new())).await;
    let rm_token = rm.token(attempt(1));
    let (local, ended) = {
        let (store, found) = open(&path).unwrap();
        let records = Arc::new(store.key_space(KEY_SPACE));
        let node = Node::start_with(config(&[rm.address]), records, found).await;
        let local = node.admit(attempt(1), rm_token);
        let ended = node.admit(attempt(2), rm.token(attempt(2)));
        node.proxy.application_ended(attempt(2).application_id);
        rm.secrets.tick(records::MonoMillis(1_000_000));
        let renewing = AllocateResponseProto {
            am_rm_token: Some(TokenProto::from(rm.secrets.token_for(attempt(1)))),
            ..AllocateResponseProto::default()
        };
        rm.set_script(always(renewing.encode_to_vec()));
        let am = node.connect(local.clone()).await.unwrap();
        am.call("allocate", Bytes::new()).await.unwrap();
        (local, ended)
    };
    let (store, found) = open_again(&path).await;
    let records = Arc::new(store.key_space(KEY_SPACE));
    let node = Node::start_with(config(&[rm.address]), records, found).await;
    assert!(node.connect(ended).await.is_err());
    let am = node.connect(local).await.unwrap();
    am.call("allocate", Bytes::new()).await.unwrap();
    let newest = rm.secrets.token_for(attempt(1)).identifier;
    assert_eq!(rm.calls().last().unwrap().identifier, newest);
}

#[tokio::test]
async fn records_that_cannot_be_read_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let rm = start_scheduler(always(Bytes::new())).await;
    {
        let (store, _) = open(&path).unwrap();
        let records = store.key_space(KEY_SPACE);
        records.put("keys", vec![99]);
        records.put(&format!("attempt/{}/master", attempt(1)), vec![1, 0xff]);
        records.put(&format!("attempt/{}/asks", attempt(2)), vec![]);
    }
    let (store, found) = open(&path).unwrap();
    assert_eq!((found.keys.iter().len(), found.attempts.len()), (1, 2));
    let records = Arc::new(store.key_space(KEY_SPACE));
    let node = Node::start_with(config(&[rm.address]), records, found).await;
    assert_eq!(node.proxy.snapshot().pipelines, 0);
    let local = node.admit(attempt(1), rm.token(attempt(1)));
    let am = node.connect(local).await.unwrap();
    assert!(am.call("allocate", Bytes::new()).await.is_ok());
}

#[tokio::test]
async fn a_masters_asks_and_its_registration_outlive_the_agent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let is_forgotten = Arc::new(AtomicBool::new(false));
    let of_rm = Arc::clone(&is_forgotten);
    let rm = start_scheduler(answering(move |call| {
        if call.method.starts_with("register") {
            of_rm.store(false, Ordering::Relaxed);
        } else if of_rm.load(Ordering::Relaxed) {
            let kind = HadoopException::ApplicationMasterNotRegistered;
            return Err(RemoteException::new(kind, "AM should re-register."));
        }
        IdleScheduler::default().answer(call)
    }))
    .await;
    let mut config = config(&[rm.address]);
    config.rm.distributed_scheduling = true;
    config
        .pipeline
        .insert(2, InterceptorKind::DistributedScheduler);
    let heartbeat = |response_id, ask| {
        let request = AllocateRequestProto {
            response_id: Some(response_id),
            ask,
            ..AllocateRequestProto::default()
        };
        request.encode_to_vec()
    };
    let local = {
        let (store, found) = open(&path).unwrap();
        let records = Arc::new(store.key_space(KEY_SPACE));
        let node = Node::start_with(config.clone(), records, found).await;
        // Changed tables are stored at intervals.
        node.set_clock_ms(3_600_000);
        let local = node.admit(attempt(1), rm.token(attempt(1)));
        let am = node.connect(local.clone()).await.unwrap();
        am.call("registerApplicationMaster", Bytes::new())
            .await
            .unwrap();
        let kind = ExecutionTypeProto::Opportunistic;
        let ask = ScriptedAmRmClient::ask(3, Resource::new(128, 1), kind);
        am.call("allocate", heartbeat(0, vec![ask])).await.unwrap();
        local
    };
    let (store, found) = open_again(&path).await;
    let records = Arc::new(store.key_space(KEY_SPACE));
    let node = Node::start_with(config, records, found).await;
    assert_eq!(node.proxy.snapshot().gauges.containers_outstanding, 3);
    is_forgotten.store(true, Ordering::Relaxed);
    let am = node.connect(local).await.unwrap();
    let answer = am.call("allocate", heartbeat(1, vec![])).await.unwrap();
    let answer = AllocateResponseProto::decode(answer).unwrap();
    assert_eq!(answer.response_id, Some(2));
}

#[test]
fn the_records_of_attempts_that_do_not_go_on_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    {
        let (store, _) = open(&path).unwrap();
        let records = store.key_space(KEY_SPACE);
        records.put("keys", vec![1]);
        records.put(&format!("attempt/{}/master", attempt(1)), vec![1]);
        records.put(&format!("attempt/{}/asks", attempt(2)), vec![1]);
    }
    {
        let (store, mut found) = open(&path).unwrap();
        assert_eq!(found.attempts.len(), 2);
        found.retain(&store.key_space(KEY_SPACE), |id| id == attempt(2));
        assert!(found.attempts.keys().eq([&attempt(2)]));
    }
    let (_store, found) = open(&path).unwrap();
    assert_eq!(found.keys, Some(vec![1]));
    assert!(found.attempts.keys().eq([&attempt(2)]));
}
