//! Overview of the node for people: recent decisions in words, and the counts of queued and running
//! containers over the last minutes. Pure: plain data, filled by the core, which gets the time.
//!
//! - `decision`: a decision or an event, and the one function that puts it in words
//! - `words`: durations and amounts as people read them
//! - `recent`: the last decisions
//! - `history`: counts over time, a step for each change
//! - `view`: the overview of all of it, bounded whatever the node holds

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
