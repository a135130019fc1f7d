//! Each node in a network of its own: an ApplicationMaster finds the proxy of whatever node it runs
//! on at `localhost:8049`, the only address in its configuration.

use nix::sys::signal::Signal;
use records::ContainerName;
use tests::cluster::{JOB_DEADLINE, SLOT_MB, STATE_DEADLINE};
use tests::distributed_shell::{self, ContainerType, Job};
use tests::map_reduce;
use tests::network::isolated;
use tests::node::NodeKind;
use tests::{require, wait};

use crate::proxy_interop::networked_cluster::NetworkedCluster;
use crate::proxy_interop::{agent, distributed};

/// Number of containers of a job of several.
const CONTAINERS: usize = 10;

/// Upper bound of printed container numbers of nodes: an id has 40 bits within an epoch, and nodes
/// count down from where the epoch begins.
const NODE_IDS_END: i64 = 1 << 40;

impl NetworkedCluster {
    fn job(&self, name: &str, command: &str, containers: usize, kind: ContainerType) -> String {
        let job = Job {
            command,
            containers: u32::try_from(containers).unwrap(),
            memory_mb: SLOT_MB,
            container_type: kind,
        };
        let mut shell = distributed_shell::start(&self.lab, name, &job);
        let id = shell.application_id();
        shell.assert_succeeds(JOB_DEADLINE);
        id
    }

    /// Returns the sum of a metric over our nodes.
    fn metric(&self, series: &str) -> f64 {
        let agents = self.places.iter().filter(|place| place.is_agent);
        let values = agents.map(|place| place.node.metric(series));
        values.map(|value| value.unwrap_or_default()).sum()
    }

    fn allocate_calls(&self) -> f64 {
        self.metric("nm_agent_amrmproxy_calls_total{method=\"allocate\",outcome=\"ok\"}")
    }

    fn given_out(&self) -> f64 {
        let localities = ["node_local", "rack_local", "off_switch"];
        localities
            .map(|locality| {
                let name = "nm_agent_amrmproxy_allocated_containers_total";
                self.metric(&format!("{name}{{locality=\"{locality}\"}}"))
            })
            .iter()
            .sum()
    }

    /// Asserts that all containers ran once, each numbered by a node, and some on every node.
    #[track_caller]
    fn assert_given_out_by_nodes(&self, application_id: &str) {
        let used = self.used(application_id);
        let mut all = used.concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), CONTAINERS, "{used:?}");
        let counted_down = NODE_IDS_END - 10 * i64::try_from(CONTAINERS).unwrap()..NODE_IDS_END;
        assert!(all.iter().all(|id| counted_down.contains(id)), "{used:?}");
        assert!(used.iter().all(|on_node| !on_node.is_empty()), "{used:?}");
    }
}

#[test]
fn masters_on_any_node_reach_their_own_nodes_proxy_and_use_both_nodes() {
    require!(java, hadoop, network_namespaces);
    isolated(|| {
        let mut cluster = NetworkedCluster::start(distributed());
        cluster.add_node(&agent());
        cluster.add_node(&agent());
        // From here on this is the configuration of clients, and a job of MapReduce carries its
        // client's.
        let scheduler = "yarn.resourcemanager.scheduler.address";
        cluster.lab.set(scheduler, "localhost:8049");

        let id = cluster.job("guaranteed", "echo", CONTAINERS, ContainerType::Guaranteed);
        assert_eq!(cluster.used(&id).concat().len(), CONTAINERS);
        let calls = cluster.allocate_calls();
        assert!(calls > 0.0, "no call of the master went through a node");
        assert!(
            cluster.given_out() == 0.0,
            "guaranteed ones are the ResourceManager's"
        );

        // Long enough that one node cannot take all before the other is known.
        let id = cluster.job(
            "opportunistic",
            "echo; sleep 1",
            CONTAINERS,
            ContainerType::Opportunistic,
        );
        assert!(
            cluster.given_out() >= 10.0,
            "{} given out",
            cluster.given_out()
        );
        cluster.assert_given_out_by_nodes(&id);

        let calls = cluster.allocate_calls();
        let mut pi = map_reduce::start_pi(&cluster.lab, "pi", 1);
        let id = pi.application_id();
        let _ = cluster.rm.wait_application(&id, "RUNNING", STATE_DEADLINE);
        wait::until("a map of MapReduce", STATE_DEADLINE, || {
            let used = cluster.used(&id);
            let through = cluster.allocate_calls() - calls;
            let began = through > 0.0 && !cluster.containers(&id)?.is_empty();
            wait::check(began, format!("{through} calls; {used:?}"))
        });
        cluster.rm.kill_application(&cluster.lab, &id);
        let _ = cluster.rm.wait_application(&id, "KILLED", STATE_DEADLINE);
    });
}

impl NetworkedCluster {
    /// Returns the present containers of an application's first attempt, without its master.
    fn containers(&self, application_id: &str) -> Result<Vec<String>, String> {
        let attempts = self.rm.attempts(application_id)?;
        let attempt = attempts
            .first()
            .and_then(|attempt| attempt["appAttemptId"].as_str());
        let attempt = attempt.ok_or("no attempt")?;
        let containers = self.rm.containers(application_id, attempt)?;
        let ids = containers
            .iter()
            .filter_map(|container| container["containerId"].as_str());
        let is_master = |id: &str| {
            id.parse::<ContainerName>()
                .is_ok_and(|name| name.number() == 1)
        };
        Ok(ids.filter(|id| !is_master(id)).map(str::to_owned).collect())
    }
}

#[test]
fn a_java_node_elsewhere_runs_containers_by_tokens_that_our_node_signed() {
    require!(java, hadoop, network_namespaces);
    isolated(|| {
        // Looks would not find a node that sleeps.
        let options = distributed().with("yarn.nodemanager.agent.amrmproxy.placement", "spread");
        let mut cluster = NetworkedCluster::start(options);
        cluster.add_node(&agent());
        cluster.add_node(&NodeKind::Java);
        // A node that sends no heartbeats gets no master, and stays on the list for the others.
        cluster.places[1].node.process.signal(Signal::SIGSTOP);
        let job = Job {
            command: "echo",
            containers: u32::try_from(CONTAINERS).unwrap(),
            memory_mb: SLOT_MB,
            container_type: ContainerType::Opportunistic,
        };
        let mut shell = distributed_shell::start(&cluster.lab, "to-java", &job);
        let id = shell.application_id();
        wait::until("a container given out by our node", STATE_DEADLINE, || {
            wait::check(cluster.given_out() >= 1.0, cluster.given_out().to_string())
        });
        cluster.places[1].node.process.signal(Signal::SIGCONT);
        shell.assert_succeeds(JOB_DEADLINE);
        let used = cluster.used(&id);
        assert!(
            !used[1].is_empty(),
            "nothing ran on the Java node: {used:?}"
        );
        assert!(cluster.given_out() >= 10.0, "{}", cluster.given_out());
    });
}
