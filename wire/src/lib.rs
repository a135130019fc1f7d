//! Hadoop's wire protocol, from bytes to typed calls.
//!
//! The layers, lowest first; each depends only on those above it in this list:
//!
//! | module | what it does |
//! |---|---|
//! | [`proto`] | the protobuf messages, generated from `proto/*.proto` |
//! | [`exception`] | Hadoop's exception classes by name, and remote errors |
//! | [`rpc`] | methods, services and callers |
//! | [`frame`], [`header`] | preamble, frames, and the headers in them |
//! | [`writable`], [`token`], [`credentials`] | tokens, the keys that sign them, files of tokens |
//! | [`protection`], [`layer`] | levels of protection after the authentication, what protects |
//! | [`digest_md5`], [`sasl`] | the mechanism and the negotiation that prove a token |
//! | [`gssapi`] | the mechanism around a GSS library, and the choice of a layer |
//! | [`kerberos`] | the principal that a server must be; what a library does for a client |
//! | [`wrapped`] | frames inside the messages of a layer |
//! | [`dial`] | TCP connections to a host by its name, over all its addresses |
//! | [`client`], [`server`] | a connection to a server, and a server of many connections |
//! | [`failover`] | calls to the active of several ResourceManagers, retried until it answers |
//! | [`secrets`] | master keys that roll, tokens made with them, verification of AMRMTokens |
//! | [`raw_message`] | messages edited field by field, unknown fields kept |
//! | [`decode_cost`] | the memory that decoding a request takes, before it is decoded |
//! | [`convert`] | protobuf to [`records`] values and back |
//! | [`run_time`] | how long a container ran, in the status of its end |
//! | [`protocol`] | YARN's protocols: their methods, typed, for clients and servers |

pub mod client;
pub mod convert;
pub mod credentials;
pub mod decode_cost;
pub mod dial;
pub mod digest_md5;
pub mod exception;
pub mod failover;
pub mod frame;
pub mod gssapi;
pub mod header;
pub mod kerberos;
pub mod layer;
mod outbound;
pub mod protection;
pub mod proto;
pub mod protocol;
pub mod raw_message;
pub mod rpc;
pub mod run_time;
pub mod sasl;
pub mod secrets;
pub mod server;
mod service;
pub mod token;
pub mod wrapped;
pub mod writable;

#[cfg(test)]
mod testing;

/// The messages of this crate as an encoded `google.protobuf.FileDescriptorSet`, for comparison
/// with other implementations of the same messages.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
