//! Logs of containers and ApplicationMasters on a node: `<log
//! dir>/<application>/<container>/<file>`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Exit status that the ResourceManager reports of a container that its ApplicationMaster released
/// (Hadoop: `ContainerExitStatus.ABORTED`).
const RELEASED: i32 = -100;

/// Log folder of one application on one node; may not exist yet.
#[derive(Debug, Clone)]
pub struct ApplicationLogs {
    folder: PathBuf,
}

impl ApplicationLogs {
    /// Returns the logs of `application_id` below a node's log folder.
    #[must_use]
    pub fn new(log_dir: &Path, application_id: &str) -> Self {
        Self {
            folder: log_dir.join(application_id),
        }
    }

    /// Returns the text of the file `name` of each container that has one, by container id.
    #[must_use]
    pub fn files(&self, name: &str) -> BTreeMap<String, String> {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return BTreeMap::new();
        };
        entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let bytes = fs::read(entry.path().join(name)).ok()?;
                let id = entry.file_name().into_string().ok()?;
                Some((id, String::from_utf8_lossy(&bytes).into_owned()))
            })
            .collect()
    }

    /// Returns the log of DistributedShell's ApplicationMaster so far.
    #[must_use]
    pub fn application_master(&self) -> String {
        self.files("AppMaster.stderr").into_values().collect()
    }

    /// Returns the exit status of each container that ran, in the order of the reports. Containers
    /// that DistributedShell got beyond its need and released unused are left out.
    #[must_use]
    pub fn exit_statuses_of_used(&self) -> Vec<(String, i32)> {
        let mut statuses = self.exit_statuses();
        statuses.retain(|(_, status)| *status != RELEASED);
        statuses
    }

    /// Asserts that DistributedShell used this many containers and that all succeeded.
    ///
    /// # Panics
    /// When that is not so.
    #[track_caller]
    pub fn assert_succeeded(&self, containers: usize) {
        let statuses = self.exit_statuses_of_used();
        let ended_well = statuses.iter().filter(|(_, status)| *status == 0).count();
        assert_eq!(
            (statuses.len(), ended_well),
            (containers, containers),
            "{statuses:?}"
        );
    }

    /// Returns the exit status of each container that the ResourceManager reported to
    /// DistributedShell's ApplicationMaster, in the order of the reports.
    #[must_use]
    pub fn exit_statuses(&self) -> Vec<(String, i32)> {
        exit_statuses(&self.application_master())
    }

    /// Returns the first line of each container's standard output as a number. Commands of tests
    /// print the time of their first instruction there, in nanoseconds.
    #[must_use]
    pub fn first_lines(&self) -> BTreeMap<String, i128> {
        let first = |text: &str| text.lines().next()?.trim().parse().ok();
        self.files("stdout")
            .into_iter()
            .filter_map(|(id, text)| Some((id, first(&text)?)))
            .collect()
    }
}

fn exit_statuses(log: &str) -> Vec<(String, i32)> {
    log.lines()
        .filter_map(|line| {
            let (_, rest) = line.split_once(" got container status for containerID=")?;
            let (id, rest) = rest.split_once(',')?;
            let (_, rest) = rest.split_once("exitStatus=")?;
            let status = rest.split(',').next()?.trim();
            Some((id.to_owned(), status.parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_statuses_are_read_from_the_log_of_an_application_master() {
        let log = "x INFO distributedshell.ApplicationMaster: appattempt_1_0001_000001 got container status for \
                   containerID=container_1_0001_01_000002, state=COMPLETE, exitStatus=-108, diagnostics=[x] y\n\
                   z\n";
        assert_eq!(
            exit_statuses(log),
            [("container_1_0001_01_000002".to_owned(), -108)]
        );
    }
}
