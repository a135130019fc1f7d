//! What a node says of itself, as plain data: the vocabulary between the core, which fills it, and
//! the node's faces, which show it.
//!
//! - [`snapshot`]: the node at one moment: facts, numbers, every container
//! - [`overview`]: the node for people who watch it: decisions with their words, counts over the
//!   last minutes
//! - [`operator`]: the node for operators of its machine
//! - [`outcome`]: how works ended that the node counts
//! - [`usage`]: what containers use, beside what they were asked
//! - [`java_date`]: dates as Hadoop prints them
//!
//! In: values of `records` and `sched`, and the time. Out: values and their words. No I/O, no
//! clock, no decisions. May not know the core or a face of the node.

#[cfg(feature = "fixture")]
pub mod fixture;
pub mod java_date;
pub mod operator;
pub mod outcome;
pub mod overview;
pub mod snapshot;
pub mod usage;
