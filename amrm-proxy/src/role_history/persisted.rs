//! Record of the asks whose lines at the ResourceManager are not the AM's own. After a restart of
//! the agent the AM does not state them again, and nodes that were named must be given up in time.

use super::asks::{Asks, Named};
use crate::store::{NamedAskRecord, NamedPlaceRecord, Record as _, RoleHistoryRecord};

/// Encodes the asks; `None` when there are none.
pub(super) fn encode(asks: &Asks) -> Option<Vec<u8>> {
    let of_this_node = asks.iter().filter(|(_, ask)| !ask.is_left_to_am);
    let asks: Vec<_> = of_this_node
        .map(|(_, ask)| {
            let places = ask.named.places.iter();
            NamedAskRecord {
                any: ask.any.to_vec(),
                wanted: ask.wanted,
                is_strict: ask.named.is_strict,
                places: places
                    .map(|(name, count)| NamedPlaceRecord {
                        name: name.to_string(),
                        count: *count,
                    })
                    .collect(),
            }
        })
        .collect();
    (!asks.is_empty()).then(|| RoleHistoryRecord { asks }.to_stored())
}

/// Restores the asks of a record; `None` if it cannot be read.
pub(super) fn restore(asks: &mut Asks, stored: &[u8]) -> Option<()> {
    for ask in RoleHistoryRecord::from_stored(stored)?.asks {
        let places = ask.places.into_iter();
        let named = Named {
            is_strict: ask.is_strict,
            places: places
                .map(|place| (place.name.into(), place.count))
                .collect(),
        };
        asks.restore(&ask.any.into(), ask.wanted, named);
    }
    Some(())
}
