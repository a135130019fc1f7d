//! Files that containers wait for, so that no test has to guess how long something takes.

use std::fs::File;
use std::path::{Path, PathBuf};

/// A file that does not exist until the gate is opened, and commands that wait for it.
#[derive(Debug, Clone)]
pub struct Gate(PathBuf);

impl Gate {
    /// Returns a gate at this path, which must hold no quotes.
    #[must_use]
    pub const fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Returns a command that runs until the gate is open.
    #[must_use]
    pub fn wait_command(&self) -> String {
        format!("while [ ! -e '{}' ]; do sleep 0.05; done", self.0.display())
    }

    /// Returns a command that waits until the gate is open and then runs `command`.
    #[must_use]
    pub fn then(&self, command: &str) -> String {
        format!("{}; {command}", self.wait_command())
    }

    /// Opens the gate: all waiting commands continue.
    ///
    /// # Panics
    /// When the file cannot be created.
    pub fn open(&self) {
        File::create(self.path())
            .unwrap_or_else(|error| panic!("cannot create {}: {error}", self.0.display()));
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}
