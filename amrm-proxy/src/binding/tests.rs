//! Claims about late binding: whom offers reach, and which nodes are told.

use std::sync::atomic::{AtomicU64, Ordering};

use records::{EpochMillis, Now, Resource};
use sched::{ExpectedRun, KnownNode, OfferId, RemoteNode, Wish};

use super::*;

const SIZE: Resource = Resource::new(1_024, 1);
const RUN: ExpectedRun = ExpectedRun::Mean(5_000);

/// Nodes that take reservations, but for those whose name begins with `java`.
#[derive(Default)]
struct Nodes(Mutex<Vec<(NodeId, Reservation)>>);

impl ReservationSender for Nodes {
    fn reserve(
        &self,
        node: NodeId,
        reservation: Reservation,
    ) -> BoxFuture<'static, Result<(), ReserveFailure>> {
        let is_java = node.host.starts_with("java");
        lock(&self.0).push((node, reservation));
        let outcome = if is_java {
            Err(ReserveFailure::NotTaken)
        } else {
            Ok(())
        };
        Box::pin(std::future::ready(outcome))
    }
}

struct Proxy {
    late: LateBinding,
    sent: Arc<Nodes>,
    now: Arc<AtomicU64>,
}

fn proxy() -> Proxy {
    let (sent, now) = (Arc::new(Nodes::default()), Arc::new(AtomicU64::new(1_000)));
    let clock = Arc::clone(&now);
    let clock = move || Now {
        mono: MonoMillis(clock.load(Ordering::Relaxed)),
        wall: EpochMillis(0),
    };
    let sender = Arc::clone(&sent) as Arc<dyn ReservationSender>;
    let late = LateBinding::new(Some(sender), Arc::new(clock));
    Proxy { late, sent, now }
}

impl Proxy {
    fn sent(&self) -> Vec<(NodeId, Reservation)> {
        std::mem::take(&mut *lock(&self.sent.0))
    }
}

fn attempt(number: i32) -> ApplicationAttemptId {
    let id = records::ApplicationId {
        cluster_timestamp: 1,
        id: number,
    };
    id.attempt(1)
}

fn id(host: &str) -> NodeId {
    let (host, port) = (host.to_owned(), 8_041);
    NodeId { host, port }
}

fn nodes(hosts: &[&str]) -> KnownNodes {
    let node = |host: &&str| {
        KnownNode::from(RemoteNode {
            node_id: id(host),
            rack: "/rack".to_owned(),
            http_address: format!("{host}:8042"),
            partition: String::new(),
        })
    };
    hosts.iter().map(node).collect()
}

fn wish(wanted: u32) -> Wish {
    Wish {
        partition: String::new(),
        size: SIZE,
        wanted,
        usable: None,
    }
}

fn offer(attempt: ApplicationAttemptId, rooms: u32) -> Offer<()> {
    Offer {
        id: OfferId(1),
        to: (),
        attempt,
        size: SIZE,
        rooms,
    }
}

fn taken(binding: &AttemptBinding) -> Vec<String> {
    let bound = binding.take().into_iter().flat_map(|bound| bound.nodes);
    bound
        .map(|known| known.node().node_id.host.clone())
        .collect()
}

#[tokio::test]
async fn an_offer_binds_what_waits_of_its_attempt_and_what_is_left_is_bound_the_next_time() {
    let proxy = proxy();
    let binding = proxy.late.begin(attempt(1), "alice");
    let known = nodes(&["a", "b"]);
    assert!(binding.wants(&proxy.late, &[wish(3)], RUN, &known).reserves);
    let told: Vec<_> = proxy.sent();
    assert_eq!(told.len(), 2);
    assert!(
        told.iter()
            .all(|(_, news)| news.waiting == 3 && news.run == RUN)
    );

    let answer = proxy.late.offered(&id("a"), &offer(attempt(1), 2));
    assert_eq!((answer.bound, answer.waiting, answer.run), (2, 1, RUN));
    // Nobody that has not been asked, for nobody that has not asked.
    assert_eq!(
        proxy.late.offered(&id("c"), &offer(attempt(1), 2)),
        OfferAnswer::NOTHING
    );
    assert_eq!(
        proxy.late.offered(&id("a"), &offer(attempt(2), 2)),
        OfferAnswer::NOTHING
    );
    let bound = binding.take();
    assert_eq!(bound[0].nodes.len(), 2);
    binding.keep(bound);
    assert_eq!(taken(&binding), ["a", "a"]);
    assert_eq!(taken(&binding), [""; 0]);
}

#[tokio::test]
async fn a_task_that_is_bound_to_a_node_that_is_lost_waits_again() {
    let proxy = proxy();
    let binding = proxy.late.begin(attempt(1), "alice");
    binding.wants(&proxy.late, &[wish(3)], RUN, &nodes(&["a", "b"]));
    proxy.late.offered(&id("a"), &offer(attempt(1), 1));
    proxy.late.offered(&id("b"), &offer(attempt(1), 1));
    binding.forget(&[id("a")].into());
    assert_eq!(taken(&binding), ["b"]);
    let answer = proxy.late.offered(&id("b"), &offer(attempt(1), 9));
    assert_eq!((answer.bound, answer.waiting), (2, 0));
}

#[tokio::test]
async fn room_is_held_for_the_longest_of_the_last_pauses_whatever_call_comes_out_of_turn() {
    let proxy = proxy();
    let binding = proxy.late.begin(attempt(1), "alice");
    let known = nodes(&["a", "b"]);
    for pause_ms in [0, 1_500, 5] {
        proxy.now.fetch_add(pause_ms, Ordering::Relaxed);
        binding.wants(&proxy.late, &[wish(9)], RUN, &known);
    }
    let answer = proxy.late.offered(&id("a"), &offer(attempt(1), 1));
    assert!((2_500..4_000).contains(&answer.within_ms), "{answer:?}");
}

#[tokio::test]
async fn with_nothing_wanted_and_after_the_end_nothing_is_bound() {
    let proxy = proxy();
    let binding = proxy.late.begin(attempt(1), "alice");
    let known = nodes(&["a", "b"]);
    binding.wants(&proxy.late, &[wish(3)], RUN, &known);
    proxy.sent();
    assert!(!binding.wants(&proxy.late, &[], RUN, &known).reserves);
    let told = proxy.sent();
    assert!(
        told.len() == 2 && told.iter().all(|(_, news)| news.waiting == 0),
        "{told:?}"
    );
    assert_eq!(
        proxy.late.offered(&id("a"), &offer(attempt(1), 2)),
        OfferAnswer::NOTHING
    );

    binding.wants(&proxy.late, &[wish(3)], RUN, &known);
    proxy.late.end(attempt(1), &binding);
    assert_eq!(
        proxy.late.offered(&id("a"), &offer(attempt(1), 2)),
        OfferAnswer::NOTHING
    );
}

#[tokio::test]
async fn a_node_that_takes_no_reservation_rests_and_where_most_rest_nothing_is_bound_late() {
    let proxy = proxy();
    let binding = proxy.late.begin(attempt(1), "alice");
    let known = nodes(&["a", "java-1"]);
    binding.wants(&proxy.late, &[wish(1)], RUN, &known);
    assert_eq!(proxy.sent().len(), 2);
    tokio::task::yield_now().await;
    let rests = |node: &str| proxy.late.rests().has(&id(node), proxy.late.now());
    assert!(rests("java-1") && !rests("a"));
    // Half of them is enough.
    assert!(proxy.late.is_possible(&known));
    assert!(!proxy.late.is_possible(&nodes(&["java-1"])));
    // It has reserved with both, and now with one.
    proxy.now.fetch_add(5_000, Ordering::Relaxed);
    let wanted = binding.wants(&proxy.late, &[wish(1)], RUN, &known);
    let others = wanted.others.unwrap();
    assert_eq!(others.iter().count(), 1);
    let told = proxy.sent();
    assert!(told.iter().all(|(node, _)| node.host == "a"), "{told:?}");
    assert!(!told.is_empty());
    // When it has rested, it is asked once more, and rests longer.
    proxy.now.fetch_add(30_000, Ordering::Relaxed);
    binding.wants(&proxy.late, &[wish(2)], RUN, &known);
    assert!(proxy.sent().iter().any(|(node, _)| node.host == "java-1"));
    tokio::task::yield_now().await;
    proxy.now.fetch_add(31_000, Ordering::Relaxed);
    assert!(rests("java-1"));
}

#[tokio::test]
async fn the_messages_of_an_attempt_are_bounded_however_often_it_asks() {
    let proxy = proxy();
    let binding = proxy.late.begin(attempt(1), "alice");
    let hosts: Vec<String> = (0..1_000).map(|number| format!("n{number}")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let known = nodes(&hosts);
    for round in 0..100 {
        binding.wants(&proxy.late, &[wish(1 + 999 * (round % 2))], RUN, &known);
    }
    let sent = proxy.sent().len();
    assert!((2_048..4_096).contains(&sent), "{sent}");
}
