//! ResourceManagers that are on standby, unreachable, silent, or send garbage.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use wire::exception::{HadoopException, RemoteException};

use crate::node::{Node, config, start_scheduler};
use test_support::HeldPort;
use test_support::ids::attempt;
use test_support::scripted::{ScriptedScheduler, always, refuse, silent};

const ANSWER: &[u8] = &[0x10, 7];

/// Starts two ResourceManagers of one cluster.
async fn standby_and_active() -> (ScriptedScheduler, ScriptedScheduler) {
    let exception = RemoteException::new(HadoopException::Standby, "on standby");
    let standby = start_scheduler(refuse(exception)).await;
    let active = ScriptedScheduler::open_at(
        SocketAddr::from(([127, 0, 0, 1], 0)),
        standby.secrets.clone(),
        always(ANSWER),
    )
    .await
    .record_calls();
    (standby, active)
}

#[tokio::test]
async fn a_standby_is_left_for_the_active_one() {
    let (standby, active) = standby_and_active().await;
    let absent = HeldPort::free();
    let node = Node::start(config(&[absent.address(), standby.address, active.address])).await;
    let rm_token = standby.token(attempt(1));
    let local = node.admit(attempt(1), rm_token);
    let am = node.connect(local).await.unwrap();
    for _ in 0..3 {
        assert_eq!(am.call("allocate", Bytes::new()).await.unwrap(), ANSWER);
    }
    assert_eq!(standby.calls().len(), 1);
    // The next attempt calls the active one at once.
    let local = node.admit(attempt(2), standby.token(attempt(2)));
    let am = node.connect(local).await.unwrap();
    assert_eq!(am.call("allocate", Bytes::new()).await.unwrap(), ANSWER);
    assert_eq!((standby.calls().len(), active.calls().len()), (1, 4));
}

#[tokio::test]
async fn a_call_waits_for_a_resource_manager_that_comes_back() {
    let port = HeldPort::free();
    let address = port.address();
    let secrets = start_scheduler(silent()).await.secrets.clone();
    let first = ScriptedScheduler::open_at(address, secrets.clone(), always(ANSWER)).await;
    let node = Node::start(config(&[address])).await;
    let local = node.admit(attempt(1), first.token(attempt(1)));
    let am = node.connect(local).await.unwrap();
    assert_eq!(am.call("allocate", Bytes::new()).await.unwrap(), ANSWER);
    drop(first);
    let calling = tokio::spawn(async move { am.call("allocate", Bytes::new()).await });
    while TcpListener::bind(address).await.is_err() {
        tokio::task::yield_now().await;
    }
    let _second = ScriptedScheduler::open_at(address, secrets, always(ANSWER)).await;
    assert_eq!(calling.await.unwrap().unwrap(), ANSWER);
}

#[tokio::test]
async fn a_retriable_refusal_is_tried_again() {
    let exception = RemoteException::new(HadoopException::Retriable, "starting");
    let rm = start_scheduler(refuse(exception)).await;
    let node = Node::start(config(&[rm.address])).await;
    let local = node.admit(attempt(1), rm.token(attempt(1)));
    let am = node.connect(local).await.unwrap();
    let calling = tokio::spawn(async move { am.call("allocate", Bytes::new()).await });
    while rm.calls().len() < 3 {
        tokio::task::yield_now().await;
    }
    rm.set_script(always(ANSWER));
    assert_eq!(calling.await.unwrap().unwrap(), ANSWER);
}

/// Asserts that an AM of this ResourceManager is told to try again, while an AM of a working one is
/// unaffected.
async fn assert_told_to_try_again(bad: SocketAddr, token_of: &ScriptedScheduler) {
    let mut config = config(&[bad]);
    config.rm.max_wait = Some(Duration::from_millis(300));
    let node = Node::start(config).await;
    let local = node.admit(attempt(1), token_of.token(attempt(1)));
    let am = node.connect(local).await.unwrap();
    let refusal = am.call("allocate", Bytes::new()).await.unwrap_err();
    assert!(refusal.is(HadoopException::Retriable), "{refusal}");
}

#[tokio::test]
async fn a_resource_manager_that_answers_nothing_does_not_hold_a_master_for_ever() {
    let rm = start_scheduler(silent()).await;
    assert_told_to_try_again(rm.address, &rm).await;
}

#[tokio::test]
async fn a_resource_manager_that_is_absent_does_not_hold_a_master_for_ever() {
    let keys = start_scheduler(silent()).await;
    assert_told_to_try_again(HeldPort::free().address(), &keys).await;
}

#[tokio::test]
async fn an_answer_that_is_no_message_is_no_answer() {
    let rm = start_scheduler(always(&b"\x0a\x7f"[..])).await;
    assert_told_to_try_again(rm.address, &rm).await;
    assert!(rm.calls().len() > 1, "it is tried again");
}

#[tokio::test]
async fn a_port_that_talks_garbage_is_no_resource_manager() {
    let keys = start_scheduler(silent()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut read = [0; 64];
            let _ = stream.read(&mut read).await;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    assert_told_to_try_again(address, &keys).await;
    serving.abort();
}

#[tokio::test]
async fn a_silent_resource_manager_holds_one_master_and_not_the_others() {
    let rm = start_scheduler(std::sync::Arc::new(|call| {
        let request = call.request.clone();
        Box::pin(async move {
            if request.is_empty() {
                std::future::pending::<()>().await;
            }
            Ok(Bytes::from_static(ANSWER))
        })
    }))
    .await;
    let node = Node::start(config(&[rm.address])).await;
    let local = node.admit(attempt(1), rm.token(attempt(1)));
    let stuck = node.connect(local).await.unwrap();
    let stuck = tokio::spawn(async move { stuck.call("allocate", Bytes::new()).await });
    while rm.calls().is_empty() {
        tokio::task::yield_now().await;
    }
    let local = node.admit(attempt(2), rm.token(attempt(2)));
    let am = node.connect(local).await.unwrap();
    for _ in 0..20 {
        assert_eq!(am.call("allocate", ANSWER).await.unwrap(), ANSWER);
    }
    assert!(!stuck.is_finished());
    stuck.abort();
}

#[tokio::test]
async fn a_token_that_the_rm_does_not_know_is_told_to_the_master() {
    let rm = start_scheduler(always(ANSWER)).await;
    let other = start_scheduler(always(ANSWER)).await;
    let node = Node::start(config(&[rm.address])).await;
    let local = node.admit(attempt(1), other.token(attempt(1)));
    let am = node.connect(local).await.unwrap();
    let refusal = am.call("allocate", Bytes::new()).await.unwrap_err();
    assert!(refusal.is(HadoopException::InvalidToken), "{refusal}");
}

#[tokio::test]
async fn many_masters_find_the_active_one_together() {
    let (standby, active) = standby_and_active().await;
    let node = Node::start(config(&[standby.address, active.address])).await;
    let mut calls = tokio::task::JoinSet::new();
    for application in 1..=50 {
        let rm_token = standby.token(attempt(application));
        let local = node.admit(attempt(application), rm_token);
        let am = node.connect(local).await.unwrap();
        calls.spawn(async move { am.call("allocate", Bytes::new()).await });
    }
    while let Some(call) = calls.join_next().await {
        assert_eq!(call.unwrap().unwrap(), ANSWER);
    }
    assert_eq!(active.calls().len(), 50);
    assert!(standby.calls().len() <= 50, "nobody went back to it");
}
