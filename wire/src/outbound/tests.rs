use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::rc::Rc;

use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{advance, timeout};

use super::*;

/// Size of the kernel's buffers at each end of a connection, in bytes; the kernel doubles it.
const KERNEL_BYTES: usize = 64 * 1024;

/// Length of a frame that the kernel's buffers cannot take, in bytes.
const LONG: usize = 4 * 1024 * 1024;

/// Records the lengths to which it was adapted.
#[derive(Debug)]
struct Recorder(Rc<RefCell<Vec<usize>>>);

impl Held for Recorder {
    fn resize(&mut self, bytes: usize) {
        self.0.borrow_mut().push(bytes);
    }
}

/// The test's view of a [`Recorder`].
struct Record(Rc<RefCell<Vec<usize>>>);

impl Record {
    fn is_released(&self) -> bool {
        Rc::strong_count(&self.0) == 1
    }

    fn lengths(&self) -> Vec<usize> {
        self.0.borrow().clone()
    }
}

fn held() -> (Recorder, Record) {
    let lengths = Rc::default();
    (Recorder(Rc::clone(&lengths)), Record(lengths))
}

fn hold(length: usize, until: u64) -> (Hold<Recorder>, Record) {
    let (held, record) = held();
    let hold = Hold {
        held,
        length,
        until,
    };
    (hold, record)
}

fn pending() -> Pending<Recorder> {
    Pending {
        buffer: BytesMut::new(),
        wrapped: None,
        holds: VecDeque::new(),
        sent: 0,
        stalled_since: None,
        failure: None,
    }
}

/// Opens a connection with small kernel buffers; returns its sending half and its other end.
async fn connection() -> (Outbound<Recorder>, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (far, _) = listener.accept().await.unwrap();
    SockRef::from(&near)
        .set_send_buffer_size(KERNEL_BYTES)
        .unwrap();
    SockRef::from(&far)
        .set_recv_buffer_size(KERNEL_BYTES)
        .unwrap();
    near.writable().await.unwrap();
    let (_read, write) = near.into_split();
    (Outbound::new(write, BytesMut::new(), None), far)
}

#[test]
fn what_is_sent_is_released_and_what_waits_is_adapted() {
    let mut pending = pending();
    let (hold_of_first, first) = hold(10, 10);
    let (hold_of_second, second) = hold(20, 30);
    pending.holds.extend([hold_of_first, hold_of_second]);
    pending.release_sent();
    assert_eq!((first.lengths(), second.lengths()), (vec![10], vec![20]));

    pending.sent = 10;
    let (hold_of_third, third) = hold(5, 35);
    pending.holds.push_back(hold_of_third);
    pending.release_sent();
    assert!(first.is_released());
    assert!(!second.is_released() && !third.is_released());
    // Again: it may have found too little memory before.
    assert_eq!(second.lengths(), [20, 20]);
    assert_eq!(third.lengths(), [5]);
}

#[test]
fn frames_after_an_empty_buffer_are_adapted_too() {
    let mut pending = pending();
    let (hold_of_first, first) = hold(10, 10);
    pending.holds.push_back(hold_of_first);
    pending.release_sent();
    pending.clear();
    assert!(first.is_released());
    let (hold_of_second, second) = hold(20, 30);
    pending.holds.push_back(hold_of_second);
    pending.release_sent();
    assert_eq!(second.lengths(), [20]);
}

#[test]
fn the_memory_of_a_long_frame_is_freed_and_that_of_a_short_one_kept() {
    for (length, is_kept) in [(1_000, true), (LONG, false)] {
        let mut pending = pending();
        pending.buffer.resize(length, 0);
        pending.buffer.advance(length);
        pending.clear();
        assert_eq!(pending.buffer.try_reclaim(length), is_kept, "{length}");
    }
}

#[tokio::test]
async fn a_frame_keeps_what_it_holds_until_the_socket_has_taken_it() {
    let (outbound, mut far) = connection().await;
    let (held_by_short, short) = held();
    let (held_by_long, long) = held();
    let (held_by_last, last) = held();
    for (held, length) in [
        (held_by_short, 10),
        (held_by_long, LONG),
        (held_by_last, 20),
    ] {
        outbound.push_held(held, |out| out.resize(out.len() + length, 0));
    }
    outbound.flush_now();
    assert!(short.is_released());
    assert!(!long.is_released() && !last.is_released());
    assert_eq!((long.lengths(), last.lengths()), (vec![LONG], vec![20]));

    let mut received = vec![0; 10 + LONG + 20];
    let (sent, read) = tokio::join!(outbound.flush_below(0), far.read_exact(&mut received));
    sent.unwrap();
    read.unwrap();
    assert!(long.is_released() && last.is_released());
    assert_eq!(outbound.buffered_bytes(), 0);
}

#[tokio::test]
async fn a_frame_is_sent_by_the_flush_itself() {
    let (outbound, mut far) = connection().await;
    outbound.push_held(held().0, |out| out.extend_from_slice(b"frame"));
    outbound.flush_now();
    assert_eq!(outbound.buffered_bytes(), 0);
    let mut received = [0; 5];
    far.read_exact(&mut received).await.unwrap();
    assert_eq!(received, *b"frame");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_wakes_the_connections_task() {
    let (outbound, _far) = connection().await;
    let mut leftovers = pin!(outbound.flush_leftovers());
    let waiting = timeout(Duration::ZERO, leftovers.as_mut()).await;
    assert!(waiting.is_err(), "nothing is left over");
    outbound.close();
    outbound.push_held(held().0, |out| out.extend_from_slice(b"frame"));
    outbound.flush_now();
    let error = timeout(Duration::from_secs(1), leftovers).await;
    assert_eq!(
        error.expect("woken").kind(),
        io::ErrorKind::BrokenPipe,
        "closed by this side"
    );
}

/// Calls `write` with no await in between: a socket that was full then stays so for tokio.
#[tokio::test(start_paused = true)]
async fn a_stall_begins_with_the_first_bytes_that_wait_and_anew_with_each_progress() {
    let (outbound, _far) = connection().await;
    let before = Instant::now();
    advance(Duration::from_secs(10)).await;
    let now = Instant::now();
    let mut pending = outbound.pending();

    pending.buffer.resize(LONG, 0);
    pending.stalled_since = Some(before);
    outbound.write(&mut pending);
    assert!(pending.buffer.len() < LONG);
    assert_eq!(pending.stalled_since, Some(now), "some bytes were taken");

    pending.stalled_since = Some(before);
    outbound.write(&mut pending);
    assert_eq!(pending.stalled_since, Some(before), "no byte was taken");

    pending.stalled_since = None;
    outbound.write(&mut pending);
    assert_eq!(pending.stalled_since, Some(now), "the socket was full");
}
