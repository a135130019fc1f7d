//! Claims about what auxiliary services learn of an earlier agent's containers.

use super::*;

impl CrashingNode {
    /// Returns what services were told since the last call: numbers of containers, and whether
    /// each begins.
    fn take_served(&mut self) -> Vec<(i64, bool)> {
        let told = std::mem::take(&mut self.served).into_iter();
        let of = |effect| {
            if let Effect::ContainerInitialized(served) = effect {
                Some((served.spec.id.id, true))
            } else if let Effect::ContainerStopped(served) = effect {
                Some((served.spec.id.id, false))
            } else {
                None
            }
        };
        told.filter_map(of).collect()
    }
}

#[test]
fn services_learn_again_of_what_goes_on_and_of_nothing_that_has_ended() {
    let mut machine = CrashingNode::new();
    for n in 1..=3 {
        machine.step(&Step::Start(n, ExecutionType::Guaranteed));
        machine.step(&Step::Launched(n));
    }
    machine.step(&Step::Exit(2, 0));
    let first = [(1, true), (2, true), (3, true), (2, false)];
    assert_eq!(machine.take_served(), first);
    machine.crash();
    assert_eq!(machine.take_served(), [(1, true), (3, true)]);
    machine.step(&Step::Exit(3, 0));
    assert_eq!(machine.take_served(), [(3, false)]);
}
