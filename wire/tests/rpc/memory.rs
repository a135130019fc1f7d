//! Memory that callers may take: long requests, answers that are not read.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, pause, resume, sleep};

use super::*;

const ONE: &[u8] = b"one";
const OTHER: &[u8] = b"other";

/// Longest frame in these tests, and what a user may have.
const MIB: usize = 1 << 20;

/// Length of a request that takes nearly all that a user may have.
const LONG: usize = 900_000;

/// Limits with which every user with a token may have 1 MiB of requests.
fn limits() -> ServerLimits {
    ServerLimits {
        frame_length_max: MIB,
        requests_bytes_max: 2 * MIB,
        ..ServerLimits::default()
    }
}

async fn client(server: &Running, user: &'static [u8]) -> RpcClient {
    let auth = ClientAuth::Token(token_of(user));
    connect(server, auth).await.unwrap()
}

async fn long_echo(client: &RpcClient) -> usize {
    let answer = client.call_raw("echo", PROTOCOL, 1, vec![2; LONG].into());
    answer.await.unwrap().len()
}

async fn until_waiting(server: &Running, calls: usize) {
    while server.echo.waiting.load(Ordering::Relaxed) < calls {
        yield_now().await;
    }
}

#[tokio::test]
async fn long_requests_share_a_bounded_memory_and_short_ones_pass() {
    let server = start_with(token_only(), limits()).await;
    let mut holders = Vec::new();
    for user in [ONE, OTHER] {
        let mut holder = Raw::proven(server.address, user).await;
        holder.send(&call_frame(1, "wait", &[1; LONG])).await;
        holders.push(holder);
    }
    until_waiting(&server, 2).await;
    let third = client(&server, b"third").await;
    let long = {
        let third = third.clone();
        tokio::spawn(async move { long_echo(&third).await })
    };
    let short = client(&server, b"third").await;
    for _ in 0..10 {
        assert_eq!(call(&short, "yield", b"").await.unwrap(), "");
    }
    assert!(!long.is_finished());
    server.echo.gate.notify_one();
    assert_eq!(long.await.unwrap(), LONG);
}

#[tokio::test]
async fn long_requests_of_one_user_leave_memory_for_others() {
    let server = start_with(token_only(), limits()).await;
    let mut holder = Raw::proven(server.address, ONE).await;
    holder.send(&call_frame(1, "wait", &[1; LONG])).await;
    until_waiting(&server, 1).await;
    // The same user's next long request waits, on any connection; another user's does not.
    let mut waiting = Raw::proven(server.address, ONE).await;
    let frame = call_frame(1, "wait", &[1; LONG]);
    let sending = tokio::spawn(async move {
        waiting.send(&frame).await;
        waiting.answer().await
    });
    assert_eq!(long_echo(&client(&server, OTHER).await).await, LONG);
    assert_eq!(server.echo.waiting.load(Ordering::Relaxed), 1);
    server.echo.gate.notify_one();
    until_waiting(&server, 2).await;
    server.echo.gate.notify_one();
    sending.await.unwrap();
}

/// The length alone takes nothing: neither the user's memory nor anybody else's.
#[tokio::test]
async fn announced_requests_hold_nobody_up() {
    let server = start_with(token_only(), limits()).await;
    let announced = u32::try_from(LONG).unwrap().to_be_bytes();
    let mut announcing = Vec::new();
    for user in [ONE, ONE, OTHER, OTHER] {
        let mut raw = Raw::proven(server.address, user).await;
        raw.send(&announced).await;
        announcing.push(raw);
    }
    for user in [b"third", ONE] {
        assert_eq!(long_echo(&client(&server, user).await).await, LONG);
    }
}

#[tokio::test(start_paused = true)]
async fn request_that_stops_arriving_gives_its_memory_back() {
    let server = start_with(token_only(), limits()).await;
    let mut stopped = Raw::proven(server.address, ONE).await;
    stopped
        .send(&call_frame(1, "echo", &[1; LONG])[..30_000])
        .await;
    let begin = Instant::now();
    assert_eq!(stopped.frame().await, None);
    // The grace, and an interval of checks.
    assert!((10..=25).contains(&begin.elapsed().as_secs()));
    resume();
    assert_eq!(long_echo(&client(&server, ONE).await).await, LONG);
}

#[tokio::test(start_paused = true)]
async fn request_that_trickles_in_is_cut_off_and_one_at_the_lowest_rate_is_not() {
    let server = start_with(token_only(), limits()).await;
    let frame = call_frame(1, "echo", &[1; 20_000]);
    let mut trickling = Raw::proven(server.address, ONE).await;
    let begin = Instant::now();
    for byte in &frame[..] {
        if trickling.stream.write_all(&[*byte]).await.is_err() {
            break;
        }
        sleep(Duration::from_secs(1)).await;
    }
    assert!(
        (10..=40).contains(&begin.elapsed().as_secs()),
        "{:?}",
        begin.elapsed()
    );

    let frame = call_frame(1, "echo", &[1; LONG]);
    let mut slow = Raw::proven(server.address, ONE).await;
    for piece in frame.chunks(64 * 1024) {
        slow.send(piece).await;
        sleep(Duration::from_secs(1)).await;
    }
    assert!(matches!(slow.answer().await.outcome, Outcome::Success(_)));
}

#[tokio::test]
async fn request_that_would_take_too_much_memory_is_refused_and_the_connection_stays() {
    let server = start_with(token_only(), limits()).await;
    let client = client(&server, ONE).await;
    let request = vec![0; 20_000].into();
    let refused = client.call_raw("costly", PROTOCOL, 1, request).await;
    let Err(wire::rpc::RpcError::Remote(exception)) = refused else {
        panic!("{refused:?}");
    };
    assert!(exception.is(HadoopException::RpcServer), "{exception}");
    assert_eq!(call(&client, "costly", b"x").await.unwrap(), "x");
}

#[tokio::test]
async fn request_counts_beside_what_decoding_it_takes() {
    let server = start_with(token_only(), limits()).await;
    let client = client(&server, ONE).await;
    // Decoding takes a hundred times their lengths.
    let costly = |length: usize| client.call_raw("costly", PROTOCOL, 1, vec![0; length].into());
    assert_eq!(costly(10_300).await.unwrap().len(), 10_300);
    let refused = costly(10_400).await;
    assert!(
        matches!(refused, Err(wire::rpc::RpcError::Remote(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn short_requests_that_are_costly_to_decode_share_the_memory() {
    let server = start_with(token_only(), limits()).await;
    let costly = |client: RpcClient| {
        tokio::spawn(async move {
            let request = vec![0; 9_000].into();
            client.call_raw("costly wait", PROTOCOL, 1, request).await
        })
    };
    let first = costly(client(&server, ONE).await);
    until_waiting(&server, 1).await;
    let second = costly(client(&server, ONE).await);
    assert_eq!(long_echo(&client(&server, OTHER).await).await, LONG);
    assert_eq!(server.echo.waiting.load(Ordering::Relaxed), 1);
    server.echo.gate.notify_one();
    assert_eq!(first.await.unwrap().unwrap().len(), 9_000);
    until_waiting(&server, 2).await;
    server.echo.gate.notify_one();
    assert_eq!(second.await.unwrap().unwrap().len(), 9_000);
}

#[tokio::test]
async fn request_takes_its_memory_as_it_arrives() {
    let limits = ServerLimits {
        receive_grace: SILENCE_MAX,
        ..limits()
    };
    let server = start_with(token_only(), limits).await;
    let mut arriving = Raw::proven(server.address, ONE).await;
    arriving
        .send(&call_frame(1, "echo", &[1; LONG])[..30_000])
        .await;
    // Once the server has served another connection, it has read these bytes.
    let same = client(&server, ONE).await;
    for _ in 0..10 {
        assert_eq!(call(&same, "yield", b"").await.unwrap(), "");
    }
    let long = tokio::spawn(async move { long_echo(&same).await });
    assert_eq!(long_echo(&client(&server, OTHER).await).await, LONG);
    assert!(!long.is_finished());
    drop(arriving);
    assert_eq!(long.await.unwrap(), LONG);
}

/// Nothing is read meanwhile, so its rate is not the peer's.
#[tokio::test]
async fn request_that_has_waited_for_memory_is_not_cut_off_as_slow() {
    let server = start_with(token_only(), limits()).await;
    let mut holder = Raw::proven(server.address, ONE).await;
    holder.send(&call_frame(1, "wait", &[1; 1_000_000])).await;
    until_waiting(&server, 1).await;
    let frame = call_frame(1, "echo", &[1; LONG]);
    let (begin, rest) = frame.split_at(60_000);
    let mut waiting = Raw::proven(server.address, ONE).await;
    waiting.send(begin).await;
    // Longer than the grace, and less than a request waits for memory.
    pause();
    sleep(Duration::from_secs(25)).await;
    resume();
    server.echo.gate.notify_one();
    assert!(matches!(holder.answer().await.outcome, Outcome::Success(_)));
    waiting.send(rest).await;
    assert!(matches!(
        waiting.answer().await.outcome,
        Outcome::Success(_)
    ));
}

/// It holds what the other waits for.
#[tokio::test]
async fn call_that_waits_goes_on_while_a_request_behind_it_waits_for_memory() {
    const MEDIUM: usize = 200_000;
    let limits = ServerLimits {
        frame_length_max: MEDIUM + 1_000,
        requests_bytes_max: 3 * MEDIUM,
        ..ServerLimits::default()
    };
    let server = start_with(token_only(), limits).await;
    let mut both = Raw::proven(server.address, ONE).await;
    both.send(&call_frame(1, "wait", &[1; MEDIUM])).await;
    until_waiting(&server, 1).await;
    let frame = call_frame(2, "echo", &[1; MEDIUM]);
    let (begin, rest) = frame.split_at(MEDIUM - 1_000);
    both.send(begin).await;
    // Once the server has served another connection, it has read these bytes.
    let other = client(&server, OTHER).await;
    for _ in 0..10 {
        assert_eq!(call(&other, "yield", b"").await.unwrap(), "");
    }
    server.echo.gate.notify_one();
    let first = both.answer().await;
    assert!(matches!(first.outcome, Outcome::Success(_)), "{first:?}");
    both.send(rest).await;
    let second = both.answer().await;
    assert!(matches!(second.outcome, Outcome::Success(_)), "{second:?}");
}

/// Other connections do not wait for it on the runtime's threads.
#[tokio::test]
async fn heavy_request_is_measured_and_decoded_on_another_thread() {
    let server = start_with(token_only(), limits()).await;
    let client = client(&server, ONE).await;
    for (method, length, is_here) in [
        ("thread", 10, true),
        ("thread later", 10, true),
        ("thread", 300_000, false),
    ] {
        let request = vec![1; length].into();
        let answer = client.call_raw(method, PROTOCOL, 1, request).await.unwrap();
        let threads = String::from_utf8(answer.to_vec()).unwrap();
        for thread in threads.split(' ') {
            assert_eq!(thread == this_thread(), is_here, "{method} {length}");
        }
    }
}

#[tokio::test]
async fn heavy_requests_that_wait_hold_up_no_other() {
    let server = start_with(token_only(), limits()).await;
    let client = client(&server, ONE).await;
    let heavy = |method: &'static str| {
        let client = client.clone();
        tokio::spawn(async move {
            let request = vec![1; 300_000].into();
            client.call_raw(method, PROTOCOL, 1, request).await
        })
    };
    // As many as are decoded at a time.
    let waiting = [heavy("wait"), heavy("wait")];
    until_waiting(&server, 2).await;
    assert_eq!(heavy("echo").await.unwrap().unwrap().len(), 300_000);
    // A notification without a call that waits counts once, however often it is repeated.
    while server.echo.waited.load(Ordering::Relaxed) < waiting.len() {
        server.echo.gate.notify_one();
        yield_now().await;
    }
    for call in waiting {
        assert_eq!(call.await.unwrap().unwrap().len(), 300_000);
    }
}

/// Decoding happens on another thread then; a call that waits afterwards still ends.
#[tokio::test]
async fn heavy_request_that_waits_is_answered() {
    let server = start_with(token_only(), limits()).await;
    let client = client(&server, ONE).await;
    let heavy = {
        let client = client.clone();
        tokio::spawn(async move {
            let request = vec![1; LONG].into();
            client.call_raw("wait", PROTOCOL, 1, request).await
        })
    };
    until_waiting(&server, 1).await;
    server.echo.gate.notify_one();
    assert_eq!(heavy.await.unwrap().unwrap().len(), LONG);
}

#[tokio::test]
async fn answers_that_are_not_read_hold_up_their_user_alone() {
    let limits = ServerLimits {
        answers_bytes_max: 16 * MIB,
        answer_bytes_reserved: MIB,
        ..limits()
    };
    let server = start_with(token_only(), limits).await;
    let mut unread = Vec::new();
    for method in ["big", "big later"].repeat(10) {
        let mut raw = Raw::proven(server.address, ONE).await;
        for call_id in 0..100 {
            raw.send(&call_frame(call_id, method, b"")).await;
        }
        unread.push(raw);
    }
    // Less than the time after which peers that do not read are cut off.
    pause();
    sleep(Duration::from_secs(30)).await;
    resume();
    let made = server.echo.big.load(Ordering::Relaxed);
    // Half of the budget, and on each connection what the kernel buffers.
    assert!(made <= 8 + 20 * 8, "{made} answers of 1 MiB made");
    let other = client(&server, OTHER).await;
    assert_eq!(call(&other, "big later", b"").await.unwrap().len(), MIB);
    // Unread answers hold the places of their calls, so a further call of the user waits, while
    // others are answered.
    let further = client(&server, ONE).await;
    let further = tokio::spawn(async move { call(&further, "big later", b"").await });
    for _ in 0..10 {
        assert_eq!(call(&other, "big later", b"").await.unwrap().len(), MIB);
    }
    assert!(!further.is_finished());
    further.abort();
    // Once the peer reads, its calls go on.
    let answered = unread[0].answer().await;
    assert!(matches!(answered.outcome, Outcome::Success(_)));
    // And once its peers are cut off, eight at a time, the user has its memory back.
    pause();
    sleep(Duration::from_secs(1_000)).await;
    resume();
    let again = client(&server, ONE).await;
    assert_eq!(call(&again, "big later", b"").await.unwrap().len(), MIB);
}

#[tokio::test]
async fn peer_that_leaves_answers_unread_is_cut_off_though_it_calls_no_more() {
    let server = start(ServerAuth::Simple).await;
    let mut unread = Raw::ready_to_leave_unread(server.address).await;
    unread.send(&calls_with_long_answers()).await;
    until_answered(&server, LONG_ANSWERS).await;
    // Longer than a peer may leave answers unread.
    pause();
    sleep(Duration::from_secs(120)).await;
    resume();
    assert!(unread.rest().await.len() < LONG_ANSWERS * MIB);
}

#[tokio::test]
async fn peer_that_has_read_its_late_answers_is_not_cut_off() {
    let server = start(ServerAuth::Simple).await;
    let mut late = Raw::ready_to_leave_unread(server.address).await;
    late.send(&calls_with_long_answers()).await;
    until_answered(&server, LONG_ANSWERS).await;
    for _ in 0..LONG_ANSWERS {
        assert!(matches!(late.answer().await.outcome, Outcome::Success(_)));
    }
    // Longer than a peer may leave answers unread.
    pause();
    sleep(Duration::from_secs(120)).await;
    resume();
    late.send(&call_frame(100, "echo", b"x")).await;
    assert_eq!(late.answer().await.call_id, 100);
}
