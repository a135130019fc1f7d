//! One run of the command in a folder of its own.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use tempfile::TempDir;
use tests::proc::{self, Found};
use tests::process::Process;
use tests::wait;

use crate::AGENT;

/// Deadline for a step that takes seconds, on a machine that is busy building.
pub(crate) const DEADLINE: Duration = Duration::from_secs(180);

/// A running quick start. Its temporary files lie in a folder with a blank and a comma in its name.
pub(crate) struct Run {
    pub(crate) process: Process,
    base: TempDir,
}

/// URLs of the pages that it prints.
pub(crate) struct Pages {
    pub(crate) nodes: Vec<String>,
    pub(crate) rm: String,
}

impl Run {
    /// Starts `quickstart` with these arguments.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, |_| {})
    }

    /// Starts `quickstart` with a command that `change` changed last.
    pub(crate) fn start_with(arguments: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let base = TempDir::with_prefix("quick start, test-").expect("a folder can be made");
        let tmp = base.path().join("tmp");
        fs::create_dir(&tmp).expect("a folder can be made");
        let mut command = Command::new(AGENT);
        command
            .arg("quickstart")
            .args(arguments)
            .env("TMPDIR", &tmp)
            // The quick start ignores each of these.
            .env("HADOOP_CONF_DIR", "/nowhere/conf")
            .env("YARN_CONF_DIR", "/nowhere/conf")
            .env_remove("NM_AGENT_LOG")
            .current_dir(base.path());
        change(&mut command);
        Self {
            process: Process::start("quickstart", &mut command, base.path()),
            base,
        }
    }

    /// Returns the folder that `TMPDIR` names for it.
    pub(crate) fn tmp(&self) -> PathBuf {
        self.base.path().join("tmp")
    }

    /// Returns its output so far.
    pub(crate) fn output(&self) -> String {
        self.process.log()
    }

    /// Waits until the output has a line with this text.
    #[track_caller]
    pub(crate) fn wait_output(&mut self, text: &str) {
        self.process.wait_log(text, DEADLINE);
    }

    /// Waits for the URLs of its pages in the output.
    #[track_caller]
    pub(crate) fn pages(&mut self) -> Pages {
        self.wait_output("All files are in ");
        let output = self.output();
        let url_of = |label: &str| {
            output
                .lines()
                .filter(|line| line.trim_start().starts_with(label))
                .filter_map(|line| {
                    line.split_whitespace()
                        .find(|word| word.starts_with("http"))
                })
                .map(|url| url.trim_end_matches('/').to_owned())
                .collect::<Vec<_>>()
        };
        let rm = url_of("ResourceManager").pop();
        Pages {
            nodes: url_of("node "),
            rm: rm.unwrap_or_else(|| panic!("no page of the ResourceManager: {output}")),
        }
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn end(&mut self) -> ExitStatus {
        self.process.wait_exit(DEADLINE)
    }

    /// Asserts that no file and no process of it is left.
    #[track_caller]
    pub(crate) fn assert_nothing_is_left(&self) {
        let tmp = self.tmp();
        let files: Vec<_> = fs::read_dir(&tmp)
            .expect("the folder is there")
            .flatten()
            .map(|entry| entry.path())
            .collect();
        assert!(files.is_empty(), "{files:?}\n{}", self.output());
        let left = self.processes();
        assert!(left.is_empty(), "{left:?}\n{}", self.output());
    }

    /// Returns its own process and those of all its containers: all that name its folder.
    pub(crate) fn processes(&self) -> Vec<Found> {
        proc::mentioning(&self.tmp())
    }

    /// Waits until this many containers run.
    #[track_caller]
    pub(crate) fn wait_containers(&self, at_least: usize) {
        wait::until(format!("{at_least} containers"), DEADLINE, || {
            let count = proc::containers(&self.tmp()).len();
            wait::check(count >= at_least, count)
        });
    }
}

/// Reads a child's output to its end; returns its lines.
pub(crate) fn lines(output: impl std::io::Read) -> Vec<String> {
    BufReader::new(output)
        .lines()
        .map_while(Result::ok)
        .collect()
}

/// Copies the program into `folder`, which any user may then read and run from; returns the copy's
/// path.
pub(crate) fn program_for_all(folder: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let copy = folder.join("nm-agent");
    fs::copy(AGENT, &copy).expect("the program can be copied");
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&copy, open.clone()).expect("the copy is this test's");
    fs::set_permissions(folder, open).expect("the folder is this test's");
    copy
}
