//! The protobuf messages, generated from `proto/*.proto` when the crate is built.
//!
//! Packages and message names are Hadoop's, so a Hadoop engineer finds them by name. Fields of type
//! `bytes` are [`bytes::Bytes`]: decoding from one frame shares that frame's memory.

#[expect(
    missing_docs,
    reason = "the generated items carry the comments of the .proto files, where there are any"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/hadoop.rs"));
}

mod redacted;

/// The packages below `hadoop`, nested as the generated code needs them.
pub use generated::hadoop;
/// Package `nm_agent`: what agents tell each other.
pub use generated::nm_agent;
/// Package `hadoop.common`: RPC headers, SASL, tokens.
pub use hadoop::common as hadoop_common;
/// Package `hadoop.yarn`: YARN's values, requests, answers and token identifiers.
pub use hadoop::yarn as hadoop_yarn;
