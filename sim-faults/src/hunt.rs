//! The hunt for a planted fault.

use crate::planted::Planted;
use crate::scenario::{Scenario, Size};
use crate::world::run;

/// Runs harsh scenarios with a planted fault, from seed 1 on, until its checker catches it.
/// No other checker looks on. Returns the number of seeds; `None`: so many did not suffice.
#[must_use]
pub fn catch(planted: Planted, size: Size, seeds_max: u64) -> Option<u64> {
    let mut seeds = 1..=seeds_max;
    seeds.find(|seed| {
        let mut scenario = Scenario::harsh(*seed, size);
        scenario.planted = Some(planted);
        scenario.only = Some(planted.expected());
        run(&scenario).violation.is_some()
    })
}
