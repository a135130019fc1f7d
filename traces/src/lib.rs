//! Traces of containers for a collector of OpenTelemetry: which steps a container went through, and
//! how long each took.
//!
//! In go what a node and its AMRMProxy observe of a container ([`Step`]), out go spans in OTLP's
//! form over HTTP. A container's id decides its trace and its root span, so what the proxy of one
//! node and another node say of a container is one trace, and nothing has to be carried between
//! them.
//!
//! A collector holds nobody up: spans go into a bounded queue, and one that has no place there, or
//! that the collector does not take in time, is dropped and counted. This crate decides nothing and
//! knows no node.
//!
//! - `span`: a span, and the ids that a container's id gives
//! - `steps`: from steps to spans
//! - `document`: spans as OTLP's JSON
//! - `endpoint`: the collector's address, and sending to it
//! - `export`: the queue, batches, and what is dropped

mod document;
mod endpoint;
mod export;
mod span;
mod steps;

pub use endpoint::{Endpoint, EndpointError};
pub use export::{Export, Reading, Traces};
pub use span::{Span, SpanId, TraceId};
pub use steps::Step;
