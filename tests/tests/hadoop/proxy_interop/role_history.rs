//! Role histories on a real cluster: services that are killed and submitted again come back to
//! their nodes, whatever node their master is on, and leave a node that is gone.
//!
//! ```text
//!  node  has capacity for one container or master; a blocker leaves too little for either
//!  n1    master      blocked
//!  n2    container   blocked   ─▶ the next master is on n5, and asks for n2, n3, n4
//!  n3    container   blocked      the blockers end, n1's first: containers are on n2, n3, n4
//!  n4    container   blocked
//!  n5
//! ```

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use tests::client::ShellApplication;
use tests::cluster::{SLOT_MB, STATE_DEADLINE};
use tests::conf::Options;
use tests::distributed_shell::{self, ContainerType, Job};
use tests::gate::Gate;
use tests::native_shell::NativeShell;
use tests::network::{HUB, isolated};
use tests::node::Node;
use tests::proxy_cluster::SLEEP;
use tests::{require, wait};

use crate::AGENT;
use crate::proxy_interop::networked_cluster::{NetworkedCluster, Place};
use crate::proxy_interop::{agent, distributed};

/// Number of nodes: more than containers and their master.
const NODES: usize = 5;

/// Number of containers of a service.
const CONTAINERS: usize = 3;

/// Memory of an application that leaves too little of a node, in MiB.
const BLOCKER_MB: u32 = SLOT_MB / 2;

/// Policy of a run whose asks wait for their nodes as long as the test takes.
const PATIENT: &str = "*=timeout:3000";

/// Address of the AMRMProxy of whatever node a master runs on.
const PROXY: &str = "localhost:8049";

/// Hosts of nodes.
type Hosts = BTreeSet<String>;

/// Run of a service, with its containers running.
struct Run {
    application_id: String,
    master: String,
    hosts: Hosts,
}

/// Cluster whose nodes share a directory of role histories. Fields are dropped in this order.
struct Stage {
    cluster: NetworkedCluster,
    gate: Gate,
    _histories: TempDir,
}

impl Stage {
    fn start() -> Self {
        let histories = TempDir::new().unwrap();
        let name = |name: &str| format!("yarn.nodemanager.agent.role-history.{name}");
        let options = Options {
            node_memory_mb: SLOT_MB,
            ..distributed()
        };
        let directory = format!("file://{}", histories.path().display());
        let options = options
            .with(&name("dir"), directory)
            .with(&name("rules"), "all")
            .with(&name("rule.all.service"), "ruled")
            .with(&name("rule.all.guaranteed"), true)
            .with(&name("rule.all.policy"), PATIENT);
        let mut cluster = NetworkedCluster::start(options);
        for _ in 0..NODES {
            cluster.add_node(&agent());
        }
        let gate = Gate::at(cluster.lab.folder().join("gate"));
        Self {
            cluster,
            gate,
            _histories: histories,
        }
    }

    fn place(&self, host: &str) -> &Place {
        let mut places = self.cluster.places.iter();
        places.find(|place| place.node.site.host == host).unwrap()
    }

    /// Submits a job of DistributedShell, whose masters' environment no client can set.
    fn submit_ruled(&self, name: &str, container_type: ContainerType) -> String {
        let job = Job {
            command: &self.gate.wait_command(),
            containers: u32::try_from(CONTAINERS).unwrap(),
            memory_mb: SLOT_MB,
            container_type,
        };
        // The client ends here. Its job goes on.
        distributed_shell::start(&self.cluster.lab, name, &job).application_id()
    }

    /// Submits a job of the agent's own shell as a service.
    fn submit_shell(&mut self, name: &str, policy: &str) -> String {
        let lab = &mut self.cluster.lab;
        lab.set("yarn.resourcemanager.scheduler.address", PROXY);
        let [containers, slot] = [CONTAINERS.to_string(), SLOT_MB.to_string()];
        let command = self.gate.wait_command();
        let size = [
            "-n",
            &containers,
            "--memory",
            &slot,
            "--master-memory",
            &slot,
        ];
        let service = ["--role-history", "search", "--role-history-guaranteed"];
        let policy = ["--role-history-policy", policy];
        let command = ["--", "sh", "-c", &command];
        let arguments = [&size[..], &service, &policy, &command].concat();
        let mut shell = NativeShell::start(lab, Path::new(AGENT), name, &arguments);
        let id = shell.application_id();
        // Nodes that start later read the ResourceManager's address.
        lab.set_rm_host(HUB);
        id
    }

    /// Returns the attempt of an application, and the host of its master.
    fn attempt(&self, application_id: &str) -> Result<(String, String), String> {
        let attempts = self.cluster.rm.attempts(application_id)?;
        let text = |name: &str| {
            let value = attempts.first().and_then(|attempt| attempt[name].as_str());
            value.map(str::to_owned).ok_or(format!("no {name}"))
        };
        let node = text("nodeId")?;
        let (host, _) = node.split_once(':').ok_or("no node")?;
        Ok((text("appAttemptId")?, host.to_owned()))
    }

    /// Returns the service of an application as the node of its master shows it.
    fn history(&self, application_id: &str) -> Result<Value, String> {
        let (attempt, host) = self.attempt(application_id)?;
        let path = format!("/ws/v1/node/agent/roleHistories/{attempt}");
        let answer = self.place(&host).node.get(&path)?;
        let value: Value = serde_json::from_str(&answer.body).map_err(|_| answer.body)?;
        Ok(value["roleHistory"].clone())
    }

    /// Returns the hosts where an application's containers run or ran.
    fn hosts(&self, application_id: &str) -> Hosts {
        let used = self.cluster.used(application_id);
        let places = self.cluster.places.iter().zip(used);
        let used = places.filter(|(_, containers)| !containers.is_empty());
        used.map(|(place, _)| place.node.site.host.clone())
            .collect()
    }

    /// Waits until all containers run and the history with them is saved.
    #[track_caller]
    fn wait_running(&self, application_id: String) -> Run {
        let history = wait::until(
            format!("containers of {application_id}"),
            STATE_DEADLINE,
            || {
                let history = self.history(&application_id)?;
                let placements = history["placement"].as_array();
                let times = placements.into_iter().flatten();
                let last = times.filter_map(|each| each["time"].as_i64()).max();
                let is_saved = history["savedTime"].as_i64() >= last;
                let used = self.cluster.used(&application_id).concat();
                let is_complete = history["placed"] == CONTAINERS && used.len() == CONTAINERS;
                wait::check(is_complete && is_saved, history)
            },
        );
        let hosts = self.hosts(&application_id);
        assert_eq!(hosts.len(), CONTAINERS, "{history}");
        let (_, master) = self.attempt(&application_id).unwrap();
        Run {
            application_id,
            master,
            hosts,
        }
    }

    /// Waits until the asks of a service name these hosts and nothing else.
    #[track_caller]
    fn wait_asked(&self, application_id: &str, hosts: &Hosts) -> Value {
        wait::until(format!("asks for {hosts:?}"), STATE_DEADLINE, || {
            let history = self.history(application_id)?;
            let asks = history["ask"].as_array().into_iter().flatten();
            let asked: Vec<_> = asks.map(|ask| ask["host"].as_str()).collect();
            let named: Hosts = asked
                .iter()
                .flatten()
                .map(|&host| host.to_owned())
                .collect();
            wait::check(asked.len() == hosts.len() && named == *hosts, history)
        })
    }

    /// Kills an application and waits until all nodes are free.
    #[track_caller]
    fn kill(&self, application_id: &str) {
        let Stage { cluster, .. } = self;
        cluster.rm.kill_application(&cluster.lab, application_id);
        let _ = cluster
            .rm
            .wait_application(application_id, "KILLED", STATE_DEADLINE);
        for place in &cluster.places {
            self.wait_used_mb(&place.node, 0);
        }
    }

    #[track_caller]
    fn wait_used_mb(&self, node: &Node, memory_mb: u32) {
        let name = &node.site.name;
        wait::until(
            format!("{memory_mb} MiB of {name} used"),
            STATE_DEADLINE,
            || {
                let node = node.at_rm(&self.cluster.rm)?;
                let is_gone = node["state"] != "RUNNING";
                let queued = &node["numQueuedContainers"];
                let opportunistic = &node["numRunningOpportContainers"];
                let is_free = *queued == 0 && *opportunistic == 0;
                wait::check(
                    is_gone || (node["usedMemoryMB"] == memory_mb && is_free),
                    node.to_string(),
                )
            },
        );
    }

    /// Leaves too little of the nodes with these hosts for a container or master. Returns the
    /// applications that do.
    #[track_caller]
    fn block<'a>(&self, hosts: impl IntoIterator<Item = &'a String>) -> Vec<String> {
        let blocker = ShellApplication {
            command: SLEEP,
            memory_mb: BLOCKER_MB,
        };
        let hosts: Vec<_> = hosts.into_iter().collect();
        let submit = |host: &&String| blocker.submit_on(&self.cluster.lab, host);
        let blockers = hosts.iter().map(submit).collect();
        for host in hosts {
            self.wait_used_mb(&self.place(host).node, BLOCKER_MB);
        }
        blockers
    }

    fn unblock(&self, blockers: &[String]) {
        let Stage { cluster, .. } = self;
        for blocker in blockers {
            cluster.rm.kill_application(&cluster.lab, blocker);
        }
    }

    /// Submits a service again, its master on another node than before, and returns the new run.
    /// Its containers find a free node before they find those of the run before.
    #[track_caller]
    fn run_again(&mut self, before: &Run, submit: impl FnOnce(&mut Self) -> String) -> Run {
        let of_master = self.block([&before.master]);
        let of_containers = self.block(&before.hosts);
        let id = submit(self);
        let _ = self.wait_asked(&id, &before.hosts);
        self.unblock(&of_master);
        self.wait_used_mb(&self.place(&before.master).node, 0);
        self.unblock(&of_containers);
        let again = self.wait_running(id);
        assert_ne!(again.master, before.master);
        assert_eq!(again.hosts, before.hosts);
        let history = self.history(&again.application_id).unwrap();
        assert_eq!(history["placedOnHistory"], CONTAINERS, "{history}");
        assert_eq!(history["escalated"], 0, "{history}");
        again
    }

    /// Ends the node with this host.
    #[track_caller]
    fn stop_node(&mut self, host: &str) {
        let Stage { cluster, .. } = self;
        let mut places = cluster.places.iter_mut();
        let place = places.find(|place| place.node.site.host == host).unwrap();
        place.node.process.terminate();
        place
            .node
            .wait_state(&cluster.rm, "SHUTDOWN", STATE_DEADLINE);
    }

    /// Starts the node with this host again.
    fn start_node(&mut self, host: &str) {
        let Stage { cluster, .. } = self;
        let mut places = cluster.places.iter_mut();
        let place = places.find(|place| place.node.site.host == host).unwrap();
        let name = place.node.site.name.clone();
        let (network, lab) = (&place.network, &cluster.lab);
        place.node = Node::start_registered_in(network, lab, &agent(), &name, &cluster.rm);
    }
}

#[test]
fn services_come_back_to_their_nodes_and_leave_those_that_are_gone() {
    require!(java, hadoop, network_namespaces);
    isolated(|| {
        let mut stage = Stage::start();
        a_service_by_a_rule_comes_back(&mut stage);
        let last = a_service_by_its_own_choice_comes_back(&mut stage);
        let last = containers_of_a_stopped_node_go_elsewhere(&mut stage, &last);
        let last = strict_containers_wait_for_their_node(&mut stage, last);
        relaxed_containers_do_not_wait(&mut stage, &last);
    });
}

fn a_service_by_a_rule_comes_back(stage: &mut Stage) {
    let first = stage.submit_ruled("first", ContainerType::Guaranteed);
    let first = stage.wait_running(first);
    stage.kill(&first.application_id);
    let again = stage.run_again(&first, |stage| {
        stage.submit_ruled("again", ContainerType::Guaranteed)
    });
    stage.kill(&again.application_id);

    // Opportunistic containers are placed at once, and may wait for the blockers.
    let blockers = stage.block(&again.hosts);
    let id = stage.submit_ruled("opportunistic", ContainerType::Opportunistic);
    let _ = stage
        .cluster
        .rm
        .wait_application(&id, "RUNNING", STATE_DEADLINE);
    stage.unblock(&blockers);
    let opportunistic = stage.wait_running(id);
    assert_eq!(opportunistic.hosts, again.hosts);
    stage.kill(&opportunistic.application_id);
}

fn a_service_by_its_own_choice_comes_back(stage: &mut Stage) -> Run {
    let first = stage.submit_shell("shell", PATIENT);
    let first = stage.wait_running(first);
    stage.kill(&first.application_id);
    let again = stage.run_again(&first, |stage| stage.submit_shell("shell-again", PATIENT));
    stage.kill(&again.application_id);
    again
}

/// With a node less, the master and the containers take all that are left.
fn containers_of_a_stopped_node_go_elsewhere(stage: &mut Stage, before: &Run) -> Run {
    let gone = before.hosts.first().unwrap();
    stage.stop_node(gone);
    let id = stage.submit_shell("escalated", "*=timeout:2");
    let elsewhere = stage.wait_running(id);
    assert!(!elsewhere.hosts.contains(gone), "{:?}", elsewhere.hosts);
    let history = stage.history(&elsewhere.application_id).unwrap();
    assert!(history["escalated"].as_u64() >= Some(1), "{history}");
    stage.kill(&elsewhere.application_id);
    stage.start_node(gone);
    elsewhere
}

fn strict_containers_wait_for_their_node(stage: &mut Stage, before: Run) -> Run {
    let gone = before.hosts.first().unwrap().clone();
    let others: Vec<_> = before.hosts.iter().filter(|host| **host != gone).collect();
    let blockers = stage.block(others);
    stage.stop_node(&gone);
    // The timeout has passed when the asks are relaxed that have one.
    let id = stage.submit_shell("strict", "*=strict,timeout:0");
    let _ = stage.wait_asked(&id, &before.hosts);
    stage.unblock(&blockers);
    let asked = stage.wait_asked(&id, &Hosts::from([gone.clone()]));
    assert_eq!(asked["ask"][0].get("escalatesInMs"), None, "{asked}");
    stage.start_node(&gone);
    let strict = stage.wait_running(id);
    assert_eq!(strict.hosts, before.hosts);
    stage.kill(&strict.application_id);
    strict
}

fn relaxed_containers_do_not_wait(stage: &mut Stage, before: &Run) {
    let blocked = before.hosts.first().unwrap();
    let _ = stage.block([blocked]);
    let id = stage.submit_shell("relaxed", &format!("{PATIENT},relaxed"));
    let relaxed = stage.wait_running(id);
    assert!(!relaxed.hosts.contains(blocked), "{:?}", relaxed.hosts);
    let history = stage.history(&relaxed.application_id).unwrap();
    assert_eq!(history["escalated"], 0, "{history}");
}
