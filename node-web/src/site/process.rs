//! The agent as a process, under the names that Java's tools read, beans of `/jmx` and `/stacks`,
//! and those of Prometheus' client libraries.
//!
//! What the kernel says of this process (proc(5)). Java's own beans of a heap and a collector are
//! not there, rather than 0.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeValLike as _;
use nix::unistd::{SysconfVar, sysconf};
use node_view::snapshot::NodeSnapshot;
use records::EpochMillis;
use serde_json::{Value, json};

use super::beans::Bean;
use crate::metrics::Metrics;

/// Threads that `/stacks` names: more than an agent has.
const THREADS_MAX: usize = 4096;

/// Returns the beans beside that of the node's numbers. A number that the kernel does not tell is
/// left out.
pub(super) fn beans(
    node: &NodeSnapshot,
    metrics: &Metrics,
    own: &OwnUse,
    now: EpochMillis,
) -> Vec<Bean> {
    let mut beans = vec![
        runtime(node, now),
        bean(
            "java.lang:type=OperatingSystem",
            "nm-agent",
            operating_system(own),
        ),
        bean(
            "java.lang:type=Threading",
            "nm-agent",
            [("ThreadCount", own.threads.map(Value::from))],
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

/// Returns a bean with the attributes that are known.
pub(super) fn bean(
    name: &str,
    modeler_type: &str,
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

/// Start of this process in seconds since the epoch. Read once: the kernel counts every interrupt
/// of the machine for the file that tells it.
static STARTED_S: LazyLock<Option<f64>> = LazyLock::new(started_s);

/// What the kernel says of this process; a number that it does not tell is `None`.
#[derive(Debug)]
pub(super) struct OwnUse {
    open_files: Option<usize>,
    open_files_max: Option<u64>,
    cpu_ns: Option<i64>,
    pub(super) threads: Option<u64>,
    virtual_bytes: Option<u64>,
    pub(super) resident_bytes: Option<u64>,
}

impl OwnUse {
    /// Blocks for as long as the kernel takes.
    pub(super) fn read() -> Self {
        let used = getrusage(UsageWho::RUSAGE_SELF);
        let cpu = used.map(|used| (used.user_time() + used.system_time()).num_nanoseconds());
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let bytes = |name| number_in(&status, name).map(|kib| kib.saturating_mul(1024));
        Self {
            open_files: open_files(),
            open_files_max: getrlimit(Resource::RLIMIT_NOFILE)
                .ok()
                .map(|(soft, _)| soft),
            cpu_ns: cpu.ok(),
            threads: number_in(&status, "Threads:"),
            virtual_bytes: bytes("VmSize:"),
            resident_bytes: bytes("VmRSS:"),
        }
    }
}

/// Returns the number of open files: the size of their folder, which kernels before 6.2 do not
/// tell, or else the number of its entries.
fn open_files() -> Option<usize> {
    let folder = "/proc/self/fd";
    let told = fs::metadata(folder).ok()?.len();
    match usize::try_from(told) {
        Ok(0) | Err(_) => Some(fs::read_dir(folder).ok()?.count()),
        Ok(told) => Some(told),
    }
}

/// Returns the process under the names that Prometheus' client libraries use, in its text form.
/// Blocks for as long as the kernel takes.
pub(super) fn metrics() -> String {
    let own = OwnUse::read();
    let seconds = own
        .cpu_ns
        .map(|ns| json!(Duration::from_nanos(ns.unsigned_abs()).as_secs_f64()));
    let families = [
        (
            "cpu_seconds_total",
            "counter",
            "CPU time of the agent.",
            seconds,
        ),
        (
            "open_fds",
            "gauge",
            "Open file descriptors.",
            own.open_files.map(Value::from),
        ),
        (
            "max_fds",
            "gauge",
            "Limit on open file descriptors.",
            own.open_files_max.map(Value::from),
        ),
        (
            "threads",
            "gauge",
            "Threads of the agent.",
            own.threads.map(Value::from),
        ),
        (
            "virtual_memory_bytes",
            "gauge",
            "Virtual memory.",
            own.virtual_bytes.map(Value::from),
        ),
        (
            "resident_memory_bytes",
            "gauge",
            "Resident memory.",
            own.resident_bytes.map(Value::from),
        ),
        (
            "start_time_seconds",
            "gauge",
            "Start of the process since the epoch.",
            STARTED_S.map(Value::from),
        ),
    ];
    let mut text = String::new();
    for (name, kind, help, value) in families {
        if let Some(value) = value {
            let name = format!("process_{name}");
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n"
            );
        }
    }
    text
}

/// Returns the time at which the process began, in seconds since the epoch: the machine's boot and
/// the ticks since then (proc(5), field 22 of `stat`).
fn started_s() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name before may hold blanks and brackets.
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks: f64 = fields.split(' ').nth(19)?.parse().ok()?;
    let boot = number_in(&fs::read_to_string("/proc/stat").ok()?, "btime ")?;
    let per_second = sysconf(SysconfVar::CLK_TCK).ok()??;
    let (boot, per_second) = (
        f64::from(u32::try_from(boot).ok()?),
        f64::from(i32::try_from(per_second).ok()?),
    );
    Some(boot + ticks / per_second)
}

fn operating_system(own: &OwnUse) -> [(&'static str, Option<Value>); 8] {
    let processors = std::thread::available_parallelism().map(|count| json!(count.get()));
    [
        ("OpenFileDescriptorCount", own.open_files.map(Value::from)),
        (
            "MaxFileDescriptorCount",
            own.open_files_max.map(Value::from),
        ),
        ("ProcessCpuTime", own.cpu_ns.map(Value::from)),
        (
            "CommittedVirtualMemorySize",
            own.virtual_bytes.map(Value::from),
        ),
        // Not Java's: what the agent takes of the machine's memory.
        ("ResidentMemorySize", own.resident_bytes.map(Value::from)),
        ("AvailableProcessors", processors.ok()),
        ("Name", Some(json!("Linux"))),
        ("Arch", Some(json!(std::env::consts::ARCH))),
    ]
}

/// Returns a number of `/proc/self/status`, KiB or a count, or of a file of its form.
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
        let beans = beans(&node, &Metrics::new(), &OwnUse::read(), now);
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
    fn the_process_has_prometheus_usual_names() {
        let text = metrics();
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("{name} in {text}"))
                .trim()
                .parse()
                .unwrap()
        };
        assert!(value("process_resident_memory_bytes ") > 1e6);
        assert!(value("process_max_fds ") >= value("process_open_fds "));
        // Other tests open and close files meanwhile.
        let held: Vec<_> = (0..100).map(|_| fs::File::open("/dev/null")).collect();
        assert!(held.iter().all(Result::is_ok));
        let open = open_files().unwrap();
        assert!((100..10_000).contains(&open), "{open}");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.unwrap().as_secs_f64();
        let started = value("process_start_time_seconds ");
        assert!(
            started < now + 1.0 && started > now - 86_400.0,
            "{started}, {now}"
        );
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
