//! NameNodes and DataNodes that a tenant chose, and that lie about lengths, fall silent or go away:
//! the agent lives, and only the containers that asked for them fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use records::ContainerId;
use test_support::LaunchContext;
use test_support::scripted::ScriptedAm;
use tests::conf::Properties;
use tests::hostile_hdfs::{HostileHdfs, Lie, MODIFIED_MS, Moment};
use tests::ports::Port;
use tests::scripted_cluster::ScriptedCluster;
use tests::{proc, wait};
use wire::proto::hadoop_yarn::LocalResourceVisibilityProto as Visibility;

use crate::AGENT;

/// Time after which a silent peer is given up.
const STEP_LIMIT_MS: u64 = 5000;

/// Memory that the agent may take for all peers together.
pub(crate) const MEMORY_MAX: u64 = 64 << 20;

/// Pause between two looks at the agent's memory.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

const DEADLINE: Duration = Duration::from_secs(120);

/// Every lie, at every moment at which it is one.
fn lies() -> Vec<(Moment, Lie)> {
    use Moment::{Answer, Blocks, DataNode, NameNode, Packet, Status};
    let mut lies = vec![
        (Status, Lie::Length),
        (Blocks, Lie::Length),
        (Blocks, Lie::EmptyBlocks),
        (Answer, Lie::Length),
        (Packet, Lie::Length),
        (Packet, Lie::NegativeLength),
    ];
    for moment in [NameNode, Status, Blocks, DataNode, Answer, Packet] {
        let always = [Lie::Garbage, Lie::Silence, Lie::End, Lie::HalfMessage];
        lies.extend(always.map(|lie| (moment, lie)));
    }
    lies
}

pub(crate) fn set_limit(site: &mut Properties) {
    site.set("ipc.client.rpc-timeout.ms", STEP_LIMIT_MS);
}

pub(crate) fn context(hdfs: &HostileHdfs, visibility: Visibility) -> LaunchContext {
    let at = (hdfs.port(), "/folder/file");
    LaunchContext::command("test -s file").hdfs_file("file", at, MODIFIED_MS, visibility)
}

/// Thread that looks at the memory of a process.
pub(crate) struct MemoryWatch {
    most: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl MemoryWatch {
    pub(crate) fn start(process: u32) -> Self {
        let watch = Self {
            most: Arc::default(),
            is_over: Arc::default(),
        };
        let (most, is_over) = (Arc::clone(&watch.most), Arc::clone(&watch.is_over));
        thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                most.fetch_max(proc::anonymous_memory(process), Ordering::Relaxed);
                thread::park_timeout(LOOK_INTERVAL);
            }
        });
        watch
    }

    pub(crate) fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Container whose file comes from a lying HDFS.
pub(crate) struct Started {
    pub(crate) id: ContainerId,
    pub(crate) lie: (Moment, Lie),
}

/// Starts a container of this user for each lie, each of an application of its own, whose numbers
/// begin at 10.
pub(crate) fn start_all(cluster: &ScriptedCluster, user: &str) -> Vec<Started> {
    let visibilities = [
        Visibility::Application,
        Visibility::Public,
        Visibility::Private,
    ];
    let lies = lies()
        .into_iter()
        .zip((10..).zip(visibilities.iter().cycle()));
    lies.map(|((moment, lie), (number, visibility))| {
        let hdfs = HostileHdfs::start(moment, lie);
        let am = ScriptedAm::connect_as(user, &cluster.rm, number);
        let started = am.try_start(&am.allocate(), context(&hdfs, *visibility));
        let (id, lie) = (started.unwrap(), (moment, lie));
        Started { id, lie }
    })
    .collect()
}

#[test]
fn no_lie_of_an_hdfs_ends_the_agent_or_delays_another() {
    let cluster = ScriptedCluster::start_with(AGENT, |site| {
        set_limit(site);
        site.set("yarn.nodemanager.resource.memory-mb", 65536);
    });
    let agent = cluster.node.process.id();
    cluster.assert_serves();
    let before = proc::anonymous_memory(agent);
    let watch = MemoryWatch::start(agent);
    let started = start_all(&cluster, "eve");
    // Some peers are silent, so their containers are under way for seconds.
    let honest = HostileHdfs::start(Moment::NameNode, Lie::None);
    for (number, context) in [
        (2, LaunchContext::command("true")),
        (3, context(&honest, Visibility::Application)),
        (4, context(&honest, Visibility::Public)),
    ] {
        let ann = ScriptedAm::connect_as("ann", &cluster.rm, number);
        let quick = ann.try_start(&ann.allocate(), context).unwrap();
        let completed = cluster.rm.wait_completed(quick);
        assert_eq!(completed.exit_status, 0, "{completed:?}");
    }
    for Started { id, lie } in started {
        let completed = cluster.rm.wait_completed(id);
        assert_ne!(completed.exit_status, 0, "{lie:?}: {completed:?}");
        assert!(
            completed.diagnostics.contains("hdfs://127.0.0.1:"),
            "{lie:?}: {completed:?}"
        );
        let is_of_memory = matches!(
            lie,
            (_, Lie::Length | Lie::NegativeLength | Lie::EmptyBlocks)
        );
        let reason = "its file worker ended with signal 6 (SIGABRT): memory allocation of";
        assert!(
            !is_of_memory || completed.diagnostics.contains(reason),
            "{lie:?}: {completed:?}"
        );
    }
    let most = watch.most();
    cluster.assert_serves();
    let taken = most.saturating_sub(before);
    assert!(taken <= MEMORY_MAX, "{taken} bytes in the agent");
}

#[test]
fn a_container_that_lies_to_the_next_agent_too_does_not_end_it() {
    let port = Port::reserve().release();
    let mut cluster = ScriptedCluster::start_with(AGENT, |site| {
        set_limit(site);
        site.set("yarn.nodemanager.recovery.enabled", true)
            .set("yarn.nodemanager.address", format!("127.0.0.1:{port}"));
    });
    let hdfs = HostileHdfs::start(Moment::Packet, Lie::Silence);
    let eve = ScriptedAm::connect_as("eve", &cluster.rm, 10);
    let context = context(&hdfs, Visibility::Application);
    let id = eve.try_start(&eve.allocate(), context).unwrap();
    let agent = proc::agent_below(cluster.node.process.id());
    let worker = wait::until("the file worker", DEADLINE, || {
        proc::children(agent).pop().ok_or("none")
    });
    cluster.node.process.kill();
    wait::until("the end of the file worker", DEADLINE, || {
        let stat = proc::stat(worker.cast_signed());
        let is_gone = stat.is_none_or(|stat| stat.state == 'Z');
        wait::check(is_gone, "it runs")
    });
    hdfs.lie_again(Moment::Answer, Lie::Length);
    cluster.node.start_agent_again(AGENT.as_ref());
    cluster.rm.wait_registrations(2);
    let completed = cluster.rm.wait_completed(id);
    assert!(
        completed
            .diagnostics
            .contains("memory allocation of 1099511627776 bytes failed"),
        "{completed:?}"
    );
    assert_eq!(
        cluster.node.process.exit(),
        None,
        "{}",
        cluster.node.process.log()
    );
    let ann = ScriptedAm::connect_as("ann", &cluster.rm, 2);
    let quick = ann.run("true");
    assert_eq!(cluster.rm.wait_completed(quick).exit_status, 0);
}

/// Prints the times of first localizations from HDFS, each of an application of its own, beside
/// starts without a resource and with cached ones. `NM_AGENT_TEST_NODE` may name another agent.
#[test]
#[ignore = "prints times, which a busy machine makes long"]
fn times_of_first_localizations() {
    let cluster = ScriptedCluster::start_with(AGENT, |_| {});
    let hdfs = HostileHdfs::start(Moment::NameNode, Lie::None);
    let of_file = || context(&hdfs, Visibility::Application);
    let of_archive = || {
        let at = (hdfs.port(), "/folder/file.tar");
        let context = LaunchContext::command("test -d lib");
        let context = context.hdfs_file("lib", at, MODIFIED_MS, Visibility::Application);
        context.unpacked()
    };
    let without = || LaunchContext::command("true");
    let source = cluster.node.folder().join("source");
    std::fs::write(&source, "content").unwrap();
    let of_cached = || {
        let context = |context: LaunchContext, number: u32| {
            let context = context.file(&format!("link{number}"), &source);
            context.visible_to(Visibility::Private)
        };
        (0..10).fold(LaunchContext::command("true"), context)
    };
    let contexts: [(&str, &dyn Fn() -> LaunchContext); 4] = [
        ("without a resource", &without),
        ("ten cached resources", &of_cached),
        ("first file from HDFS", &of_file),
        ("first archive from HDFS", &of_archive),
    ];
    for ((what, context), first) in contexts.into_iter().zip((100..).step_by(100)) {
        let mut times: Vec<_> = (first..first + 40)
            .map(|number| {
                let ann = ScriptedAm::connect_as("ann", &cluster.rm, number);
                let begin = Instant::now();
                let id = ann.try_start(&ann.allocate(), context()).unwrap();
                let completed = cluster.rm.wait_completed(id);
                assert_eq!(completed.exit_status, 0, "{completed:?}");
                begin.elapsed()
            })
            .collect();
        times.sort_unstable();
        println!("{what}: median {:?}, most {:?}", times[20], times[39]);
    }
}
