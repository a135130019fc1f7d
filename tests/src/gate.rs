//! Files that containers wait for, so that no test has to guess how long something takes.

use std::fs::File;
use std::path::{Path, PathBuf};

/// A file that does not exist until it is opened, and commands that wait for it.
#[derive(Debug, Clone)]
pub struct Gate(PathBuf);

impl Gate {
    /// One at this path, which holds no quotes.
    #[must_use]
    pub const fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// A command that runs until the gate is open.
    #[must_use]
    pub fn wait_command(&self) -> String {
        format!("while [ ! -e '{}' ]; do sleep 0.05; done", self.0.display())
    }

    /// A command that runs until the gate is open, and then `command`.
    #[must_use]
    pub fn then(&self, command: &str) -> String {
        format!("{}; {command}", self.wait_command())
    }

    /// Lets all commands go on.
    ///
    /// # Panics
    /// When the file cannot be made.
    pub fn open(&self) {
        File::create(self.path())
            .unwrap_or_else(|error| panic!("cannot create {}: {error}", self.0.display()));
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}
