//! Services of Hadoop's protocols: each RPC call becomes a job for the core.

pub mod application_client;
pub mod application_master;
pub mod distributed_scheduling;
pub mod resource_tracker;
