use super::*;

const T1: EpochMillis = EpochMillis(1_000);
const T2: EpochMillis = EpochMillis(2_000);

fn entry() -> NodeEntry {
    NodeEntry::new(RoleId::new(3).unwrap())
}

fn running() -> NodeEntry {
    let mut entry = entry();
    entry.add(Phase::Starting);
    entry.confirm_start();
    entry
}

#[test]
fn a_new_entry_is_available_and_not_listed() {
    let entry = entry();
    assert!(entry.is_available() && !entry.is_listed() && entry.is_blank());
    assert_eq!(entry.last_used(), EpochMillis(0));
}

#[test]
fn an_ask_makes_the_node_unavailable_and_takes_it_off_the_list() {
    let mut entry = NodeEntry::restored(RoleId::new(3).unwrap(), T1);
    assert!(entry.is_listed());
    entry.set_requested();
    assert!(!entry.is_available() && !entry.is_listed());
    entry.clear_requested();
    assert!(entry.is_available() && !entry.is_listed());
    entry.list_if_available();
    assert!(entry.is_listed());
    assert_eq!(entry.last_used(), T1, "an ask is no use");
}

#[test]
fn an_accepted_container_starts_then_lives() {
    let mut entry = entry();
    entry.add(Phase::Starting);
    assert_eq!((entry.starting(), entry.live(), entry.active()), (1, 0, 0));
    assert!(!entry.is_available());
    entry.confirm_start();
    assert_eq!((entry.starting(), entry.live(), entry.active()), (0, 1, 1));
}

#[test]
fn a_submitted_release_lowers_active_at_once_and_live_on_completion() {
    let mut entry = running();
    entry.submit_release();
    assert_eq!((entry.live(), entry.active(), entry.releasing()), (1, 0, 1));
    assert!(entry.is_available(), "a new container would not make two");
    assert!(
        !entry.is_listed(),
        "listed only when the container has gone"
    );
    entry.complete_release(Phase::Live, T1);
    assert_eq!((entry.live(), entry.releasing()), (0, 0));
    assert!(entry.is_listed());
    assert_eq!(entry.last_used(), T1);
}

#[test]
fn a_container_released_before_it_started_leaves_no_start_behind() {
    let mut entry = entry();
    entry.add(Phase::Starting);
    entry.submit_release();
    entry.complete_release(Phase::Starting, T1);
    assert_eq!(
        (entry.starting(), entry.live(), entry.releasing()),
        (0, 0, 0)
    );
    assert!(entry.is_available());
}

#[test]
fn last_use_is_noted_when_the_last_container_has_gone() {
    let mut entry = running();
    entry.add(Phase::Starting);
    entry.confirm_start();
    entry.complete(Phase::Live, ContainerOutcome::Completed, false, T1);
    assert_eq!(entry.last_used(), EpochMillis(0));
    assert!(!entry.is_listed());
    entry.complete(Phase::Live, ContainerOutcome::Completed, false, T2);
    assert_eq!(entry.last_used(), T2);
    assert!(entry.is_listed());
}

#[test]
fn a_failed_start_costs_the_node_its_place_and_keeps_the_other_container() {
    let mut entry = running();
    entry.add(Phase::Starting);
    entry.complete(Phase::Starting, ContainerOutcome::Failed, true, T1);
    assert_eq!((entry.starting(), entry.live()), (0, 1));
    assert_eq!(
        (
            entry.failed(),
            entry.failed_recently(),
            entry.start_failed()
        ),
        (1, 1, 1)
    );
    assert_eq!(entry.last_used(), EpochMillis(0));
    assert!(!entry.is_listed());
}

#[test]
fn a_long_lived_failure_is_charged_and_the_node_is_listed() {
    let mut entry = running();
    entry.complete(Phase::Live, ContainerOutcome::Failed, false, T1);
    assert_eq!((entry.failed(), entry.start_failed()), (1, 0));
    assert!(entry.is_listed());
}

#[test]
fn a_short_lived_node_failure_is_no_failed_start_but_costs_the_place() {
    let mut entry = running();
    entry.complete(Phase::Live, ContainerOutcome::NodeFailure, true, T1);
    assert_eq!((entry.failed(), entry.start_failed()), (1, 0));
    assert!(!entry.is_listed());
}

#[test]
fn short_lived_ends_that_are_not_the_nodes_fault_keep_its_place() {
    for outcome in [
        ContainerOutcome::Completed,
        ContainerOutcome::Preempted,
        ContainerOutcome::FailedLimitsExceeded,
    ] {
        let mut entry = running();
        entry.complete(Phase::Live, outcome, true, T1);
        assert_eq!(
            (entry.failed(), entry.failed_recently()),
            (0, 0),
            "{outcome:?}"
        );
        assert!(entry.is_listed(), "{outcome:?}");
        let preempted = u16::from(outcome == ContainerOutcome::Preempted);
        assert_eq!(entry.preempted(), preempted);
    }
}

#[test]
fn a_reset_forgets_recent_failures_only() {
    let mut entry = running();
    entry.complete(Phase::Live, ContainerOutcome::Failed, true, T1);
    entry.reset_failed_recently();
    assert_eq!(
        (
            entry.failed(),
            entry.failed_recently(),
            entry.start_failed()
        ),
        (1, 0, 1)
    );
}

#[test]
fn unused_since_is_strict_and_needs_a_free_node() {
    let entry = NodeEntry::restored(RoleId::new(3).unwrap(), T1);
    assert!(!entry.is_unused_since(T1));
    assert!(entry.is_unused_since(T2));
    assert!(!running().is_unused_since(T2));
}

#[test]
fn two_containers_break_anti_affinity_unless_one_is_being_released() {
    let mut entry = running();
    assert!(entry.is_anti_affine());
    entry.add(Phase::Starting);
    assert!(!entry.is_anti_affine());
    entry.submit_release();
    assert!(entry.is_anti_affine());
}
