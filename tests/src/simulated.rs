//! Nodes and ApplicationMasters without processes, many in one program, that speak Hadoop's protocols to a ResourceManager
//! on their own connections: for what takes a cluster of a thousand nodes, or a master that does exactly what a test says.

mod master;
mod node;

use std::net::SocketAddr;

use wire::rpc::{ClientAuth, ClientOptions, RpcClient};

pub use self::master::{SimulatedMaster, opportunistic_container, submit};
pub use self::node::{LaunchPad, Launched, SimulatedNode};

/// Connects to a port that takes everybody's word.
async fn connect(address: SocketAddr, protocol: &'static str, auth: ClientAuth) -> RpcClient {
    let options = ClientOptions::default();
    RpcClient::connect(address, protocol, auth, &options)
        .await
        .unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"))
}

/// Whoever the simulated say they are.
fn anybody() -> ClientAuth {
    ClientAuth::Simple {
        user: "simulated".to_owned(),
    }
}
