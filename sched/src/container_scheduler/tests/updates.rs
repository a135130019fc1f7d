use super::*;

fn update(spec: ContainerSpec, version: i32) -> Event {
    Event::Update(ContainerSpec { version, ..spec })
}

#[test]
fn only_newer_versions_are_taken() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 10));
    node.feed(update(guaranteed(1, 20), 5));
    for version in [5, 4, -1] {
        assert_eq!(
            node.try_feed(update(guaranteed(1, 30), version)),
            Err(Refusal::VersionNotGreater {
                id: id(1),
                current: 5,
                requested: version
            })
        );
    }
    assert_eq!(node.view(1).spec.resource, Resource::new(20, 1));
}

#[test]
fn a_promotion_in_the_queue_takes_the_end_of_the_other_queue_and_room() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 60));
    node.run(opportunistic(2, 40));
    node.arrive(guaranteed(3, 100));
    node.arrive(opportunistic(4, 10));
    node.arrive(opportunistic(5, 10));
    let actions = node.feed(update(guaranteed(5, 10), 1));
    let execution_type = ExecutionType::Guaranteed;
    assert_eq!(
        actions,
        [
            Action::Note(Note::Promoted(id(5))),
            Action::Note(Note::Queued {
                id: id(5),
                execution_type,
                position: 2,
                missing: Resource::new(10, 0),
            }),
        ]
    );
    assert_eq!(node.waiting(), [3, 5, 4]);
}

#[test]
fn a_promotion_in_the_queue_evicts() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 60));
    node.run(opportunistic(2, 40));
    node.arrive(opportunistic(3, 30));
    let actions = node.feed(update(guaranteed(3, 30), 1));
    assert_eq!(evicted(&actions), [2]);
    assert_eq!(launched(&node.exit(2, 143)), [3]);
}

#[test]
fn a_promoted_container_is_no_longer_a_victim() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 50));
    node.run(opportunistic(2, 50));
    let actions = node.feed(update(guaranteed(2, 50), 1));
    let spec = ContainerSpec {
        version: 1,
        ..guaranteed(2, 50)
    };
    assert_eq!(
        actions,
        [
            Action::ApplyLimits(spec),
            Action::Note(Note::Promoted(id(2)))
        ]
    );
    assert_eq!(evicted(&node.arrive(guaranteed(3, 10))), [1]);
}

#[test]
fn promotion_and_demotion_leave_no_trace_in_the_status() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 50));
    node.feed(update(guaranteed(1, 50), 1));
    assert_eq!(
        node.scheduler
            .opportunistic_status()
            .running_opport_containers,
        0
    );
    node.feed(update(opportunistic(1, 50), 2));
    assert_eq!(
        node.scheduler
            .opportunistic_status()
            .running_opport_containers,
        1
    );
    node.exit(1, 0);
    let status = node.scheduler.opportunistic_status();
    assert_eq!(
        (
            status.running_opport_containers,
            status.opport_memory_used_mb
        ),
        (0, 0)
    );
}

#[test]
fn a_demoted_running_container_makes_way_for_those_that_wait() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 60));
    node.arrive(guaranteed(2, 60));
    let actions = node.feed(update(opportunistic(1, 60), 1));
    assert!(actions.contains(&Action::Note(Note::Evicted {
        id: id(1),
        for_container: id(2),
        paused: false,
        ran_ms: 0,
    })));
}

#[test]
fn a_demotion_in_the_queue_takes_the_end_of_the_other_queue() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 100));
    node.arrive(guaranteed(2, 10));
    node.arrive(opportunistic(3, 10));
    let actions = node.feed(update(opportunistic(2, 10), 1));
    assert_eq!(actions.first(), Some(&Action::Note(Note::Demoted(id(2)))));
    assert_eq!(node.waiting(), [3, 2]);
}

#[test]
fn a_smaller_running_container_lets_others_start() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 100));
    node.arrive(opportunistic(2, 50));
    let actions = node.feed(update(guaranteed(1, 50), 1));
    assert_eq!(launched(&actions), [2]);
}

#[test]
fn a_growing_guaranteed_container_takes_room_from_opportunistic_ones() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 50));
    node.run(opportunistic(2, 50));
    let actions = node.feed(update(guaranteed(1, 60), 1));
    assert_eq!(
        actions.first(),
        Some(&Action::ApplyLimits(node.view(1).spec))
    );
    assert_eq!(evicted(&actions), [2]);
}

#[test]
fn a_waiting_container_keeps_its_turn_when_its_size_changes() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 100));
    node.arrive(opportunistic(2, 80));
    node.arrive(opportunistic(3, 30));
    assert_eq!(node.feed(update(opportunistic(2, 70), 1)), []);
    assert_eq!(launched(&node.exit(1, 0)), [2, 3]);
}

#[test]
fn a_waiting_opportunistic_head_that_outgrows_the_node_is_rejected() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 100));
    node.arrive(opportunistic(2, 80));
    let actions = node.feed(update(opportunistic(2, 101), 1));
    assert_eq!(actions.last(), Some(&Action::CleanUp(id(2))));
}

#[test]
fn size_and_type_may_change_together_even_when_the_container_is_finished() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 10));
    node.exit(1, 0);
    assert_eq!(node.feed(update(guaranteed(1, 20), 1)), []);
    let spec = node.view(1).spec;
    assert_eq!(
        spec,
        ContainerSpec {
            version: 1,
            ..guaranteed(1, 20)
        }
    );
    assert_eq!(node.scheduler.allocated(), Resource::default());
    assert_eq!(node.completion(1).execution_type, ExecutionType::Guaranteed);
}

#[test]
fn a_localizing_container_is_queued_by_its_new_type() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 100));
    node.feed(Event::Start(guaranteed(2, 10)));
    assert_eq!(
        node.feed(update(opportunistic(2, 20), 1)),
        [Action::Note(Note::Demoted(id(2)))]
    );
    node.feed(Event::Localized(id(2)));
    assert_eq!(node.scheduler.queue_length(ExecutionType::Opportunistic), 1);
}
