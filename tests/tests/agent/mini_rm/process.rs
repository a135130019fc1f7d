//! `nm-agent rm` as a process.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use tests::conf::{self, Properties};
use tests::process::Process;
use tests::{http, wait};

use crate::AGENT;

/// Deadline for a start, an end or an answer, on a machine that is busy building.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A process with a folder of its own and, unless changed, free ports.
pub(crate) struct MiniRm {
    pub(crate) process: Process,
    pub(crate) folder: TempDir,
}

impl MiniRm {
    pub(crate) fn start(change: impl FnOnce(&mut Properties)) -> Self {
        Self::start_as(Command::new(AGENT), change)
    }

    /// Starts it with a limit of open files, which it cannot raise.
    pub(crate) fn start_with_open_files(limit: u32) -> Self {
        let mut command = Command::new("bash");
        command.args([
            "-c",
            &format!("ulimit -n {limit}; exec \"$0\" \"$@\""),
            AGENT,
        ]);
        Self::start_as(command, |_| {})
    }

    fn start_as(command: Command, change: impl FnOnce(&mut Properties)) -> Self {
        let folder = TempDir::new().expect("a folder can be made");
        let mut yarn_site = Properties::default();
        for service in ["", "scheduler.", "resource-tracker.", "webapp."] {
            let name = format!("yarn.resourcemanager.{service}address");
            yarn_site.set(name, "127.0.0.1:0");
        }
        change(&mut yarn_site);
        let core_site = conf::core_site(folder.path(), "nobody");
        conf::write(&folder.path().join("conf"), &core_site, &yarn_site);
        Self {
            process: Self::run(command, folder.path()),
            folder,
        }
    }

    /// Starts the program with the configuration below `folder`.
    fn run(mut command: Command, folder: &Path) -> Process {
        command.arg("rm").arg("--conf").arg(folder.join("conf"));
        Process::start("mini-rm", &mut command, folder)
    }

    /// Kills the process, as a machine that loses power would.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts the command again with the same configuration. The old log is lost.
    pub(crate) fn start_again(&mut self) {
        for name in ["mini-rm.stdout", "mini-rm.stderr"] {
            fs::remove_file(self.folder.path().join(name)).expect("it has written its output");
        }
        self.process = Self::run(Command::new(AGENT), self.folder.path());
    }

    /// Waits for the end; returns exit status and log.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let status = self.process.wait_exit(DEADLINE);
        (status.code(), self.process.log())
    }

    /// Returns the address of a service from the log: `client`, `scheduler`, `tracker` or `web`.
    pub(crate) fn address(&mut self, service: &str) -> SocketAddr {
        wait::until("the addresses", DEADLINE, || {
            let log = self.process.log();
            assert!(self.process.exit().is_none(), "it has ended: {log}");
            let (_, rest) = log
                .split_once(&format!("{service}: "))
                .ok_or_else(|| log.clone())?;
            let address = rest.split_once(|c: char| c != '.' && c != ':' && !c.is_ascii_digit());
            address
                .and_then(|(address, _)| address.parse().ok())
                .ok_or(log)
        })
    }

    /// Returns the base URL of its REST.
    pub(crate) fn web(&mut self) -> String {
        format!("http://{}/ws/v1/cluster", self.address("web"))
    }

    /// Expects that it still answers and then ends in order.
    #[track_caller]
    pub(crate) fn assert_serves_and_ends(mut self) {
        let web = self.web();
        let info = http::get_json(&format!("{web}/info")).expect("it answers");
        assert_eq!(info["clusterInfo"]["state"], "STARTED", "{info}");
        let metrics = http::get_json(&format!("{web}/metrics")).expect("it answers");
        assert!(metrics["clusterMetrics"].is_object(), "{metrics}");
        self.process.terminate();
        let (status, log) = self.end();
        assert_eq!(status, Some(0), "{log}");
        assert!(!log.contains("panicked"), "{log}");
    }
}
