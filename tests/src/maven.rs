//! Published artifacts, downloaded once by Maven into a folder that outlives the build's output.
//!
//! The folder is `$NM_AGENT_TEST_CACHE`, or `nm-agent-tests` in the user's cache folder. A
//! collection of artifacts is filled under a file lock and moved into place whole, so that test
//! binaries that start together do not disturb each other and a broken download leaves nothing.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::skip::print_line;

/// Variable with the folder of [`cache_dir`].
pub const CACHE_VARIABLE: &str = "NM_AGENT_TEST_CACHE";

/// Maven's coordinates of one library.
pub(crate) struct Artifact {
    pub(crate) group: &'static str,
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// Whether the libraries that it depends on are left out.
    pub(crate) is_alone: bool,
}

/// Libraries that are downloaded together, with what they depend on.
pub(crate) struct Collection {
    /// Name and version, also that of the folder.
    pub(crate) name: String,
    /// Size of the download, for people who wait.
    pub(crate) megabytes: u32,
    pub(crate) artifacts: &'static [Artifact],
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
            panic!("neither {CACHE_VARIABLE} nor HOME is set: no place for downloads")
        })
}

impl Collection {
    /// Returns whether the jars are there, so that neither Maven nor a network is needed.
    pub(crate) fn is_cached(&self) -> bool {
        is_complete(&self.folder(), &self.pom())
    }

    /// Returns the folder with all jars; downloads them first if need be.
    ///
    /// # Panics
    /// When the download fails.
    pub(crate) fn jars(&self) -> PathBuf {
        let (folder, pom) = (self.folder(), self.pom());
        let jars = folder.join("lib");
        if is_complete(&folder, &pom) {
            return jars;
        }
        let cache = cache_dir();
        fs::create_dir_all(&cache)
            .unwrap_or_else(|error| panic!("cannot create {}: {error}", cache.display()));
        let _lock = lock(&cache.join("fetch.lock"));
        if !is_complete(&folder, &pom) {
            self.fetch(&cache, &folder, &pom);
        }
        jars
    }

    fn folder(&self) -> PathBuf {
        cache_dir().join(&self.name)
    }

    fn pom(&self) -> String {
        let dependencies: String = self.artifacts.iter().map(Artifact::to_xml).collect();
        let name = &self.name;
        format!(
            "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  \
             <modelVersion>4.0.0</modelVersion>\n  <groupId>nm-agent</groupId>\n  \
             <artifactId>test-{name}</artifactId>\n  <version>1</version>\n  \
             <packaging>pom</packaging>\n  \
             <dependencies>\n{dependencies}  </dependencies>\n</project>\n"
        )
    }

    fn fetch(&self, cache: &Path, folder: &Path, pom: &str) {
        let begin = Instant::now();
        let name = &self.name;
        print_line(&format!(
            "fetching {name} (about {} MB) into {} …",
            self.megabytes,
            folder.display()
        ));
        let work = tempfile::Builder::new().prefix("fetch-").tempdir_in(cache);
        let work = work.unwrap_or_else(|error| {
            panic!("cannot create a folder in {}: {error}", cache.display())
        });
        run_maven(work.path(), pom);
        if folder.exists() {
            fs::remove_dir_all(folder)
                .unwrap_or_else(|error| panic!("cannot remove {}: {error}", folder.display()));
        }
        let from = work.keep();
        fs::rename(&from, folder)
            .unwrap_or_else(|error| panic!("cannot rename {}: {error}", from.display()));
        print_line(&format!(
            "fetched {name} in {} s",
            begin.elapsed().as_secs()
        ));
    }
}

impl Artifact {
    fn to_xml(&self) -> String {
        let Self {
            group,
            name,
            version,
            is_alone,
        } = self;
        let exclusions = if *is_alone {
            "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>\
             </exclusions>"
        } else {
            ""
        };
        format!(
            "    <dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>\
             <version>{version}</version>{exclusions}</dependency>\n"
        )
    }
}

/// Returns whether the folder was filled from this pom, which is written into it last.
fn is_complete(folder: &Path, pom: &str) -> bool {
    fs::read_to_string(folder.join("pom.xml")).is_ok_and(|found| found == pom)
        && folder.join("lib").is_dir()
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

/// Writes the pom into the folder and copies its libraries into `lib` there.
fn run_maven(work: &Path, pom: &str) {
    let pom_file = work.join("pom.xml");
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
        .arg(format!("-DoutputDirectory={}", work.join("lib").display()))
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
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARTIFACTS: [Artifact; 2] = [
        Artifact {
            group: "org.example",
            name: "whole",
            version: "1",
            is_alone: false,
        },
        Artifact {
            group: "org.example",
            name: "alone",
            version: "2",
            is_alone: true,
        },
    ];

    fn collection() -> Collection {
        Collection {
            name: "example-1".to_owned(),
            megabytes: 1,
            artifacts: &ARTIFACTS,
        }
    }

    #[test]
    fn a_folder_filled_for_another_list_of_artifacts_is_not_complete() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("lib")).unwrap();
        fs::write(folder.path().join("pom.xml"), "<project/>").unwrap();
        assert!(!is_complete(folder.path(), &collection().pom()));
    }

    #[test]
    fn a_folder_without_jars_is_not_complete() {
        let folder = tempfile::tempdir().unwrap();
        let pom = collection().pom();
        fs::write(folder.path().join("pom.xml"), &pom).unwrap();
        assert!(!is_complete(folder.path(), &pom));
    }

    #[test]
    fn the_pom_names_each_artifact_and_excludes_what_one_that_is_alone_depends_on() {
        let pom = collection().pom();
        let lines: Vec<_> = pom
            .lines()
            .filter(|it| it.contains("<dependency>"))
            .collect();
        assert_eq!(lines.len(), 2, "{pom}");
        for (line, Artifact { name, is_alone, .. }) in lines.iter().zip(&ARTIFACTS) {
            assert!(line.contains(&format!(">{name}<")), "{line}");
            assert_eq!(line.contains("<exclusions>"), *is_alone, "{line}");
        }
    }
}
