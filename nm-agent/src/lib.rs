//! The NodeManager as a library, so that a test can run a whole agent.

pub mod admin;
pub mod check;
pub mod status_ledger;
pub mod started_tokens;
pub mod clock;
pub mod applications;
pub mod config;
pub mod launch;
pub mod localize;
pub mod metrics;
pub mod site_xml;
pub mod view;
