//! Processes that are left of containers, and the room that they keep.

use super::*;

#[test]
fn what_belongs_to_nobody_keeps_its_room_and_its_container_from_starting() {
    let mut node = Node::new();
    let leftovers = vec![(container_id(1).name(), Resource::new(8192, 1))];
    let state = RestoredState {
        leftovers,
        ..RestoredState::default()
    };
    node.core.restore(state, node.now);
    let refusal = node.refusal(request(1));
    assert!(
        refusal.class_name.ends_with("NMNotYetReadyException"),
        "{refusal:?}"
    );
    assert!(matches!(node.start(2), StartOutcome::Started));
    assert_eq!(node.work(), []);
    node.handle(LaunchEvent::LeftoversGone(container_id(1).name()));
    assert_eq!(node.work(), [Work::Launch(container_id(2))]);
    assert!(matches!(node.start(1), StartOutcome::Started));
}

#[test]
fn what_survives_its_container_keeps_its_room_until_it_is_gone() {
    let mut node = Node::new();
    let mut large = request(1);
    large.spec.resource = Resource::new(8192, 1);
    let outcome = node.core.start(asker(), large, node.now);
    assert!(matches!(outcome, StartOutcome::Started));
    node.launched(1);
    node.handle(LaunchEvent::ProcessesStay(container_id(1)));
    node.exit(1, 137);
    assert!(matches!(node.start(2), StartOutcome::Started));
    let launch = Work::Launch(container_id(2));
    assert!(!node.work().contains(&launch));
    node.handle(LaunchEvent::LeftoversGone(container_id(1).name()));
    assert!(node.work().contains(&launch));
}
