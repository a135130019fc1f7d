//! Reasons why there is no host, or not any more.

use std::io;
use std::time::Duration;

use cgroup::SpawnError;
use thiserror::Error;

/// A host that cannot be started.
#[derive(Debug, Error)]
#[error("{fault}{}", last_words(last_line))]
pub struct HostError {
    /// The fault.
    #[source]
    pub fault: HostFault,
    /// Last line of the host's output; empty: it has none.
    pub last_line: String,
}

fn last_words(line: &str) -> String {
    if line.is_empty() {
        return String::new();
    }
    format!("; its last line: {line}")
}

/// Fault of a host.
#[derive(Debug, Error)]
pub enum HostFault {
    /// A socket, a pipe or a thread cannot be had.
    #[error("the host of auxiliary services cannot be prepared")]
    Prepare(#[source] io::Error),
    /// Java cannot be started.
    #[error("Java ({java}) cannot be started")]
    Spawn {
        /// The program.
        java: String,
        /// Why.
        #[source]
        source: SpawnError,
    },
    /// The host has ended.
    #[error("the host of auxiliary services has ended ({how}){}", at(during))]
    Ended {
        /// Exit status or signal.
        how: String,
        /// Service that was starting.
        during: Option<String>,
    },
    /// The host does not answer.
    #[error(
        "the host of auxiliary services does not answer within {within:?}{}",
        at(during)
    )]
    NoAnswer {
        /// Time that it had.
        within: Duration,
        /// Service that was starting.
        during: Option<String>,
    },
    /// The host speaks another protocol: the jar is of another release.
    #[error(
        "the host of auxiliary services speaks protocol {found} and this agent {expected}: its jar \
         is of another release"
    )]
    Protocol {
        /// Number of the host.
        found: i32,
        /// Number of this agent.
        expected: i32,
    },
    /// The host sends what is no answer.
    #[error("the host of auxiliary services sends what is no answer: {0}")]
    Garbage(String),
    /// A service cannot be started.
    #[error("auxiliary service {service} ({class}) does not start: {text}")]
    Service {
        /// Name of the service.
        service: String,
        /// Class of the service.
        class: String,
        /// The exception with its causes.
        text: String,
    },
    /// A service lags behind by more events than are kept.
    #[error("auxiliary service {0} does not take events any more")]
    Lags(String),
}

fn at(service: &Option<String>) -> String {
    let named = service.as_ref();
    named.map_or_else(String::new, |name| format!(" while {name} was starting"))
}

/// Data of an application that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DataRefused {
    /// More than a service gets.
    #[error("the service data has {0} bytes, more than the {1} that a service gets")]
    Long(usize, usize),
    /// The data of all applications together are more than is kept.
    #[error(
        "the applications of this node bring more service data than the {0} bytes that are kept"
    )]
    Full(usize),
}
