//! Records of the asks whose lines at the ResourceManager are not the AM's own. After a restart of
//! the agent the AM does not state them again, and nodes that were named must be given up in time.
//!
//! Counts and flags are stored with each change. The places, of which there may be thousands, are
//! stored at intervals: a line too many there is taken back twice, and one that is missing prefers
//! a node of the history until the AM's ask ends.

use std::collections::BTreeMap;

use super::asks::{AskKey, Asks};
use super::named::NamedLines;
use crate::store::{
    NamedAskRecord, NamedPlacesRecord, Record as _, RoleHistoryPlacesRecord, RoleHistoryRecord,
};

/// Encodes the asks without their places; `None` when there are none.
pub(super) fn encode(asks: &Asks) -> Option<Vec<u8>> {
    let of_this_node = asks.iter().filter(|(_, ask)| !ask.is_left_to_am);
    let asks: Vec<_> = of_this_node
        .map(|(_, ask)| NamedAskRecord {
            any: ask.any.to_vec(),
            wanted: ask.wanted,
            is_strict: ask.named.is_strict(),
        })
        .collect();
    (!asks.is_empty()).then(|| RoleHistoryRecord { asks }.to_stored())
}

/// Encodes the places of the asks; `None` when there are none.
pub(super) fn encode_places(asks: &Asks) -> Option<Vec<u8>> {
    let named = asks.iter().filter(|(_, ask)| !ask.named.is_empty());
    let asks: Vec<_> = named
        .map(|(key, ask)| {
            let mut record = NamedPlacesRecord {
                priority: key.priority,
                request_id: key.request_id,
                execution_type: key.execution_type,
                ..NamedPlacesRecord::default()
            };
            for (name, count) in ask.named.places() {
                record.names.extend_from_slice(name.as_bytes());
                record
                    .lengths
                    .push(u32::try_from(name.len()).unwrap_or(u32::MAX));
                record.counts.push(count);
            }
            record
        })
        .collect();
    (!asks.is_empty()).then(|| RoleHistoryPlacesRecord { asks }.to_stored())
}

/// Restores the asks of a record; `None` if it cannot be read.
pub(super) fn restore(asks: &mut Asks, stored: &[u8]) -> Option<()> {
    for ask in RoleHistoryRecord::from_stored(stored)?.asks {
        let named = NamedLines::restored(ask.is_strict, BTreeMap::new());
        asks.restore(&ask.any.into(), ask.wanted, named);
    }
    Some(())
}

/// Restores the places of restored asks; `None` if the record cannot be read.
pub(super) fn restore_places(asks: &mut Asks, stored: &[u8]) -> Option<()> {
    for record in RoleHistoryPlacesRecord::from_stored(stored)?.asks {
        let key = AskKey {
            priority: record.priority,
            request_id: record.request_id,
            execution_type: record.execution_type,
        };
        let mut places = BTreeMap::new();
        let mut names = &record.names[..];
        for (length, count) in record.lengths.into_iter().zip(record.counts) {
            let (name, others) = names.split_at_checked(usize::try_from(length).ok()?)?;
            places.insert(str::from_utf8(name).ok()?.into(), count);
            names = others;
        }
        if let Some(named) = asks.named(key) {
            *named = NamedLines::restored(named.is_strict(), places);
        }
    }
    Some(())
}
