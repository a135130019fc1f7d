//! `nm-agent check`: every effective value and where it came from, what is worth a warning, what is
//! wrong.
//!
//! In: a configuration as it was loaded, and the machine to try it on. Out: lines of text and an
//! [`Outcome`]. It makes and changes nothing on the machine. Secrets are hidden.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use container_runtime::config::CgroupConfig;
use container_runtime::isolation::Availability;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{AccessFlags, access};
use thiserror::Error;

use hadoop_conf::HostPort;
use hadoop_conf::site_xml::Origin;
use node_manager::config::{Config, Loaded, keys};
use node_manager::descriptors::Descriptors;

/// A name server that has not answered by then will not do for an agent either.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether an agent could run with this configuration on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Nothing is wrong; there may be warnings.
    Sound,
    /// A problem: the agent cannot run like this.
    Wrong,
}

impl Outcome {
    /// Of the process: 0, or 2 for a bad configuration.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Sound => 0,
            Self::Wrong => 2,
        }
    }
}

/// Why something that the configuration names cannot be used.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The folder exists and cannot be used, or cannot be made.
    #[error("{}: {errno}", path.display())]
    Folder {
        /// The folder, or the one above it that exists.
        path: PathBuf,
        /// The system's reason.
        errno: Errno,
    },
    /// The name has no address.
    #[error("{host}: {source}")]
    Name {
        /// Host name that was looked up.
        host: String,
        /// The resolver's reason.
        source: io::Error,
    },
    /// The name server does not answer.
    #[error("{host}: no answer from the name server within {} s", RESOLVE_TIMEOUT.as_secs())]
    Silence {
        /// Host name that was looked up.
        host: String,
    },
}

/// The machine that a configuration is tried on. A trait, so that tests can supply a machine of
/// their own.
pub trait Machine {
    /// Whether files can be made in this folder, which is made first if it does not exist.
    ///
    /// # Errors
    /// When they cannot.
    fn writable(&self, folder: &Path) -> Result<(), ProbeError>;

    /// Whether containers would have cgroups.
    fn cgroups(&self, config: &CgroupConfig) -> Availability;

    /// Returns the open-file limit that an agent would raise its own to, if it can be read.
    fn open_files(&self) -> Option<u64>;

    /// Whether the host has an address.
    ///
    /// # Errors
    /// When it has none, or nobody says.
    fn resolvable(&self, address: &HostPort) -> Result<(), ProbeError>;
}

/// The machine that this process runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisMachine;

impl Machine for ThisMachine {
    fn writable(&self, folder: &Path) -> Result<(), ProbeError> {
        // What does not exist would be made in the nearest folder that does.
        let existing = folder
            .ancestors()
            .find(|path| path.symlink_metadata().is_ok());
        let path = existing.unwrap_or(folder).to_path_buf();
        let result = if path.is_dir() {
            access(
                &path,
                AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK,
            )
        } else {
            Err(Errno::ENOTDIR)
        };
        result.map_err(|errno| ProbeError::Folder { path, errno })
    }

    fn cgroups(&self, config: &CgroupConfig) -> Availability {
        Availability::foreseen(config)
    }

    fn open_files(&self) -> Option<u64> {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
        Some(hard)
    }

    fn resolvable(&self, address: &HostPort) -> Result<(), ProbeError> {
        if address.host.parse::<IpAddr>().is_ok() {
            return Ok(());
        }
        let host = address.host.clone();
        let (answer, answered) = mpsc::channel();
        let query = (address.host.clone(), address.port);
        // The resolver cannot be given a deadline, so it is left behind when it takes too long;
        // this process ends soon.
        thread::spawn(move || answer.send(query.to_socket_addrs().map(|_| ())));
        match answered.recv_timeout(RESOLVE_TIMEOUT) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(source)) => Err(ProbeError::Name { host, source }),
            Err(_) => Err(ProbeError::Silence { host }),
        }
    }
}

/// Writes the report.
///
/// # Errors
/// When `out` cannot be written to.
pub fn report(
    loaded: &Loaded,
    machine: &dyn Machine,
    out: &mut dyn io::Write,
) -> io::Result<Outcome> {
    let from_files = |name: &&str| loaded.properties.origin(name) != Some(&Origin::Default);
    let (set, defaults): (Vec<&str>, Vec<&str>) = loaded.properties.names().partition(from_files);
    values(loaded, "Set by files", &set, out)?;
    values(loaded, "Defaults", &defaults, out)?;
    let mut findings = Findings::default();
    let warnings = loaded.warnings.iter().map(ToString::to_string);
    findings.warnings.extend(warnings);
    match &loaded.config {
        Ok(config) => probe(config, machine, &mut findings),
        Err(problems) => {
            let texts = problems.list().iter().map(ToString::to_string);
            findings.problems.extend(texts);
        }
    }
    lines("Notes", &findings.notes, out)?;
    lines("Warnings", &findings.warnings, out)?;
    lines("Problems", &findings.problems, out)?;
    if findings.problems.is_empty() {
        writeln!(out, "The configuration can be used.")?;
        return Ok(Outcome::Sound);
    }
    writeln!(out, "The configuration cannot be used.")?;
    Ok(Outcome::Wrong)
}

/// Lines to print, in the order found.
#[derive(Default)]
struct Findings {
    notes: Vec<String>,
    warnings: Vec<String>,
    problems: Vec<String>,
}

impl Findings {
    /// Adds a finding for the paths that failed: a warning if some of the paths tried are usable,
    /// since the agent goes on with those, and a problem if none is.
    fn add(&mut self, name: &str, tried: usize, errors: &[ProbeError]) {
        let texts = errors.iter().map(|error| format!("{name}: {error}"));
        if errors.len() < tried {
            self.warnings.extend(texts);
        } else {
            self.problems.extend(texts);
        }
    }
}

fn probe(config: &Config, machine: &dyn Machine, findings: &mut Findings) {
    for (name, folders) in [
        ("yarn.nodemanager.local-dirs", &config.dirs.local_dirs),
        ("yarn.nodemanager.log-dirs", &config.dirs.log_dirs),
    ] {
        let errors = folders
            .iter()
            .filter_map(|folder| machine.writable(folder).err());
        findings.add(name, folders.len(), &errors.collect::<Vec<_>>());
    }
    let availability = machine.cgroups(&config.cgroups);
    if availability.lacks() {
        findings.warnings.push(availability.to_string());
    } else if availability.is_used() {
        findings.notes.push(availability.to_string());
    }
    let descriptors = machine.open_files().map(Descriptors::divide);
    findings
        .notes
        .extend(descriptors.map(|parts| parts.to_string()));
    if config.amrm_proxy.enabled {
        let schedulers = config
            .rm
            .endpoints
            .iter()
            .map(|endpoint| &endpoint.scheduler);
        let errors = schedulers.filter_map(|scheduler| machine.resolvable(scheduler).err());
        let name = "yarn.resourcemanager.scheduler.address";
        findings.add(name, config.rm.endpoints.len(), &errors.collect::<Vec<_>>());
    }
    let trackers = config
        .rm
        .endpoints
        .iter()
        .map(|endpoint| &endpoint.resource_tracker);
    let errors = trackers
        .clone()
        .filter_map(|tracker| machine.resolvable(tracker).err());
    let errors: Vec<_> = errors.collect();
    let name = "yarn.resourcemanager.resource-tracker.address";
    findings.add(name, config.rm.endpoints.len(), &errors);
    for tracker in trackers.filter(|tracker| tracker.is_wildcard()) {
        findings.warnings.push(format!(
            "{name} = {tracker}: the ResourceManager is sought on this machine; \
             set yarn.resourcemanager.hostname if it is elsewhere"
        ));
    }
}

fn values(loaded: &Loaded, title: &str, names: &[&str], out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "{title} ({}):", names.len())?;
    for name in names {
        let (shown, origin) = match loaded.properties.get(name) {
            Ok(Some(value)) => {
                let shown = loaded.secrets.show(name, &value);
                (with_unit(name, &on_one_line(shown)), value.origin)
            }
            // The problem is told with all others.
            Ok(None) | Err(_) => continue,
        };
        match origin {
            Origin::Default => writeln!(out, "  {name} = {shown}")?,
            Origin::File { .. } => writeln!(out, "  {name} = {shown}  ({origin})")?,
        }
    }
    writeln!(out)
}

/// Numbers get their unit; other texts say what they are.
fn with_unit(name: &str, text: &str) -> String {
    let suffix = keys::find(name).map_or("", |key| key.unit.suffix());
    if suffix.is_empty() || text.parse::<f64>().is_err() {
        text.to_owned()
    } else {
        format!("{text} {suffix}")
    }
}

/// Replaces control characters, so that text from a file cannot move the terminal's cursor.
fn on_one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_control() || c == ' ');
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

fn lines(title: &str, texts: &[String], out: &mut dyn io::Write) -> io::Result<()> {
    if texts.is_empty() {
        return Ok(());
    }
    writeln!(out, "{title} ({}):", texts.len())?;
    for text in texts {
        writeln!(out, "  {}", on_one_line(text))?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    /// A machine on which everything works but what is named.
    #[derive(Default)]
    struct Pretend {
        broken_folders: Vec<&'static str>,
        unknown_hosts: Vec<&'static str>,
        cgroups_broken: bool,
    }

    impl Machine for Pretend {
        fn writable(&self, folder: &Path) -> Result<(), ProbeError> {
            let broken = self
                .broken_folders
                .iter()
                .any(|broken| Path::new(broken) == folder);
            let path = folder.to_path_buf();
            let errno = Errno::EROFS;
            if broken {
                Err(ProbeError::Folder { path, errno })
            } else {
                Ok(())
            }
        }

        fn cgroups(&self, config: &CgroupConfig) -> Availability {
            match (config.asked_for, self.cgroups_broken) {
                (false, _) => Availability::NotAskedFor,
                (true, false) => Availability::Used {
                    version: cgroup::Version::V2,
                    missing: Vec::new(),
                },
                (true, true) => Availability::Unusable {
                    reason: "no cgroup hierarchy is mounted".to_owned(),
                },
            }
        }

        fn open_files(&self) -> Option<u64> {
            Some(4096)
        }

        fn resolvable(&self, address: &HostPort) -> Result<(), ProbeError> {
            let host = address.host.clone();
            let unknown = self.unknown_hosts.contains(&host.as_str());
            if unknown {
                Err(ProbeError::Silence { host })
            } else {
                Ok(())
            }
        }
    }

    fn checked(pairs: &[(&str, &str)], machine: &dyn Machine) -> (Outcome, String) {
        let properties = pairs
            .iter()
            .map(|(n, v)| format!("<property><name>{n}</name><value>{v}</value></property>"));
        let body: String = properties.collect();
        let folder = TempDir::new().unwrap();
        let site = format!("<configuration>{body}</configuration>");
        fs::write(folder.path().join("yarn-site.xml"), site).unwrap();
        let loaded = Loaded::read(&[folder.path().to_path_buf()], &BTreeMap::new());
        let mut out = Vec::new();
        let outcome = report(&loaded, machine, &mut out).unwrap();
        (outcome, String::from_utf8(out).unwrap())
    }

    const RM: (&str, &str) = ("yarn.resourcemanager.hostname", "rm.example");

    #[test]
    fn each_value_is_printed_with_its_unit_and_where_it_came_from() {
        let delay = ("yarn.nodemanager.sleep-delay-before-sigkill.ms", "500");
        let (outcome, text) = checked(&[RM, delay], &Pretend::default());
        assert_eq!(outcome.exit_code(), 0, "{text}");
        let line = text.lines().find(|line| line.contains("sigkill")).unwrap();
        assert!(
            line.contains(".ms = 500 ms  (") && line.ends_with("yarn-site.xml:1)"),
            "{line}"
        );
        assert!(
            text.contains("  yarn.nodemanager.vmem-pmem-ratio = 2.1\n"),
            "{text}"
        );
        assert!(
            text.contains("resource-tracker.address = rm.example:8031\n"),
            "{text}"
        );
        assert!(text.ends_with("The configuration can be used.\n") && !text.contains("Warnings"));
    }

    #[test]
    fn every_problem_is_printed_and_the_exit_code_says_so() {
        let bad = [
            ("yarn.nodemanager.vmem-check-enabled", "si"),
            ("yarn.nodemanager.address", ":1"),
        ];
        let (outcome, text) = checked(&bad, &Pretend::default());
        assert_eq!(outcome.exit_code(), 2);
        assert!(text.contains("Problems (2):"), "{text}");
    }

    #[test]
    fn secrets_are_hidden_wherever_they_would_be_printed() {
        let pairs = [
            ("fs.s3a.secret.key", "hunter2"),
            ("my.url", "http://x/${fs.s3a.secret.key}"),
            ("yarn.nodemanager.some-password", "hunter2"),
        ];
        let (_, text) = checked(&pairs, &Pretend::default());
        assert!(text.contains("fs.s3a.secret.key = <redacted>"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }

    #[test]
    fn one_bad_disk_of_two_is_a_warning_and_two_are_a_problem() {
        let dirs = [RM, ("yarn.nodemanager.local-dirs", "/a,/b")];
        let mut machine = Pretend {
            broken_folders: vec!["/b"],
            ..Pretend::default()
        };
        let (outcome, text) = checked(&dirs, &machine);
        assert_eq!(outcome, Outcome::Sound);
        assert!(
            text.contains("Warnings (1):\n  yarn.nodemanager.local-dirs: /b: "),
            "{text}"
        );
        machine.broken_folders.push("/a");
        let (outcome, text) = checked(&dirs, &machine);
        assert_eq!(outcome, Outcome::Wrong);
        assert!(text.contains("Problems (2):"), "{text}");
    }

    #[test]
    fn a_resource_manager_without_an_address_is_a_problem_and_none_at_all_a_warning() {
        let machine = Pretend {
            unknown_hosts: vec!["rm.example"],
            ..Pretend::default()
        };
        let (outcome, text) = checked(&[RM], &machine);
        assert_eq!(outcome, Outcome::Wrong);
        assert!(text.contains("rm.example: no answer"), "{text}");
        let (outcome, text) = checked(&[], &machine);
        assert_eq!(outcome, Outcome::Sound);
        assert!(text.contains("sought on this machine"), "{text}");
    }

    #[test]
    fn values_cannot_steer_the_terminal() {
        // The second form is one that `char::is_control` knows: a control sequence in a single
        // character.
        let (_, text) = checked(&[("a.b", "x\n\u{9b}31my")], &Pretend::default());
        assert!(text.contains("a.b = x 31my"), "{text}");
    }

    #[test]
    fn a_folder_is_writable_if_the_nearest_one_that_exists_is() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(ThisMachine.writable(&folder.path().join("a/b/c")).is_ok());
        for path in [file.clone(), file.join("x")] {
            let error = ThisMachine.writable(&path).unwrap_err();
            assert!(
                matches!(
                    error,
                    ProbeError::Folder {
                        errno: Errno::ENOTDIR,
                        ..
                    }
                ),
                "{error}"
            );
        }
    }

    #[test]
    fn it_is_told_whether_containers_will_have_cgroups() {
        let asked = [RM, ("yarn.nodemanager.resource.memory.enabled", "true")];
        let (_, text) = checked(&asked, &Pretend::default());
        assert!(
            text.contains("Notes (1):\n  containers run in cgroups (v2)\n"),
            "{text}"
        );
        let machine = Pretend {
            cgroups_broken: true,
            ..Pretend::default()
        };
        let (outcome, text) = checked(&asked, &machine);
        // The agent goes on without.
        assert_eq!(outcome, Outcome::Sound);
        assert!(text.contains("cgroups cannot be used"), "{text}");
        let (_, text) = checked(&[RM], &machine);
        assert!(!text.contains("cgroups cannot be used"), "{text}");
    }

    #[test]
    fn an_address_in_numbers_needs_no_name_server() {
        assert!(
            ThisMachine
                .resolvable(&HostPort::new("192.0.2.1", 1))
                .is_ok()
        );
        assert!(
            ThisMachine
                .resolvable(&HostPort::new("2001:db8::1", 1))
                .is_ok()
        );
    }
}
