//! Names for one process: an `/etc/hosts` of its own and a name of the machine, in namespaces that
//! end with the process. No name server answers there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::run_within;

/// Puts the files in place and becomes the command, whose process the shell's is.
const ENTER: &str = "mount --bind \"$1\" /etc/hosts && mount --bind \"$2\" /etc/resolv.conf && \
                     hostname \"$3\" && shift 3 && exec \"$@\"";

/// Names of the machine as one process sees them.
#[derive(Debug)]
pub struct HostNames {
    hosts: PathBuf,
    resolv_conf: PathBuf,
    machine: String,
}

impl HostNames {
    /// Writes the files of these names into a folder: the name of the machine, and the text of its
    /// `/etc/hosts`.
    ///
    /// # Panics
    /// When they cannot be written.
    #[must_use]
    pub fn new(folder: &Path, machine: &str, hosts: &str) -> Self {
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            path
        };
        Self {
            hosts: write("hosts", hosts),
            // Nothing listens there, so that a question is answered at once.
            resolv_conf: write("resolv.conf", "nameserver 127.0.0.1\n"),
            machine: machine.to_owned(),
        }
    }

    /// Returns a command that runs with these names. Its process is the one that is started.
    #[must_use]
    pub fn enter(&self, command: &Command) -> Command {
        let mut entering = Command::new("unshare");
        entering
            .args(["--mount", "--uts", "sh", "-c", ENTER, "sh"])
            .args([&self.hosts, &self.resolv_conf])
            .arg(&self.machine);
        run_within(entering, command)
    }
}
