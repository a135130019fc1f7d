//! A throw-away virtual machine: Debian 12 with its own kernel, systemd and the unified cgroup
//! hierarchy, under QEMU.
//!
//! The script `tests/guest/guest` builds the image once, into the folder of
//! [`crate::maven::cache_dir`], and boots it. The emulated machine is some twenty times slower
//! than its host, so nothing in it may be timed.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::maven::cache_dir;

/// Variable that is set in the guest.
pub const IN_GUEST: &str = "NM_AGENT_IN_GUEST";

/// Version of the guest's C library: programs built against a newer one do not start there.
const GUEST_GLIBC: (u32, u32) = (2, 36);

/// Returns the path of the script.
fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("guest/guest")
}

/// Returns whether this process runs in the guest.
#[must_use]
pub fn is_here() -> bool {
    std::env::var_os(IN_GUEST).is_some()
}

/// Returns whether an image exists. The script checks whether it is the right one.
pub(crate) fn is_built() -> bool {
    let entries = fs::read_dir(cache_dir()).into_iter().flatten().flatten();
    let mut images =
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("guest-"));
    images.any(|image| image.path().join("ready").exists())
}

/// Checks that programs built here start in the guest.
pub(crate) fn can_run_our_programs() -> Result<(), String> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err("the guest is a Linux machine for x86_64".to_owned());
    }
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let output = output.map_err(|error| format!("`getconf` does not run: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.trim().strip_prefix("glibc ").and_then(|version| {
        let (major, minor) = version.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    match version {
        Some(version) if version <= GUEST_GLIBC => Ok(()),
        _ => Err(format!(
            "programs built here need {}, the guest has glibc {}.{}",
            text.trim(),
            GUEST_GLIBC.0,
            GUEST_GLIBC.1
        )),
    }
}

/// Boots a guest with these files in `/job`, by name, and runs `command` there with bash as root,
/// in a service with `Delegate=yes`. Returns its exit status; its output goes to standard error as
/// it comes.
///
/// # Panics
/// When the guest cannot be built or started.
#[must_use]
pub fn run(files: &[(&str, &Path)], command: &str, deadline_s: u32) -> i32 {
    let folder = tempfile::Builder::new().prefix("nm-agent-guest-").tempdir();
    let folder = folder.unwrap_or_else(|error| panic!("cannot create a folder: {error}"));
    let program = folder.path().join("run");
    let text = format!("#!/bin/bash\nexport {IN_GUEST}=1\ncd /job\n{command}\n");
    fs::write(&program, text)
        .and_then(|()| fs::set_permissions(&program, fs::Permissions::from_mode(0o755)))
        .unwrap_or_else(|error| panic!("cannot write {}: {error}", program.display()));
    let job = folder.path().join("job.tar");
    pack(&job, files, &program).unwrap_or_else(|error| panic!("cannot pack the job: {error}"));
    let status = Command::new(script())
        .arg("run")
        .arg(cache_dir())
        .arg(&job)
        .arg(deadline_s.to_string())
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .unwrap_or_else(|error| panic!("cannot run {}: {error}", script().display()));
    status.code().unwrap_or(-1)
}

fn pack(job: &Path, files: &[(&str, &Path)], program: &Path) -> std::io::Result<()> {
    let mut archive = tar::Builder::new(File::create(job)?);
    for (name, path) in files {
        archive.append_path_with_name(path, name)?;
    }
    archive.append_path_with_name(program, "run")?;
    archive.finish()
}
