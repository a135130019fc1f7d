//! Two nodes as the tools in use watch them: each is read as itself, and every value that a tool
//! looks for is there.
//!
//! Names of beans, attributes and series are those of the tools' own files: the template "Hadoop by
//! HTTP" of Zabbix, and the dashboard of NodeManagers in Grafana's mixin for Apache Hadoop.

#![expect(clippy::unwrap_used, reason = "helpers of tests: they fail with it")]

mod hadoop_exporter;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use tests::cluster::{JOB_DEADLINE, SLOT_MB, STATE_DEADLINE};
use tests::conf::Options;
use tests::distributed_shell::{self, ContainerType, Job};
use tests::jmx_exporter::JmxExporter;
use tests::lab::Lab;
use tests::node::{Node, NodeKind};
use tests::prometheus::Prometheus;
use tests::rm::{ResourceManager, RmKind};
use tests::{http, require, wait};

use crate::AGENT;

/// Addresses of the nodes, which have the loopback device to themselves.
const HOSTS: [&str; 2] = ["127.0.0.2", "127.0.0.3"];

/// Series of the mixin's dashboard of NodeManagers, behind `hadoop_nodemanager_`: 25 values.
const SERIES: [&str; 25] = [
    "applicationsrunning",
    "allocatedcontainers",
    "localizationdurationmillisavgtime",
    "containerlaunchdurationavgtime",
    "memheapusedm{name=\"JvmMetrics\"}",
    "memnonheapusedm{name=\"JvmMetrics\"}",
    "memheapcommittedm{name=\"JvmMetrics\"}",
    "memnonheapcommittedm{name=\"JvmMetrics\"}",
    "gccount",
    "gctimemillis",
    "nodecpuutilization",
    "nodegpuutilization",
    "containerspaused",
    "containerslaunched",
    "containerscompleted",
    "containersfailed",
    "containerskilled",
    "containersiniting",
    "containersreiniting",
    "containerusedmemgb",
    "containerusedvmemgb",
    "availablegb",
    "allocatedgb",
    "availablevcores{name=\"NodeManagerMetrics\"}",
    "allocatedvcores{name=\"NodeManagerMetrics\"}",
];

/// A ResourceManager of Hadoop's and two nodes of ours. Fields are dropped in this order.
struct Pair {
    nodes: [Node; 2],
    rm: ResourceManager,
    lab: Lab,
}

impl Pair {
    /// Starts the nodes and runs a job of some containers on them.
    fn start() -> Self {
        let options = Options {
            node_memory_mb: 2 * SLOT_MB,
            ..Options::default()
        };
        let lab = Lab::new(&RmKind::Hadoop, options);
        let rm = ResourceManager::start(&lab, &RmKind::Hadoop);
        let kind = NodeKind::Agent(AGENT.into());
        let nodes = HOSTS.map(|host| {
            let mut node = Node::start_at(lab.node_site_in(host, host), &kind);
            node.wait_state(&rm, "RUNNING", STATE_DEADLINE);
            node
        });
        let job = Job {
            command: "true",
            containers: 4,
            memory_mb: SLOT_MB,
            container_type: ContainerType::Guaranteed,
        };
        distributed_shell::start(&lab, "watched", &job).assert_succeeds(JOB_DEADLINE);
        Self { nodes, rm, lab }
    }

    fn pages(&self) -> [String; 2] {
        [0, 1].map(|place| {
            let site = &self.nodes[place].site;
            format!("{}:{}", site.host, site.ports.web)
        })
    }
}

fn jmx(address: &str, query: &str) -> Vec<Value> {
    let answer = http::get_json(&format!("http://{address}/jmx{query}")).unwrap();
    answer["beans"].as_array().unwrap().clone()
}

/// Returns the attribute of the bean of this name.
fn item(beans: &[Value], name: &str, attribute: &str) -> Option<Value> {
    let bean = beans.iter().find(|bean| bean["name"] == name)?;
    bean.get(attribute).cloned()
}

#[test]
fn every_item_of_zabbix_template_has_data_of_each_node() {
    require!(java, hadoop);
    let pair = Pair::start();
    let rm_pages = format!("localhost:{}", pair.lab.rm_ports().web);
    let query = "?qry=Hadoop:service=ResourceManager,name=RMNMInfo";
    let nodes = jmx(&rm_pages, query)[0]["LiveNodeManagers"].clone();
    let nodes: Value = serde_json::from_str(nodes.as_str().unwrap()).unwrap();
    let nodes = nodes.as_array().unwrap();
    let hosts: BTreeSet<_> = nodes
        .iter()
        .map(|it| it["HostName"].as_str().unwrap())
        .collect();
    assert_eq!(hosts, BTreeSet::from(HOSTS), "discovery");
    let mut items = 0;
    for node in nodes {
        for field in [
            "State",
            "NodeManagerVersion",
            "NumContainers",
            "UsedMemoryMB",
            "AvailableMemoryMB",
        ] {
            assert!(!node[field].is_null(), "{field} in {node}");
            items += 1;
        }
        let localizer = pair
            .nodes
            .iter()
            .find(|it| node["HostName"] == *it.site.host);
        let localizer = localizer.unwrap().site.ports.localizer;
        let beans = jmx(node["NodeHTTPAddress"].as_str().unwrap(), "");
        // The template means the port for localizers by its default, 8040.
        let rpc = format!("Hadoop:service=NodeManager,name=RpcActivityForPort{localizer}");
        let of_node = "Hadoop:service=NodeManager,name=NodeManagerMetrics";
        let of_jvm = "Hadoop:service=NodeManager,name=JvmMetrics";
        for (bean, attribute) in [
            (rpc.as_str(), "RpcProcessingTimeAvgTime"),
            (of_node, "ContainerLaunchDurationAvgTime"),
            (of_jvm, "GcTimeMillis"),
            (of_jvm, "MemHeapUsedM"),
            ("java.lang:type=Threading", "ThreadCount"),
            ("java.lang:type=Runtime", "Uptime"),
        ] {
            let found = item(&beans, bean, attribute);
            let found = found.unwrap_or_else(|| panic!("{attribute} of {bean} in {beans:?}"));
            assert!(found.is_number(), "{attribute} of {bean}: {found}");
            items += 1;
        }
        assert_eq!(
            item(&beans, of_jvm, "tag.Hostname"),
            Some(node["HostName"].clone())
        );
    }
    assert_eq!(items, 22);
    drop(pair.rm);
}

#[test]
fn every_value_of_grafanas_mixin_has_data_of_each_node_by_the_real_jmx_exporter() {
    require!(java, hadoop, prometheus, jmx_exporter);
    let pair = Pair::start();
    let mut exporters = pair
        .pages()
        .map(|pages| JmxExporter::start(&pages, pair.lab.folder()));
    for exporter in &mut exporters {
        exporter.process.wait_log("registered", STATE_DEADLINE);
    }
    let ports = [0, 1].map(|place| exporters[place].port);
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboards/alerts.yml");
    let prometheus = Prometheus::start(&ports, &rules);
    for series in SERIES {
        let query = format!("hadoop_nodemanager_{series}");
        wait::until(&query, STATE_DEADLINE, || {
            let found = prometheus.query(&query)?;
            wait::check(found.len() == 2, format!("{found:?}"))
        });
    }
    let per_collection = "increase(hadoop_nodemanager_gctimemillis[1m]) \
                          / clamp_min(increase(hadoop_nodemanager_gccount[1m]), 1)";
    wait::until(per_collection, STATE_DEADLINE, || {
        let found = prometheus.query(per_collection)?;
        wait::check(found.len() == 2, format!("{found:?}"))
    });
    let launched = prometheus
        .query("sum(hadoop_nodemanager_containerslaunched)")
        .unwrap();
    // Four of the job and its ApplicationMaster's.
    assert_eq!(launched[0]["value"][1], "5", "{launched:?}");
}
