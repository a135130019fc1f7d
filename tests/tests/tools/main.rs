//! What people look at, through the tools that they use: the live page in Chromium, the metrics,
//! dashboard and alerts in Prometheus.

mod page;
mod prometheus;

/// The program under test, with all its commands.
const AGENT: &str = env!("CARGO_BIN_EXE_agent-under-test");
