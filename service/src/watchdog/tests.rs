use std::io::ErrorKind;

use super::*;
use crate::manager::tests::Listening;
use crate::vitals::Limits;

const PERIOD: Duration = Duration::from_secs(5);
const LIMITS: Limits = Limits {
    reported: Duration::from_secs(10),
    fatal: Some(Duration::from_secs(30)),
};

/// A watchdog's looks, with a manager that listens.
fn looks(vitals: &Vitals) -> (Looks, Listening) {
    let listening = Listening::new();
    let manager = listening.manager(&[("WATCHDOG_USEC", "60000000")]);
    (Looks::new(vitals.clone(), manager, PERIOD), listening)
}

#[test]
fn the_manager_is_notified_until_a_part_is_stuck_for_good() {
    let (vitals, start) = (Vitals::default(), Instant::now());
    let core = vitals.sign("the core", LIMITS, start);
    let (mut looks, listening) = looks(&vitals);
    let at = |looks: &mut Looks, seconds| looks.look(start + Duration::from_secs(seconds));
    for seconds in [5, 10, 15, 20, 25] {
        at(&mut looks, seconds);
        assert_eq!(listening.receive().0, "WATCHDOG=1", "after {seconds} s");
    }
    for seconds in [30, 35] {
        at(&mut looks, seconds);
        let told = listening.receive().0;
        assert!(told.starts_with("STATUS=the core has made no"), "{told}");
    }
    core.alive(start + Duration::from_secs(36));
    at(&mut looks, 40);
    assert_eq!(listening.receive().0, "WATCHDOG=1");
}

#[test]
fn a_process_that_was_stopped_as_a_whole_is_judged_by_the_look_after() {
    let (vitals, start) = (Vitals::default(), Instant::now());
    let core = vitals.sign("the core", LIMITS, start);
    let (mut looks, listening) = looks(&vitals);
    looks.look(start);
    assert_eq!(listening.receive().0, "WATCHDOG=1");
    looks.look(start + Duration::from_secs(3_600));
    assert_eq!(listening.receive().0, "WATCHDOG=1");
    looks.look(start + Duration::from_secs(3_605));
    assert!(listening.receive().0.starts_with("STATUS="));
    core.alive(start + Duration::from_secs(3_606));
    looks.look(start + Duration::from_secs(3_610));
    assert_eq!(listening.receive().0, "WATCHDOG=1");
}

#[test]
fn a_manager_without_a_watchdog_is_not_notified() {
    let vitals = Vitals::default();
    let listening = Listening::new();
    let mut looks = Looks::new(vitals, listening.manager(&[]), PERIOD);
    looks.look(Instant::now());
    assert_eq!(
        listening.try_receive().unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
}

#[test]
fn looks_are_more_frequent_than_the_manager_expects() {
    assert_eq!(period(None), PERIOD);
    assert_eq!(period(Some(Duration::from_secs(60))), PERIOD);
    assert_eq!(
        period(Some(Duration::from_secs(2))),
        Duration::from_millis(500)
    );
}
