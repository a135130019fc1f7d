//! Web face of a node: pages, REST answers, the live page, and metrics.
//!
//! - [`snapshot`]: the node at one moment: facts, numbers, every container
//! - [`overview`]: the same for people who watch it: decisions with their words, counts over the
//!   last minutes
//! - [`source`]: where readers get both from
//! - [`metrics`]: counters and gauges, in the text form of Prometheus
//! - [`admin`]: the HTTP server with pages, REST and the live page
//!
//! Owns the HTTP server and the metrics. In: snapshots of the node through
//! [`source::NodeSource`], and observations for the metrics. Out: HTTP answers. May not know the
//! core, RPC, or where a snapshot comes from, and changes nothing on the node.

pub mod admin;
pub mod metrics;
pub mod overview;
pub mod snapshot;
pub mod source;
