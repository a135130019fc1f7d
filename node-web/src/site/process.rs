//! The agent as a process, under the names that Java's tools read: beans of `/jmx`, and `/stacks`.
//!
//! What the kernel says of this process (proc(5)). There is no heap and no collector, so their
//! numbers are not there, rather than 0.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeValLike as _;
use node_view::snapshot::NodeSnapshot;
use records::EpochMillis;
use serde_json::{Value, json};

use super::beans::Bean;
use crate::metrics::Metrics;

/// Threads that `/stacks` names: more than an agent has.
const THREADS_MAX: usize = 4096;

/// Returns the beans beside that of the node's numbers. A number that the kernel does not tell is
/// left out.
pub(super) fn beans(node: &NodeSnapshot, metrics: &Metrics, now: EpochMillis) -> Vec<Bean> {
    let mut beans = vec![
        runtime(node, now),
        bean(
            "java.lang:type=OperatingSystem",
            "nm-agent",
            operating_system(),
        ),
        bean(
            "java.lang:type=Threading",
            "nm-agent",
            [("ThreadCount", status_number("Threads:").map(Value::from))],
        ),
    ];
    if let Some(shuffle) = metrics.shuffle() {
        let attributes = [
            ("tag.Context", Some(json!("mapred"))),
            ("tag.Hostname", Some(json!(node.about.node_id.host))),
            ("ShuffleConnections", Some(json!(shuffle.connections))),
            ("ShuffleOutputBytes", Some(json!(shuffle.output_bytes))),
            ("ShuffleOutputsFailed", Some(json!(shuffle.outputs_failed))),
            ("ShuffleOutputsOK", Some(json!(shuffle.outputs_ok))),
        ];
        let name = "Hadoop:service=NodeManager,name=ShuffleMetrics";
        beans.push(bean(name, "ShuffleMetrics", attributes));
    }
    beans
}

fn bean(
    name: &str,
    modeler_type: &'static str,
    attributes: impl IntoIterator<Item = (&'static str, Option<Value>)>,
) -> Bean {
    let known = attributes
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Bean::new(name, modeler_type, known)
}

fn runtime(node: &NodeSnapshot, now: EpochMillis) -> Bean {
    let name = format!("{}@{}", std::process::id(), node.about.node_id.host);
    let started = node.about.started_at.0;
    let attributes = [
        ("Name", Some(json!(name))),
        ("VmName", Some(json!("nm-agent"))),
        ("VmVersion", Some(json!(env!("CARGO_PKG_VERSION")))),
        ("StartTime", Some(json!(started))),
        ("Uptime", Some(json!(now.0.saturating_sub(started).max(0)))),
    ];
    bean("java.lang:type=Runtime", "nm-agent", attributes)
}

fn operating_system() -> [(&'static str, Option<Value>); 8] {
    let open = fs::read_dir("/proc/self/fd").map(|entries| json!(entries.count()));
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map(|(soft, _)| json!(soft));
    let used = getrusage(UsageWho::RUSAGE_SELF);
    let cpu = used.map(|used| (used.user_time() + used.system_time()).num_nanoseconds());
    let processors = std::thread::available_parallelism().map(|count| json!(count.get()));
    let bytes = |name| status_number(name).map(|kib| json!(kib.saturating_mul(1024)));
    [
        ("OpenFileDescriptorCount", open.ok()),
        ("MaxFileDescriptorCount", limit.ok()),
        ("ProcessCpuTime", cpu.ok().map(Value::from)),
        ("CommittedVirtualMemorySize", bytes("VmSize:")),
        // Not Java's: what the agent takes of the machine's memory.
        ("ResidentMemorySize", bytes("VmRSS:")),
        ("AvailableProcessors", processors.ok()),
        ("Name", Some(json!("Linux"))),
        ("Arch", Some(json!(std::env::consts::ARCH))),
    ]
}

/// Returns a number of `/proc/self/status`: KiB, or a count.
fn status_number(name: &str) -> Option<u64> {
    number_in(&fs::read_to_string("/proc/self/status").ok()?, name)
}

fn number_in(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the threads of the agent with their names and states, in the words of Java's dump.
/// Blocks for as long as the kernel takes.
pub(super) fn threads() -> String {
    let mut threads: Vec<(u64, String)> = Vec::new();
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten();
    for entry in entries.flatten().take(THREADS_MAX) {
        let id = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let (Some(id), Some(told)) = (id, told_of(&entry.path())) {
            threads.push((id, told));
        }
    }
    threads.sort_unstable();
    let mut text = format!(
        "Process Thread Dump: threads of the kernel, without stacks\n{} active threads\n",
        threads.len()
    );
    for (id, told) in threads {
        // Writing to a string does not fail.
        let _ = write!(text, "Thread {id} {told}");
    }
    text
}

/// Returns name and state; `None` when the thread has ended meanwhile.
fn told_of(thread: &Path) -> Option<String> {
    let name = fs::read_to_string(thread.join("comm")).ok()?;
    let status = fs::read_to_string(thread.join("status")).ok()?;
    let field = |wanted: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(wanted));
        line.unwrap_or_default().trim().to_owned()
    };
    Some(format!(
        "({}):\n  State: {}\n  Waited count: {}\n",
        name.trim(),
        field("State:"),
        field("voluntary_ctxt_switches:"),
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::fixture::node;

    #[test]
    fn beans_have_what_the_kernel_says() {
        let node = node();
        let now = EpochMillis(node.about.started_at.0 + 5000);
        let beans = beans(&node, &Metrics::new(), now);
        let all = format!("{beans:?}");
        for name in [
            "ThreadCount",
            "OpenFileDescriptorCount",
            "ProcessCpuTime",
            "ResidentMemorySize",
        ] {
            assert!(all.contains(name), "{name} in {all}");
        }
        assert!(all.contains("(\"Uptime\", Number(5000))"), "{all}");
        assert!(!all.contains("ShuffleMetrics"), "there is no shuffle");
    }

    #[test]
    fn numbers_are_read_from_the_status_of_a_process() {
        let status = "Name:\tx\nVmSize:\t   12 kB\nThreads:\t3\n";
        assert_eq!(number_in(status, "VmSize:"), Some(12));
        assert_eq!(number_in(status, "Threads:"), Some(3));
        assert_eq!(number_in(status, "VmRSS:"), None);
    }

    #[test]
    fn threads_are_named() {
        // A thread names itself when it begins.
        let (begun, wait_begun) = mpsc::channel();
        let (end, wait_end) = mpsc::channel::<()>();
        let waiting = thread::Builder::new().name("a-waiting-one".to_owned());
        let waiting = waiting.spawn(move || {
            begun.send(()).unwrap();
            wait_end.recv()
        });
        wait_begun.recv().unwrap();
        let dump = threads();
        drop(end);
        assert!(dump.contains("(a-waiting-one):\n  State: "), "{dump}");
        assert!(waiting.unwrap().join().unwrap().is_err());
    }
}
