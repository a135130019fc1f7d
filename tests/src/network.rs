//! A network namespace for a test and one for each of its nodes: every node's `localhost` is then
//! its own, as on separate machines.
//!
//! ```text
//!   the test's namespace: test, RM, clients              a node's namespace: node, containers
//!   hub, a bridge, 10.213.0.1 ─────────────────────────────── eth0, 10.213.0.11
//!                             ─────────────────────────────── eth0, 10.213.0.12
//! ```
//!
//! The namespaces have no names: they end with their last process, also when a test is killed.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use nix::sched::{CloneFlags, unshare};

use crate::process::run_within;

/// Address of the test and its ResourceManager.
pub const HUB: &str = "10.213.0.1";

/// Hardware address of the test in its network.
const HUB_MAC: &str = "02:00:0a:d5:00:01";

/// Highest number of a node of one test: nodes' addresses follow the hub's.
const NODES_MAX: u8 = 100;

/// Runs `body` on a thread in a network namespace of its own, with the processes and threads that
/// it starts.
///
/// # Panics
/// When the kernel refuses, which
/// [`requirements::network_namespaces`](crate::requirements::network_namespaces) detects
/// beforehand; and when `body` panics.
pub fn isolated(body: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)
                .unwrap_or_else(|error| panic!("no network namespace: {error}"));
            ip("link set lo up");
            // A bridge without an address of its own takes the lowest of its ports'. A further port
            // may change it, and what nodes send to the one before is lost until they ask again.
            ip(&format!("link add hub address {HUB_MAC} type bridge"));
            ip(&format!("addr add {HUB}/24 dev hub"));
            ip("link set hub up");
            body();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Network namespace of one node. Lives until dropped, and longer while processes are left in it.
#[derive(Debug)]
pub struct NodeNetwork {
    /// The node's address in the test's network.
    pub host: String,
    // Ends when its standard input closes, also because the test is killed.
    holder: Child,
}

impl NodeNetwork {
    /// Connects a node with this number, from 1, to the test's network.
    ///
    /// # Panics
    /// Outside of [`isolated`], and when the kernel refuses.
    #[must_use]
    pub fn connect(number: u8) -> Self {
        assert!((1..=NODES_MAX).contains(&number), "node {number}");
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo here; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("unshare does not run: {error}"));
        let mut line = String::new();
        let stdout = holder.stdout.take().expect("it is a pipe");
        let read = BufReader::new(stdout).read_line(&mut line);
        assert!(read.is_ok_and(|bytes| bytes > 0), "no network for a node");
        let network = Self {
            host: format!("10.213.0.{}", 10 + number),
            holder,
        };
        let pid = network.holder.id();
        ip(&format!(
            "link add node{number} type veth peer name eth0 netns {pid}"
        ));
        ip(&format!("link set node{number} master hub up"));
        network.ip("link set lo up");
        network.ip(&format!("addr add {}/24 dev eth0", network.host));
        network.ip("link set eth0 up");
        network
    }

    /// Returns a command that runs in this network.
    #[must_use]
    pub fn enter(&self, command: &Command) -> Command {
        let mut entering = Command::new("nsenter");
        entering.arg(format!("--net=/proc/{}/ns/net", self.holder.id()));
        run_within(entering, command)
    }

    fn ip(&self, arguments: &str) {
        let mut command = Command::new("ip");
        command.args(arguments.split(' '));
        succeed(&mut self.enter(&command));
    }
}

impl Drop for NodeNetwork {
    fn drop(&mut self) {
        // It may have ended by itself meanwhile.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn ip(arguments: &str) {
    succeed(Command::new("ip").args(arguments.split(' ')));
}

fn succeed(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} does not run: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}
