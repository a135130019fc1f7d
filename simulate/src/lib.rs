//! Simulations of whole clusters in virtual time: how long jobs take, how much of the cluster is
//! used, and what is refused, shed and evicted, under one policy or another.
//!
//! ```text
//! Scenario ──▶ Workload (jobs, tasks, arrivals: the same for every arm)
//!    │            │
//!    │            ▼
//!    └──▶ arm ─▶ World: event loop ─▶ Outcome ─▶ Summary over seeds ─▶ table, CSV, page
//!                 ├─ Level: nodes, ResourceManager and proxies
//!                 │   ├─ Decisions: `sched`'s node schedulers and allocators alone
//!                 │   └─ Agents: cores of agents and of a ResourceManager, and pipelines
//!                 └─ ApplicationMasters: a model
//! ```
//!
//! Decisions are those of the code that ships. Modelled are time, messages, launches,
//! processes and ApplicationMasters. An arm that does not ship is named as a model in every result.
//! Only [`bound`], the omniscient scheduler, knows a task's length before its end.
//!
//! In: the text of a scenario. Out: values, texts and pages. May not know files, clocks, or
//! Hadoop's property names. The same scenario and seed give the same bytes, however many threads
//! run.

mod agents;
mod arm;
pub mod bound;
pub mod builtin;
pub mod delay;
pub mod figures;
pub mod hints;
mod job;
pub mod measure;
mod node;
mod numbers;
pub mod page;
pub mod policies;
pub mod recommend;
pub mod runner;
pub mod scenario;
pub mod summary;
pub mod table;
pub mod trace;
pub mod waits;
pub mod workload;
mod world;
