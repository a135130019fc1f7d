//! Web face of a node: pages, REST answers, the live page, and metrics.
//!
//! - [`overview`]: the node as the live page shows it, with the AMs that call through it
//! - [`source`]: where readers get that and snapshots of the node from
//! - [`metrics`]: counters and gauges, in the text form of Prometheus
//! - [`site`]: the HTTP server with pages, REST and the live page
//!
//! Owns the HTTP server and the metrics. In: snapshots of the node through
//! [`source::NodeSource`], and observations for the metrics. Out: HTTP answers. May not know the
//! core, RPC, or where a snapshot comes from, and changes nothing on the node.

pub mod metrics;
pub mod overview;
pub mod site;
pub mod source;

#[cfg(test)]
mod fixture;
