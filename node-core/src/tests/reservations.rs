//! Claims about the room that is offered to proxies.

use node_view::operator::DrainMode;
use records::NodeId;
use sched::{Digest, ExpectedRun, Offer, OfferAnswer, Reservation};

use super::*;
use crate::{DrainOrder, ReservationRefusal};

fn proxy() -> NodeId {
    let (host, port) = ("proxy".to_owned(), 8_041);
    NodeId { host, port }
}

fn reservation(waiting: u32) -> Reservation {
    Reservation {
        attempt: container_id(1).attempt,
        user: Digest([1; 4]),
        size: Resource::new(1_024, 1),
        waiting,
        run: ExpectedRun::Mean(5_000),
        given_back: 0,
    }
}

fn offers(node: &mut Node) -> Vec<Offer<NodeId>> {
    let effects = node.core.take_effects().into_iter();
    let offers = effects.filter_map(|effect| {
        let Effect::Offer(offer) = effect else {
            return None;
        };
        Some(*offer)
    });
    offers.collect()
}

fn answer(node: &mut Node, offer: &Offer<NodeId>, bound: u32, waiting: u32) {
    let answer = OfferAnswer {
        bound,
        waiting,
        run: ExpectedRun::Mean(5_000),
        within_ms: 1_000,
    };
    let (from, id) = (offer.to.clone(), offer.id);
    let event = WorkerEvent::OfferAnswered { from, id, answer };
    node.core.handle(event, node.now, 0);
}

#[test]
fn what_no_container_holds_is_offered_and_held_until_the_containers_come() {
    let mut node = Node::new();
    node.run(1);
    node.core.take_effects();
    node.core
        .reserve(proxy(), &reservation(20), node.now)
        .unwrap();
    let offered = offers(&mut node);
    assert_eq!((offered.len(), offered[0].rooms), (1, 7));
    assert_eq!(node.core.numbers().held, Resource::new(7 * 1_024, 7));
    answer(&mut node, &offered[0], 2, 0);
    assert_eq!(node.core.numbers().held, Resource::new(2 * 1_024, 2));

    // One comes, and its room is its own.
    let mut request = request(2);
    request.spec.execution_type = ExecutionType::Opportunistic;
    node.core.start(asker(), request, node.now);
    assert_eq!(node.core.numbers().held, Resource::new(1_024, 1));
    assert_eq!(node.core.numbers().allocated, Resource::new(2 * 1_024, 2));
    // The other one does not.
    node.now.mono.0 += 1_000;
    assert!(
        node.core
            .next_deadline()
            .is_some_and(|at| at <= node.now.mono)
    );
    node.core.tick(node.now);
    assert_eq!(node.core.numbers().held, Resource::new(0, 0));
}

#[test]
fn the_end_of_a_container_is_offered_to_who_has_reserved() {
    let mut node = Node::new();
    for number in 1..=8 {
        node.run(number);
    }
    node.core.take_effects();
    node.core
        .reserve(proxy(), &reservation(3), node.now)
        .unwrap();
    assert_eq!(offers(&mut node), []);
    node.exit(4, 0);
    let offered = offers(&mut node);
    assert_eq!((offered.len(), offered[0].rooms), (1, 1));
    // An answer of nothing: the reservation is void, and the room is free.
    answer(&mut node, &offered[0], 0, 0);
    assert_eq!(offers(&mut node), []);
    assert_eq!(node.core.numbers().held, Resource::new(0, 0));
}

#[test]
fn nothing_is_offered_while_containers_wait_here_and_a_drained_node_takes_no_reservation() {
    let mut node = Node::new();
    for number in 1..=8 {
        node.run(number);
    }
    let mut waiting = request(9);
    waiting.spec.execution_type = ExecutionType::Opportunistic;
    waiting.spec.resource = Resource::new(2_048, 1);
    node.core.start(asker(), waiting, node.now);
    node.core
        .reserve(proxy(), &reservation(3), node.now)
        .unwrap();
    node.core.take_effects();
    // Room for one of the reservation, and not for what waits here.
    node.exit(4, 0);
    assert_eq!(offers(&mut node), []);
    node.exit(5, 0);
    node.exit(6, 0);
    assert_eq!(offers(&mut node).len(), 1);

    let order = DrainOrder {
        mode: DrainMode::Graceful,
        within_ms: 60_000,
        reason: String::new(),
        by: "alice".to_owned(),
    };
    node.core.drain(order, node.now);
    let refused = node.core.reserve(proxy(), &reservation(3), node.now);
    assert_eq!(refused, Err(ReservationRefusal::Closed));
}
