//! The AMRMProxy of a node: ApplicationMasters that run here speak to it instead of the ResourceManager.
//!
//! On an AM's start its AMRMToken is exchanged for a local one, so that it can reach the ResourceManager only through here
//! ([`AmrmProxy::admit`]). Each attempt has a pipeline of interceptors; every call goes through all of them to the
//! ResourceManager, and its answer comes back the same way:
//!
//! ```text
//!  AM ──8049──▶ service ─▶ pipeline of the attempt, one call at a time
//!                            token_swap             our AMRMToken outside, the ResourceManager's inside
//!                            call_metrics           counts and times every call
//!                            throttle               holds back AMs that ask too often or too much
//!                            relabel                an operator's rules make asks opportunistic
//!                            distributed_scheduler  answers opportunistic asks on this node
//!                            (federation)           not built: its place
//!                            registration           made again when the ResourceManager has forgotten it
//!                            rm_forwarder ──8030──▶ ResourceManager
//! ```
//!
//! Interceptors are pure ([`interceptor`]), as is [`registration`]; only [`rm_forwarder`] waits. Messages are edited on their bytes
//! ([`wire::raw_message`]), so fields that this version does not know pass in both directions.
//!
//! Source: `org.apache.hadoop.yarn.server.nodemanager.amrmproxy.AMRMProxyService`.

mod admissions;
pub mod call_metrics;
pub mod chain;
pub mod config;
pub mod distributed_scheduler;
mod fields;
pub mod interceptor;
pub mod masters;
pub mod node_updates;
pub mod observe;
mod pipeline;
mod pipelines;
pub mod registration;
pub mod relabel;
pub mod rm_forwarder;
mod service;
mod sizes;
pub mod store;
#[cfg(test)]
mod testing;
pub mod throttle;
pub mod token_swap;

pub use pipeline::{NodeKeys, ReadClock};
pub use pipelines::{
    Admission, AdmitError, AmrmProxy, MasterStart, PIPELINES_MAX, PendingStart, ProxyParts,
};
pub use service::{AmrmProxyService, server_limits};
