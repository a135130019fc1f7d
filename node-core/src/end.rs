//! The end of a container: one value, which every part that knows containers is told.

use std::sync::Arc;

use node_view::overview::Decision;
use records::{ContainerId, EpochMillis, Now};
use sched::Completion;

use crate::effect::Effect;
use crate::messages::Status;
use crate::token::TokenFacts;

/// End of a container.
pub(crate) struct End<'a> {
    /// Id and exit status of the container.
    pub(crate) completion: &'a Completion,
    /// The end in the words of the journal.
    pub(crate) decision: Decision,
    /// Facts of the container's last token, and the time until which it may be used; `None`: the
    /// container is not known any more.
    pub(crate) token: Option<(Arc<TokenFacts>, EpochMillis)>,
    /// Status for heartbeats, unless the ledger has it already.
    pub(crate) status: Option<Status>,
    /// Whether records are kept for the next agent.
    pub(crate) remembers: bool,
    /// Whether logs are aggregated.
    pub(crate) aggregates_logs: bool,
    /// Time of the end.
    pub(crate) now: Now,
}

impl End<'_> {
    pub(crate) const fn id(&self) -> ContainerId {
        self.completion.id
    }
}

/// Part of the core that knows containers by a state of its own.
pub(crate) trait Part {
    /// Takes the end of a container. What is to be done outside goes to `effects`.
    fn ended(&mut self, end: &End<'_>, effects: &mut Vec<Effect>);
}
