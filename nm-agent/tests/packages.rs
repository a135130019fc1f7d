//! The lists of the packages in `Cargo.toml`, and the configuration that they install.

#![expect(clippy::unwrap_used, reason = "helpers of tests: they fail with it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use node_manager::config::{ContainerExecutor, Loaded};
use test_support::skip;

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

/// Returns the configuration of the packages, after this file was put beside it.
fn with_users_xml(users: Option<&str>) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    for file in ["core-site.xml", "yarn-site.xml"] {
        fs::copy(
            packaging().join("conf").join(file),
            folder.path().join(file),
        )
        .unwrap();
    }
    if let Some(users) = users {
        fs::write(folder.path().join("users.xml"), users).unwrap();
    }
    Loaded::read(&[folder.path().to_path_buf()], &BTreeMap::new())
}

#[test]
fn one_file_beside_the_configuration_has_containers_run_as_another_user() {
    let as_installed = with_users_xml(None);
    assert!(as_installed.warnings.is_empty());
    let executor = as_installed.config.unwrap().launch.executor;
    assert_eq!(executor, ContainerExecutor::Own);
    let shipped = fs::read_to_string(packaging().join("users/users.xml")).unwrap();
    let switched = with_users_xml(Some(&shipped));
    assert!(switched.warnings.is_empty());
    let executor = switched.config.unwrap().launch.executor;
    assert!(matches!(executor, ContainerExecutor::Users(_)));
}

#[test]
fn the_service_gets_every_capability_that_the_agent_needs() {
    let drop_in = fs::read_to_string(packaging().join("users/users.conf")).unwrap();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/users.md");
    let page = fs::read_to_string(page).unwrap();
    for directive in ["CapabilityBoundingSet=", "AmbientCapabilities="] {
        let line = drop_in.lines().find(|line| line.starts_with(directive));
        let line = line.unwrap();
        for needed in [
            "CAP_SETUID",
            "CAP_SETGID",
            "CAP_KILL",
            "CAP_CHOWN",
            "CAP_FOWNER",
        ] {
            assert!(line.contains(needed), "{line}");
        }
        assert!(
            page.contains(line),
            "docs/users.md has another line than {line}"
        );
    }
}

#[test]
fn needrestart_leaves_the_service_of_the_containers_alone() {
    const PROGRAM: &str = r"
        our %nrconf = (override_rc => { qr(^dbus) => 0 });
        my $text = do { local (@ARGV, $/) = ('FILE'); <> };
        eval $text;
        die $@ if $@;
        for my $unit ('nm-agent-containers.service', 'nm-agent.service') {
            for my $pattern (keys %{$nrconf{override_rc}}) {
                print qq($unit $nrconf{override_rc}->{$pattern}\n) if $unit =~ /$pattern/;
            }
        }";
    let file = packaging().join("needrestart.conf");
    let program = PROGRAM.replace("FILE", &file.display().to_string());
    let Ok(output) = Command::new("perl").arg("-e").arg(program).output() else {
        let test = "needrestart_leaves_the_service_of_the_containers_alone";
        skip::skip(test, &"no perl");
        return;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(output.stdout, b"nm-agent-containers.service 0\n");
}
