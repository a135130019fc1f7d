//! The role history of a service inside the chain: containers of the service go back to the nodes
//! where they ran.
//!
//! Decisions are [`role_history`]'s; this module maps them onto an ApplicationMaster's calls.

pub mod view;
