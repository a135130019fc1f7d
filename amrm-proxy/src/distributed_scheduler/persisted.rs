//! Stored records of the scheduler, encoded and decoded. Pure.

use records::Resource;
use sched::{
    ALLOCATIONS_PER_CALL_MAX, DistributedAllocatorState, DistributedGrant, ResourceLimits,
};
use wire::proto::hadoop_yarn::ResourceRequestProto;

use crate::store::{AsksRecord, BlacklistRecord, LimitsRecord, NextIdRecord, Part, Record as _};

/// Grant of the ResourceManager for opportunistic containers.
pub(super) const LIMITS: Part = Part::new("limits");

/// Lower bound of the container ids in use.
pub(super) const NEXT_ID: Part = Part::new("next-id");

/// Opportunistic asks outstanding.
pub(super) const ASKS: Part = Part::new("asks");

/// Hosts that must not be used.
pub(super) const BLACKLIST: Part = Part::new("blacklist");

/// Number of container ids that a record reserves ahead. The record is renewed when half of them
/// are used. No call waits for the record, whose disk may be full for long: the other half is more
/// than an AM gets meanwhile. Each restart of the agent leaves out as many of 2^40 ids.
const IDS_AHEAD: i64 = 1 << 24;
const _: () = assert!(IDS_AHEAD >= 4 * ALLOCATIONS_PER_CALL_MAX as i64);

/// Lower bound of the container ids in use, as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IdFloor {
    floor: Option<i64>,
}

impl IdFloor {
    /// Returns the new record to store when `lowest` is the lowest id in use; `None` while the
    /// stored record covers it.
    pub(super) fn note_used(&mut self, lowest: i64) -> Option<Vec<u8>> {
        let is_enough = self
            .floor
            .is_some_and(|floor| lowest.saturating_sub(floor) > IDS_AHEAD / 2);
        (!is_enough).then(|| self.write(lowest))
    }

    /// Returns the record for a new range of ids, which are allocated downwards from `lowest`.
    pub(super) fn new_range(&mut self, lowest: i64) -> Vec<u8> {
        self.write(lowest)
    }

    fn write(&mut self, lowest: i64) -> Vec<u8> {
        let floor = lowest.saturating_sub(IDS_AHEAD);
        self.floor = Some(floor);
        NextIdRecord { floor }.to_stored()
    }
}

pub(super) fn limits(grant: &DistributedGrant) -> Vec<u8> {
    LimitsRecord {
        minimum: Some(grant.limits.minimum.into()),
        maximum: Some(grant.limits.maximum.into()),
        increment: Some(grant.limits.increment.into()),
        token_expiry_ms: i64::try_from(grant.token_life_ms).unwrap_or(i64::MAX),
        container_id_start: grant.container_id_start,
    }
    .to_stored()
}

/// Encodes the outstanding asks; `None` when there are none.
pub(super) fn asks(state: &DistributedAllocatorState) -> Option<Vec<u8>> {
    let asks: Vec<_> = state.asks.iter().map(ResourceRequestProto::from).collect();
    (!asks.is_empty()).then(|| AsksRecord { asks }.to_stored())
}

pub(super) fn blacklist(state: &DistributedAllocatorState) -> Option<Vec<u8>> {
    let hosts = state.blacklist.clone();
    (!hosts.is_empty()).then(|| BlacklistRecord { hosts }.to_stored())
}

/// Adds a stored record to the state. Returns `false` when it cannot be decoded.
pub(super) fn restore_part(
    state: &mut DistributedAllocatorState,
    part: Part,
    stored: &[u8],
) -> bool {
    let added = match part {
        LIMITS => LimitsRecord::from_stored(stored)
            .and_then(|record| read_limits(&record))
            .map(|grant| state.grant = Some(grant)),
        NEXT_ID => {
            NextIdRecord::from_stored(stored).map(|record| state.lowest_container_id = record.floor)
        }
        ASKS => AsksRecord::from_stored(stored).and_then(|record| {
            let asks = record.asks.iter().map(|ask| ask.try_into().ok());
            state.asks = asks.collect::<Option<_>>()?;
            Some(())
        }),
        BLACKLIST => {
            BlacklistRecord::from_stored(stored).map(|record| state.blacklist = record.hosts)
        }
        _ => None,
    };
    added.is_some()
}

fn read_limits(record: &LimitsRecord) -> Option<DistributedGrant> {
    let size = |size: &Option<_>| Resource::try_from(size.as_ref()?).ok();
    Some(DistributedGrant {
        limits: ResourceLimits {
            minimum: size(&record.minimum)?,
            maximum: size(&record.maximum)?,
            increment: size(&record.increment)?,
        },
        token_life_ms: u64::try_from(record.token_expiry_ms).ok()?,
        container_id_start: record.container_id_start,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(record: &[u8]) -> i64 {
        NextIdRecord::from_stored(record).unwrap().floor
    }

    /// Allocates ids in calls of this size and returns the number of records written. Fails if a
    /// call uses ids that no earlier record covers.
    fn writes(per_call: i64, calls: i64) -> i64 {
        let mut floor = IdFloor::default();
        let mut lowest = 1 << 40;
        let mut ahead = written(&floor.new_range(lowest));
        let mut writes = 0;
        for _ in 0..calls {
            lowest -= per_call;
            assert!(ahead <= lowest, "id {lowest} is used before it is written");
            if let Some(record) = floor.note_used(lowest) {
                ahead = written(&record);
                writes += 1;
            }
        }
        writes
    }

    #[test]
    fn ids_are_written_before_they_are_used_and_seldom() {
        let most = i64::from(ALLOCATIONS_PER_CALL_MAX);
        let half = IDS_AHEAD / 2;
        for per_call in [10, most] {
            let calls_per_write = (half + per_call - 1) / per_call;
            assert_eq!(writes(per_call, 5 * calls_per_write), 5);
        }
    }

    #[test]
    fn ids_that_are_used_while_no_record_can_be_written_are_reserved_before() {
        let mut floor = IdFloor::default();
        let start = 1 << 40;
        let stored = written(&floor.new_range(start));
        let lowest = start - IDS_AHEAD / 2 + 1;
        assert!(floor.note_used(lowest).is_none());
        // From here on records are lost. An hour at two thousand containers a second:
        let lowest = lowest - 3_600 * 2_000;
        assert!(floor.note_used(lowest).is_some());
        assert!(stored < lowest);
    }
}
