//! Which part of an ask becomes opportunistic. Pure.
//!
//! An AM states how many containers it *still* wants, again after each that it got. Sharing out that rest each time would
//! let the part that is served faster take nearly all. So the containers that came count: of all that an ask has got and still
//! wants, its rule's share is to be opportunistic.

use std::collections::BTreeMap;

use wire::proto::hadoop_yarn::{
    ContainerProto, ExecutionTypeProto, ResourceProto, ResourceRequestProto,
};

/// Asks whose containers are counted. What an AM asks for beyond that stays guaranteed. MapReduce has two, Spark one for each
/// of its resource profiles.
const ASKS_MAX: usize = 10_000;

/// What tells asks of an attempt apart: priority, allocation request id, memory and virtual cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AskKey {
    pub(super) priority: i32,
    allocation_request_id: i64,
    memory_mb: i64,
    vcores: i32,
}

impl AskKey {
    /// Of a line of an ask.
    pub(super) fn of(ask: &ResourceRequestProto) -> Self {
        let priority = ask.priority.as_ref();
        Self {
            priority: priority.map_or(0, |priority| priority.priority()),
            allocation_request_id: ask.allocation_request_id(),
            ..Self::sized(ask.capability.as_ref())
        }
    }

    /// Of a container, in the size that it got.
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

/// A part of a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) opportunistic: u32,
    pub(super) whole: u32,
}

/// One ask.
#[derive(Clone, Copy, Debug, Default)]
struct Ask {
    /// Containers that came, of either type.
    got_opportunistic: u64,
    got_guaranteed: u64,
    /// How the last total was shared out; `None` while all of it went on as it came.
    stated: Option<Part>,
    /// The AM asks for opportunistic containers under this key by itself.
    is_the_masters: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Shares {
    asks: BTreeMap<AskKey, Ask>,
    /// Nothing more is wanted of some of them, as far as is known: they may make room.
    may_be_over: bool,
}

/// What becomes of an ask's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// They go on as they came.
    Untouched,
    /// Every line becomes opportunistic.
    Whole,
    /// Every line is shared out like this, and both parts are stated.
    Shared(Part),
}

impl Shares {
    /// The AM asks for opportunistic containers itself: its asks of this key are its own business from now on.
    pub(super) fn leave_to_master(&mut self, key: AskKey) {
        if let Some(ask) = self.entry(key) {
            ask.is_the_masters = true;
        }
    }

    /// What to do with the lines of one ask. `total` is its line for anywhere, if that is among them.
    pub(super) fn decide(
        &mut self,
        key: AskKey,
        percent: u8,
        total: Option<u32>,
        is_strict: bool,
    ) -> Verdict {
        let Some(ask) = self.entry(key).filter(|ask| !ask.is_the_masters) else {
            return Verdict::Untouched;
        };
        if percent >= 100 {
            let stated = total.map(|whole| Part {
                opportunistic: whole,
                whole,
            });
            ask.stated = stated.or(ask.stated).or(Some(Part::default()));
            self.may_be_over |= total == Some(0);
            return Verdict::Whole;
        }
        let part = match total {
            Some(whole) => Part {
                // Which of the places of one part belong together nobody could tell, so those that insist stay together.
                opportunistic: if is_strict {
                    0
                } else {
                    ask.due(percent, whole)
                },
                whole,
            },
            None => ask.stated.unwrap_or_default(),
        };
        if ask.stated.is_none() && part.opportunistic == 0 {
            return Verdict::Untouched;
        }
        ask.stated = Some(part);
        self.may_be_over |= total == Some(0);
        Verdict::Shared(part)
    }

    /// Counts a container that came. Whether it is opportunistic because of a rule.
    pub(super) fn came(&mut self, container: &ContainerProto) -> bool {
        let is_opportunistic = container.execution_type() == ExecutionTypeProto::Opportunistic;
        let Some(ask) = self.asked_for(container) else {
            return false;
        };
        if is_opportunistic {
            ask.got_opportunistic += 1;
        } else {
            ask.got_guaranteed += 1;
        }
        is_opportunistic && ask.stated.is_some() && !ask.is_the_masters
    }

    /// The ask that a container answers: its size may have been rounded up.
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

    /// The ask of this key, if it is or can be known.
    fn entry(&mut self, key: AskKey) -> Option<&mut Ask> {
        if self.asks.len() >= ASKS_MAX && !self.asks.contains_key(&key) {
            // Looked through only if that may help: an AM may state a hundred thousand asks in one call.
            if !std::mem::take(&mut self.may_be_over) {
                return None;
            }
            self.asks.retain(|_, ask| {
                ask.is_the_masters || ask.stated.is_some_and(|part| part.whole > 0)
            });
            if self.asks.len() >= ASKS_MAX {
                return None;
            }
        }
        Some(self.asks.entry(key).or_default())
    }
}

impl Ask {
    /// How many of `whole` containers that are still wanted are to be opportunistic.
    fn due(&self, percent: u8, whole: u32) -> u32 {
        let all = self.got_opportunistic + self.got_guaranteed + u64::from(whole);
        let share = all.saturating_mul(u64::from(percent)).saturating_add(50) / 100;
        let due = share.saturating_sub(self.got_opportunistic);
        u32::try_from(due).unwrap_or(whole).min(whole)
    }
}

/// Shares out counts of places as `part` says, so that their sum is shared out as it says too: each place gets the whole part
/// of its share, and the places with the largest rests one more.
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
    // The largest rest first, and of equal ones the first place.
    rests.sort_unstable_by_key(|(rest, place)| (std::cmp::Reverse(*rest), *place));
    for (_, place) in rests.iter().filter(|(rest, _)| *rest > 0).take(more) {
        shares[*place] += 1;
    }
    // A share is at most its count, which was 32 bits.
    shares
        .into_iter()
        .map(|share| u32::try_from(share).unwrap_or(u32::MAX))
        .collect()
}

#[cfg(test)]
mod tests;
