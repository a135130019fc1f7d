//! Fakes that do exactly what a test wrote: for peers that misbehave on purpose, and for
//! measurements that must not measure Java.
//!
//! | Fake | Role in YARN |
//! |---|---|
//! | [`ScriptedRm`] | ResourceTracker with one node: answers with queued orders, keeps reports |
//! | [`ScriptedScheduler`] | both protocols for ApplicationMasters: answers as a [`Script`] says |
//! | [`ScriptedAm`] | a master's connection to a node (YARN: NMClient), with its own tokens |
//! | [`ScriptedAmRmClient`] | a master's connection to a scheduler (YARN: AMRMClient) |
//! | [`ScriptedWebPort`] | a node's web port, or that of something else: answers as a test says |
//! | [`LaunchRecorder`] | ContainerManagement port of a node: records launches of masters |
//!
//! None of them decides anything: what fits where is the test's business.

mod am;
mod am_rm_client;
mod launch_recorder;
mod rm;
mod scheduler;
mod tracker;
mod web_port;

use std::net::SocketAddr;

use wire::rpc::{ClientAuth, ClientOptions, RpcClient};

pub use self::am::{Refusal, ScriptedAm};
pub use self::am_rm_client::{
    ScriptedAmRmClient, connect_scheduler, opportunistic_container, submit,
};
pub use self::launch_recorder::{LaunchRecorder, Launched};
pub use self::rm::ScriptedRm;
pub use self::scheduler::{
    IdleScheduler, KEYS, RecordedCall, SchedulerCall, Script, ScriptedScheduler, always, answering,
    refuse, silent,
};
pub use self::tracker::{Answer, Completed, Tracker};
pub use self::web_port::{ScriptedWebPort, WebAnswer};

/// Connects to a port of a fake or of a program under test; panics where that fails.
pub(crate) async fn connect(
    address: SocketAddr,
    protocol: &'static str,
    auth: ClientAuth,
) -> RpcClient {
    let options = ClientOptions::default();
    RpcClient::connect(address, protocol, auth, &options)
        .await
        .unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"))
}

/// Authentication by name only, as a user that no check depends on.
pub(crate) fn simple_auth() -> ClientAuth {
    ClientAuth::Simple {
        user: "test".to_owned(),
    }
}
