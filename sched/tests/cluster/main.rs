//! Clusters of shipped schedulers and allocators in virtual time, driven as their shells drive
//! them: heartbeats, sorts, allocations, starts and ends.

#![expect(clippy::unwrap_used, reason = "helpers of a test: they fail with it")]

mod comparators;
mod node;
mod placement;
