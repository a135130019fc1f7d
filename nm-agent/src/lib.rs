//! The NodeManager as a library, so that a test can run a whole agent.

pub mod metrics;
pub mod view;
pub mod launch;
