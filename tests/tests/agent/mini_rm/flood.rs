//! Thousands of connections to one port: peers of the other ports are answered, and polite peers of
//! the same port as well, unless the attackers call themselves clients or nodes, as anybody may.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::BytesMut;
use records::{NodeId, Resource};
use test_support::scripted::{LaunchRecorder, ScriptedAmRmClient, submit};
use test_support::simulated::SimulatedNode;
use tests::client::Client;
use tests::http;
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use wire::header;
use wire::proto::hadoop_yarn::{AllocateRequestProto, GetNewApplicationRequestProto};
use wire::protocol::application_client::GetNewApplication;
use wire::protocol::{application_client, resource_tracker};
use wire::token::Token;

use crate::bad_input::limits::{CLIENT_ID, allow_many_files};
use crate::mini_rm::distributed::{SIZE, runtime};
use crate::mini_rm::garbage::{SERVICES, SIMPLE_PREAMBLE};
use crate::mini_rm::process::MiniRm;

/// Files that the ResourceManager may have open.
const OPEN_FILES: u32 = 1_024;

/// Connections that are opened to one port and kept.
const CONNECTIONS: usize = 2_000;

/// Addresses of attackers, that of the polite peers among them.
const ADDRESSES: [u8; 4] = [1, 2, 3, 4];

/// A ResourceManager with few files and a master, which was launched before any attack.
struct Attacked {
    rm: MiniRm,
    master: ScriptedAmRmClient,
    token: Token,
    /// Last; the master's connection is one of its tasks.
    runtime: Runtime,
}

impl Attacked {
    fn start() -> Self {
        allow_many_files();
        let mut rm = MiniRm::start_with_open_files(OPEN_FILES);
        let (client, scheduler, tracker) = (
            rm.address("client"),
            rm.address("scheduler"),
            rm.address("tracker"),
        );
        let runtime = runtime();
        let (master, token) = runtime.block_on(async {
            let mut pad = LaunchRecorder::open(CancellationToken::new()).await;
            let node = SimulatedNode::register(tracker, pad.node_id(), SIZE).await;
            pad.trust(node.keys.0.clone().expect("a registration has keys"));
            submit(client, SIZE).await;
            let launched = pad.launched().await;
            let token = launched.token.clone();
            let master = ScriptedAmRmClient::connect(scheduler, launched).await;
            master.register().await;
            (master, token)
        });
        Self {
            rm,
            master,
            token,
            runtime,
        }
    }

    /// Opens connections to a port and sends these bytes on each. Those that are refused or closed
    /// meanwhile are left out.
    fn flood(&mut self, service: &str, bytes: &[u8]) -> Vec<std::net::TcpStream> {
        let address = self.rm.address(service);
        let from = ADDRESSES.iter().cycle().take(CONNECTIONS);
        let open = from.filter_map(|last| {
            let from = Ipv4Addr::new(127, 0, 0, *last);
            let mut stream = self.runtime.block_on(connect_from(from, address)).ok()?;
            stream.write_all(bytes).is_ok().then_some(stream)
        });
        open.collect()
    }

    /// Has a polite peer of a port connect and make a call.
    fn serve(&mut self, service: &str) {
        let address = self.rm.address(service);
        match service {
            "client" => {
                let client = Client::connect_to(address);
                let call = client.call::<GetNewApplication>(&GetNewApplicationRequestProto {});
                assert!(call.unwrap().application_id.is_some());
            }
            "scheduler" => {
                let call = AllocateRequestProto::default();
                self.runtime.block_on(async {
                    self.master.renew(address, self.token.clone()).await;
                    self.master.allocate(call).await.unwrap();
                });
            }
            "tracker" => {
                let id = NodeId {
                    host: "127.0.0.1".to_owned(),
                    port: 1,
                };
                let registering = SimulatedNode::register(address, id, Resource::new(1, 1));
                self.runtime.block_on(registering);
            }
            "web" => {
                let url = format!("http://{address}/ws/v1/cluster/info");
                let info = http::get_json(&url).unwrap();
                assert_eq!(info["clusterInfo"]["state"], "STARTED", "{info}");
            }
            other => panic!("there is no service {other}"),
        }
    }
}

async fn connect_from(from: Ipv4Addr, to: SocketAddr) -> std::io::Result<std::net::TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    let stream = socket.connect(to).await?.into_std()?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

#[test]
fn thousands_of_idle_connections_to_any_port_keep_no_peer_of_any_port_out() {
    let mut attacked = Attacked::start();
    for flooded in SERVICES {
        let held = attacked.flood(flooded, b"");
        for service in SERVICES {
            eprintln!("{flooded} is flooded, {service} is asked");
            attacked.serve(service);
        }
        drop(held);
    }
    attacked.rm.assert_serves_and_ends();
}

#[test]
fn thousands_of_callers_of_one_port_keep_no_peer_of_another_port_out() {
    let mut attacked = Attacked::start();
    for (flooded, protocol) in [
        ("client", application_client::PROTOCOL),
        ("tracker", resource_tracker::PROTOCOL),
    ] {
        let mut handshake = BytesMut::from(&SIMPLE_PREAMBLE[..]);
        header::put_context(&mut handshake, &CLIENT_ID, Some("somebody"), protocol).unwrap();
        let held = attacked.flood(flooded, &handshake);
        for service in SERVICES.into_iter().filter(|service| *service != flooded) {
            eprintln!("{flooded} is flooded, {service} is asked");
            attacked.serve(service);
        }
        drop(held);
    }
    attacked.rm.assert_serves_and_ends();
}
