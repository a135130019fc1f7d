//! A ResourceManager in a process of its own, with simulated nodes and scripted masters.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use records::{ContainerId, NodeId, Resource};
use tempfile::TempDir;
use test_support::scripted::{LaunchRecorder, ScriptedAmRmClient, submit};
use test_support::simulated::SimulatedNode;
use tests::conf::{self, Properties};
use tests::process::Process;
use tests::wait;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use wire::proto::hadoop_yarn::{AllocateRequestProto, ExecutionTypeProto};

/// Number of nodes.
pub(crate) const NODES: usize = 1_000;

/// Size of each node.
const OFFERS: Resource = Resource::new(64 * 1024, 64);

/// Size of each container.
pub(crate) const SIZE: Resource = Resource::new(1024, 1);

/// Highest number of masters that ask at once.
const MASTERS: usize = 8;

/// Containers of each type that every node runs once the cluster is filled.
const RUNNING_PER_NODE: usize = 5;

/// Deadline for the start of the program.
const DEADLINE: Duration = Duration::from_secs(60);

/// The ResourceManager's process and its peers. Fields are dropped in this order.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Arc<Mutex<SimulatedNode>>>,
    pub(crate) masters: Vec<ScriptedAmRmClient>,
    stop: CancellationToken,
    pub(crate) process: Process,
    _folder: TempDir,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Cluster {
    /// Starts a cluster with all nodes registered and all masters running.
    pub(crate) async fn start() -> Self {
        let folder = TempDir::new().expect("a folder can be made");
        let mut process = start_process(&folder);
        let client = address(&mut process, "client");
        let scheduler = address(&mut process, "scheduler");
        let tracker = address(&mut process, "tracker");
        let stop = CancellationToken::new();
        let mut pad = LaunchRecorder::open(stop.clone()).await;
        let first = SimulatedNode::register(tracker, pad.node_id(), OFFERS).await;
        pad.trust(first.keys.0.clone().expect("a registration has keys"));
        let mut nodes = vec![first];
        let mut masters = Vec::new();
        for _ in 0..MASTERS {
            submit(client, SIZE).await;
            let master = ScriptedAmRmClient::connect(scheduler, pad.launched().await).await;
            // The protocol of the first call makes no difference to later ones.
            master.register().await;
            masters.push(master);
        }
        for number in 1..NODES {
            let id = NodeId {
                host: format!("n{number}"),
                port: 1,
            };
            nodes.push(SimulatedNode::register(tracker, id, OFFERS).await);
        }
        for node in &mut nodes {
            // As much as masters can ask for between two heartbeats.
            node.queue_capacity = 1_000_000;
            node.heartbeat().await;
        }
        let cluster = Self {
            nodes: nodes
                .into_iter()
                .map(|node| Arc::new(Mutex::new(node)))
                .collect(),
            masters,
            stop,
            process,
            _folder: folder,
        };
        // The nodes are sorted once a second.
        tokio::time::sleep(Duration::from_secs(2)).await;
        cluster
    }

    /// Makes every node run containers of both types; returns the number of all that run.
    pub(crate) async fn fill(&mut self) -> usize {
        let wanted = i32::try_from(NODES * RUNNING_PER_NODE).expect("some thousands");
        let mut held = 0;
        for kind in [
            ExecutionTypeProto::Guaranteed,
            ExecutionTypeProto::Opportunistic,
        ] {
            let request = AllocateRequestProto {
                ask: vec![ScriptedAmRmClient::ask(wanted, SIZE, kind)],
                ..AllocateRequestProto::default()
            };
            let answer = self.masters[0].allocate(request).await;
            for container in answer.expect("there is room").allocated_containers {
                let id = container.id.and_then(|id| ContainerId::try_from(&id).ok());
                let node = container.node_id.and_then(|id| NodeId::try_from(&id).ok());
                let (Some(id), Some(node)) = (id, node) else {
                    panic!("a container without id or node");
                };
                held += usize::from(self.run(&node, id, kind).await);
            }
        }
        held
    }

    async fn run(&self, place: &NodeId, id: ContainerId, kind: ExecutionTypeProto) -> bool {
        for node in &self.nodes {
            let mut node = node.lock().await;
            if node.id == *place {
                node.running.insert(id, (SIZE, kind));
                return true;
            }
        }
        false
    }

    /// Returns the resident memory of the ResourceManager, in mebibytes.
    pub(crate) fn memory_mb(&self) -> f64 {
        let path = format!("/proc/{}/status", self.process.id());
        let status = fs::read_to_string(&path).expect("the process runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kib.expect("the kernel says how much") / 1024.0
    }
}

fn start_process(folder: &TempDir) -> Process {
    let conf_dir = folder.path().join("conf");
    let mut site = Properties::default();
    for service in ["", "scheduler.", "resource-tracker.", "webapp."] {
        let name = format!("yarn.resourcemanager.{service}address");
        site.set(name, "127.0.0.1:0");
    }
    let central = "yarn.resourcemanager.opportunistic-container-allocation";
    site.set(format!("{central}.enabled"), true);
    site.set(format!("{central}.nodes-used"), NODES);
    site.set("yarn.nodemanager.distributed-scheduling.enabled", true);
    let core_site = conf::core_site(folder.path(), "nobody");
    conf::write(&conf_dir, &core_site, &site);
    let mut command = Command::new(env!("CARGO_BIN_EXE_agent-under-test"));
    command.arg("rm").arg("--conf").arg(&conf_dir);
    Process::start("rm", &mut command, folder.path())
}

/// Returns one of its addresses, from its log.
fn address(process: &mut Process, name: &str) -> SocketAddr {
    wait::until("the addresses", DEADLINE, || {
        let log = process.log();
        let (_, rest) = log
            .split_once(&format!("{name}: "))
            .ok_or_else(|| log.clone())?;
        let end = rest.find([',', ' ']).ok_or_else(|| log.clone())?;
        rest[..end].parse::<SocketAddr>().map_err(|_| log.clone())
    })
}
