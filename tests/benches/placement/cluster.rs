//! Hadoop's ResourceManager with a node for masters and many small ones for their containers.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tests::conf::{Options, Properties};
use tests::distributed_shell::{self, ContainerType, Job};
use tests::lab::Lab;
use tests::native_shell::{self, NativeShell};
use tests::node::{Node, NodeKind};
use tests::rm::{ResourceManager, RmKind};
use tests::wait;

use crate::foretold::Delays;
use crate::workload::{Job as PlannedJob, Workload};
use crate::{PLACES, Seen};

/// Memory of a place, in MiB.
const PLACE_MB: u32 = 256;

/// Memory of a master, in MiB: more than a small node has.
const MASTER_MB: u32 = 2 * PLACES * PLACE_MB;

/// Masters for which their node has room.
const MASTERS: u32 = 2 * Workload::JOBS_MAX;

/// Deadline for what takes seconds on an idle machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// Deadline for jobs that wait behind each other on one node.
const JOBS_DEADLINE: Duration = Duration::from_secs(1_800);

/// Nodes and choice of nodes of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) placement: &'static str,
    /// Nodes on the ResourceManager's list.
    pub(crate) listed: u32,
    pub(crate) nodes: u32,
    /// Hadoop's NodeManagers among them.
    pub(crate) java: u32,
}

/// A cluster that runs. Dropped in this order.
pub(crate) struct Cluster {
    masters: Node,
    workers: Vec<(Node, bool)>,
    rm: ResourceManager,
    lab: Lab,
    /// Jobs so far.
    submitted: u32,
}

/// Property that turns distributed scheduling on.
const DISTRIBUTED: &str = "yarn.nodemanager.distributed-scheduling.enabled";

const AGENT: &str = env!("CARGO_BIN_EXE_agent-under-test");

fn agent() -> NodeKind {
    NodeKind::Agent(AGENT.into())
}

fn options(setting: &Setting) -> Options {
    let listed = "yarn.resourcemanager.opportunistic-container-allocation.nodes-used";
    Options {
        node_memory_mb: PLACES * PLACE_MB,
        central_opportunistic: true,
        queue_length_max: 15,
        // Hadoop's defaults, as the simulation's.
        queue_limits: (5, 15),
        heartbeat_ms: 1_000,
        ..Options::default()
    }
    .with(listed, setting.listed)
    // The ResourceManager reads it, too.
    .with(DISTRIBUTED, true)
    .with(
        "yarn.nodemanager.agent.amrmproxy.placement",
        setting.placement,
    )
    .with(
        "yarn.resourcemanager.nm-container-queuing.queue-limit-stdev",
        "1.0",
    )
}

impl Cluster {
    /// Starts all nodes, and waits until each has registered.
    pub(crate) fn start(setting: &Setting) -> Self {
        let mut lab = Lab::new(&RmKind::Hadoop, options(setting));
        let rm = ResourceManager::start(&lab, &RmKind::Hadoop);
        let masters = lab.node_site_changed("masters", "localhost", |site| {
            site.set("yarn.nodemanager.resource.memory-mb", MASTERS * MASTER_MB)
                // None of the tasks runs beside them.
                .set(
                    "yarn.nodemanager.opportunistic-containers-max-queue-length",
                    0,
                );
            proxy(site, true);
        });
        let masters = Node::start_at(masters, &agent());
        let kinds = (0..setting.nodes).map(|number| number < setting.java);
        let mut workers: Vec<(Node, bool)> = Vec::new();
        for (number, is_java) in (2..).zip(kinds) {
            let host = format!("127.0.0.{number}");
            let name = format!("node-{number}");
            let site = lab.node_site_changed(&name, &host, |site| proxy(site, false));
            let kind = if is_java { NodeKind::Java } else { agent() };
            workers.push((Node::start_at(site, &kind), is_java));
        }
        let expected = workers.len() + 1;
        wait::until("the registration of all nodes", DEADLINE, || {
            let nodes = rm.nodes()?;
            let running = nodes.iter().filter(|node| node["state"] == "RUNNING");
            let running = running.count();
            wait::check(running == expected, running.to_string())
        });
        let address = format!("localhost:{}", masters.site.ports.amrm_proxy);
        lab.set("yarn.resourcemanager.scheduler.address", address);
        Self {
            masters,
            workers,
            rm,
            lab,
            submitted: 0,
        }
    }

    /// Returns the delays that the simulation needs, from a job of one short task, and from one of
    /// so many, which warms the nodes up as well.
    pub(crate) fn delays(&mut self, tasks: usize) -> Delays {
        let one = self.run(&Workload::one(vec![0]));
        let before = self.calls();
        let many = self.run(&Workload::even(1, tasks));
        let heartbeat_s = many.makespan_s / (self.calls() - before).max(1.0);
        Delays {
            start: Duration::from_secs_f64(one.makespan_s),
            heartbeat: Duration::from_secs_f64(heartbeat_s),
        }
    }

    /// Returns how many calls of masters the AMRMProxy has answered.
    fn calls(&self) -> f64 {
        let series = "nm_agent_amrmproxy_calls_total{method=\"allocate\",outcome=\"ok\"}";
        self.masters.metric(series).expect("the node tells it")
    }

    /// Runs the jobs, each from its time on.
    pub(crate) fn run(&mut self, workload: &Workload) -> Seen {
        let begin = Instant::now();
        let mut shells: Vec<NativeShell> = Vec::new();
        for job in &workload.jobs {
            let due = begin + Duration::from_millis(job.submit_ms);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            shells.push(self.submit(job));
        }
        let mut times = Vec::new();
        let mut turned_away = 0;
        for mut shell in shells {
            let id = shell.application_id();
            let (status, log) = shell.outcome(JOBS_DEADLINE);
            assert_eq!(status, Some(0), "{log}");
            let ended = self.rm.wait_application(&id, "FINISHED", DEADLINE);
            times.push((time(&ended, "startedTime"), time(&ended, "finishedTime")));
            let counts = native_shell::summary(&self.rm, &id).counts;
            turned_away += counts.shed + counts.lost;
        }
        let first = times
            .iter()
            .map(|(begin, _)| *begin)
            .fold(f64::MAX, f64::min);
        let last = times.iter().map(|(_, end)| *end).fold(0.0, f64::max);
        Seen {
            makespan_s: last - first,
            jobs_s: times.iter().map(|(begin, end)| end - begin).collect(),
            turned_away: f64::from(turned_away) / workload.tasks() as f64,
        }
    }

    fn submit(&mut self, job: &PlannedJob) -> NativeShell {
        // Its log has this name.
        let name = format!("job-{}", self.submitted);
        self.submitted += 1;
        let arguments = [
            "-n",
            &job.lengths_ms.len().to_string(),
            "--type",
            "opportunistic",
            "--master-memory",
            &MASTER_MB.to_string(),
            "--memory",
            &PLACE_MB.to_string(),
            "--",
            "sh",
            "-c",
            &command(job),
        ];
        NativeShell::start(&self.lab, Path::new(AGENT), &name, &arguments)
    }

    /// Runs Hadoop's DistributedShell with so many containers, each of which sleeps for so many
    /// seconds. Returns the job's time in seconds, and how many containers the nodes have turned
    /// away. The master asks for none again: the job fails with the first.
    pub(crate) fn distributed_shell(
        &mut self,
        container_type: ContainerType,
        containers: u32,
        seconds: u32,
    ) -> (f64, f64) {
        let before = self.turned_away();
        let name = format!("job-{}", self.submitted);
        self.submitted += 1;
        let job = Job {
            command: &format!("sleep {seconds}"),
            containers,
            memory_mb: PLACE_MB,
            container_type,
        };
        let master = MASTER_MB.to_string();
        let options = ["-master_memory", &master];
        let mut client = distributed_shell::start_with(&self.lab, &name, &job, &options);
        let id = client.application_id();
        client.assert_succeeds(JOBS_DEADLINE);
        let ended = self.rm.wait_application(&id, "FINISHED", DEADLINE);
        let took_s = time(&ended, "finishedTime") - time(&ended, "startedTime");
        (took_s, self.turned_away() - before)
    }

    /// Returns how many containers the agents among the nodes have refused or shed.
    fn turned_away(&self) -> f64 {
        let agents = self.workers.iter().filter(|(_, is_java)| !is_java);
        let agents = agents.map(|(node, _)| node).chain([&self.masters]);
        let series = [
            "nm_agent_container_sheds_total{limit=\"queue_length\"}",
            "nm_agent_container_rejections_total{reason=\"queue_full\"}",
        ];
        let of = |node: &Node| -> f64 {
            let counts = series.iter().map(|series| node.metric(series));
            counts.map(|count| count.unwrap_or(0.0)).sum()
        };
        agents.map(of).sum()
    }

    /// Returns the calls of masters that waited for looks, with the largest bound in seconds below
    /// which each part of them stays.
    pub(crate) fn look_waits(&self) -> Vec<(String, f64)> {
        let metrics = self.masters.get("/metrics").expect("the node answers");
        let buckets = metrics.body.lines().filter_map(|line| {
            let rest = line.strip_prefix("nm_agent_amrmproxy_look_seconds_bucket{le=\"")?;
            let (bound, count) = rest.split_once("\"} ")?;
            Some((bound.to_owned(), count.parse().ok()?))
        });
        buckets.collect()
    }

    /// Returns a node for containers.
    pub(crate) fn worker(&self) -> &Node {
        let mut agents = self.workers.iter().filter(|(_, is_java)| !is_java);
        &agents.next().expect("agents are among the nodes").0
    }
}

/// Configures a node's AMRMProxy. Masters of nodes without one ask the ResourceManager.
fn proxy(site: &mut Properties, is_on: bool) {
    site.set("yarn.nodemanager.amrmproxy.enabled", is_on)
        .set(DISTRIBUTED, is_on);
}

/// Returns the command of a task, which sleeps for its length.
fn command(job: &PlannedJob) -> String {
    let lengths = job.lengths_ms.iter();
    let lengths_s: Vec<String> = lengths
        .map(|length_ms| format!("{}.{:03}", length_ms / 1_000, length_ms % 1_000))
        .collect();
    format!(
        "set -- {}; shift $(( YARN_SHELL_ID - 1 )); exec sleep $1",
        lengths_s.join(" ")
    )
}

/// Returns a time of an application, in seconds.
fn time(application: &Value, name: &str) -> f64 {
    let ms = application[name].as_f64();
    ms.unwrap_or_else(|| panic!("no {name} in {application}")) / 1_000.0
}
