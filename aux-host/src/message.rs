//! Messages of both sides. The other half is `java/aux-host`.

use std::path::PathBuf;

use records::ApplicationId;
use thiserror::Error;

use crate::config::{Folders, HostConfig};
use crate::frame::Writer;
use crate::model::{ContainerFacts, Event};

/// Number of the protocol, which changes with every change of a message.
pub(crate) const PROTOCOL: i32 = 1;

/// First field of the host: "NMAH".
const MAGIC: i32 = 0x4e4d_4148;

const START: u8 = 1;
const FOLDERS: u8 = 2;
const APPLICATION_BEGINS: u8 = 3;
const APPLICATION_ENDS: u8 = 4;
const CONTAINER_BEGINS: u8 = 5;
const CONTAINER_ENDS: u8 = 6;
const STOP: u8 = 7;
const METRICS: u8 = 8;

/// Longest metadata of a service, in bytes: it stands in every container's environment.
const METADATA_BYTES_MAX: usize = 64 * 1024;

/// Longest text of a failure, in bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// Series of metrics at most.
const SERIES_MAX: usize = 2_000;

/// Longest name of a series, in bytes.
const SERIES_NAME_BYTES_MAX: usize = 512;

/// Returns the frame that names configuration and services.
///
/// # Errors
/// The number of bytes when it would be too long.
pub(crate) fn start(config: &HostConfig) -> Result<Vec<u8>, usize> {
    let mut to = Writer::new(START);
    to.count(config.properties.len());
    for (name, value) in &config.properties {
        to.text(name);
        to.text(value);
    }
    to.count(config.services.len());
    for service in &config.services {
        to.text(&service.name);
        to.text(&service.class);
        to.text(&service.class_path);
        to.count(service.system_classes.len());
        for class in &service.system_classes {
            to.text(class);
        }
        let folder = service.recovery_folder.as_ref();
        to.text(&folder.map_or_else(String::new, shown));
    }
    to.finish()
}

#[expect(clippy::ptr_arg, reason = "for `map`")]
fn shown(path: &PathBuf) -> String {
    path.to_string_lossy().into_owned()
}

/// Returns the frame with the node's local folders.
pub(crate) fn folders(folders: &Folders) -> Result<Vec<u8>, usize> {
    let mut to = Writer::new(FOLDERS);
    for list in [&folders.good, &folders.readable] {
        to.count(list.len());
        for folder in list {
            to.text(&shown(folder));
        }
    }
    to.finish()
}

/// Returns the frame of an event of a service.
pub(crate) fn event(service: usize, sequence: u64, event: &Event) -> Result<Vec<u8>, usize> {
    let begin = |message| {
        let mut to = Writer::new(message);
        to.count(service);
        to.long(sequence.cast_signed());
        to
    };
    let to = match event {
        Event::ApplicationBegins { id, user, data } => {
            let mut to = begin(APPLICATION_BEGINS);
            to.text(user);
            application(&mut to, *id);
            to.bytes(data);
            to
        }
        Event::ApplicationEnds(id) => {
            let mut to = begin(APPLICATION_ENDS);
            application(&mut to, *id);
            to
        }
        Event::ContainerBegins(facts) => {
            let mut to = begin(CONTAINER_BEGINS);
            container(&mut to, facts);
            to
        }
        Event::ContainerEnds(facts) => {
            let mut to = begin(CONTAINER_ENDS);
            container(&mut to, facts);
            to
        }
    };
    to.finish()
}

fn application(to: &mut Writer, id: ApplicationId) {
    to.long(id.cluster_timestamp);
    to.int(id.id);
}

fn container(to: &mut Writer, facts: &ContainerFacts) {
    to.text(&facts.user);
    application(to, facts.id.attempt.application_id);
    to.int(facts.id.attempt.attempt_id);
    to.long(facts.id.id);
    to.long(i64::try_from(facts.memory_mb).unwrap_or(i64::MAX));
    to.int(i32::try_from(facts.vcores).unwrap_or(i32::MAX));
    to.flag(facts.is_master);
}

/// Returns the frame that ends the host.
pub(crate) fn stop() -> Vec<u8> {
    Writer::new(STOP).finish().unwrap_or_default()
}

/// Returns the frame that asks for metrics.
pub(crate) fn metrics() -> Vec<u8> {
    Writer::new(METRICS).finish().unwrap_or_default()
}

/// Message of the host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// The first message.
    Hello { protocol: i32, java: String },
    /// A service begins to start.
    Begins(usize),
    /// A service runs; metadata `None` is something else than empty.
    Started(usize, Option<Vec<u8>>),
    /// A service does not start.
    Failed(usize, String),
    /// A service has taken an event.
    Done(usize, u64),
    /// Every service has stopped.
    Stopped,
    /// Numbers of the services by their names.
    Metrics(Vec<(String, f64)>),
}

/// A frame that is no message of a host.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum AnswerError {
    #[error("a message of type {0}")]
    Type(u8),
    #[error("a message that ends early")]
    Short,
    #[error("{0} bytes after a message")]
    Rest(usize),
    #[error("{what} of {bytes} bytes")]
    Long { what: &'static str, bytes: usize },
    #[error("a text that is not UTF-8")]
    Text,
    #[error("another program's first words")]
    Magic,
    #[error("{0} series of metrics")]
    Series(usize),
}

/// Reads a frame of the host.
///
/// # Errors
/// It is no message.
pub(crate) fn read(frame: &[u8]) -> Result<Answer, AnswerError> {
    let mut from = Reader(frame);
    let kind = from.byte()?;
    let answer = match kind {
        1 => {
            if from.int()? != MAGIC {
                return Err(AnswerError::Magic);
            }
            let protocol = from.int()?;
            if protocol != PROTOCOL {
                // What follows is that protocol's own.
                return Ok(Answer::Hello {
                    protocol,
                    java: String::new(),
                });
            }
            let java = from.text("a version", TEXT_BYTES_MAX)?;
            Answer::Hello { protocol, java }
        }
        2 => Answer::Begins(from.service()?),
        3 => {
            let service = from.service()?;
            let has_metadata = from.byte()? != 0;
            let bytes = from.bytes("metadata", METADATA_BYTES_MAX)?.to_vec();
            Answer::Started(service, has_metadata.then_some(bytes))
        }
        4 => Answer::Failed(from.service()?, from.text("a failure", TEXT_BYTES_MAX)?),
        5 => Answer::Done(from.service()?, from.long()?.cast_unsigned()),
        6 => Answer::Stopped,
        7 => {
            let count = usize::try_from(from.int()?).unwrap_or(usize::MAX);
            if count > SERIES_MAX {
                return Err(AnswerError::Series(count));
            }
            let mut series = Vec::new();
            for _ in 0..count {
                let name = from.text("a name", SERIES_NAME_BYTES_MAX)?;
                series.push((name, f64::from_bits(from.long()?.cast_unsigned())));
            }
            Answer::Metrics(series)
        }
        other => return Err(AnswerError::Type(other)),
    };
    match from.0.len() {
        0 => Ok(answer),
        rest => Err(AnswerError::Rest(rest)),
    }
}

/// Rest of a frame.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], AnswerError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(AnswerError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], AnswerError> {
        self.take(N)?.try_into().map_err(|_| AnswerError::Short)
    }

    fn byte(&mut self) -> Result<u8, AnswerError> {
        Ok(self.array::<1>()?[0])
    }

    fn int(&mut self) -> Result<i32, AnswerError> {
        self.array().map(i32::from_be_bytes)
    }

    fn long(&mut self) -> Result<i64, AnswerError> {
        self.array().map(i64::from_be_bytes)
    }

    fn service(&mut self) -> Result<usize, AnswerError> {
        self.int()
            .map(|it| usize::try_from(it).unwrap_or(usize::MAX))
    }

    fn bytes(&mut self, what: &'static str, max: usize) -> Result<&'a [u8], AnswerError> {
        let bytes = usize::try_from(self.int()?).unwrap_or(usize::MAX);
        if bytes > max {
            return Err(AnswerError::Long { what, bytes });
        }
        self.take(bytes)
    }

    fn text(&mut self, what: &'static str, max: usize) -> Result<String, AnswerError> {
        let text = std::str::from_utf8(self.bytes(what, max)?);
        text.map(str::to_owned).map_err(|_| AnswerError::Text)
    }
}
