//! A node whose containers are isolated, and the sockets of its containers.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use records::ContainerId;
use tests::cgroups::Hierarchy;
use tests::conf::Properties;
use tests::scripted_cluster::ScriptedCluster;
use tests::{guest, proc, wait};
use wire::proto::hadoop_yarn::ContainerSubStateProto;

/// Deadline for steps that take milliseconds on an idle machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// A node with cgroups between scripted peers. Fields are dropped in this order.
pub(crate) struct Isolated {
    pub(crate) cluster: ScriptedCluster,
    _hierarchy: Hierarchy,
}

/// Starts a node; where cgroups cannot be used, prints why and returns `None`.
pub(crate) fn isolated(test: &str, change: impl FnOnce(&mut Properties)) -> Option<Isolated> {
    let hierarchy = Hierarchy::for_test(test)?;
    let cluster = ScriptedCluster::start_with(&agent(), |site| {
        hierarchy.configure(site);
        change(site);
    });
    Some(Isolated {
        cluster,
        _hierarchy: hierarchy,
    })
}

fn agent() -> String {
    if guest::is_here() {
        "/job/agent".to_owned()
    } else {
        env!("CARGO_BIN_EXE_agent-under-test").to_owned()
    }
}

/// Configures freezing instead of killing, however little memory this machine has and however slow
/// it is.
pub(crate) fn pausing(site: &mut Properties) {
    let name = "yarn.nodemanager.opportunistic-containers-use-pause-for-preemption";
    site.set(name, true);
    site.set("yarn.nodemanager.agent.pause.memory-ceiling-mb", 1 << 20);
    site.set("yarn.nodemanager.agent.pause.freeze-timeout-ms", 60_000);
}

impl Isolated {
    /// Returns the state of a container in the node's last heartbeat.
    pub(crate) fn sub_state(&self, id: ContainerId) -> Option<ContainerSubStateProto> {
        self.cluster.rm.with(|tracker| {
            let status = tracker.status(id)?;
            ContainerSubStateProto::try_from(status.container_sub_state?).ok()
        })
    }

    /// Waits until a container has written a whole line to a file of its log folder; returns the
    /// first.
    #[track_caller]
    pub(crate) fn line(&self, id: ContainerId, file: &str) -> String {
        let mut found = String::new();
        wait::until(format!("{file} of {id}"), DEADLINE, || {
            let text = self.cluster.log(id, file);
            let line = text.split_once('\n').map(|(line, _)| line.to_owned());
            found = line.ok_or("nothing")?;
            Ok::<(), &str>(())
        });
        found
    }

    /// Returns the path of a process's cgroup with the memory controller.
    pub(crate) fn memory_cgroup(pid: &str) -> String {
        let own = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let lines = own.lines().filter_map(|line| line.split_once(':'));
        let mut lines = lines.filter_map(|(_, rest)| rest.split_once(':'));
        let v1 = lines
            .clone()
            .find(|(controllers, _)| controllers.split(',').any(|name| name == "memory"));
        let found = v1.or_else(|| lines.find(|(controllers, _)| controllers.is_empty()));
        found.map(|(_, path)| path.to_owned()).unwrap_or_default()
    }

    pub(crate) fn processes(&self) -> Vec<proc::Found> {
        self.cluster.node.container_processes()
    }
}

/// Socket that receives a container's lines.
pub(crate) struct Ear {
    listener: TcpListener,
}

impl Ear {
    pub(crate) fn new() -> Self {
        Self {
            listener: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(),
        }
    }

    /// Returns a command that connects and sends numbers from 1 on, each after an answer to the
    /// last, until the answer is `end`.
    pub(crate) fn command(&self) -> String {
        let port = self.listener.local_addr().unwrap().port();
        format!(
            "exec 3<>/dev/tcp/127.0.0.1/{port}; n=1; while echo \\$n >&3 && read -r word <&3; do \
             if [ x\\$word = xend ]; then exit 0; fi; n=\\$((n + 1)); done; exit 9"
        )
    }

    pub(crate) fn accept(&self) -> Line {
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Line {
            reader: BufReader::new(stream),
        }
    }
}

/// A container's connection.
pub(crate) struct Line {
    reader: BufReader<TcpStream>,
}

impl Line {
    /// Waits for the next number.
    pub(crate) fn hear(&mut self) -> u64 {
        let mut text = String::new();
        self.reader.read_line(&mut text).unwrap();
        text.trim().parse().unwrap()
    }

    /// Answers the last number.
    pub(crate) fn say(&mut self, word: &str) {
        use std::io::Write as _;
        writeln!(self.reader.get_mut(), "{word}").unwrap();
    }

    /// Returns whether nothing arrives for a moment.
    pub(crate) fn is_silent_for(&mut self, moment: Duration) -> bool {
        let stream = self.reader.get_ref();
        stream.set_read_timeout(Some(moment)).unwrap();
        let silent = self.reader.fill_buf().is_err();
        let stream = self.reader.get_ref();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        silent
    }
}
