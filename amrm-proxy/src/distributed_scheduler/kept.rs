//! What the scheduler keeps over a restart of the agent, as records and back. Pure.

use records::{ExecutionType, Resource};
use sched::{
    ALLOCATIONS_PER_CALL_MAX, DistributedAllocatorState, DistributedGrant, ResourceLimits,
};
use wire::proto::hadoop_yarn::ResourceRequestProto;

use crate::store::{AsksRecord, BlacklistRecord, LimitsRecord, NextIdRecord, Part, Record as _};

/// Container ids that are written down ahead as used: those of four calls that each take all they may. With half of them
/// used the record is written anew, so that what a call uses was written down with the call before it at the latest.
const IDS_AHEAD: i64 = 4 * ALLOCATIONS_PER_CALL_MAX as i64;

/// The ids that are taken for used after a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IdFloor {
    floor: Option<i64>,
}

impl IdFloor {
    /// What to write down now that `lowest` is the lowest id in use; `None` when what is written will do.
    pub(super) fn used(&mut self, lowest: i64) -> Option<Vec<u8>> {
        let is_enough = self
            .floor
            .is_some_and(|floor| lowest.saturating_sub(floor) > IDS_AHEAD / 2);
        (!is_enough).then(|| self.write(lowest))
    }

    /// What to write down for a new range of ids, which are given out below `lowest`.
    pub(super) fn begin(&mut self, lowest: i64) -> Vec<u8> {
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

/// The record of what is outstanding; none when nothing is.
pub(super) fn asks(state: &DistributedAllocatorState) -> Option<Vec<u8>> {
    let asks: Vec<_> = state.asks.iter().map(ResourceRequestProto::from).collect();
    (!asks.is_empty()).then(|| AsksRecord { asks }.to_stored())
}

pub(super) fn blacklist(state: &DistributedAllocatorState) -> Option<Vec<u8>> {
    let hosts = state.blacklist.clone();
    (!hosts.is_empty()).then(|| BlacklistRecord { hosts }.to_stored())
}

/// Adds a record to the state; `false` when it cannot be read.
pub(super) fn add(state: &mut DistributedAllocatorState, part: Part, stored: &[u8]) -> bool {
    let added = match part {
        Part::Master | Part::Registration | Part::Outstanding => Some(()),
        Part::Limits => LimitsRecord::from_stored(stored)
            .and_then(|record| read_limits(&record))
            .map(|grant| state.grant = Some(grant)),
        Part::NextId => {
            NextIdRecord::from_stored(stored).map(|record| state.lowest_container_id = record.floor)
        }
        Part::Asks => AsksRecord::from_stored(stored).and_then(|record| {
            let asks = record.asks.iter().map(|ask| ask.try_into().ok());
            state.asks = asks.collect::<Option<_>>()?;
            for ask in &mut state.asks {
                ask.execution_type_request.execution_type = ExecutionType::Opportunistic;
            }
            Some(())
        }),
        Part::Blacklist => {
            BlacklistRecord::from_stored(stored).map(|record| state.blacklist = record.hosts)
        }
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

    /// Uses ids in calls of this size; how often the record is written. What a call uses must have been written before it.
    fn writes(per_call: i64, calls: i64) -> i64 {
        let mut floor = IdFloor::default();
        let mut lowest = 1 << 40;
        let mut ahead = written(&floor.begin(lowest));
        let mut writes = 0;
        for _ in 0..calls {
            lowest -= per_call;
            assert!(ahead <= lowest, "id {lowest} is used before it is written");
            if let Some(record) = floor.used(lowest) {
                ahead = written(&record);
                writes += 1;
            }
        }
        writes
    }

    #[test]
    fn ids_are_written_before_they_are_used_and_seldom() {
        let most = i64::from(ALLOCATIONS_PER_CALL_MAX);
        assert_eq!(writes(1, 10 * most), 5);
        assert_eq!(writes(10, most), 5);
        assert_eq!(writes(most, 100), 50);
    }
}
