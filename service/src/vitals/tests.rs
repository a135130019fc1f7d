use super::*;

const LIMITS: Limits = Limits {
    reported: Duration::from_secs(10),
    fatal: Some(Duration::from_secs(30)),
};

#[test]
fn a_part_that_says_nothing_is_reported_first_and_fatal_later() {
    let (vitals, start) = (Vitals::default(), Instant::now());
    let after = |seconds| vitals.stuck(start + Duration::from_secs(seconds));
    let core = vitals.sign("the core", LIMITS, start);
    let _other = vitals.sign("another", LIMITS, start + Duration::from_secs(1_000));
    assert_eq!(after(9), []);
    let stuck = after(10);
    assert_eq!(stuck.len(), 1);
    assert!(!stuck[0].is_fatal);
    assert_eq!(
        stuck[0].to_string(),
        "the core has made no progress for 10 s"
    );
    assert!(after(30)[0].is_fatal);
    core.alive(start + Duration::from_secs(29));
    assert_eq!(after(38), []);
    drop(core);
    assert_eq!(after(100), []);
}

#[test]
fn a_part_that_need_not_make_progress_is_never_stuck() {
    let (vitals, start) = (Vitals::default(), Instant::now());
    let busy = Arc::new(Mutex::new(None));
    let since = Arc::clone(&busy);
    let limits = Limits {
        fatal: None,
        ..LIMITS
    };
    let _watched = vitals.watch("launches", limits, move || *since.lock().unwrap());
    let later = start + Duration::from_secs(1_000_000);
    assert_eq!(vitals.stuck(later), []);
    *busy.lock().unwrap() = Some(start);
    let stuck = vitals.stuck(later);
    assert_eq!(stuck.len(), 1);
    assert!(!stuck[0].is_fatal, "no limit is fatal for it");
}

#[test]
fn progress_after_the_time_of_the_look_is_no_fault() {
    let (vitals, start) = (Vitals::default(), Instant::now());
    let _core = vitals.sign("the core", LIMITS, start + Duration::from_secs(60));
    assert_eq!(vitals.stuck(start), []);
}
