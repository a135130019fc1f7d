//! Faults in simulation: whole nodes, a ResourceManager and ApplicationMasters in virtual time, on
//! a network and disks that fail. Checkers look for what must never happen.
//!
//! The code under test is the shipped one: `node_core` with `sched` inside, `node_manager`'s
//! records and its session with the ResourceManager, and `mini_rm`'s core. Around it, this crate
//! models what ships as tasks and threads: launches, cgroups, the store's commits, connections. A
//! run follows from its seed.
//!
//! | module | subject |
//! |---|---|
//! | [`scenario`] | what follows from a seed: sizes, rates of faults, workload |
//! | [`world`] | the loop over events |
//! | [`context`] | event queue, network and observer, which all parts share |
//! | [`event`] | events, and messages between the parts |
//! | [`node_config`], [`node`], [`machine`] | a node: size and pace, processes, disk |
//! | [`agent`] | the agent of a node while it runs |
//! | [`rm`] | the ResourceManager |
//! | [`master`] | ApplicationMasters |
//! | [`plan`] | what a container's process will do |
//! | [`fault`], [`faults`] | faults, and their schedule |
//! | [`churn`] | a long run, and what nodes hold in it |
//! | [`planted`], [`hunt`] | faults planted on purpose, which checkers must catch |
//! | [`observation`], [`finding`] | what checkers see, and what they find |
//! | [`watch`] | the observer of a run, and the report of a violation |
//! | [`checkers`] | properties, one in each file |

pub mod agent;
pub mod checkers;
pub mod churn;
pub mod context;
pub mod event;
pub mod fault;
pub mod faults;
pub mod finding;
pub mod hunt;
pub mod machine;
pub mod master;
pub mod node;
pub mod node_config;
pub mod observation;
pub mod plan;
pub mod planted;
pub mod rm;
pub mod scenario;
pub mod watch;
pub mod world;

pub use agent::KINDS;
pub use scenario::{Scenario, Size};
pub use watch::Violation;
pub use world::{Outcome, run};
