//! The host of auxiliary services that are Java classes: its jar, and classes for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::{hadoop, java};

/// Returns the host's jar, built once by each test binary with the script that operators use.
///
/// # Panics
/// When there is no JDK, or Hadoop's jars cannot be downloaded.
#[must_use]
pub fn jar() -> &'static Path {
    static JAR: OnceLock<PathBuf> = OnceLock::new();
    JAR.get_or_init(build)
}

fn build() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("nm-agent-aux-host-{}", std::process::id()));
    fs::create_dir_all(&folder)
        .unwrap_or_else(|error| panic!("cannot create {}: {error}", folder.display()));
    let jar = folder.join("nm-agent-aux-host.jar");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../java/aux-host/build");
    let home = java::home().unwrap_or_else(|why| panic!("{why}"));
    let output = Command::new(script)
        .arg(format!("{}/*", hadoop::jars().display()))
        .arg(&jar)
        .env("JAVA_HOME", home)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("the build of the host does not run: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    jar
}

/// Compiles `java/TestService.java` into a jar in this folder; returns its path.
///
/// # Panics
/// When there is no JDK, or Hadoop's jars cannot be downloaded.
#[must_use]
pub fn test_service(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("java/TestService.java");
    java::jar_of_source(&source, folder)
}
