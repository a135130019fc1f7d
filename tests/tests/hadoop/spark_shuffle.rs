//! An unmodified Spark with the shuffle service of the agent's nodes, and with its own in the
//! agent's host: what executors wrote outlives them, so that no map runs again, with and without
//! authentication, over a killed agent and a killed host.

#![expect(
    clippy::unwrap_used,
    reason = "bodies of tests are tests too: a panic is a failed test"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tests::conf::{Options, Properties};
use tests::job_client::JobClient;
use tests::lab::Lab;
use tests::node::Node;
use tests::node_process::node_kind;
use tests::ports::Port;
use tests::rm::{ResourceManager, RmKind};
use tests::spark::{DRIVER_MB, EXECUTOR_MB, JOB_DEADLINE, Spark};
use tests::{require, wait};

use crate::AGENT;

/// Class of Spark's own service, which the agent serves.
const CLASS: &str = "org.apache.spark.network.yarn.YarnShuffleService";

/// Partitions of the job's data.
const PARTITIONS: usize = 6;

/// Line that the job prints when no map ran and no kept partition was computed twice: the sum is
/// that of the numbers below 10,000.
const NOTHING_AGAIN: &str = "Maps: 6, kept: 6, sum: 49995000";

/// Deadline for a node to register, on a machine that is busy building.
const NODE_DEADLINE: Duration = Duration::from_secs(60);

/// A cluster of one node with room for a driver and two executors.
struct OneNode {
    node: Node,
    rm: ResourceManager,
    spark: Spark,
    lab: Lab,
}

/// A service of Spark: its name, its port, and what else its own file has.
type Service<'a> = (&'a str, u16, &'a [(&'a str, &'a str)]);

impl OneNode {
    /// Starts the cluster with services of Spark.
    fn start(services: &[Service<'_>]) -> Self {
        Self::start_changed(services, "", |_| {})
    }

    /// Starts the cluster with services of Spark, whose class paths end with this one, and further
    /// properties of the node.
    fn start_changed(
        services: &[Service<'_>],
        further: &str,
        change: impl FnOnce(&mut Properties),
    ) -> Self {
        let lab = Lab::new(&RmKind::Hadoop, Options::default());
        let rm = ResourceManager::start(&lab, &RmKind::Hadoop);
        let spark = Spark::new(&lab);
        let folder = lab.folder().to_owned();
        let site = lab.node_site_changed("node", tests::lab::LOCALHOST, |site| {
            let memory_mb = DRIVER_MB + 2 * EXECUTOR_MB;
            let names: Vec<_> = services.iter().map(|(name, ..)| *name).collect();
            site.set("yarn.nodemanager.resource.memory-mb", memory_mb)
                .set("yarn.nodemanager.recovery.enabled", true)
                .set("yarn.nodemanager.aux-services", names.join(","));
            for service in services {
                let prefix = format!("yarn.nodemanager.aux-services.{}", service.0);
                let class_path = with_overlay(&folder, *service);
                let class_path = format!("{}:{further}", class_path.display());
                site.set(format!("{prefix}.class"), CLASS)
                    .set(format!("{prefix}.classpath"), class_path);
            }
            change(site);
        });
        let mut node = Node::start_at(site, &node_kind(AGENT));
        node.wait_state(&rm, "RUNNING", NODE_DEADLINE);
        Self {
            node,
            rm,
            spark,
            lab,
        }
    }

    /// Kills the agent, and starts it again.
    fn kill_and_start_again(&mut self) {
        self.node.process.kill();
        self.node.start_again(&node_kind(AGENT));
        self.node.wait_state(&self.rm, "RUNNING", NODE_DEADLINE);
    }

    /// Starts a job of so many rounds whose executors end between them.
    fn submit(
        &self,
        name: &str,
        (service, port): (&str, u16),
        rounds: u32,
        further: &[(&str, &str)],
    ) -> Outlived {
        let folder = self.lab.folder().join(format!("job-{name}"));
        fs::create_dir(&folder).unwrap();
        let port = port.to_string();
        let mut properties = vec![
            ("spark.shuffle.service.enabled", "true"),
            ("spark.shuffle.service.name", service),
            ("spark.shuffle.service.port", &port),
            ("spark.shuffle.service.fetch.rdd.enabled", "true"),
            ("spark.dynamicAllocation.enabled", "true"),
            ("spark.dynamicAllocation.minExecutors", "0"),
            ("spark.dynamicAllocation.maxExecutors", "2"),
            ("spark.dynamicAllocation.executorIdleTimeout", "1s"),
            ("spark.dynamicAllocation.cachedExecutorIdleTimeout", "1s"),
        ];
        properties.extend(further);
        let (partitions, rounds) = (PARTITIONS.to_string(), rounds.to_string());
        let shown = folder.display().to_string();
        let arguments = ["outlived", &partitions, &rounds, &shown];
        let mut client = self.spark.submit(&self.lab, 2, &properties, &arguments);
        Outlived {
            id: client.application_id(),
            client,
            folder,
        }
    }

    /// Returns a service's number of blocks that were sent, or were not.
    fn blocks(&self, service: &str, outcome: &str) -> f64 {
        let series = format!(
            "nm_agent_spark_shuffle_blocks_total{{outcome=\"{outcome}\",service=\"{service}\"}}"
        );
        self.node.metric(&series).unwrap_or(0.0)
    }

    /// Asserts that a job succeeds and that it computed nothing twice.
    #[track_caller]
    fn assert_nothing_again(&self, job: &mut Outlived) {
        job.client.assert_succeeds(JOB_DEADLINE);
        let logs = self.node.logs(&job.id).files("stdout");
        let printed: String = logs.into_values().collect();
        assert!(printed.contains(NOTHING_AGAIN), "{printed}");
    }
}

/// A job that waits between its rounds.
struct Outlived {
    client: JobClient,
    id: String,
    folder: PathBuf,
}

impl Outlived {
    /// Waits until no executor is left before a round.
    #[track_caller]
    fn wait_alone(&self, round: u32) {
        let file = self.folder.join(format!("alone-{round}"));
        wait::until("the end of all executors", JOB_DEADLINE, || {
            wait::check(file.exists(), "executors are left")
        });
    }

    /// Lets a round begin.
    fn go(&self, round: u32) {
        fs::write(self.folder.join(format!("go-{round}")), "").unwrap();
    }
}

/// Writes the file that a service reads over the node's configuration; returns its folder.
fn with_overlay(folder: &Path, (service, port, further): Service<'_>) -> PathBuf {
    let class_path = folder.join(format!("class-path-of-{service}"));
    fs::create_dir(&class_path).unwrap();
    let mut overlay = Properties::default();
    overlay.set("spark.shuffle.service.port", port);
    for (name, value) in further {
        overlay.set(*name, value);
    }
    fs::write(class_path.join("spark-shuffle-site.xml"), overlay.to_xml()).unwrap();
    class_path
}

#[test]
fn encrypted_connections_of_both_versions_serve_their_jobs() {
    require!(java, hadoop, spark);
    let [first, second] = [(); 2].map(|()| Port::reserve()).map(Port::release);
    let common = [
        ("spark.authenticate", "true"),
        ("spark.network.crypto.enabled", "true"),
        ("spark.network.crypto.saslFallback", "false"),
    ];
    let version = |number| ("spark.network.crypto.authEngineVersion", number);
    let with = |number| [&common[..], &[version(number)]].concat();
    let (one, two) = (with("1"), with("2"));
    let cluster = OneNode::start(&[
        ("spark_shuffle", first, &one),
        ("spark2_shuffle", second, &two),
    ]);
    for (service, further) in [
        (("spark_shuffle", first), &one),
        (("spark2_shuffle", second), &two),
    ] {
        let further = [&further[..], &[OVER_NETWORK]].concat();
        let mut job = cluster.submit(service.0, service, 1, &further);
        job.wait_alone(1);
        job.go(1);
        cluster.assert_nothing_again(&mut job);
        let sent = cluster.blocks(service.0, "ok");
        assert!(sent >= ROUND_BLOCKS, "{sent} blocks");
        assert!(cluster.blocks(service.0, "error") < 1.0);
    }
}

/// Blocks of executors on this host come over the network, too.
const OVER_NETWORK: (&str, &str) = ("spark.shuffle.readHostLocalDisk", "false");

/// Blocks that a round fetches at least: a reduce's from each map in one, and each kept partition.
const ROUND_BLOCKS: f64 = 2.0 * 6.0;

#[test]
fn blocks_outlive_executors_and_the_agent() {
    require!(java, hadoop, spark);
    let port = Port::reserve().release();
    let service = ("spark_shuffle", port);
    let mut cluster = OneNode::start(&[("spark_shuffle", port, &[])]);
    let mut job = cluster.submit("killed", service, 2, &[OVER_NETWORK]);
    job.wait_alone(1);
    let before = cluster.blocks("spark_shuffle", "ok");
    job.go(1);
    job.wait_alone(2);
    let sent = cluster.blocks("spark_shuffle", "ok") - before;
    assert!(sent >= ROUND_BLOCKS, "{sent} blocks");
    assert!(cluster.blocks("spark_shuffle", "error") < 1.0);
    cluster.kill_and_start_again();
    job.go(2);
    cluster.assert_nothing_again(&mut job);
    assert!(cluster.blocks("spark_shuffle", "ok") >= ROUND_BLOCKS);
    assert!(cluster.blocks("spark_shuffle", "error") < 1.0);
    // What readers on the same host ask for is where the files are.
    let mut local = cluster.submit("local", service, 1, &[]);
    local.wait_alone(1);
    local.go(1);
    cluster.assert_nothing_again(&mut local);
}

#[test]
fn three_services_serve_their_jobs_with_proofs_and_without() {
    require!(java, hadoop, spark);
    let authenticate = ("spark.authenticate", "true");
    let ports = [(); 3].map(|()| Port::reserve());
    let [open, asks, idle] = ports.map(Port::release);
    let mut cluster = OneNode::start(&[
        ("spark_shuffle_3_1", open, &[]),
        ("spark_shuffle_3_3", asks, &[authenticate]),
        ("spark_shuffle_3_4", idle, &[authenticate]),
    ]);
    let first = ("spark_shuffle_3_1", open);
    let mut plain = cluster.submit("plain", first, 1, &[OVER_NETWORK]);
    plain.wait_alone(1);
    plain.go(1);
    cluster.assert_nothing_again(&mut plain);
    let second = ("spark_shuffle_3_3", asks);
    let mut proven = cluster.submit("proven", second, 2, &[OVER_NETWORK, authenticate]);
    proven.wait_alone(1);
    proven.go(1);
    proven.wait_alone(2);
    let refused = "nm_agent_refusals_total{port=\"spark_shuffle\",reason=\"unauthorized\"}";
    assert!(cluster.node.metric(refused).unwrap() < 1.0);
    for (service, least) in [
        ("spark_shuffle_3_1", ROUND_BLOCKS),
        ("spark_shuffle_3_3", ROUND_BLOCKS),
        ("spark_shuffle_3_4", 0.0),
    ] {
        let sent = cluster.blocks(service, "ok");
        assert!(
            sent >= least && (least > 0.0 || sent < 1.0),
            "{service}: {sent}"
        );
        assert!(cluster.blocks(service, "error") < 1.0, "{service}");
    }
    cluster.kill_and_start_again();
    proven.go(2);
    cluster.assert_nothing_again(&mut proven);
    assert!(cluster.blocks("spark_shuffle_3_3", "ok") >= ROUND_BLOCKS);
}

/// Returns the process of the agent's host.
fn host_of(node: &Node) -> u32 {
    let agent = tests::proc::agent_below(node.process.id());
    let is_host = |id: &u32| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("nmagent.auxhost.AuxHost")
    };
    let mut hosts = tests::proc::children(agent).into_iter().filter(is_host);
    hosts.next().expect("the agent has a host")
}

#[test]
fn sparks_own_service_in_the_host_outlives_executors_the_host_and_the_agent() {
    require!(java, hadoop, spark);
    let port = Port::reserve().release();
    let authenticate = ("spark.authenticate", "true");
    let crypto = ("spark.network.crypto.enabled", "true");
    let service = ("spark_shuffle", port);
    let own: &[(&str, &str)] = &[authenticate, crypto];
    let class_path = tests::spark::service_class_path();
    let mut cluster = OneNode::start_changed(&[(service.0, port, own)], &class_path, |site| {
        let prefix = "yarn.nodemanager.agent.aux-services.host";
        let home = tests::java::home().unwrap().display();
        let jars = format!("{}/*", tests::hadoop::jars().display());
        site.set("yarn.nodemanager.agent.spark-shuffle", "host")
            .set(format!("{prefix}-jar"), tests::aux_host::jar().display())
            .set(format!("{prefix}-java-home"), home)
            .set(format!("{prefix}-classpath"), jars);
    });
    let further = [OVER_NETWORK, authenticate, crypto];
    let mut job = cluster.submit("hosted", service, 3, &further);
    job.wait_alone(1);
    job.go(1);
    job.wait_alone(2);
    let first = host_of(&cluster.node);
    let killed = nix::unistd::Pid::from_raw(i32::try_from(first).unwrap());
    nix::sys::signal::kill(killed, nix::sys::signal::Signal::SIGKILL).unwrap();
    cluster.node.process.wait_log(
        "the host of auxiliary services is started again",
        NODE_DEADLINE,
    );
    wait_listens(port);
    job.go(2);
    job.wait_alone(3);
    let second = host_of(&cluster.node);
    cluster.kill_and_start_again();
    wait_listens(port);
    job.go(3);
    cluster.assert_nothing_again(&mut job);
    assert_ne!(host_of(&cluster.node), second);
}

/// Waits until the host's service takes connections.
#[track_caller]
fn wait_listens(port: u16) {
    wait::until("the service's port", NODE_DEADLINE, || {
        let connected = std::net::TcpStream::connect(("127.0.0.1", port));
        wait::check(connected.is_ok(), "nothing listens")
    });
}
