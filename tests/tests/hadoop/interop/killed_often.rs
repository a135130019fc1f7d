//! The node is killed again and again, at random moments, while jobs of all kinds run.
//! `NM_AGENT_KILLS` is the number of kills.

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tests::cgroups::Hierarchy;
use tests::cluster::{Cluster, JOB_DEADLINE, PRINT_BEGIN, SLOT_MB, STATE_DEADLINE};
use tests::conf::Options;
use tests::distributed_shell::ContainerType;
use tests::job_client::JobClient;
use tests::native_shell::NativeShell;
use tests::ports::Port;
use tests::rm::RmKind;
use tests::{map_reduce, proc, require, wait};

use crate::AGENT;
use crate::interop::processes::{note_start, started_once};
use crate::interop::{node_kind, start_cluster};

/// Containers that the node holds: fewer than the jobs want.
const SLOTS: u32 = 10;
/// Longest time for which a node lives, from the moment that it is started.
const LIFE_MAX_MS: u64 = 4_000;
/// Kills unless `NM_AGENT_KILLS` names a number.
const KILLS: u32 = 5;
/// Containers of the job that has both types.
const TASKS: &str = "10";

#[test]
fn jobs_of_all_kinds_succeed_on_a_node_that_is_killed_again_and_again() {
    require!(java, hadoop);
    let kills = number("NM_AGENT_KILLS").map_or(KILLS, |kills| kills.try_into().unwrap());
    let seed = number("NM_AGENT_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("NM_AGENT_SEED={seed}");
    // Dropped after the node.
    let hierarchy = Hierarchy::for_test("frozen containers on a node that is killed");
    let options = Options::default().with("yarn.nodemanager.recovery.enabled", true);
    // Reducers come back to the port that they were told.
    let port = Port::reserve().release();
    let options = map_reduce::with_shuffle(options).with("mapreduce.shuffle.port", port);
    let options = match &hierarchy {
        Some(hierarchy) => {
            let pause = "yarn.nodemanager.opportunistic-containers-use-pause-for-preemption";
            let (property, path) = hierarchy.property();
            options.with(property, path).with(pause, true)
        }
        // Opportunistic containers are killed to make room then.
        None => options,
    };
    let mut cluster = start_cluster(&RmKind::Hadoop, SLOTS, options);
    let begun = cluster.lab.folder().join("begun");
    let mut random = Random(seed);
    let (mut killed, mut waves, mut given_up) = (0, 0, 0);
    let start = Instant::now();
    while killed < kills {
        waves += 1;
        let mut wave = Wave::start(&cluster, waves, &begun);
        while killed < kills && !wave.has_ended(&cluster) {
            std::thread::sleep(Duration::from_millis(random.below(LIFE_MAX_MS)));
            cluster.node.process.kill();
            cluster.node.start_again(&node_kind());
            killed += 1;
        }
        given_up += wave.succeeds(&cluster);
    }
    let started = started_once(&begun);
    let log = cluster.node.process.log();
    let queued = in_order_of_arrival(&log);
    nothing_is_left(&cluster, hierarchy.as_ref());
    println!(
        "{killed} kills in {:.0} s; of {} jobs all succeeded but {given_up} that Hadoop's client gave \
         up; {started} containers of shells began once each, {queued} that had waited in their order, \
         {} times one was frozen",
        start.elapsed().as_secs_f64(),
        3 * waves,
        log.matches("paused=true").count(),
    );
}

/// Three jobs at a time: of our own client, which asks again for what is evicted; of Hadoop's
/// DistributedShell; and of MapReduce, with a shuffle.
struct Wave {
    mixed: NativeShell,
    guaranteed: JobClient,
    pi: JobClient,
    ids: [String; 3],
}

impl Wave {
    fn start(cluster: &Cluster, number: u32, begun: &Path) -> Self {
        // A container that is started twice writes two lines.
        let note = format!("{}; sleep 2", note_start(begun));
        let mut mixed = NativeShell::start(
            &cluster.lab,
            Path::new(AGENT),
            &format!("mixed-{number}"),
            &[
                "-n",
                TASKS,
                "--type",
                "mix",
                "--guaranteed",
                "2",
                "--memory",
                &SLOT_MB.to_string(),
            ]
            .into_iter()
            .chain(["--retries", "20", "--", "sh", "-c", &note])
            .collect::<Vec<_>>(),
        );
        let command = format!("({PRINT_BEGIN}; {note})");
        let name = format!("guaranteed-{number}");
        let mut guaranteed = cluster.submit(&name, &command, 2, ContainerType::Guaranteed);
        let name = format!("pi-{number}");
        let mut pi = map_reduce::start(&cluster.lab, &name, ["pi", "10", "100"]);
        let ids = [
            mixed.application_id(),
            guaranteed.application_id(),
            pi.application_id(),
        ];
        Self {
            mixed,
            guaranteed,
            pi,
            ids,
        }
    }

    fn has_ended(&self, cluster: &Cluster) -> bool {
        self.ids.iter().all(|id| {
            let application = cluster.rm.application(id).unwrap();
            matches!(
                application["state"].as_str(),
                Some("FINISHED" | "FAILED" | "KILLED")
            )
        })
    }

    /// Waits for the end of the jobs, each of which must have succeeded with its first attempt.
    /// Returns the number of jobs that Hadoop's client library gave up ([`gave_up`]).
    fn succeeds(&mut self, cluster: &Cluster) -> usize {
        let (status, log) = self.mixed.outcome(JOB_DEADLINE);
        assert_eq!(status, Some(0), "{log}");
        let outcome = self.pi.outcome(map_reduce::JOB_DEADLINE);
        assert!(outcome.succeeded, "{}", outcome.log);
        let log = &outcome.log;
        assert!(log.contains(map_reduce::PI_10_100), "{log}");
        for id in &self.ids {
            assert_eq!(cluster.rm.attempts(id).unwrap().len(), 1, "{id}");
        }
        let outcome = self.guaranteed.outcome(JOB_DEADLINE);
        let [_, guaranteed, _] = &self.ids;
        let has_given_up = gave_up(&cluster.node.logs(guaranteed).application_master());
        assert!(outcome.succeeded || has_given_up, "{}", outcome.log);
        usize::from(!outcome.succeeded)
    }
}

/// Whether an ApplicationMaster's log shows the one failure of a connection that Hadoop's client
/// library does not try again: it broke during the SASL handshake, and `Client` wraps the reset in
/// an exception that `ServerProxy` has no policy for. So a Java node that is killed at that moment
/// loses the container, too.
fn gave_up(log: &str) -> bool {
    log.contains("handleSaslConnectionFailure")
        && (log.contains("Connection reset") || log.contains("EOFException"))
}

/// Asserts that opportunistic containers that waited for their start began in the order of their
/// arrival, over all lives of the node. Returns how many waited. (A frozen one, which waits again,
/// goes on before them.)
fn in_order_of_arrival(log: &str) -> usize {
    let (mut arrived, mut started) = (Vec::new(), Vec::new());
    for line in log.lines() {
        let Some((_, decision)) = line.split_once("node_manager::audit: ") else {
            continue;
        };
        let Some((event, rest)) = decision.split_once(" container=") else {
            continue;
        };
        let Some((id, rest)) = rest.split_once(" execution_type=OPPORTUNISTIC ") else {
            continue;
        };
        match event {
            "queued" if !arrived.contains(&id) && !started.contains(&id) => arrived.push(id),
            "started" if rest.contains("resumed=false") => started.push(id),
            _ => {}
        }
    }
    started.retain(|id| arrived.contains(id));
    // An agent that is killed between a start and its line in the log never writes the line.
    let logged: Vec<&str> = arrived
        .iter()
        .copied()
        .filter(|id| started.contains(id))
        .collect();
    assert_eq!(started, logged);
    arrived.len()
}

/// Waits until no process, cgroup or folder of a container is left.
fn nothing_is_left(cluster: &Cluster, hierarchy: Option<&Hierarchy>) {
    wait::until("the end of all containers", STATE_DEADLINE, || {
        let processes = proc::containers(cluster.lab.folder());
        let groups = hierarchy.map_or(0, Hierarchy::container_count);
        let folders = folders_of_applications(cluster.lab.folder());
        wait::check(
            processes.is_empty() && groups == 0 && folders.is_empty(),
            format!("{processes:?}, {groups} cgroups, {folders:?}"),
        )
    });
}

/// Returns the folders of applications below local directories.
fn folders_of_applications(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        // It may be deleted meanwhile.
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let is_application = entry
                .file_name()
                .to_string_lossy()
                .starts_with("application_");
            match folder.file_name().and_then(|name| name.to_str()) {
                Some("appcache" | "nmPrivate") if is_application => found.push(entry.path()),
                Some(_) | None => pending.push(entry.path()),
            }
        }
    }
    found
}

/// Random numbers of a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Returns the number in a variable of the environment, if it is set.
fn number(variable: &str) -> Option<u64> {
    let given = std::env::var(variable).ok()?;
    let number = given.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is no number: {given}")))
}
