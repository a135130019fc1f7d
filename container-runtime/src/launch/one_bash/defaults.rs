//! What bash adds to an environment on this machine.

use std::io;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::{is_plain, literal};
use crate::launch::spawn::BASH;

/// Writes the environment that a bash hands on when it executes a program, as it does at the end of
/// a launch script.
const ASK: &str = "set -o pipefail -e; export PATH; exec env -0";

/// Values that bash adds to the environment of the program that it executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::launch) struct BashDefaults {
    /// `PATH` of a bash that is started without one. Compiled into bash.
    pub(super) path: String,
}

impl BashDefaults {
    /// Returns the values of this machine's bash, which is asked once, by the first launch
    /// that needs them.
    /// `None` if it cannot be asked, or adds variables that are not expected: then each container's
    /// script runs.
    pub(in crate::launch) fn of_this_machine() -> Option<&'static Self> {
        static DEFAULTS: OnceLock<Option<BashDefaults>> = OnceLock::new();
        let ask = || match Self::ask() {
            Ok(defaults) => Some(defaults),
            Err(error) => {
                tracing::warn!(%error, "every container starts by way of its launch script");
                None
            }
        };
        DEFAULTS.get_or_init(ask).as_ref()
    }

    fn ask() -> io::Result<Self> {
        let output = Command::new(BASH)
            .args(["-c", ASK])
            .env_clear()
            .env("PWD", "/")
            .current_dir("/")
            .stdin(Stdio::null())
            .output()?;
        Self::parse(&output.stdout).ok_or_else(|| {
            io::Error::other(format!("{BASH} does not hand on the environment expected"))
        })
    }

    /// Reads the answer: entries that each end in a NUL.
    fn parse(environment: &[u8]) -> Option<Self> {
        let text = str::from_utf8(environment).ok()?;
        let (mut path, mut others) = (None, Vec::new());
        for entry in text.split_terminator('\0') {
            match entry.strip_prefix("PATH=") {
                Some(value) => path = Some(value),
                None => others.push(entry),
            }
        }
        others.sort_unstable();
        let path = path.filter(|path| literal(path).is_some_and(is_plain))?;
        (others == ["PWD=/", "SHLVL=0"]).then(|| Self {
            path: path.to_owned(),
        })
    }
}

#[cfg(test)]
impl BashDefaults {
    /// A bash with this `PATH`.
    pub(super) fn with_path(path: &str) -> Self {
        Self {
            path: path.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_expected_variables_are_accepted() {
        let parsed = |text: &str| BashDefaults::parse(text.as_bytes());
        let defaults = BashDefaults::with_path("/bin");
        assert_eq!(parsed("PWD=/\0SHLVL=0\0PATH=/bin\0"), Some(defaults));
        for unexpected in [
            "",
            "PWD=/\0SHLVL=0\0",
            "PWD=/\0SHLVL=1\0PATH=/bin\0",
            "PWD=/\0SHLVL=0\0PATH=/bin\0_=/bin/env\0",
            "PWD=/\0SHLVL=0\0PATH=/b$n\0",
            "PWD=/\0SHLVL=0\0PATH=/\u{1}\0",
        ] {
            assert_eq!(parsed(unexpected), None, "{unexpected:?}");
        }
    }

    #[test]
    fn this_machines_bash_is_understood() {
        assert!(BashDefaults::of_this_machine().is_some());
    }
}
