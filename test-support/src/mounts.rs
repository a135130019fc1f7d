//! Mounts that only one test sees.

use std::path::Path;
use std::process::Command;

use nix::sched::{CloneFlags, unshare};

/// Runs `test` in a thread with a mount namespace of its own, so that nothing has to be unmounted.
/// The threads and processes that `test` starts are in that namespace too.
///
/// # Panics
/// When `test` does.
pub fn with_own_mounts(name: &str, test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let run = || match unshare(CloneFlags::CLONE_NEWNS) {
            Ok(()) => {
                mount(&["--make-rprivate", "/"]);
                test();
            }
            Err(error) => crate::skip::skip(name, &format!("no mount namespace: {error}")),
        };
        if let Err(panic) = scope.spawn(run).join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn mount(arguments: &[&str]) {
    run("mount", arguments);
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status();
    let status = status.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(status.success(), "{program} {arguments:?}: {status}");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("folders of tests have names in UTF-8")
}

/// Mounts `source` on `target`.
///
/// # Panics
/// When one of them does not exist.
pub fn bind(source: &Path, target: &Path) {
    mount(&["--bind", text(source), text(target)]);
}

/// Mounts an empty file system in memory on `target`, which may hold this many bytes.
///
/// # Panics
/// When `target` does not exist.
pub fn small_disk(target: &Path, bytes: u64) {
    let size = format!("size={bytes},mode=0755");
    mount(&["-t", "tmpfs", "-o", &size, "tmpfs", text(target)]);
}

/// Allows changes of the file system that is mounted on `target`, or allows none any more.
///
/// # Panics
/// When nothing is mounted there.
pub fn set_writable(target: &Path, is_writable: bool) {
    let option = if is_writable {
        "remount,rw"
    } else {
        "remount,ro"
    };
    // Only this mount is remounted: files open for writing keep the whole file system writable.
    mount(&["-o", &format!("{option},bind"), text(target)]);
}

/// Takes away what is mounted on `target`, where no process has a file of it open. Where another
/// process may look at just this moment, use [`try_unmount`] or [`detach`].
///
/// # Panics
/// When nothing is mounted there, or a process has a file of it open.
pub fn unmount(target: &Path) {
    run("umount", &[text(target)]);
}

/// Takes away what is mounted on `target`, unless a process has a file of it open.
///
/// # Errors
/// What `umount` says.
///
/// # Panics
/// When there is no such program.
pub fn try_unmount(target: &Path) -> Result<(), String> {
    let output = Command::new("umount").arg(target).output();
    let output = output.unwrap_or_else(|error| panic!("umount: {error}"));
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Takes away what is mounted on `target` from the folders at once, also when processes have files
/// of it open: they keep those (`MNT_DETACH` of umount(2)).
///
/// # Panics
/// When nothing is mounted there.
pub fn detach(target: &Path) {
    run("umount", &["--lazy", text(target)]);
}
