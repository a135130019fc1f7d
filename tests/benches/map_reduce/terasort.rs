//! Hadoop's `terasort` on one node after the other.

use std::fs;
use std::time::Duration;

use tests::conf::Options;
use tests::job_client::JobClient;
use tests::lab::Lab;
use tests::map_reduce;
use tests::node::{Node, NodeKind};
use tests::proc::{peak_memory_mib, processor_time};
use tests::rm::{ResourceManager, RmKind};
use tests::samples::Samples;

/// Deadline for a sort.
const DEADLINE: Duration = Duration::from_secs(1800);

/// Bytes of a row.
const ROW_BYTES: u64 = 100;

/// Size of the job.
pub(crate) struct Effort {
    rows: u64,
    maps: u32,
    reduces: u32,
    /// Sorts on each node, after one that warms up the machine's caches and the JVM.
    rounds: u32,
}

impl Effort {
    pub(crate) const fn new(quick: bool) -> Self {
        Self {
            rows: if quick { 200_000 } else { 10_000_000 },
            maps: if quick { 2 } else { 8 },
            reduces: if quick { 1 } else { 4 },
            rounds: if quick { 1 } else { 3 },
        }
    }

    pub(crate) const fn megabytes(&self) -> u64 {
        self.rows * ROW_BYTES / 1_000_000
    }
}

/// Figures of one node.
pub(crate) struct Sorts {
    /// Time of each sort, in seconds.
    pub(crate) seconds: Samples,
    /// CPU time of the node's process for a sort, in seconds.
    pub(crate) processor_s: f64,
    /// Largest resident memory of the node's process, in MiB.
    pub(crate) peak_mib: f64,
}

/// Sorts on a node of each kind in turn.
pub(crate) fn measure(kinds: &[NodeKind], effort: &Effort) -> Vec<Sorts> {
    let options = Options {
        // One ApplicationMaster and four tasks.
        node_memory_mb: 512 + 4 * 512,
        ..Options::default()
    };
    let lab = Lab::new(&RmKind::Hadoop, map_reduce::with_shuffle(options));
    let rm = ResourceManager::start(&lab, &RmKind::Hadoop);
    let mut sorts = Vec::new();
    for (number, kind) in kinds.iter().enumerate() {
        let name = format!("node{number}");
        let mut node = Node::start_registered(&lab, kind, &name, &rm);
        if number == 0 {
            println!("generating {} MB", effort.megabytes());
            run(&lab, "teragen", effort);
        }
        println!("sorting on {kind:?}");
        sorts.push(sort(&lab, &node, effort));
        node.process.terminate();
        let _ = node.process.wait_exit(DEADLINE);
        node.wait_state(&rm, "SHUTDOWN", DEADLINE);
    }
    sorts
}

fn sort(lab: &Lab, node: &Node, effort: &Effort) -> Sorts {
    let pid = node.process.id();
    let _warm_up = run(lab, "terasort", effort);
    let used = processor_time(pid);
    let seconds = (0..effort.rounds).map(|_| run(lab, "terasort", effort).as_secs_f64());
    let seconds = seconds.collect();
    let used = processor_time(pid).saturating_sub(used);
    Sorts {
        seconds,
        processor_s: used.as_secs_f64() / f64::from(effort.rounds),
        peak_mib: peak_memory_mib(pid),
    }
}

/// Runs a job of Hadoop's examples; returns the time until its client has ended.
fn run(lab: &Lab, example: &str, effort: &Effort) -> Duration {
    let path = |name: &str| lab.folder().join(name).display().to_string();
    let (rows, sorted) = (path("rows"), path("sorted"));
    if example == "terasort" && fs::exists(&sorted).is_ok_and(|exists| exists) {
        let removed = fs::remove_dir_all(&sorted);
        removed.unwrap_or_else(|error| panic!("cannot remove {sorted}: {error}"));
    }
    let (maps, reduces) = (
        format!("-Dmapreduce.job.maps={}", effort.maps),
        format!("-Dmapreduce.job.reduces={}", effort.reduces),
    );
    // A map for each file of the generator.
    let split = "-Dmapreduce.input.fileinputformat.split.minsize=1000000000";
    // The other partitioner reads its file from the job's working folder where the default file
    // system is the local one, and finds none there with more than one reducer.
    let simple = "-Dmapreduce.terasort.simplepartitioner=true";
    let count = effort.rows.to_string();
    let sizes = [
        "-Dmapreduce.map.memory.mb=512",
        "-Dmapreduce.reduce.memory.mb=512",
    ];
    let [of_map, of_reduce] = sizes;
    let mut client: JobClient = if example == "teragen" {
        map_reduce::start_alone(lab, example, [example, &maps, of_map, &count, &rows])
    } else {
        map_reduce::start_alone(
            lab,
            example,
            [
                example, &reduces, simple, split, of_map, of_reduce, &rows, &sorted,
            ],
        )
    };
    client.assert_succeeds(DEADLINE);
    client.elapsed()
}
