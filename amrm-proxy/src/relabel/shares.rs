//! Decides which part of an ask becomes opportunistic. Pure.
//!
//! An AM states how many containers it *still* wants, anew after each one that it receives.
//! Splitting that rest each time would let the type that is served faster take nearly everything.
//! So received containers count: of all that an ask has received and still wants, the rule's
//! percentage is to be opportunistic.

use std::collections::BTreeMap;

use wire::proto::hadoop_yarn::{
    ContainerProto, ExecutionTypeProto, ResourceProto, ResourceRequestProto,
};

/// Maximum of asks whose containers are counted. Further asks stay guaranteed. MapReduce has two,
/// Spark one for each resource profile.
const ASKS_MAX: usize = 10_000;

/// Key of an ask: priority, allocation request id, memory and virtual cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AskKey {
    pub(super) priority: i32,
    allocation_request_id: i64,
    memory_mb: i64,
    vcores: i32,
}

impl AskKey {
    /// Makes the key of an ask's line.
    pub(super) fn of(ask: &ResourceRequestProto) -> Self {
        let priority = ask.priority.as_ref();
        Self {
            priority: priority.map_or(0, |priority| priority.priority()),
            allocation_request_id: ask.allocation_request_id(),
            ..Self::sized(ask.capability.as_ref())
        }
    }

    /// Makes the key of a container with its actual size.
    fn of_container(container: &ContainerProto) -> Self {
        let priority = container.priority.as_ref();
        Self {
            priority: priority.map_or(0, |priority| priority.priority()),
            allocation_request_id: container.allocation_request_id(),
            ..Self::sized(container.resource.as_ref())
        }
    }

    fn sized(size: Option<&ResourceProto>) -> Self {
        Self {
            priority: 0,
            allocation_request_id: 0,
            memory_mb: size.map_or(0, ResourceProto::memory),
            vcores: size.map_or(0, ResourceProto::virtual_cores),
        }
    }

    fn fits_in(&self, other: &Self) -> bool {
        self.memory_mb <= other.memory_mb && self.vcores <= other.vcores
    }
}

/// A fraction of containers: `opportunistic` out of `whole`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) opportunistic: u32,
    pub(super) whole: u32,
}

/// Counts of one ask.
#[derive(Clone, Copy, Debug, Default)]
struct Ask {
    /// Opportunistic containers received.
    got_opportunistic: u64,
    got_guaranteed: u64,
    /// Split of the last total; `None` while every total was forwarded unchanged.
    stated: Option<Part>,
    /// Whether the AM itself requests opportunistic containers under this key.
    is_asked_by_am: bool,
}

/// Table of asks with their received containers.
#[derive(Debug, Default)]
pub(super) struct Shares {
    asks: BTreeMap<AskKey, Ask>,
    /// Whether an ask without wanted containers may exist, whose entry could be removed.
    may_have_finished: bool,
}

/// Treatment of an ask's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Lines are forwarded unchanged.
    Untouched,
    /// Every line becomes opportunistic.
    Whole,
    /// Every line is split in this proportion, and both parts are stated.
    Shared(Part),
}

impl Shares {
    /// Leaves the asks of this key to the AM, which requests opportunistic containers itself.
    pub(super) fn leave_to_am(&mut self, key: AskKey) {
        if let Some(ask) = self.entry(key) {
            ask.is_asked_by_am = true;
        }
    }

    /// Decides about the lines of one ask. `total` is the count for any location, if such a line is
    /// among them.
    pub(super) fn decide(
        &mut self,
        key: AskKey,
        percent: u8,
        total: Option<u32>,
        is_strict: bool,
    ) -> Verdict {
        let Some(ask) = self.entry(key).filter(|ask| !ask.is_asked_by_am) else {
            return Verdict::Untouched;
        };
        if percent >= 100 {
            let stated = total.map(|whole| Part {
                opportunistic: whole,
                whole,
            });
            ask.stated = stated.or(ask.stated).or(Some(Part::default()));
            self.may_have_finished |= total == Some(0);
            return Verdict::Whole;
        }
        let part = match total {
            Some(whole) => Part {
                // Locations of one part cannot be matched to each other, so an ask with strict
                // locality is not split.
                opportunistic: if is_strict {
                    0
                } else {
                    ask.opportunistic_due(percent, whole)
                },
                whole,
            },
            None => ask.stated.unwrap_or_default(),
        };
        if ask.stated.is_none() && part.opportunistic == 0 {
            return Verdict::Untouched;
        }
        ask.stated = Some(part);
        self.may_have_finished |= total == Some(0);
        Verdict::Shared(part)
    }

    /// Counts a received container. Returns whether it is opportunistic because of a rule.
    pub(super) fn count_arrival(&mut self, container: &ContainerProto) -> bool {
        let is_opportunistic = container.execution_type() == ExecutionTypeProto::Opportunistic;
        let Some(ask) = self.asked_for(container) else {
            return false;
        };
        if is_opportunistic {
            ask.got_opportunistic += 1;
        } else {
            ask.got_guaranteed += 1;
        }
        is_opportunistic && ask.stated.is_some() && !ask.is_asked_by_am
    }

    /// Finds the ask that a container answers; the container may be larger than requested.
    fn asked_for(&mut self, container: &ContainerProto) -> Option<&mut Ask> {
        let size = AskKey::of_container(container);
        if self.asks.contains_key(&size) {
            return self.asks.get_mut(&size);
        }
        let smallest = AskKey {
            memory_mb: i64::MIN,
            vcores: i32::MIN,
            ..size
        };
        let largest = AskKey {
            memory_mb: i64::MAX,
            vcores: i32::MAX,
            ..size
        };
        let mut alike = self.asks.range_mut(smallest..=largest);
        alike
            .rfind(|(key, _)| key.fits_in(&size))
            .map(|(_, ask)| ask)
    }

    /// Returns the entry of this key, made if there is capacity for it.
    fn entry(&mut self, key: AskKey) -> Option<&mut Ask> {
        if self.asks.len() >= ASKS_MAX && !self.asks.contains_key(&key) {
            // Scanned only if that may help: an AM may state a hundred thousand asks in one call.
            if !std::mem::take(&mut self.may_have_finished) {
                return None;
            }
            self.asks.retain(|_, ask| {
                ask.is_asked_by_am || ask.stated.is_some_and(|part| part.whole > 0)
            });
            if self.asks.len() >= ASKS_MAX {
                return None;
            }
        }
        Some(self.asks.entry(key).or_default())
    }
}

impl Ask {
    /// Returns how many of `whole` containers still wanted are to be opportunistic.
    fn opportunistic_due(&self, percent: u8, whole: u32) -> u32 {
        let all = self.got_opportunistic + self.got_guaranteed + u64::from(whole);
        let share = all.saturating_mul(u64::from(percent)).saturating_add(50) / 100;
        let due = share.saturating_sub(self.got_opportunistic);
        u32::try_from(due).unwrap_or(whole).min(whole)
    }
}

/// Splits the counts of locations in the proportion `part` so that their sum is split in the same
/// proportion. Each location gets the integral share; the locations with the largest remainders get
/// one more.
pub(super) fn apportion(counts: &[u32], part: Part) -> Vec<u32> {
    let Part {
        opportunistic,
        whole,
    } = part;
    if whole == 0 {
        return vec![0; counts.len()];
    }
    let (opportunistic, whole) = (u64::from(opportunistic.min(whole)), u64::from(whole));
    let mut shares: Vec<u64> = Vec::with_capacity(counts.len());
    let mut rests: Vec<(u64, usize)> = Vec::with_capacity(counts.len());
    for (place, count) in counts.iter().enumerate() {
        let product = u64::from(*count) * opportunistic;
        shares.push(product / whole);
        rests.push((product % whole, place));
    }
    let rest: u64 = rests.iter().map(|(rest, _)| rest).sum();
    let more = usize::try_from((rest + whole / 2) / whole).unwrap_or(usize::MAX);
    // Largest remainder first; among equal ones the first location.
    rests.sort_unstable_by_key(|(rest, place)| (std::cmp::Reverse(*rest), *place));
    for (_, place) in rests.iter().filter(|(rest, _)| *rest > 0).take(more) {
        shares[*place] += 1;
    }
    // A share is at most its count, which has 32 bits.
    shares
        .into_iter()
        .map(|share| u32::try_from(share).unwrap_or(u32::MAX))
        .collect()
}

#[cfg(test)]
mod tests;
