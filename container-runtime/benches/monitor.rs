//! What a look at many containers costs, beside reading the same files once without anything else.
//!
//! `cargo bench -p container-runtime --bench monitor`. A thousand containers, each a bash that
//! waits for a child, are looked at as the agent's monitor does: all of `/proc` is listed, each
//! process read, its container found, its memory added up and judged. The unit is milliseconds of
//! CPU time for one sample; sampling once a second must stay below 3 % of one core, 30 ms. The
//! machine's own limit is a plain read of every container process's `stat`.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use container_runtime::launch::RunningProcess;
use container_runtime::monitor::{ContainerSampler, MemoryPolicy};
use records::{ExecutionType, Resource};
use sched::ContainerSpec;
use test_support::ids::container as container_id;

/// Containers looked at.
const CONTAINERS: usize = 1_000;
/// Looks that are timed.
const LOOKS: usize = 50;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Containers that end with the bench.
struct Containers(Vec<Child>);

impl Drop for Containers {
    fn drop(&mut self) {
        // The end of its input ends a container's child, and that the container.
        for child in &mut self.0 {
            drop(child.stdin.take());
        }
        for child in &mut self.0 {
            let _ended = child.wait();
        }
    }
}

fn main() -> Outcome<()> {
    let containers = start()?;
    let mut running = Vec::new();
    for (number, child) in (1..).zip(&containers.0) {
        let container_id = container_id(number);
        running.push(RunningProcess {
            container_id,
            pid: i32::try_from(child.id())?,
            spec: Some(ContainerSpec {
                id: container_id,
                resource: Resource::new(1_024, 1),
                execution_type: ExecutionType::Guaranteed,
                version: 0,
            }),
        });
    }
    let policy = MemoryPolicy {
        pmem: true,
        vmem: true,
        vmem_pmem_ratio: 1_000.0,
    };
    let mut sampler = ContainerSampler::new(policy, false);
    let told = |exceeded| println!("unexpected: {exceeded:?}");
    let first = timed(|| {
        sampler.sample(&running, None, &told);
    });
    println!("{CONTAINERS} containers of two processes");
    println!(
        "{:<44} {:>8.2} ms",
        "first look, which opens the files", first
    );
    let second = Some(Duration::from_secs(1));
    let mut looks: Vec<f64> = (0..LOOKS)
        .map(|_| {
            timed(|| {
                sampler.sample(&running, second, &told);
            })
        })
        .collect();
    report("one look", &mut looks);
    let mut reads = plain_reads(&running)?;
    report("reading stat of the leaders alone, kept open", &mut reads);
    Ok(())
}

fn start() -> Outcome<Containers> {
    let mut containers = Containers(Vec::with_capacity(CONTAINERS));
    for _ in 0..CONTAINERS {
        let child = Command::new("setsid")
            .args(["bash", "-c", "echo ready; cat; true"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        containers.0.push(child);
    }
    for child in &mut containers.0 {
        let mut line = String::new();
        let output = child.stdout.take().ok_or("it has an output")?;
        BufReader::new(output).read_line(&mut line)?;
    }
    Ok(containers)
}

/// Returns the CPU time of this thread that the closure took, in milliseconds.
fn timed(work: impl FnOnce()) -> f64 {
    let start = processor_ns();
    work();
    (processor_ns() - start) as f64 / 1e6
}

/// Nanoseconds for which this thread has run.
fn processor_ns() -> u64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split_ascii_whitespace().next()?.parse().ok())
        .expect("the kernel tells for how long a thread has run")
}

fn plain_reads(running: &[RunningProcess]) -> Outcome<Vec<f64>> {
    let mut files = Vec::new();
    for process in running {
        files.push(std::fs::File::open(format!("/proc/{}/stat", process.pid))?);
    }
    let mut buffer = [0; 2_048];
    Ok((0..LOOKS)
        .map(|_| {
            timed(|| {
                for file in &files {
                    let _length = std::hint::black_box(file.read_at(&mut buffer, 0));
                }
            })
        })
        .collect())
}

fn report(name: &str, times: &mut [f64]) {
    times.sort_by(f64::total_cmp);
    let (middle, worst) = (times[times.len() / 2], times[times.len() - 1]);
    println!(
        "{name:<44} {middle:>8.2} ms p50 {worst:>8.2} ms at most, {:>5.2} % of a core once a second",
        middle / 10.0
    );
}
