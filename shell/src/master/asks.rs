//! What the ResourceManager has been asked for, and when it is to be told something else. Pure.
//!
//! Asks are absolute: a count replaces the one before. The ResourceManager lowers its count with every container that
//! it gives, so the master only speaks when the two differ, and now and then to make sure.

use records::{ExecutionType, MonoMillis};

use super::vocabulary::Ask;

/// After how many milliseconds without a container a count is said again. Saying it again changes nothing, unless the
/// ResourceManager, or a proxy in between, has lost it.
const REPEAT_MS: u64 = 60_000;

/// The number that the asks for containers of this type carry, and the containers that answer them.
#[must_use]
pub const fn request_id(execution_type: ExecutionType) -> i64 {
    match execution_type {
        ExecutionType::Guaranteed => 1,
        ExecutionType::Opportunistic => 2,
    }
}

/// Which type was asked for with this number; `None` for a number that no ask has.
#[must_use]
pub const fn asked_type(request_id: i64) -> Option<ExecutionType> {
    match request_id {
        1 => Some(ExecutionType::Guaranteed),
        2 => Some(ExecutionType::Opportunistic),
        _ => None,
    }
}

/// What the ResourceManager believes is missing, of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AskBook {
    /// `None`: it has not been told anything.
    at_rm: Option<u32>,
    /// When it last said or gave something.
    touched: MonoMillis,
}

impl AskBook {
    /// The ask to send when `wanted` containers are missing; `None` when it knows.
    pub(super) fn ask(
        &mut self,
        execution_type: ExecutionType,
        wanted: u32,
        now: MonoMillis,
    ) -> Option<Ask> {
        let is_news = self.at_rm.unwrap_or(0) != wanted;
        let is_old = wanted > 0 && now.since(self.touched) >= REPEAT_MS;
        if !is_news && !is_old {
            return None;
        }
        self.at_rm = Some(wanted);
        self.touched = now;
        Some(Ask {
            execution_type,
            count: wanted,
        })
    }

    /// Whether [`ask`](Self::ask) would have something new to say.
    pub(super) fn differs(&self, wanted: u32) -> bool {
        self.at_rm.unwrap_or(0) != wanted
    }

    /// It has given one.
    pub(super) fn granted(&mut self, now: MonoMillis) {
        self.at_rm = self.at_rm.map(|count| count.saturating_sub(1));
        self.touched = now;
    }

    /// It has forgotten everything.
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
