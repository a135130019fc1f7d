//! Random sequences of actions of nodes, AMs, clients and time, with lost answers, against
//! invariants after each step and at the end.

mod checks;
mod cluster;
mod peers;

use proptest::prelude::*;

use self::cluster::{Chaos, MACHINES};

#[derive(Clone, Debug)]
enum Step {
    /// Time passes, in milliseconds.
    Pass(u64),
    OfMachine(usize, OfMachine),
    Submit,
    /// The launch at this index succeeds, or fails.
    Launch(usize, bool),
    /// The AM at this index acts.
    OfMaster(usize, OfMaster),
    Kill(usize),
}

#[derive(Clone, Debug)]
enum OfMachine {
    Register,
    /// A heartbeat, and whether its answer arrives.
    Heartbeat(bool),
    /// The container at this index ends, perhaps an AM.
    End(usize),
    Health(bool),
    Goodbye,
}

#[derive(Clone, Debug)]
enum OfMaster {
    /// Asks, and releases and updates the containers at these indices; whether the answer arrives.
    Call {
        guaranteed: i32,
        opportunistic: i32,
        release: Option<usize>,
        update: Option<usize>,
        arrives: bool,
    },
    Start(usize),
    Finish,
}

fn of_machine() -> impl Strategy<Value = OfMachine> {
    prop_oneof![
        2 => Just(OfMachine::Register),
        8 => prop::bool::weighted(0.8).prop_map(OfMachine::Heartbeat),
        4 => (0..4_usize).prop_map(OfMachine::End),
        1 => any::<bool>().prop_map(OfMachine::Health),
        1 => Just(OfMachine::Goodbye),
    ]
}

fn of_master() -> impl Strategy<Value = OfMaster> {
    let place = || prop::option::weighted(0.3, 0..3_usize);
    let call = (0..4, 0..4, place(), place(), prop::bool::weighted(0.8));
    let call =
        call.prop_map(
            |(guaranteed, opportunistic, release, update, arrives)| OfMaster::Call {
                guaranteed,
                opportunistic,
                release,
                update,
                arrives,
            },
        );
    prop_oneof![
        8 => call,
        6 => (0..3_usize).prop_map(OfMaster::Start),
        1 => Just(OfMaster::Finish),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1..3_000_u64).prop_map(Step::Pass),
        8 => (0..MACHINES, of_machine()).prop_map(|(at, of)| Step::OfMachine(at, of)),
        2 => Just(Step::Submit),
        3 => (0..2_usize, prop::bool::weighted(0.9)).prop_map(|(at, ok)| Step::Launch(at, ok)),
        8 => (0..3_usize, of_master()).prop_map(|(at, of)| Step::OfMaster(at, of)),
        1 => (0..3_usize).prop_map(Step::Kill),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn whatever_peers_do_the_books_hold_and_nothing_is_left_in_the_end(
        steps in prop::collection::vec(step(), 0..150)
    ) {
        let mut chaos = Chaos::new();
        for step in &steps {
            chaos.take(step);
        }
        chaos.settle();
        chaos.check_owners();
        chaos.end();
    }
}
