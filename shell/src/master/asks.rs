//! Asks at the ResourceManager, and when to send them again. Pure.
//!
//! Asks are absolute: a count replaces the one before. The ResourceManager lowers its count with
//! every container that it allocates, so the AM sends an ask only when the two counts differ, and
//! now and then to make sure.

use records::{ExecutionType, MonoMillis};

use super::vocabulary::Ask;

/// Milliseconds without a container after which a count is sent again. That changes nothing, unless
/// the ResourceManager, or a proxy in between, has lost the ask.
const REPEAT_MS: u64 = 60_000;

/// Returns the allocation request id of asks for this type, which the allocated containers carry
/// too.
#[must_use]
pub const fn request_id(execution_type: ExecutionType) -> i64 {
    match execution_type {
        ExecutionType::Guaranteed => 1,
        ExecutionType::Opportunistic => 2,
    }
}

/// Returns the type that was asked for under this id; `None` for an id that no ask has.
#[must_use]
pub const fn asked_type(request_id: i64) -> Option<ExecutionType> {
    match request_id {
        1 => Some(ExecutionType::Guaranteed),
        2 => Some(ExecutionType::Opportunistic),
        _ => None,
    }
}

/// Outstanding containers of one type, as the ResourceManager counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AskBook {
    /// Count at the ResourceManager; `None` before the first ask.
    at_rm: Option<u32>,
    /// Time of the last ask or allocation.
    touched: MonoMillis,
}

impl AskBook {
    /// Returns the ask to send when `wanted` containers are missing; `None` when the
    /// ResourceManager has that count.
    pub(super) fn ask(
        &mut self,
        execution_type: ExecutionType,
        wanted: u32,
        now: MonoMillis,
    ) -> Option<Ask> {
        let is_new = self.at_rm.unwrap_or(0) != wanted;
        let is_old = wanted > 0 && now.since(self.touched) >= REPEAT_MS;
        if !is_new && !is_old {
            return None;
        }
        self.at_rm = Some(wanted);
        self.touched = now;
        Some(Ask {
            execution_type,
            count: wanted,
        })
    }

    /// Returns whether [`ask`](Self::ask) would send a new count.
    pub(super) fn differs(&self, wanted: u32) -> bool {
        self.at_rm.unwrap_or(0) != wanted
    }

    /// Records the allocation of one container.
    pub(super) fn granted(&mut self, now: MonoMillis) {
        self.at_rm = self.at_rm.map(|count| count.saturating_sub(1));
        self.touched = now;
    }

    /// Records that the ResourceManager has lost all asks.
    pub(super) const fn forget(&mut self) {
        self.at_rm = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: ExecutionType = ExecutionType::Opportunistic;

    #[test]
    fn only_what_differs_is_asked() {
        let mut book = AskBook::default();
        let count = |ask: Option<Ask>| ask.map(|ask| ask.count);
        assert_eq!(count(book.ask(TYPE, 0, MonoMillis(0))), None);
        assert_eq!(count(book.ask(TYPE, 3, MonoMillis(0))), Some(3));
        assert_eq!(count(book.ask(TYPE, 3, MonoMillis(1))), None);
        book.granted(MonoMillis(2));
        assert_eq!(count(book.ask(TYPE, 2, MonoMillis(2))), None);
        assert_eq!(count(book.ask(TYPE, 0, MonoMillis(3))), Some(0));
    }

    #[test]
    fn what_was_forgotten_is_asked_again() {
        let mut book = AskBook::default();
        book.ask(TYPE, 3, MonoMillis(0));
        book.forget();
        assert!(book.differs(3));
        assert!(book.ask(TYPE, 3, MonoMillis(1)).is_some());
    }

    #[test]
    fn a_count_is_said_again_after_a_minute_without_a_container() {
        let mut book = AskBook::default();
        book.ask(TYPE, 3, MonoMillis(0));
        assert!(book.ask(TYPE, 3, MonoMillis(REPEAT_MS - 1)).is_none());
        assert!(book.ask(TYPE, 3, MonoMillis(REPEAT_MS)).is_some());
        assert!(book.ask(TYPE, 3, MonoMillis(REPEAT_MS + 1)).is_none());
    }

    #[test]
    fn numbers_of_asks_lead_back_to_their_types() {
        for execution_type in [ExecutionType::Guaranteed, ExecutionType::Opportunistic] {
            assert_eq!(asked_type(request_id(execution_type)), Some(execution_type));
        }
        assert_eq!(asked_type(-1), None);
    }
}
