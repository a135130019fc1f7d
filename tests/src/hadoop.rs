//! Hadoop's published artifacts, downloaded once by Maven into a folder that outlives the build's
//! output.
//!
//! The folder is `$NM_AGENT_TEST_CACHE`, or `nm-agent-tests` in the user's cache folder. It is
//! filled under a file lock and moved into place whole, so that test binaries that start together
//! do not disturb each other and a broken download leaves nothing.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use crate::skip::print_line;

pub use test_support::HADOOP_VERSION as VERSION;

/// Variable with the folder of [`cache_dir`].
pub const CACHE_VARIABLE: &str = "NM_AGENT_TEST_CACHE";

/// Artifacts on which all others follow. The ResourceManager does not start without the timeline
/// service's classes, nor without a library of Bouncy Castle that its published pom leaves out.
const ARTIFACTS: [Artifact; 14] = [
    Artifact::of_hadoop("hadoop-client"),
    Artifact::of_hadoop("hadoop-common"),
    Artifact::of_hadoop("hadoop-hdfs"),
    Artifact::of_hadoop("hadoop-mapreduce-client-app"),
    Artifact::of_hadoop("hadoop-mapreduce-client-hs"),
    Artifact::of_hadoop("hadoop-mapreduce-client-jobclient"),
    Artifact::of_hadoop("hadoop-mapreduce-client-shuffle"),
    Artifact::of_hadoop("hadoop-mapreduce-examples"),
    Artifact::of_hadoop("hadoop-yarn-applications-distributedshell"),
    Artifact::of_hadoop("hadoop-yarn-client"),
    Artifact::of_hadoop("hadoop-yarn-server-nodemanager"),
    Artifact::of_hadoop("hadoop-yarn-server-resourcemanager"),
    Artifact::of_hadoop("hadoop-yarn-server-timelineservice"),
    // The release of the bcprov that Hadoop depends on.
    Artifact {
        group: "org.bouncycastle",
        name: "bcpkix-jdk18on",
        version: "1.78.1",
    },
];

/// Maven's coordinates of one library.
struct Artifact {
    group: &'static str,
    name: &'static str,
    version: &'static str,
}

impl Artifact {
    const fn of_hadoop(name: &'static str) -> Self {
        Self {
            group: "org.apache.hadoop",
            name,
            version: VERSION,
        }
    }
}

/// Goal of Maven's dependency plugin. Its version is pinned, so that a new release cannot change
/// what the tests run against.
const COPY_DEPENDENCIES: &str =
    "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// Returns the folder for what is expensive to get. Safe to delete while no test runs.
///
/// # Panics
/// When neither the variable nor a home folder is set.
#[must_use]
pub fn cache_dir() -> PathBuf {
    let set = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set(CACHE_VARIABLE)
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("nm-agent-tests")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/nm-agent-tests")))
        .unwrap_or_else(|| {
            panic!("neither {CACHE_VARIABLE} nor HOME is set: no place for Hadoop's jars")
        })
}

/// Returns whether the jars are there, so that neither Maven nor a network is needed.
#[must_use]
pub fn is_cached() -> bool {
    is_complete(&folder(), &pom())
}

/// Returns the folder with all of Hadoop's jars; downloads them first if need be.
///
/// # Panics
/// When the download fails.
#[must_use]
pub fn jars() -> &'static Path {
    static JARS: OnceLock<PathBuf> = OnceLock::new();
    JARS.get_or_init(|| {
        fetch_once();
        folder().join("lib")
    })
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

fn folder() -> PathBuf {
    cache_dir().join(format!("hadoop-{VERSION}"))
}

/// Returns whether the folder was filled from this pom, which is written into it last.
fn is_complete(folder: &Path, pom: &str) -> bool {
    fs::read_to_string(folder.join("pom.xml")).is_ok_and(|found| found == pom)
        && folder.join("lib").is_dir()
}

fn pom() -> String {
    let dependencies: String = ARTIFACTS
        .iter()
        .map(|Artifact { group, name, version }| {
            format!(
                "    <dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>\n"
            )
        })
        .collect();
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  <modelVersion>4.0.0</modelVersion>\n  \
         <groupId>nm-agent</groupId>\n  <artifactId>test-hadoop</artifactId>\n  <version>1</version>\n  \
         <packaging>pom</packaging>\n  <dependencies>\n{dependencies}  </dependencies>\n</project>\n"
    )
}

fn fetch_once() {
    let (folder, pom) = (folder(), pom());
    if is_complete(&folder, &pom) {
        return;
    }
    let cache = cache_dir();
    fs::create_dir_all(&cache)
        .unwrap_or_else(|error| panic!("cannot create {}: {error}", cache.display()));
    let _lock = lock(&cache.join("fetch.lock"));
    if is_complete(&folder, &pom) {
        return;
    }
    fetch(&cache, &folder, &pom);
}

/// Waits for an exclusive lock, also among processes. The kernel releases it when the file is
/// closed.
fn lock(path: &Path) -> File {
    let file = lock_file(path);
    file.lock()
        .unwrap_or_else(|error| panic!("cannot lock {}: {error}", path.display()));
    file
}

/// Takes the lock without waiting; `None` while another holds it.
pub(crate) fn try_lock(path: &Path) -> Option<File> {
    let file = lock_file(path);
    match file.try_lock() {
        Ok(()) => Some(file),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(error)) => panic!("cannot lock {}: {error}", path.display()),
    }
}

fn lock_file(path: &Path) -> File {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path);
    file.unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display()))
}

fn fetch(cache: &Path, folder: &Path, pom: &str) {
    let begin = Instant::now();
    print_line(&format!(
        "fetching Hadoop {VERSION} (about 100 MB) into {} …",
        folder.display()
    ));
    let work = tempfile::Builder::new().prefix("fetch-").tempdir_in(cache);
    let work = work
        .unwrap_or_else(|error| panic!("cannot create a folder in {}: {error}", cache.display()));
    let pom_file = work.path().join("pom.xml");
    let written = fs::write(&pom_file, pom);
    written.unwrap_or_else(|error| panic!("cannot write {}: {error}", pom_file.display()));
    let output = Command::new("mvn")
        .args(["--quiet", "--batch-mode", "--file"])
        .arg(&pom_file)
        .args([
            COPY_DEPENDENCIES,
            "-DincludeScope=runtime",
            "-Dmaven.wagon.http.retryHandler.count=3",
        ])
        .arg(format!(
            "-DoutputDirectory={}",
            work.path().join("lib").display()
        ))
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("Maven does not run: {error}"));
    assert!(
        output.status.success(),
        "Maven ended with {}:\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    if folder.exists() {
        fs::remove_dir_all(folder)
            .unwrap_or_else(|error| panic!("cannot remove {}: {error}", folder.display()));
    }
    let from = work.keep();
    fs::rename(&from, folder)
        .unwrap_or_else(|error| panic!("cannot rename {}: {error}", from.display()));
    print_line(&format!(
        "fetched Hadoop {VERSION} in {} s",
        begin.elapsed().as_secs()
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_filled_for_another_list_of_artifacts_is_not_complete() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("lib")).unwrap();
        fs::write(folder.path().join("pom.xml"), "<project/>").unwrap();
        assert!(!is_complete(folder.path(), &pom()));
    }

    #[test]
    fn a_folder_without_jars_is_not_complete() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("pom.xml"), pom()).unwrap();
        assert!(!is_complete(folder.path(), &pom()));
    }

    #[test]
    fn the_pom_names_each_artifact() {
        let pom = pom();
        assert_eq!(pom.matches("<dependency>").count(), ARTIFACTS.len());
        assert!(
            ARTIFACTS
                .iter()
                .all(|artifact| pom.contains(&format!(">{}<", artifact.name)))
        );
    }
}
