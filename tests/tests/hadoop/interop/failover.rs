//! The active of two ResourceManagers is killed while containers run, and the other takes over.

use std::fs;

use tests::cluster::{Cluster, JOB_DEADLINE, PRINT_BEGIN, SLOT_MB, STATE_DEADLINE};
use tests::conf::{Options, StateStore};
use tests::distributed_shell::ContainerType;
use tests::lab::Lab;
use tests::node::Node;
use tests::rm::{ResourceManager, RmKind};
use tests::{map_reduce, require, rm_pair, wait};

use crate::interop::processes::{leaders, note_start, started_once, wait_empty};
use crate::interop::{node_kind, shell};

/// Tasks of the job whose containers are opportunistic.
const TASKS: u32 = 40;
/// Containers that have begun before each failover.
const BEGUN: [usize; 2] = [5, 20];

/// A cluster with the active ResourceManager, and the other one.
struct PairCluster {
    cluster: Cluster,
    /// Not running once it has been killed.
    other: ResourceManager,
    active: usize,
}

impl PairCluster {
    fn start(slots: u32, options: Options) -> Self {
        let options = Options {
            node_memory_mb: slots * SLOT_MB,
            state_store: StateStore::FileSystem,
            ..options
        };
        let mut lab = Lab::new(&RmKind::Hadoop, options);
        let [rm, other] = rm_pair::start(&mut lab);
        let node = Node::start_registered(&lab, &node_kind(), "node", &rm);
        Self {
            cluster: Cluster { node, rm, lab },
            other,
            active: 0,
        }
    }

    /// Starts the killed ResourceManager again, as the standby.
    fn repair(&mut self) {
        rm_pair::start_standby(&self.cluster.lab, &mut self.other);
    }

    /// Kills the active ResourceManager, makes the other one active and waits for the node there.
    fn fail_over(&mut self) {
        let Cluster { node, rm, lab } = &mut self.cluster;
        rm.kill();
        std::mem::swap(rm, &mut self.other);
        self.active = 1 - self.active;
        rm_pair::activate(lab, rm_pair::IDS[self.active], rm);
        node.wait_state(rm, "RUNNING", STATE_DEADLINE);
    }
}

#[test]
fn containers_that_run_and_wait_live_through_a_failover() {
    require!(java, hadoop);
    // Both ApplicationMasters, two guaranteed containers and one opportunistic one.
    let mut pair = PairCluster::start(5, Options::default());
    let cluster = &pair.cluster;
    let gate = cluster.gate("gate");
    let begun = cluster.lab.folder().join("begun");
    // A container that is started twice writes two lines.
    let note = note_start(&begun);
    let command = format!("({PRINT_BEGIN}; {note}; {})", gate.wait_command());
    let mut guaranteed = cluster.submit("guaranteed", &command, 2, ContainerType::Guaranteed);
    cluster.wait_begun(&guaranteed.application_id(), 2);
    let mut opportunistic =
        cluster.submit("opportunistic", &command, 3, ContainerType::Opportunistic);
    let ids = [guaranteed.application_id(), opportunistic.application_id()];
    cluster.wait_begun(&ids[1], 1);
    let before = ids.each_ref().map(|id| leaders(cluster, id));

    pair.fail_over();
    let cluster = &pair.cluster;
    for id in &ids {
        let _ = cluster.rm.wait_application(id, "RUNNING", STATE_DEADLINE);
    }
    let after = ids.each_ref().map(|id| leaders(cluster, id));
    assert_eq!(after, before, "containers were started again or ended");

    gate.open();
    for (id, shell, count) in [
        (&ids[0], &mut guaranteed, 2),
        (&ids[1], &mut opportunistic, 3),
    ] {
        shell.assert_succeeds(JOB_DEADLINE);
        cluster.node.logs(id).assert_succeeded(count);
        assert_eq!(cluster.rm.attempts(id).unwrap().len(), 1);
    }
    assert_eq!(started_once(&begun), 5);
    wait_empty(cluster);
}

/// Under load: MapReduce with a shuffle, and opportunistic containers that their master's own node
/// allocates.
///
/// The killed ResourceManager has told the ApplicationMaster of an end that its node still reports,
/// and Hadoop's next one tells it again. DistributedShell's ApplicationMaster counts such an end
/// twice and stops early, so the opportunistic containers are those of the agent's own.
#[test]
#[ignore = "takes a minute; run it by its name with --ignored"]
fn jobs_behind_the_proxy_succeed_over_a_failover_there_and_back() {
    require!(java, hadoop);
    let options = map_reduce::with_shuffle(Options::default())
        .with("yarn.nodemanager.amrmproxy.enabled", true)
        .with("yarn.nodemanager.distributed-scheduling.enabled", true);
    let mut pair = PairCluster::start(8, options);
    let Cluster { node, lab, .. } = &mut pair.cluster;
    // MapReduce's configuration travels with the job.
    for id in rm_pair::IDS {
        let proxy = format!("localhost:{}", node.site.ports.amrm_proxy);
        lab.set(
            &format!("yarn.resourcemanager.scheduler.address.{id}"),
            proxy,
        );
    }
    // A second launch of a map is a lost one.
    lab.set_mapred("mapreduce.map.speculative", false);
    let begun = lab.folder().join("begun");
    let mut pi = map_reduce::start(lab, "pi", ["pi", "10", "100"]);
    let command = format!("{}; sleep 1", note_start(&begun));
    let arguments = ["-n", &TASKS.to_string(), "--type", "opportunistic"];
    let mut shell = shell::start(&pair.cluster, "shell", &arguments, &command);
    let id = pi.application_id();
    for enough in BEGUN {
        wait::until(format!("{enough} containers"), STATE_DEADLINE, || {
            let begun = fs::read_to_string(&begun).unwrap_or_default();
            let count = begun.lines().count();
            wait::check(count >= enough, count)
        });
        pair.fail_over();
        pair.repair();
    }
    let cluster = &pair.cluster;
    let counts = shell::succeeds(cluster, &mut shell);
    assert_eq!((counts.succeeded, counts.lost), (TASKS, 0), "{counts:?}");
    // Those that made room for maps began before, or did not.
    let all = usize::try_from(TASKS + counts.evicted).unwrap();
    let started = started_once(&begun);
    assert!((all / 2..=all).contains(&started), "{counts:?}: {started}");
    let outcome = pi.outcome(map_reduce::JOB_DEADLINE);
    assert!(outcome.succeeded, "{}", outcome.log);
    for line in [
        map_reduce::PI_10_100,
        "Shuffled Maps =10",
        "Launched map tasks=10\n",
    ] {
        assert!(outcome.log.contains(line), "{line}: {}", outcome.log);
    }
    assert_eq!(cluster.rm.attempts(&id).unwrap().len(), 1);
    wait_empty(cluster);
}
