//! The time at which the first opportunistic container ran, read from the containers' own output
//! and not from the nodes' reports.
//!
//! The first thing that each container of the job does is to write a line, and it writes no other.
//! The kernel's time of that change, which is exact to some milliseconds, is when it ran.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use records::{ApplicationId, ContainerName};

/// How long after `start` the first container of this application, its master apart, wrote its line
/// to its log in one of these folders; `None` when none has.
pub(super) fn after<'a>(
    start: SystemTime,
    log_dirs: impl IntoIterator<Item = &'a Path>,
    application: ApplicationId,
) -> Option<Duration> {
    let folders = log_dirs
        .into_iter()
        .map(|dir| dir.join(application.to_string()));
    let containers = folders.filter_map(|folder| fs::read_dir(folder).ok());
    let first = containers.flatten().flatten().filter_map(|entry| {
        let name: ContainerName = entry.file_name().to_str()?.parse().ok()?;
        if name.number() == 1 {
            return None;
        }
        let line = fs::metadata(entry.path().join("stdout")).ok()?;
        // An empty file was made by the launch, before the container's own command.
        (line.len() > 0).then(|| line.modified().ok())?
    });
    first.min()?.duration_since(start).ok()
}

#[cfg(test)]
mod tests {
    use super::super::testing::id;
    use super::*;

    #[test]
    fn the_first_line_of_a_container_counts_and_not_its_masters_or_an_empty_file() {
        let base = tempfile::tempdir().unwrap();
        let start = SystemTime::now();
        let application = id(1, 1).application_id();
        let write = |node: &str, number: i64, text: &str, after: u64| {
            let folder = base
                .path()
                .join(node)
                .join(application.to_string())
                .join(id(1, number).to_string());
            fs::create_dir_all(&folder).unwrap();
            let path = folder.join("stdout");
            fs::write(&path, text).unwrap();
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(start + Duration::from_secs(after))
                .unwrap();
        };
        let (one, two) = (base.path().join("node-1"), base.path().join("node-2"));
        let dirs = [one.as_path(), two.as_path()];
        assert_eq!(after(start, dirs, application), None);
        write("node-1", 1, "x", 1);
        write("node-1", 2, "", 2);
        assert_eq!(after(start, dirs, application), None);
        write("node-1", 3, "x", 7);
        write("node-2", 4, "x", 5);
        assert_eq!(
            after(start, dirs, application),
            Some(Duration::from_secs(5))
        );
    }
}
