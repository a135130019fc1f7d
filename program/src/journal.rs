//! Log lines to systemd's journal in its own protocol, so that they can be found by container and
//! application: `journalctl CONTAINER_ID=…`.
//!
//! In: events of `tracing`. Out: a datagram for each, with the text that the log on standard error
//! would have, its priority, and the ids that it names. Source: systemd's `JOURNAL_NATIVE_PROTOCOL`
//! document.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use crate::escaped::Escaped;

/// Socket of the journal.
pub const SOCKET: &str = "/run/systemd/journal/socket";

/// Limit on the bytes of a message. The kernel takes a datagram of about 200 KiB.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Longest time that a line may wait for a journal that does not read.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns whether `stream` is the one that `JOURNAL_STREAM` names by device and inode: its other
/// end is the journal. The variable alone says nothing, since programs that are started with
/// another stream inherit it.
#[must_use]
pub fn is_stream_to_journal(variable: Option<&str>, stream: &impl AsFd) -> bool {
    let Some((device, inode)) = variable.and_then(|value| value.split_once(':')) else {
        return false;
    };
    let Ok(metadata) = stream
        .as_fd()
        .try_clone_to_owned()
        .and_then(|stream| File::from(stream).metadata())
    else {
        return false;
    };
    device.parse() == Ok(metadata.dev()) && inode.parse() == Ok(metadata.ino())
}

/// Way to the journal.
#[derive(Debug)]
pub struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
    identifier: String,
}

impl Journal {
    /// Makes the way to the journal at `path`, for lines of a program of this name.
    ///
    /// # Errors
    /// Those of the operating system, for example that nothing is there.
    pub fn open(path: &Path, identifier: &str) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(PATIENCE))?;
        // Not connected: a journal that is started again listens on another socket at the path.
        let journal = Self {
            socket,
            path: path.to_owned(),
            identifier: identifier.to_owned(),
        };
        // An empty datagram is ignored.
        journal.send(&[])?;
        Ok(journal)
    }

    fn send(&self, entry: &[u8]) -> io::Result<()> {
        self.socket.send_to(entry, &self.path).map(drop)
    }

    fn entry(&self, event: &Event<'_>) -> Vec<u8> {
        let mut line = Line::default();
        event.record(&mut line);
        let metadata = event.metadata();
        let target = metadata.target();
        if target == AUDIT {
            line.take_ids_of_audit();
        }
        let mut entry = Vec::new();
        put(&mut entry, "MESSAGE", &line.text());
        put(&mut entry, "PRIORITY", priority(*metadata.level()));
        put(&mut entry, "SYSLOG_IDENTIFIER", &self.identifier);
        put(&mut entry, "TARGET", target);
        let application = line.application_id();
        for (name, id) in [
            ("CONTAINER_ID", line.container),
            ("APPLICATION_ID", application),
        ] {
            if let Some(id) = id {
                put(&mut entry, name, &id);
            }
        }
        entry
    }
}

impl<S: Subscriber> Layer<S> for Journal {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // A line that the journal does not take is lost, as on standard error.
        let _lost = self.send(&self.entry(event));
    }
}

/// Target of audit lines, which have their ids in the text.
pub(crate) const AUDIT: &str = "audit";

/// Fields of an event.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
    container: Option<String>,
    application: Option<String>,
}

impl Line {
    /// Returns the message with the other fields behind it.
    fn text(&self) -> String {
        let mut text = format!("{}{}", self.message, self.fields);
        if text.len() > MESSAGE_BYTES_MAX {
            let end = text.floor_char_boundary(MESSAGE_BYTES_MAX);
            text.truncate(end);
        }
        text
    }

    fn take_ids_of_audit(&mut self) {
        for field in self.message.split('\t') {
            if let Some(id) = field.strip_prefix("CONTAINERID=") {
                self.container = Some(id.to_owned());
            } else if let Some(id) = field.strip_prefix("APPID=") {
                self.application = Some(id.to_owned());
            }
        }
    }

    /// Returns the application that the event names, or that of its container.
    fn application_id(&self) -> Option<String> {
        let of_container = || application_of(self.container.as_deref()?);
        self.application.clone().or_else(of_container)
    }
}

/// Returns the id of a container's application: `container_e17_1700000000000_0001_01_000002` is of
/// `application_1700000000000_0001`.
fn application_of(container: &str) -> Option<String> {
    let mut parts = container.strip_prefix("container_")?.split('_');
    let mut timestamp = parts.next()?;
    if timestamp.starts_with('e') {
        timestamp = parts.next()?;
    }
    Some(format!("application_{timestamp}_{}", parts.next()?))
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _written = match field.name() {
            "message" => write!(Escaped(&mut self.message), "{value:?}"),
            name => {
                if name == "container" {
                    self.container = Some(format!("{value:?}"));
                } else if name == "application" {
                    self.application = Some(format!("{value:?}"));
                }
                write!(Escaped(&mut self.fields), " {name}={value:?}")
            }
        };
    }
}

/// Appends a field. A value with a line feed is preceded by its length.
fn put(entry: &mut Vec<u8>, name: &str, value: &str) {
    entry.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        entry.push(b'\n');
        entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        entry.push(b'=');
    }
    entry.extend_from_slice(value.as_bytes());
    entry.push(b'\n');
}

/// Returns the priority of syslog.
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "6",
        Level::DEBUG | Level::TRACE => "7",
    }
}

#[cfg(test)]
mod tests;
