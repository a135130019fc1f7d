//! Numbers of the attempts, also read during their calls.

use std::time::Duration;

use amrm_proxy::config::InterceptorKind;
use bytes::Bytes;

use crate::node::{Node, config, start_scheduler};
use test_support::ids::attempt;
use test_support::scripted::{IdleScheduler, always, silent};

const ANSWER: &[u8] = &[0x10, 7];

#[tokio::test]
async fn what_is_known_of_an_attempt_stays_while_the_resource_manager_holds_its_call() {
    let rm = start_scheduler(always(ANSWER)).await;
    let node = Node::start(config(&[rm.address])).await;
    let local = node.admit(attempt(1), rm.token(attempt(1)));
    let am = node.connect(local).await.unwrap();
    node.set_clock_ms(5_000);
    let _ = am.call("allocate", Bytes::new()).await.unwrap();
    let before = node.proxy.attempts(10);
    let numbers = before.most_active[0].numbers;
    assert_eq!(numbers.calls, 1);
    assert_eq!(numbers.last_call_at.map(|at| at.0), Some(5_000));
    assert!(numbers.took.total >= numbers.took.rm);
    assert!(numbers.took.rm > Duration::ZERO);
    rm.set_script(silent());
    let held = tokio::spawn(async move { am.call("allocate", Bytes::new()).await });
    while rm.calls().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(node.proxy.attempts(10), before);
    held.abort();
}

#[tokio::test]
async fn those_that_called_most_recently_are_listed_in_the_order_of_their_ids() {
    let rm = start_scheduler(always(ANSWER)).await;
    let node = Node::start(config(&[rm.address])).await;
    for (application, at_ms) in [(1, 300), (2, 100), (3, 200)] {
        let attempt = attempt(application);
        let am = node.connect(node.admit(attempt, rm.token(attempt))).await;
        node.set_clock_ms(at_ms);
        let _ = am.unwrap().call("allocate", Bytes::new()).await.unwrap();
    }
    let silent = attempt(4);
    node.admit(silent, rm.token(silent));
    let listed = |max| {
        let attempts = node.proxy.attempts(max);
        let ids = attempts.most_active.iter();
        let ids = ids.map(|master| master.attempt.application_id.id);
        (ids.collect::<Vec<_>>(), attempts.total)
    };
    assert_eq!(listed(2), (vec![1, 3], 4));
    assert_eq!(listed(3), (vec![1, 2, 3], 4));
    assert_eq!(listed(100), (vec![1, 2, 3, 4], 4));
    assert_eq!(node.proxy.attempts(100).most_active[0].user, "alice");
}

#[tokio::test]
async fn who_watches_hears_of_calls_starts_and_ends() {
    let rm = start_scheduler(always(ANSWER)).await;
    let node = Node::start(config(&[rm.address])).await;
    let activity = node.proxy.activity();
    let mut watching = activity.watch();
    let local = node.admit(attempt(1), rm.token(attempt(1)));
    assert!(watching.has_changed().unwrap());
    watching.mark_unchanged();
    let am = node.connect(local).await.unwrap();
    let _ = am.call("allocate", Bytes::new()).await.unwrap();
    assert!(watching.has_changed().unwrap());
    watching.mark_unchanged();
    node.proxy.application_ended(attempt(1).application_id);
    assert!(watching.has_changed().unwrap());
    assert_eq!(node.proxy.attempts(10).total, 0);
}

#[tokio::test]
async fn a_list_of_nodes_is_shown_as_long_as_its_master_calls() {
    let rm = start_scheduler(IdleScheduler::default().into_script()).await;
    let mut config = config(&[rm.address]);
    config.rm.distributed_scheduling = true;
    config
        .pipeline
        .insert(2, InterceptorKind::DistributedScheduler);
    let age_max_ms = config.allocator.nodes_age_max_ms;
    let node = Node::start(config).await;
    let local = node.admit(attempt(1), rm.token(attempt(1)));
    let am = node.connect(local).await.unwrap();
    node.set_clock_ms(5_000);
    for method in ["registerApplicationMaster", "allocate"] {
        let _ = am.call(method, Bytes::new()).await.unwrap();
    }
    let nodes_at = || node.proxy.snapshot().gauges.nodes_at.map(|at| at.0);
    node.set_clock_ms(5_000 + age_max_ms);
    assert_eq!(nodes_at(), Some(5_000));
    node.set_clock_ms(5_000 + age_max_ms + 1);
    assert_eq!(nodes_at(), None);
}
