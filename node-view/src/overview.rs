//! Overview of the node for people: recent decisions in words, and the counts of queued and running
//! containers over the last minutes. Pure: plain data, filled by the core, which gets the time.
//!
//! - `decision`: a decision or an event, and the one function that puts it in words
//! - `words`: durations and amounts as people read them
//! - `recent`: the last decisions
//! - `history`: counts over time, a step for each change
//! - `node_overview`: the overview of all of it, bounded whatever the node holds

mod decision;
mod history;
mod node_overview;
mod recent;
pub mod words;

pub use decision::{Decision, DecisionKind, decision_words};
pub use history::{HISTORY_S, History, Step};
pub use node_overview::{LISTED_MAX, ListedContainer, Listing, NodeOverview};
pub use recent::{DECISIONS_MAX, RecentDecision, RecentDecisions};
