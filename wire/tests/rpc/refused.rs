//! Refusals are counted, each under its reason and no other.

use refusals::Reason;

use super::*;

/// Waits until the server has counted a refusal, and asserts that it has no other reason.
pub(super) async fn assert_counted(server: &Running, expected: Reason) {
    // Sleeps, since paused time does not pass while a task only yields, and a server waits for a
    // refused peer to close.
    while server.refusals.of(expected) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for reason in Reason::ALL {
        let count = server.refusals.of(*reason);
        assert_eq!(count, u64::from(*reason == expected), "{reason:?}");
    }
}

/// Sends these bytes to a server of token holders and reads until it closes.
async fn assert_counts(bytes: &[&[u8]], expected: Reason) {
    let server = start(token_only()).await;
    let mut raw = Raw::connect(server.address).await;
    raw.send(&bytes.concat()).await;
    raw.rest().await;
    assert_counted(&server, expected).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_no_rpc_is_malformed() {
    assert_counts(&[b"GET / HTTP/1.1\r\n\r\n"], Reason::Malformed).await;
    assert_counts(&[b"hrpc\x08\x00\x00"], Reason::Malformed).await;
    let negative = &[0xff; 4];
    assert_counts(&[b"hrpc\x09\x00\xdf", negative], Reason::Malformed).await;
    let noise = b"\0\0\0\x04\xff\xff\xff\xff";
    assert_counts(&[b"hrpc\x09\x00\xdf", noise], Reason::Malformed).await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_without_a_token_or_with_a_wrong_one_is_unauthorized() {
    assert_counts(&[b"hrpc\x09\x00\x00"], Reason::Unauthorized).await;
    let server = start(token_only()).await;
    let foreign = token_of(b"of another node");
    let refused = connect(&server, ClientAuth::Token(foreign)).await;
    assert!(refused.is_err());
    assert_counted(&server, Reason::Unauthorized).await;
    let server = start(token_only()).await;
    let wrong = Token {
        password: Bytes::from_static(b"guessed"),
        ..token()
    };
    assert!(connect(&server, ClientAuth::Token(wrong)).await.is_err());
    assert_counted(&server, Reason::Unauthorized).await;
}

#[tokio::test(start_paused = true)]
async fn a_frame_over_the_limit_and_a_request_that_would_take_too_much_are_too_large() {
    let long = 20_000_u32.to_be_bytes();
    assert_counts(&[b"hrpc\x09\x00\xdf", &long], Reason::TooLarge).await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_says_nothing_is_late() {
    let server = start(token_only()).await;
    let mut raw = Raw::connect(server.address).await;
    assert_eq!(raw.rest().await, b"");
    assert_counted(&server, Reason::Late).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_that_makes_room_is_evicted() {
    let limits = ServerLimits {
        strangers_max: 1,
        ..ServerLimits::default()
    };
    let server = start_with(token_only(), limits).await;
    let mut silent = Raw::connect(server.address).await;
    let client = connect(&server, ClientAuth::Token(token())).await.unwrap();
    assert_eq!(call(&client, "echo", b"fine").await.unwrap(), "fine");
    assert_eq!(silent.rest().await, b"");
    assert_counted(&server, Reason::Evicted).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_beyond_the_share_of_its_user_has_no_place() {
    let limits = ServerLimits {
        connections_max: 2,
        ..ServerLimits::default()
    };
    let server = start_with(token_only(), limits).await;
    let first = connect(&server, ClientAuth::Token(token())).await.unwrap();
    assert_eq!(call(&first, "echo", b"fine").await.unwrap(), "fine");
    let mut second = Raw::proven(server.address, b"identifier").await;
    assert_eq!(second.rest().await, b"");
    assert_counted(&server, Reason::NoPlace).await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_leaves_its_answers_unread_is_stalled() {
    let server = start(token_or_simple()).await;
    let mut raw = Raw::ready_to_leave_unread(server.address).await;
    raw.send(&calls_with_long_answers()).await;
    until_answered(&server, LONG_ANSWERS).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_counted(&server, Reason::Stalled).await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_ends_or_stays_silent_is_no_refusal() {
    let server = start(token_only()).await;
    let client = connect(&server, ClientAuth::Token(token())).await.unwrap();
    assert_eq!(call(&client, "echo", b"fine").await.unwrap(), "fine");
    let mut idle = Raw::proven(server.address, b"another").await;
    drop(client);
    assert_eq!(idle.rest().await, b"", "idle for too long");
    for reason in Reason::ALL {
        assert_eq!(server.refusals.of(*reason), 0, "{reason:?}");
    }
}
