use super::*;

const STORE: RoleId = RoleId::new(1).unwrap();
const QUERY: RoleId = RoleId::new(4).unwrap();
const NOW: MonoMillis = MonoMillis(1_000);

fn placed(node: u32) -> Target {
    Target::Placed {
        node: NodeIndex(node),
        deadline: Some(MonoMillis(31_000)),
    }
}

fn open(tracker: &OutstandingRequestTracker) -> Vec<RequestId> {
    tracker.open(STORE).collect()
}

#[test]
fn a_placed_request_is_found_by_role_and_node() {
    let mut tracker = OutstandingRequestTracker::default();
    let id = tracker.add(STORE, placed(7), NOW);
    assert_eq!(tracker.placed(STORE, NodeIndex(7)), Some(id));
    assert_eq!(tracker.placed(QUERY, NodeIndex(7)), None);
    assert_eq!(tracker.placed(STORE, NodeIndex(8)), None);
    assert_eq!(tracker.requested(STORE), 1);
}

#[test]
fn a_request_expires_after_its_deadline_and_not_at_it() {
    let mut tracker = OutstandingRequestTracker::default();
    let id = tracker.add(STORE, placed(7), NOW);
    assert_eq!(tracker.next_deadline(), Some(MonoMillis(31_000)));
    assert!(tracker.expired(MonoMillis(31_000)).is_empty());
    assert_eq!(tracker.expired(MonoMillis(31_001)), [id]);
}

#[test]
fn an_escalated_request_is_the_last_of_the_open_ones_and_escalates_once() {
    let mut tracker = OutstandingRequestTracker::default();
    let first = tracker.add(STORE, placed(7), NOW);
    let second = tracker.add(STORE, Target::Open, NOW);
    assert!(tracker.escalate(first));
    assert_eq!(open(&tracker), [second, first]);
    assert_eq!(tracker.requested(STORE), 2);
    assert_eq!(tracker.next_deadline(), None);
    assert_eq!(tracker.placed(STORE, NodeIndex(7)), None);
    assert!(!tracker.escalate(first));
}

#[test]
fn a_request_without_deadline_never_expires() {
    let mut tracker = OutstandingRequestTracker::default();
    let node = NodeIndex(7);
    let deadline = None;
    tracker.add(STORE, Target::Placed { node, deadline }, NOW);
    assert!(tracker.expired(MonoMillis(u64::MAX)).is_empty());
}

#[test]
fn a_satisfied_request_is_gone() {
    let mut tracker = OutstandingRequestTracker::default();
    let id = tracker.add(STORE, placed(7), NOW);
    let satisfied = tracker.satisfy(id, NodeIndex(7)).unwrap();
    assert_eq!(satisfied.outcome, ContainerAllocationOutcome::Placed);
    assert_eq!(
        (satisfied.node, satisfied.remaining),
        (Some(NodeIndex(7)), 0)
    );
    assert_eq!(tracker.satisfy(id, NodeIndex(7)), None);
    assert_eq!(tracker.iter().count(), 0);
    assert_eq!(tracker.requested(STORE), 0);
}

#[test]
fn an_anti_affine_request_stays_until_its_last_container() {
    let mut tracker = OutstandingRequestTracker::default();
    let target = Target::AntiAffine {
        candidates: [1, 2, 3].map(NodeIndex).into(),
        containers: 2,
    };
    let id = tracker.add(STORE, target, NOW);
    assert_eq!(tracker.requested(STORE), 2);
    assert_eq!(tracker.satisfy(id, NodeIndex(2)).unwrap().remaining, 1);
    let Target::AntiAffine {
        candidates,
        containers,
    } = &tracker.anti_affine(STORE).unwrap().target
    else {
        panic!("the request is anti-affine");
    };
    assert_eq!((candidates.len(), *containers), (2, 1));
    assert_eq!(tracker.satisfy(id, NodeIndex(1)).unwrap().remaining, 0);
    assert!(tracker.anti_affine(STORE).is_none());
}

#[test]
fn requests_of_a_role_are_listed_apart_from_those_of_others() {
    let mut tracker = OutstandingRequestTracker::default();
    let mine = tracker.add(STORE, Target::Open, NOW);
    tracker.add(QUERY, Target::Open, NOW);
    tracker.add(QUERY, placed(7), NOW);
    assert_eq!(open(&tracker), [mine]);
    assert_eq!(tracker.placed_of(STORE).count(), 0);
    assert_eq!(tracker.placed_of(QUERY).count(), 1);
}
