//! Limits, shutdown, and the end of connections.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use wire::header::Outcome;
use wire::rpc::{LossReason, RpcError};

use super::*;

/// Waits until a call of `wait` is running.
async fn until_one_waits(server: &Running) {
    while server.echo.waiting.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
}

/// Makes a call of `wait` on a connection that is lost while it runs.
async fn leave_one_waiting(server: &Running) {
    let mut raw = Raw::ready(server.address).await;
    raw.send(&call_frame(1, "wait", b"")).await;
    until_one_waits(server).await;
    drop(raw);
    // Once the server has served another connection, it has seen the end of the first.
    let client = connect(server, simple()).await.unwrap();
    assert_eq!(call(&client, "yield", b"").await.unwrap(), "");
}

#[tokio::test]
async fn connection_over_the_bound_waits_for_a_place() {
    let limits = ServerLimits {
        connections_max: 1,
        ..ServerLimits::default()
    };
    let server = start_with(ServerAuth::Simple, limits).await;
    let first = connect(&server, simple()).await.unwrap();
    assert_eq!(call(&first, "echo", b"1").await.unwrap(), "1");
    let second = connect(&server, simple()).await.unwrap();
    let waiting = tokio::spawn(async move { call(&second, "echo", b"2").await });
    assert_eq!(call(&first, "echo", b"3").await.unwrap(), "3");
    assert!(!waiting.is_finished());
    drop(first);
    assert_eq!(waiting.await.unwrap().unwrap(), "2");
}

#[tokio::test]
async fn calls_over_the_bounds_wait_for_their_turn() {
    for limits in [
        ServerLimits {
            calls_per_connection_max: 2,
            ..ServerLimits::default()
        },
        ServerLimits {
            answers_bytes_max: 128 << 10,
            answer_bytes_reserved: 64 << 10,
            ..ServerLimits::default()
        },
    ] {
        let server = start_with(ServerAuth::Simple, limits).await;
        let mut raw = Raw::ready(server.address).await;
        for call_id in 0..6 {
            raw.send(&call_frame(call_id, "wait", b"")).await;
        }
        for answered in 1..=6 {
            while server.echo.waiting.load(Ordering::Relaxed) < answered.min(5) {
                tokio::task::yield_now().await;
            }
            assert!(
                server.echo.waiting.load(Ordering::Relaxed) <= answered + 1,
                "more than two at once"
            );
            server.echo.gate.notify_one();
            assert!(matches!(raw.answer().await.outcome, Outcome::Success(_)));
        }
    }
}

#[tokio::test]
async fn shutdown_answers_calls_in_flight_and_then_closes() {
    let mut server = start(ServerAuth::Simple).await;
    let client = connect(&server, simple()).await.unwrap();
    let idle = connect(&server, simple()).await.unwrap();
    assert_eq!(call(&idle, "echo", b"").await.unwrap(), "");
    let slow = {
        let client = client.clone();
        tokio::spawn(async move { call(&client, "wait", b"slow").await })
    };
    until_one_waits(&server).await;
    server.shutdown.cancel();
    // The listener closes at once, the call continues.
    while TcpStream::connect(server.address).await.is_ok() {}
    server.echo.gate.notify_one();
    assert_eq!(slow.await.unwrap().unwrap(), "slow");
    (&mut server.serving).await.unwrap();
    assert!(matches!(
        call(&idle, "echo", b"").await,
        Err(RpcError::ConnectionLost { .. })
    ));
}

#[tokio::test(start_paused = true)]
async fn shutdown_abandons_calls_that_do_not_end() {
    let mut server = start(ServerAuth::Simple).await;
    let client = connect(&server, simple()).await.unwrap();
    let hanging = tokio::spawn(async move { call(&client, "wait", b"").await });
    until_one_waits(&server).await;
    server.shutdown.cancel();
    let begin = Instant::now();
    let served = timeout(SILENCE_MAX, &mut server.serving).await;
    served.expect("an end").unwrap();
    let drain_timeout = ServerLimits::default().drain_timeout;
    assert!(begin.elapsed() >= drain_timeout);
    assert!(begin.elapsed() <= drain_timeout + Duration::from_secs(1));
    assert!(hanging.await.unwrap().is_err());
}

/// Returns limits with which a shutdown waits as long as a test runs.
fn patient() -> ServerLimits {
    ServerLimits {
        drain_timeout: SILENCE_MAX,
        ..ServerLimits::default()
    }
}

#[tokio::test]
async fn shutdown_waits_for_a_call_whose_connection_is_lost() {
    let mut server = start_with(ServerAuth::Simple, patient()).await;
    leave_one_waiting(&server).await;
    server.shutdown.cancel();
    while TcpStream::connect(server.address).await.is_ok() {}
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(!server.serving.is_finished());
    server.echo.gate.notify_one();
    (&mut server.serving).await.unwrap();
    assert_eq!(server.echo.waited.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn shutdown_waits_until_answers_are_read() {
    let mut server = start_with(ServerAuth::Simple, patient()).await;
    let mut raw = Raw::ready_to_leave_unread(server.address).await;
    raw.send(&calls_with_long_answers()).await;
    until_answered(&server, LONG_ANSWERS).await;
    server.shutdown.cancel();
    while TcpStream::connect(server.address).await.is_ok() {}
    for _ in 0..LONG_ANSWERS {
        assert!(matches!(raw.answer().await.outcome, Outcome::Success(_)));
    }
    assert_eq!(raw.frame().await, None);
    drop(raw);
    (&mut server.serving).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn connection_with_a_call_in_flight_is_not_idle() {
    let crowded = ServerLimits {
        connections_max: 1,
        ..ServerLimits::default()
    };
    let server = start_with(ServerAuth::Simple, crowded).await;
    let mut raw = Raw::ready(server.address).await;
    raw.send(&call_frame(1, "wait", b"")).await;
    until_one_waits(&server).await;
    sleep(Duration::from_secs(120)).await;
    server.echo.gate.notify_one();
    assert!(matches!(raw.answer().await.outcome, Outcome::Success(_)));
}

#[tokio::test(start_paused = true)]
async fn idle_connection_ends_and_sooner_in_a_crowd() {
    let roomy = ServerLimits::default();
    let crowded = ServerLimits {
        connections_max: 1,
        ..ServerLimits::default()
    };
    for (limits, at_least, at_most) in [(roomy, 600, 625), (crowded, 20, 45)] {
        let server = start_with(ServerAuth::Simple, limits).await;
        let mut raw = Raw::ready(server.address).await;
        raw.send(&call_frame(1, "echo", b"")).await;
        raw.answer().await;
        let begin = Instant::now();
        assert_eq!(raw.frame().await, None);
        let elapsed = begin.elapsed().as_secs();
        assert!(
            (at_least..=at_most).contains(&elapsed),
            "closed after {elapsed} s"
        );
    }
}

#[tokio::test]
async fn dropping_the_last_handle_closes_the_connection() {
    let limits = ServerLimits {
        connections_max: 1,
        ..ServerLimits::default()
    };
    let server = start_with(ServerAuth::Simple, limits).await;
    for _ in 0..20 {
        let client = connect(&server, simple()).await.unwrap();
        let clone = client.clone();
        drop(client);
        assert_eq!(call(&clone, "echo", b"x").await.unwrap(), "x");
        assert!(!clone.is_lost());
    }
}

#[tokio::test]
async fn lost_connection_fails_every_waiting_call_with_the_same_reason() {
    let server = start(ServerAuth::Simple).await;
    let client = connect(&server, simple()).await.unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let client = client.clone();
        calls.spawn(async move { call(&client, "hang", b"").await });
    }
    assert_eq!(call(&client, "echo", b"").await.unwrap(), "");
    // Dropping the server's future ends all its connections.
    server.serving.abort();
    while let Some(result) = calls.join_next().await {
        let Err(RpcError::ConnectionLost { reason, .. }) = result.unwrap() else {
            panic!("not lost");
        };
        assert!(
            matches!(*reason, LossReason::ClosedByServer | LossReason::Io(_)),
            "{reason}"
        );
    }
    assert!(client.is_lost());
    assert!(matches!(
        call(&client, "echo", b"").await,
        Err(RpcError::ConnectionLost { .. })
    ));
}

#[tokio::test]
async fn call_outlives_its_connection() {
    let server = start(ServerAuth::Simple).await;
    leave_one_waiting(&server).await;
    assert_eq!(server.echo.waited.load(Ordering::Relaxed), 0);
    server.echo.gate.notify_one();
    while server.echo.waited.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
}
