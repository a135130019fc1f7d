//! The package for Debian on a machine with systemd: `tests/guest/package-life` says what happens.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::files::search_path;
use tests::prometheus::PROMETHEUS;
use tests::{guest, require};

const DEADLINE_S: u32 = 900;

/// Makes the package of this build with this revision in `folder`; the program is the one under
/// test, without debug information.
fn package(folder: &Path, revision: &str) -> PathBuf {
    let program = folder.join("release/nm-agent");
    fs::create_dir_all(folder.join("release")).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_agent-under-test"), program).unwrap();
    let made = folder.join(format!("{revision}.deb"));
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nm-agent/Cargo.toml");
    let arguments: [&OsStr; 9] = [
        "--no-build".as_ref(),
        "--fast".as_ref(),
        "--quiet".as_ref(),
        "--deb-revision".as_ref(),
        revision.as_ref(),
        "--manifest-path".as_ref(),
        manifest.as_ref(),
        "--output".as_ref(),
        made.as_ref(),
    ];
    let output = Command::new("cargo-deb")
        .args(arguments)
        .env("CARGO_TARGET_DIR", folder)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    made
}

#[test]
fn the_package_is_installed_used_by_two_users_watched_upgraded_removed_and_purged() {
    if guest::is_here() {
        return;
    }
    require!(guest);
    require!(cargo_deb);
    require!(prometheus);
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["1", "2"].map(|revision| package(folder.path(), revision));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("guest/package-life");
    let prometheus = search_path(PROMETHEUS).unwrap();
    let files = [
        ("first.deb", first.as_path()),
        ("second.deb", second.as_path()),
        ("package-life", script.as_path()),
        ("prometheus", prometheus.as_path()),
    ];
    let status = guest::run(&files, "exec ./package-life", DEADLINE_S);
    assert_eq!(status, 0, "the guest's own report is above");
}
