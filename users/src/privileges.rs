//! Privileges that a process needs to run containers as other users.

use std::fmt;
use std::fs;
use std::io;

use nix::sys::prctl;
use rustix::thread::{CapabilitySet, capabilities};

/// Capabilities that are needed, with their names and purposes (`docs/users.md` explains them).
const NEEDED: [(CapabilitySet, &str); 6] = [
    (CapabilitySet::SETUID, "CAP_SETUID"),
    (CapabilitySet::SETGID, "CAP_SETGID"),
    (CapabilitySet::KILL, "CAP_KILL"),
    (CapabilitySet::CHOWN, "CAP_CHOWN"),
    (CapabilitySet::DAC_OVERRIDE, "CAP_DAC_OVERRIDE"),
    (CapabilitySet::FOWNER, "CAP_FOWNER"),
];

/// Kernel's setting of what becomes of a process that changes its user (kernel:
/// `Documentation/admin-guide/sysctl/fs.rst`).
const SUID_DUMPABLE: &str = "/proc/sys/fs/suid_dumpable";

/// Reason why this process cannot run containers as other users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Capabilities that the process lacks.
    Capabilities(Vec<&'static str>),
    /// `fs.suid_dumpable` is 1: a user could trace a process that is about to become the user's,
    /// and read the agent's memory through it.
    SuidDumpable,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capabilities(names) => {
                write!(
                    f,
                    "this process lacks {}; run it as root or give it these capabilities",
                    names.join(", ")
                )
            }
            Self::SuidDumpable => f.write_str(
                "fs.suid_dumpable is 1, with which users may trace processes that change their \
                 user; set it to 0 or 2",
            ),
        }
    }
}

/// Returns the reasons why this process cannot run containers as other users; none: it can.
#[must_use]
pub fn obstacles() -> Vec<Obstacle> {
    let held = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    let suid_dumpable = fs::read_to_string(SUID_DUMPABLE).unwrap_or_default();
    found(held, suid_dumpable.trim())
}

fn found(held: CapabilitySet, suid_dumpable: &str) -> Vec<Obstacle> {
    let missing = NEEDED
        .iter()
        .filter(|(capability, _)| !held.contains(*capability));
    let missing: Vec<_> = missing.map(|(_, name)| *name).collect();
    let capabilities = (!missing.is_empty()).then_some(Obstacle::Capabilities(missing));
    let dumpable = (suid_dumpable == "1").then_some(Obstacle::SuidDumpable);
    capabilities.into_iter().chain(dumpable).collect()
}

/// Keeps other processes without privileges from tracing this one, dumping its memory and reading
/// what `/proc` says of its environment and files, whatever user it has.
///
/// # Errors
/// The kernel refuses.
pub fn seal_this_process() -> io::Result<()> {
    Ok(prctl::set_dumpable(false)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_capability_is_named() {
        assert_eq!(found(CapabilitySet::all(), "0"), []);
        let few = CapabilitySet::all() - CapabilitySet::KILL - CapabilitySet::FOWNER;
        let found = found(few, "2");
        assert_eq!(
            found,
            [Obstacle::Capabilities(vec!["CAP_KILL", "CAP_FOWNER"])]
        );
        assert!(found[0].to_string().contains("lacks CAP_KILL, CAP_FOWNER;"));
    }

    #[test]
    fn processes_that_users_could_trace_are_an_obstacle() {
        assert_eq!(found(CapabilitySet::all(), "1"), [Obstacle::SuidDumpable]);
    }
}
