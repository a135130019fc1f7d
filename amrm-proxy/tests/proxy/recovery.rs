//! A proxy that is restarted over its stored records.

use std::path::Path;
use std::sync::Arc;

use amrm_proxy::store::{KEY_SPACE, StoredState};
use bytes::Bytes;
use prost::Message as _;
use state_store::{StateStore, StoreError};
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::AllocateResponseProto;

use crate::node::{Node, config, start_scheduler};
use test_support::ids::attempt;
use test_support::scripted::always;

fn open(path: &Path) -> Result<(StateStore, StoredState), StoreError> {
    let mut store = StateStore::open(path)?;
    let found = StoredState::from_contents(store.take_found(KEY_SPACE));
    Ok((store, found))
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
    // The old server keeps the store open until its last call has ended.
    let (store, found) = loop {
        match open(&path) {
            Ok(opened) => break opened,
            Err(_) => tokio::task::yield_now().await,
        }
    };
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
