//! What the live page shows beside the node's state: recent decisions in words, and how queue and running containers went
//! in the last minutes. Pure: plain data, filled by the core, which is told the time.
//!
//! - `decision`: something that was decided or happened, and the one function that says it in words
//! - `words`: durations and amounts as people read them
//! - `recent`: the last decisions
//! - `history`: counts over time, a step for each change
//! - `view`: one picture of all of it, bounded whatever the node holds

mod decision;
mod history;
mod recent;
mod view;
pub mod words;

pub use decision::{Decision, DecisionKind, decision_words};
pub use history::{Counts, HISTORY_S, History, Step};
pub use recent::{DECISIONS_MAX, RecentDecision, RecentDecisions};
pub use view::{
    LISTED_MAX, ListedContainer, Listing, LiveNode, LiveView, MASTERS_LISTED_MAX, Progress,
    RmContact, WaitingContainer,
};

#[cfg(test)]
pub(crate) mod fixture;
