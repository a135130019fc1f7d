//! Hadoop's published artifacts, of one pinned version.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::maven::{Artifact, Collection};

pub use test_support::HADOOP_VERSION as VERSION;

/// Artifacts on which all others follow. The ResourceManager does not start without the timeline
/// service's classes, nor without a library of Bouncy Castle that its published pom leaves out.
const ARTIFACTS: [Artifact; 14] = [
    of_hadoop("hadoop-client"),
    of_hadoop("hadoop-common"),
    of_hadoop("hadoop-hdfs"),
    of_hadoop("hadoop-mapreduce-client-app"),
    of_hadoop("hadoop-mapreduce-client-hs"),
    of_hadoop("hadoop-mapreduce-client-jobclient"),
    of_hadoop("hadoop-mapreduce-client-shuffle"),
    of_hadoop("hadoop-mapreduce-examples"),
    of_hadoop("hadoop-yarn-applications-distributedshell"),
    of_hadoop("hadoop-yarn-client"),
    of_hadoop("hadoop-yarn-server-nodemanager"),
    of_hadoop("hadoop-yarn-server-resourcemanager"),
    of_hadoop("hadoop-yarn-server-timelineservice"),
    // The release of the bcprov that Hadoop depends on.
    Artifact {
        group: "org.bouncycastle",
        name: "bcpkix-jdk18on",
        version: "1.78.1",
        is_alone: false,
    },
];

const fn of_hadoop(name: &'static str) -> Artifact {
    Artifact {
        group: "org.apache.hadoop",
        name,
        version: VERSION,
        is_alone: false,
    }
}

fn collection() -> Collection {
    Collection {
        name: format!("hadoop-{VERSION}"),
        megabytes: 100,
        artifacts: &ARTIFACTS,
    }
}

/// Returns whether the jars are there, so that neither Maven nor a network is needed.
#[must_use]
pub fn is_cached() -> bool {
    collection().is_cached()
}

/// Returns the folder with all of Hadoop's jars; downloads them first if need be.
///
/// # Panics
/// When the download fails.
#[must_use]
pub fn jars() -> &'static Path {
    static JARS: OnceLock<PathBuf> = OnceLock::new();
    JARS.get_or_init(|| collection().jars())
}

/// Returns the paths of all jars, sorted by name.
///
/// # Panics
/// When the jars cannot be downloaded or listed.
#[must_use]
pub fn jar_files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(jars())
        .and_then(|entries| {
            entries
                .map(|entry| entry.map(|entry| entry.path()))
                .collect()
        })
        .unwrap_or_else(|error| panic!("cannot list {}: {error}", jars().display()));
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jar"));
    files.sort();
    files
}

/// Returns the path of one artifact of Hadoop itself, such as `hadoop-yarn-common`.
///
/// # Panics
/// When there is no such jar.
#[must_use]
pub fn jar(artifact: &str) -> PathBuf {
    let path = jars().join(format!("{artifact}-{VERSION}.jar"));
    assert!(
        path.is_file(),
        "{} is not among Hadoop's jars",
        path.display()
    );
    path
}
