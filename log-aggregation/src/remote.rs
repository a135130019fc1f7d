//! Names and modes of the folders that aggregated logs are in. Plain text, no I/O.
//!
//! ```text
//! <root>/USER/bucket-SUFFIX/BUCKET/APP/NODE          one file for each node
//! <root>/USER/bucket-SUFFIX/BUCKET/APP/NODE_MILLIS   one for each upload while it runs
//! ```
//! Source: `LogAggregationUtils` and `LogAggregationTFileController` of Hadoop 3.4. `yarn logs` and
//! the history server search by these names.

use records::{ApplicationId, EpochMillis, NodeId};

/// Mode of the root: everybody may add a folder, nobody may remove that of another.
pub const ROOT_MODE: u32 = 0o1777;

/// Mode of all folders below the root.
pub const FOLDER_MODE: u32 = 0o770;

/// Mode of the files.
pub const FILE_MODE: u32 = 0o640;

/// Prefix of the folder of a user's buckets.
const BUCKET_PREFIX: &str = "bucket-";

/// Number of buckets: applications are spread by their numbers.
const BUCKETS: i32 = 10_000;

/// End of the name of a file that is not complete.
const TEMPORARY: &str = ".tmp";

/// Returns the names of an application's folders, from the root downwards. `suffix` is
/// `<remote-app-log-dir-suffix>-tfile`, with the name of the format, or the format's own.
#[must_use]
pub fn folder(user: &str, suffix: &str, application: ApplicationId) -> [String; 4] {
    [
        user.to_owned(),
        format!("{BUCKET_PREFIX}{}", suffix.to_lowercase()),
        format!("{:04}", application.id % BUCKETS),
        application.to_string(),
    ]
}

/// Returns the node's part of file names: host and port.
#[must_use]
pub fn node_name(node: &NodeId) -> String {
    node.to_string().replace(':', "_")
}

/// Returns the name of a file that one upload of several makes.
#[must_use]
pub fn dated_name(node: &str, now: EpochMillis) -> String {
    format!("{node}_{}", now.0)
}

/// Returns the name of a file while it is written.
#[must_use]
pub fn temporary_name(node: &str) -> String {
    format!("{node}{TEMPORARY}")
}

/// Returns the oldest dated files of this node, to be removed so that `keep` are left.
#[must_use]
pub fn surplus(names: &[String], node: &str, keep: usize) -> Vec<String> {
    let millis = |name: &&String| {
        let date = name.strip_prefix(node)?.strip_prefix('_')?;
        date.parse::<u64>().ok()
    };
    let mut dated: Vec<_> = names
        .iter()
        .filter_map(|name| Some((millis(&name)?, name)))
        .collect();
    dated.sort();
    let surplus = dated.len().saturating_sub(keep);
    let oldest = dated.into_iter().take(surplus);
    oldest.map(|(_, name)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_hadoops() {
        let application = ApplicationId::new(1_700_000_000_000, 120_007);
        assert_eq!(
            folder("Joe", "logs-TFile", application),
            [
                "Joe",
                "bucket-logs-tfile",
                "0007",
                "application_1700000000000_120007"
            ]
        );
        let node = node_name(&"host.example:45454".parse().unwrap());
        assert_eq!(node, "host.example_45454");
        assert_eq!(temporary_name(&node), "host.example_45454.tmp");
        assert_eq!(dated_name(&node, EpochMillis(17)), "host.example_45454_17");
    }

    #[test]
    fn the_oldest_dated_files_of_the_node_are_surplus() {
        let names = ["n_9", "n_10", "n_8", "n_7.tmp", "n", "other_1"].map(str::to_owned);
        assert_eq!(surplus(&names, "n", 1), ["n_8", "n_9"]);
        assert!(surplus(&names, "n", 3).is_empty());
    }
}
