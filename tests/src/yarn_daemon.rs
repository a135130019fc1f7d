//! A node that `yarn --daemon` starts and stops: Hadoop's own, or the agent where its profile is
//! linked. The script is the stand-in for Hadoop's.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::java;
use crate::lab::NodeSite;

/// Heap of a Java node, in MiB.
const HEAP_MB: u32 = 512;

/// A machine's installation of Hadoop for one site.
#[derive(Debug)]
pub struct YarnDaemon {
    /// Configuration and files of the node.
    pub site: NodeSite,
}

impl YarnDaemon {
    /// Makes the folders of Hadoop's scripts and the script `yarn`.
    ///
    /// # Panics
    /// When a file cannot be made.
    #[must_use]
    pub fn install(site: NodeSite) -> Self {
        let daemon = Self { site };
        for name in ["bin", "pids", "daemon-log"] {
            let path = daemon.site.folder.join(name);
            fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        let stand_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/yarn_stand_in.sh");
        let script = format!("#!/bin/bash\nexec bash '{}' \"$@\"\n", stand_in.display());
        let yarn = daemon.yarn();
        let made = fs::write(&yarn, script)
            .and_then(|()| fs::set_permissions(&yarn, fs::Permissions::from_mode(0o755)));
        made.unwrap_or_else(|error| panic!("{}: {error}", yarn.display()));
        daemon
    }

    /// Returns the path of the script.
    #[must_use]
    pub fn yarn(&self) -> PathBuf {
        self.site.folder.join("bin/yarn")
    }

    /// Returns the path of the file of the node's process id.
    #[must_use]
    pub fn pid_file(&self) -> PathBuf {
        let pids = self.site.folder.join("pids");
        pids.join("hadoop-somebody-nodemanager.pid")
    }

    /// Returns a command in the environment of an operator of this machine.
    ///
    /// # Panics
    /// When there is no Java or no Hadoop.
    #[must_use]
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        self.site.set_environment(&mut command);
        command
            .env("HADOOP_PID_DIR", self.site.folder.join("pids"))
            .env("HADOOP_LOG_DIR", self.site.folder.join("daemon-log"))
            .env("HADOOP_IDENT_STRING", "somebody")
            .env("HADOOP_YARN_HOME", &self.site.folder)
            .env("HADOOP_OPTS", java::quick_options(HEAP_MB))
            .env("CLASSPATH", java::class_path(&self.site.conf()))
            .env_remove("HADOOP_CONF_DIR")
            .env_remove("NM_AGENT_LOG");
        command
    }

    /// Runs `yarn --daemon MODE nodemanager`.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn order(&self, mode: &str) -> Output {
        let mut command = self.command(self.yarn());
        command.arg("--config").arg(self.site.conf());
        command.args(["--daemon", mode, "nodemanager"]);
        let output = command.output();
        output.unwrap_or_else(|error| panic!("yarn does not run: {error}"))
    }

    /// Returns the process id in the file.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn pid(&self) -> i32 {
        let text = fs::read_to_string(self.pid_file()).unwrap_or_default();
        let pid = text.trim().parse();
        pid.unwrap_or_else(|_| panic!("{text:?} is no process id"))
    }

    /// Returns the name of the program that is the node, as the kernel has it.
    #[must_use]
    pub fn program(&self) -> String {
        let exe = fs::read_link(format!("/proc/{}/exe", self.pid())).unwrap_or_default();
        let name = exe.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Returns the output of the daemon so far.
    #[must_use]
    pub fn output(&self) -> String {
        let file = "daemon-log/hadoop-somebody-nodemanager.out";
        fs::read_to_string(self.site.folder.join(file)).unwrap_or_default()
    }
}
