//! The record: the values of an adoption and its progress, so that `--back` and an interrupted run
//! go on from there.
//!
//! A JSON object with a version, in the folder of the configuration. It is replaced as a whole
//! before each step. Whoever may write it decides what root starts, so it is read only if it
//! belongs to this process's user or root and nobody else may write to it.
//!
//! Versions: fields may be added with a default; a change of meaning takes the next number, and
//! another number than [`VERSION`] is refused.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use keeper::ProcessIdentity;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::scan::StartedBy;
use crate::text::shown;

/// Version of the form.
const VERSION: u32 = 1;

/// A step toward the agent, in the order in which they are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// The agent's own properties are written.
    WriteSite,
    /// The Java node is stopped.
    StopJava,
    /// The shell profile is linked, by which Hadoop's scripts start the agent.
    LinkProfile,
    /// The agent is started, and registers.
    StartAgent,
}

impl Step {
    /// The steps in their order.
    pub const ALL: [Self; 4] = [
        Self::WriteSite,
        Self::StopJava,
        Self::LinkProfile,
        Self::StartAgent,
    ];
}

/// Progress of an adoption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// `--go` has begun this step.
    Going(Step),
    /// The agent has the place.
    Done,
    /// `--back` has begun to undo this step.
    Returning(Step),
}

impl Stage {
    /// Returns the steps that have to be undone, the last one first.
    pub(crate) fn to_undo(self) -> impl Iterator<Item = Step> {
        let last = match self {
            Self::Going(step) | Self::Returning(step) => step,
            Self::Done => Step::StartAgent,
        };
        let begun = Step::ALL.into_iter().filter(move |step| *step <= last);
        begun.rev()
    }

    /// Returns the steps that have to be done, the first one first; none on the way back.
    pub(crate) fn to_do(self) -> impl Iterator<Item = Step> {
        let steps = Step::ALL.into_iter();
        steps.filter(move |step| matches!(self, Self::Going(first) if *step >= first))
    }
}

/// Process of the Java node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JavaProcess {
    /// Process id of the node.
    pub pid: i32,
    /// Start in clock ticks since boot.
    pub start_time: u64,
}

impl JavaProcess {
    pub(crate) const fn identity(self) -> ProcessIdentity {
        ProcessIdentity {
            pid: self.pid,
            start_time: self.start_time,
        }
    }
}

impl From<ProcessIdentity> for JavaProcess {
    fn from(ProcessIdentity { pid, start_time }: ProcessIdentity) -> Self {
        Self { pid, start_time }
    }
}

/// Values that the steps and their way back need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adoption {
    /// Folder of the configuration.
    pub conf: PathBuf,
    /// User id of the node.
    pub user: u32,
    /// Hadoop's script `yarn`.
    pub yarn: PathBuf,
    /// The agent's program.
    pub program: PathBuf,
    /// Shell profile to link.
    pub profile: PathBuf,
    /// Whether the folder of profiles did not exist.
    pub makes_profile_folder: bool,
    /// The manager that starts the node.
    pub started_by: StartedBy,
    /// Variables by which Hadoop's scripts find the node's files again.
    pub variables: BTreeMap<String, String>,
    /// The Java node, if it ran.
    pub java: Option<JavaProcess>,
    /// Text of the agent's own properties.
    pub site: String,
    /// Folders of the agent's caches, which that text names.
    pub agent_local_dirs: Vec<PathBuf>,
    /// Folders of logs that a start of the Java node would empty, since it has no recovery.
    pub emptied_logs: Vec<PathBuf>,
    /// Port by which a Java node that is up is known; 0: unknown.
    pub port: u16,
}

/// An adoption with its progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    version: u32,
    /// Progress of the adoption.
    pub stage: Stage,
    /// Values of the adoption.
    pub adoption: Adoption,
}

/// Reason that no record can be read.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The file cannot be opened or read.
    #[error("the record cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Another user could have written it.
    #[error(
        "the record is not this user's and root's alone (user id {owner}, mode {mode:o}): \
         somebody else could have written it"
    )]
    Untrusted {
        /// User id of the file.
        owner: u32,
        /// Permission bits of the file.
        mode: u32,
    },
    /// The bytes are cut, or are no record.
    #[error(
        "the record is cut or none ({0}): undo by hand what \"Moving from a Java node, and back\" \
         in operators.md lists, then remove the file"
    )]
    Form(String),
    /// Another version of the agent wrote it.
    #[error("the record has version {0}: use the nm-agent that wrote it")]
    Version(u64),
}

impl Record {
    /// Makes the record of an adoption.
    #[must_use]
    pub const fn new(stage: Stage, adoption: Adoption) -> Self {
        Self {
            version: VERSION,
            stage,
            adoption,
        }
    }

    /// Returns the bytes of the file.
    ///
    /// # Errors
    /// A path that is not UTF-8.
    pub fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// [`RecordError::Form`] and [`RecordError::Version`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecordError> {
        let form = |error: &dyn fmt::Display| RecordError::Form(shown(&error.to_string()));
        let value: serde_json::Value =
            serde_json::from_slice(bytes).map_err(|error| form(&error))?;
        match value["version"].as_u64() {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) => return Err(RecordError::Version(version)),
            None => return Err(form(&"no version")),
        }
        let record: Self = serde_json::from_value(value).map_err(|error| form(&error))?;
        record.adoption.look().map_err(|why| form(&why))?;
        Ok(record)
    }
}

impl Adoption {
    /// Checks values that become arguments or paths, and names the first fault.
    fn look(&self) -> Result<(), &'static str> {
        let paths = [&self.conf, &self.yarn, &self.program, &self.profile];
        let folders = self.agent_local_dirs.iter().chain(&self.emptied_logs);
        let mut all = paths.into_iter().chain(folders);
        if !all.all(|path| Path::is_absolute(path)) {
            return Err("a path is relative");
        }
        match &self.started_by {
            StartedBy::Unit(name) if !crate::scan::is_unit_name(name) => Err("no name of a unit"),
            StartedBy::Unit(_) | StartedBy::Daemon | StartedBy::Hand => Ok(()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn adoption() -> Adoption {
        Adoption {
            conf: "/conf".into(),
            user: 0,
            yarn: "/hadoop/bin/yarn".into(),
            program: "/usr/bin/nm-agent".into(),
            profile: "/profile.sh".into(),
            makes_profile_folder: true,
            started_by: StartedBy::Daemon,
            variables: BTreeMap::from([("HADOOP_PID_DIR".to_owned(), "/run".to_owned())]),
            java: Some(JavaProcess {
                pid: 7,
                start_time: 1,
            }),
            site: "<configuration/>\n".to_owned(),
            agent_local_dirs: vec!["/local/nm-agent".into()],
            emptied_logs: Vec::new(),
            port: 8041,
        }
    }

    #[test]
    fn a_record_reads_back_and_none_of_its_beginnings_does() {
        let record = Record::new(Stage::Returning(Step::StopJava), adoption());
        let bytes = record.to_bytes().unwrap();
        assert_eq!(Record::from_bytes(&bytes).unwrap(), record);
        // The last byte is the end of the line.
        for cut in 0..bytes.len() - 1 {
            let error = Record::from_bytes(&bytes[..cut]).unwrap_err();
            assert!(matches!(error, RecordError::Form(_)), "{cut}: {error}");
        }
    }

    #[test]
    fn values_that_would_be_options_or_relative_paths_are_refused() {
        let refused = |change: fn(&mut Adoption)| {
            let mut adoption = adoption();
            change(&mut adoption);
            let bytes = Record::new(Stage::Done, adoption).to_bytes().unwrap();
            Record::from_bytes(&bytes).unwrap_err().to_string()
        };
        let unit = refused(|it| it.started_by = StartedBy::Unit("--root=/x.service".to_owned()));
        assert!(unit.contains("no name of a unit"), "{unit}");
        let path = refused(|it| it.emptied_logs = vec!["logs".into()]);
        assert!(path.contains("a path is relative"), "{path}");
        let other = Record::from_bytes(b"{\"version\": 2, \"news\": 1}").unwrap_err();
        assert!(matches!(other, RecordError::Version(2)), "{other}");
    }

    #[test]
    fn what_is_undone_is_what_was_begun_backwards() {
        use Step::{LinkProfile, StartAgent, StopJava, WriteSite};
        let undo = |stage: Stage| stage.to_undo().collect::<Vec<_>>();
        assert_eq!(undo(Stage::Going(WriteSite)), [WriteSite]);
        assert_eq!(
            undo(Stage::Done),
            [StartAgent, LinkProfile, StopJava, WriteSite]
        );
        assert_eq!(undo(Stage::Returning(StopJava)), [StopJava, WriteSite]);
        let todo = |stage: Stage| stage.to_do().collect::<Vec<_>>();
        assert_eq!(
            todo(Stage::Going(StopJava)),
            [StopJava, LinkProfile, StartAgent]
        );
        assert_eq!(todo(Stage::Returning(StopJava)), []);
    }
}
