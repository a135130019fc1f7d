//! The lists of the packages in `Cargo.toml`, and the configuration that they install.

#![expect(clippy::unwrap_used, reason = "helpers of tests: they fail with it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use node_manager::config::Loaded;

/// Files that only one of the packages installs: the unit comes from a folder that `cargo-deb`
/// searches, and its changelog and copyright from keys of their own.
const OF_DEB: [&str; 1] = ["usr/share/zsh/vendor-completions/_nm-agent"];
const OF_RPM: [&str; 3] = [
    "usr/lib/systemd/system/nm-agent.service",
    "usr/share/zsh/site-functions/_nm-agent",
    "usr/share/doc/nm-agent/LICENSE",
];

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging")
}

/// Returns what a table of `Cargo.toml` says, as its lines.
fn table(name: &str) -> Vec<String> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let text = fs::read_to_string(manifest).unwrap();
    let lines = text.lines().skip_while(|line| *line != format!("[{name}]"));
    let lines = lines.skip(1).take_while(|line| !line.starts_with('['));
    lines.map(str::to_owned).collect()
}

/// Returns sources and modes of the files that a table lists, by where they are installed.
fn files(name: &str) -> BTreeMap<String, (String, String)> {
    let mut files = BTreeMap::new();
    for line in table(name).iter().filter(|line| line.starts_with("  ")) {
        let mut texts = line.split('"').skip(1).step_by(2);
        let [source, target, mode] = [(); 3].map(|()| texts.next().unwrap().to_owned());
        files.insert(target.trim_start_matches('/').to_owned(), (source, mode));
    }
    files
}

#[test]
fn both_packages_install_the_same_files() {
    let mut deb = files("package.metadata.deb");
    let mut rpm = files("package.metadata.generate-rpm");
    assert!(deb.len() > 10, "{deb:?}");
    for only in OF_DEB {
        assert!(deb.remove(only).is_some(), "{only}");
    }
    for only in OF_RPM {
        assert!(rpm.remove(only).is_some(), "{only}");
    }
    assert_eq!(deb, rpm);
}

#[test]
fn every_file_below_etc_keeps_what_an_operator_changes() {
    let below_etc = |target: &String| target.starts_with("etc/");
    let installed: BTreeSet<String> = files("package.metadata.deb").into_keys().collect();
    let deb = table("package.metadata.deb");
    let kept = deb.iter().find(|line| line.starts_with("conf-files"));
    for file in installed.iter().filter(|target| below_etc(target)) {
        assert!(kept.unwrap().contains(&format!("\"/{file}\"")), "{file}");
    }
    let rpm = table("package.metadata.generate-rpm");
    let rpm = rpm.iter().filter(|line| line.contains("dest = \"/etc/"));
    assert!(rpm.clone().count() > 0);
    for line in rpm {
        assert!(line.contains("config = \"noreplace\""), "{line}");
    }
}

#[test]
fn every_kept_file_of_the_packages_is_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (source, _) in files("package.metadata.generate-rpm").into_values() {
        let is_built = source.starts_with("target/");
        let is_pattern = source.contains('*');
        let path = folder.join(&source);
        assert!(is_built || is_pattern || path.is_file(), "{source}");
    }
}

#[test]
fn the_newest_entry_of_the_changelog_is_this_version() {
    let changelog = fs::read_to_string(packaging().join("changelog")).unwrap();
    let wanted = format!("nm-agent ({}-1) ", env!("CARGO_PKG_VERSION"));
    assert!(changelog.starts_with(&wanted), "{changelog}");
}

#[test]
fn the_configuration_of_the_packages_is_valid_and_lets_containers_outlive_the_agent() {
    let loaded = Loaded::read(&[packaging().join("conf")], &BTreeMap::new());
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let config = loaded.config.unwrap();
    assert!(config.recovery.enabled);
    assert_eq!(config.recovery.dir, Path::new("/var/lib/nm-agent/recovery"));
}
