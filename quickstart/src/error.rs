//! Errors of a quick start, with advice for the user.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;

use node_manager::AgentError;
use node_web::site::WebError;
use records::error_chain;
use thiserror::Error;

/// Why it does not start.
#[derive(Debug, Error)]
pub(super) enum QuickstartError {
    /// No temporary folder.
    #[error("cannot make a folder in {}", base.display())]
    Folder {
        /// Folder in which the temporary folder was to be created.
        base: PathBuf,
        /// Error of the system call.
        #[source]
        source: io::Error,
    },
    /// Nothing that could run a container.
    #[error("there is no /bin/bash, which runs the containers")]
    NoBash,
    /// Fewer files than needed may be open.
    #[error("about {needed} files must be open at once, and this process may have {limit}")]
    Descriptors {
        /// How many it takes.
        needed: u64,
        /// How many there may be.
        limit: u64,
    },
    /// Fewer processes than needed may run.
    #[error(
        "about {needed} processes and threads are needed; this user may have {limit} and has {present}"
    )]
    Processes {
        /// How many more it takes.
        needed: u64,
        /// How many there may be.
        limit: u64,
        /// How many there are.
        present: u64,
    },
    /// The machine refuses something that every process may have.
    #[error("{doing}")]
    System {
        /// Step of the start that failed, for the message.
        doing: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The settings of this program are wrong.
    #[error("the built-in configuration is not valid")]
    Settings(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The ResourceManager does not start.
    #[error("starting the ResourceManager")]
    ResourceManager(#[source] mini_rm::RmError),
    /// A node does not start.
    #[error("starting node {number}")]
    Node {
        /// Number of the node, counted from 1.
        number: usize,
        /// Error of the agent.
        #[source]
        source: AgentError,
    },
}

impl QuickstartError {
    /// Returns the error and all its causes in one line.
    pub(super) fn one_line(&self) -> String {
        error_chain(self)
    }

    /// Returns a recommendation for the user; empty when there is nothing to recommend.
    pub(super) fn advice(&self) -> String {
        match self {
            Self::Folder { .. } => {
                "Set TMPDIR to a folder that this user may write to, on a disk with some free space."
                    .to_owned()
            }
            Self::NoBash => "Install bash.".to_owned(),
            Self::Descriptors { needed, .. } => {
                format!("Raise the limit with `ulimit -n {needed}`, or take fewer --nodes.")
            }
            Self::Processes { needed, present, .. } => {
                let wanted = needed + present;
                format!("Raise the limit with `ulimit -u {wanted}`, or take fewer --nodes.")
            }
            Self::System { .. }
            | Self::Settings(_)
            | Self::ResourceManager(_)
            | Self::Node { .. } => match self.port() {
                Some(port) => port_advice(port, self.io()),
                None => io_advice(self.io()).to_owned(),
            },
        }
    }

    /// The port that could not be had.
    fn port(&self) -> Option<u16> {
        match self {
            Self::ResourceManager(mini_rm::RmError::Bind { address, .. })
            | Self::Node {
                source:
                    AgentError::Web {
                        source: WebError::Bind { address, .. },
                        ..
                    },
                ..
            } => Some(address.port()),
            Self::Folder { .. }
            | Self::NoBash
            | Self::Descriptors { .. }
            | Self::Processes { .. }
            | Self::System { .. }
            | Self::Settings(_)
            | Self::ResourceManager(_)
            | Self::Node { .. } => None,
        }
    }

    /// Returns the I/O error at the end of the chain of causes, if there is one.
    fn io(&self) -> Option<&io::Error> {
        let mut cause = self.source();
        while let Some(error) = cause {
            if let Some(found) = error.downcast_ref::<io::Error>() {
                return Some(found);
            }
            cause = error.source();
        }
        None
    }
}

fn port_advice(port: u16, error: Option<&io::Error>) -> String {
    match error.map(io::Error::kind) {
        Some(io::ErrorKind::AddrInUse) => {
            let who = match program::holder::of_port(port) {
                Some(holder) => format!("by {holder}"),
                None => "by a process that this user may not look at".to_owned(),
            };
            format!(
                "Port {port} is taken {who}. Choose others with --port, or leave --port out and any free ones are taken."
            )
        }
        Some(io::ErrorKind::PermissionDenied) => {
            format!("This user may not listen on port {port}. Choose a --port of 1024 or more.")
        }
        Some(_) | None => io_advice(error).to_owned(),
    }
}

fn io_advice(error: Option<&io::Error>) -> &'static str {
    match error.and_then(io::Error::raw_os_error) {
        Some(libc::EMFILE | libc::ENFILE) => {
            "Too many files are open: raise the limit with `ulimit -n`, or take fewer --nodes."
        }
        Some(libc::EAGAIN | libc::ENOMEM) => {
            "The system has no more threads, processes or memory for this user: see `ulimit -u` and the limit of the \
             container that this runs in, if it does."
        }
        Some(libc::ENOSPC | libc::EDQUOT) => {
            "The disk is full: set TMPDIR to a folder on another one."
        }
        Some(libc::EACCES | libc::EROFS) => "Set TMPDIR to a folder that this user may write to.",
        Some(_) | None => "",
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn no_port(address: std::net::SocketAddr, source: io::Error) -> QuickstartError {
        let source = WebError::Bind { address, source };
        QuickstartError::Node {
            number: 2,
            source: AgentError::Web {
                property: "yarn.nodemanager.webapp.address",
                source,
            },
        }
    }

    #[test]
    fn a_port_that_is_taken_is_told_with_who_has_it_and_what_to_change() {
        let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = taken.local_addr().unwrap();
        let error = no_port(address, io::ErrorKind::AddrInUse.into());
        let advice = error.advice();
        let own = format!("(process {})", std::process::id());
        assert!(advice.contains(&address.port().to_string()), "{advice}");
        assert!(
            advice.contains(&own) && advice.contains("--port"),
            "{advice}"
        );
        assert!(
            error.one_line().starts_with("starting node 2"),
            "{}",
            error.one_line()
        );
    }

    #[test]
    fn a_port_for_root_alone_is_not_called_taken() {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 80));
        let advice = no_port(address, io::ErrorKind::PermissionDenied.into()).advice();
        assert!(advice.contains("1024"), "{advice}");
    }

    #[test]
    fn a_cause_that_the_system_names_has_its_remedy_wherever_it_occurs() {
        let with = |code: i32| QuickstartError::System {
            doing: "starting the runtime",
            source: io::Error::from_raw_os_error(code),
        };
        assert!(with(libc::EMFILE).advice().contains("ulimit -n"));
        assert!(with(libc::EAGAIN).advice().contains("ulimit -u"));
        assert!(with(libc::ENOSPC).advice().contains("TMPDIR"));
        assert_eq!(with(libc::EIO).advice(), "");
    }
}
