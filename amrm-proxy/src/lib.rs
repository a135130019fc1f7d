//! The AMRMProxy of a node: ApplicationMasters that run here call it instead of the
//! ResourceManager.
//!
//! When an AM starts, its AMRMToken is exchanged for a local one, so that it can reach the
//! ResourceManager only through the proxy ([`AmrmProxy::admit`]); or, as configured, it keeps the
//! token and may go either way ([`master_tokens`]). Each attempt has a pipeline of
//! interceptors. Every call passes all of them on its way to the ResourceManager, and the answer
//! passes them in reverse order:
//!
//! ```text
//!  AM ──8049──▶ service ─▶ pipeline of the attempt, one call at a time
//!                  token_swap             the AM's AMRMToken outside, the newest one inside
//!                  call_metrics           counts and times every call
//!                  throttle               delays or refuses excessive calls and asks
//!                  relabel                makes asks opportunistic by an operator's rules
//!                  role_history           names nodes where a service ran, if it opts in
//!                  distributed_scheduler  answers opportunistic asks on this node, if configured
//!                                         after looks at others
//!                  (federation)           not built; its place
//!                  registration           registers again when the ResourceManager forgets it
//!                  rm_forwarder ──8030──▶ ResourceManager
//! ```
//!
//! Interceptors are pure ([`interceptor`]), and so is [`registration`]. What an interceptor does
//! outside is its own performer's; `interceptors.rs` makes the chain of both. Messages are edited
//! on their bytes ([`wire::raw_message`]), so that fields unknown to this version pass in both
//! directions.
//!
//! Source: `org.apache.hadoop.yarn.server.nodemanager.amrmproxy.AMRMProxyService`.

mod admissions;
pub mod attempts;
mod binding;
pub mod call;
pub mod call_metrics;
mod calls;
pub mod chain;
pub mod config;
pub mod distributed_scheduler;
mod fields;
mod identity;
pub mod interceptor;
mod interceptors;
pub mod link;
pub mod looks;
pub mod master_tokens;
mod node_keys;
pub mod node_lists;
pub mod node_updates;
pub mod notes;
pub mod observe;
mod pipeline;
mod pipelines;
pub mod registration;
pub mod relabel;
pub mod rm_forwarder;
pub mod role_history;
mod rules;
mod service;
mod sizes;
pub mod store;
#[cfg(test)]
mod testing;
pub mod throttle;
pub mod token_swap;

pub use binding::{ReservationSender, ReserveFailure};
pub use looks::{LookParts, LookSettings};
pub use node_keys::{NodeKeys, NodeTokenKeys};
pub use pipeline::ReadClock;
pub use pipelines::{
    Admission, AdmitError, AmStart, AmrmProxy, PIPELINES_MAX, PendingStart, ProxyParts,
};
pub use service::{AmrmProxyService, server_limits};
