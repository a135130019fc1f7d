//! Names, places and values of labels.

use super::*;

fn assert_places_match<L: Label>() {
    for (place, label) in L::ALL.iter().enumerate() {
        assert_eq!(label.index(), place, "{}", L::NAME);
    }
}

#[test]
fn every_label_value_knows_its_place() {
    assert_places_match::<LaunchPhase>();
    assert_places_match::<Outcome>();
    assert_places_match::<CallOutcome>();
    assert_places_match::<RpcMethod>();
    assert_places_match::<CacheUse>();
    assert_places_match::<TypeLabel>();
    assert_places_match::<StateLabel>();
    assert_places_match::<PressureLabel>();
    assert_places_match::<StallLabel>();
    assert_places_match::<How>();
    assert_places_match::<RejectLabel>();
    assert_places_match::<ShedLabel>();
    assert_places_match::<PassLabel>();
    assert_places_match::<ErrorSide>();
    assert_places_match::<PauseEndLabel>();
    assert_places_match::<LossLabel>();
    assert_places_match::<Direction>();
    assert_places_match::<Share>();
}

#[test]
fn a_method_that_the_protocol_does_not_have_counts_as_other() {
    assert_eq!(
        RpcMethod::from_name("startContainers"),
        RpcMethod::StartContainers
    );
    for name in ["", "StartContainers", "startContainers\n", "x{}\""] {
        assert_eq!(RpcMethod::from_name(name), RpcMethod::Other, "{name:?}");
    }
}

#[test]
fn exit_statuses_fall_into_their_classes() {
    for (status, outcome) in [
        (0, Outcome::Succeeded),
        (1, Outcome::Failed),
        (255, Outcome::Failed),
        (137, Outcome::Signalled),
        (143, Outcome::Signalled),
        (154, Outcome::Lost),
        (-1, Outcome::LaunchFailed),
        (-100, Outcome::Lost),
        (-104, Outcome::ExceededMemory),
        (-108, Outcome::KilledByContainerScheduler),
        (-1000, Outcome::LocalizationFailed),
        (-7, Outcome::Unknown),
        (i32::MAX, Outcome::Unknown),
    ] {
        let found = Outcome::from(ContainerExitStatus(status));
        assert_eq!(found, outcome, "{status}");
    }
}
