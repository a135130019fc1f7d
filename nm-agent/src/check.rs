//! `nm-agent check`: every effective value and where it came from, what is worth a warning, what is
//! wrong.
//!
//! In: a configuration as it was loaded, and the machine to try it on. Out: lines of text and an
//! [`Outcome`]. It makes and changes nothing on the machine. Secrets are hidden.

mod run_as;

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use container_runtime::config::CgroupConfig;
use container_runtime::isolation::Availability;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{AccessFlags, Group, access};
use thiserror::Error;
use users::Obstacle;

use hadoop_conf::HostPort;
use hadoop_conf::site_xml::Origin;
use node_manager::config::{AuxServiceKind, Config, Loaded, keys};
use node_manager::descriptors::Descriptors;

/// A name server that has not answered by then will not do for an agent either.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Verdict of a report: whether an agent could run with a configuration on this machine, or a
/// service with a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Nothing is wrong; there may be warnings.
    Sound,
    /// A problem: what the report is on cannot be used.
    Wrong,
}

impl Outcome {
    /// Exit status of the process: 0, or 2 for a problem.
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

    /// Returns the reasons why an agent could not run containers as other users.
    fn user_obstacles(&self) -> Vec<Obstacle>;

    /// Returns the folder on the way to this one, itself included, that other users cannot pass
    /// through. Folders that do not exist would be made passable.
    fn closed_to_users(&self, folder: &Path) -> Option<PathBuf>;

    /// Returns the open-file limit that an agent would raise its own to, if it can be read.
    fn open_files(&self) -> Option<u64>;

    /// Whether the system knows a group of this name.
    fn has_group(&self, name: &str) -> bool;

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

    fn user_obstacles(&self) -> Vec<Obstacle> {
        users::obstacles()
    }

    fn closed_to_users(&self, folder: &Path) -> Option<PathBuf> {
        const OTHERS_PASS: u32 = 0o001;
        let is_closed = |path: &&Path| {
            let mode = path.metadata().map(|status| status.mode());
            mode.is_ok_and(|mode| mode & OTHERS_PASS == 0)
        };
        folder.ancestors().find(is_closed).map(Path::to_path_buf)
    }

    fn open_files(&self) -> Option<u64> {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
        Some(hard)
    }

    fn has_group(&self, name: &str) -> bool {
        matches!(Group::from_name(name), Ok(Some(_)))
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
    run_as::probe(config, machine, findings);
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
    findings.notes.extend(services_with_tls(config));
    if config.admin.socket.is_some()
        && let Some(group) = &config.admin.group
        && !machine.has_group(group)
    {
        let text = format!("yarn.nodemanager.agent.admin.group: the system has no group {group}");
        // Without a socket that the configuration names, the agent goes on with none.
        if config.admin.is_required {
            findings.problems.push(text);
        } else {
            findings.warnings.push(text);
        }
    }
    resource_managers(config, machine, findings);
}

/// Adds ResourceManagers that have no address yet. An agent waits for one, as a Java NodeManager
/// does, so none of them is a problem.
fn resource_managers(config: &Config, machine: &dyn Machine, findings: &mut Findings) {
    const TRACKER: &str = "yarn.resourcemanager.resource-tracker.address";
    const SCHEDULER: &str = "yarn.resourcemanager.scheduler.address";
    let mut hosts = BTreeSet::new();
    for endpoint in &config.rm.endpoints {
        let mut called = vec![(TRACKER, &endpoint.resource_tracker)];
        if config.amrm_proxy.enabled {
            called.push((SCHEDULER, &endpoint.scheduler));
        }
        for (name, address) in called {
            if !hosts.insert(&address.host) {
                continue;
            }
            if let Err(error) = machine.resolvable(address) {
                let text = format!("{name}: {error}: the agent would wait for it");
                findings.warnings.push(text);
            }
        }
        let tracker = &endpoint.resource_tracker;
        if tracker.is_wildcard() {
            findings.warnings.push(format!(
                "{TRACKER} = {tracker}: the ResourceManager is sought on this machine; \
                 set yarn.resourcemanager.hostname if it is elsewhere"
            ));
        }
    }
}

/// Returns the files that services take their keys from; reading the configuration has opened them.
fn services_with_tls(config: &Config) -> impl Iterator<Item = String> {
    config.aux_services.iter().filter_map(|service| {
        let AuxServiceKind::MapReduceShuffle(shuffle) = &service.kind;
        let tls = shuffle.tls.as_ref()?;
        let (name, keys) = (&service.name, tls.key_store.path.display());
        let clients = tls.clients.as_ref().map_or_else(
            || "and asks for no certificates".to_owned(),
            |store| format!("and verifies certificates by {}", store.path.display()),
        );
        Some(format!(
            "{name} serves over TLS, with the keys in {keys}, {clients}"
        ))
    })
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
mod tests;
