//! A life of the host: from its process to its last service.

use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::config::HostConfig;
use crate::error::{HostError, HostFault};
use crate::frame;
use crate::message::{self, Answer, PROTOCOL};
use crate::output::{self, LastLine};
use crate::process::Process;
use crate::shared::{Closed, Shared};

/// Time in which a process that has closed its socket ends.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// Time in which the last line of an ended process arrives.
const LAST_LINE_PATIENCE: Duration = Duration::from_millis(50);

/// Metadata of the services, in their order; `None` is something else than empty.
pub(crate) type Metadata = Vec<Option<Vec<u8>>>;

/// A host that was started.
#[derive(Debug)]
pub(crate) struct Life {
    process: Process,
    pub(crate) socket: UnixStream,
    last_line: LastLine,
}

impl Life {
    /// Starts a host and its services. Returns once all of them run, with their metadata.
    pub(crate) fn start(
        config: &HostConfig,
        shared: &Arc<Shared>,
    ) -> Result<(Self, Metadata), HostError> {
        let without_words = |fault| HostError {
            fault,
            last_line: String::new(),
        };
        let number = shared.begin_life();
        let (process, socket, output) = Process::spawn(config).map_err(without_words)?;
        let prepare = |error| without_words(HostFault::Prepare(error));
        let last_line = output::follow(output).map_err(prepare)?;
        let answers = socket.try_clone().map_err(prepare)?;
        socket
            .set_write_timeout(Some(config.patience.write))
            .map_err(prepare)?;
        let reading = Arc::clone(shared);
        thread::Builder::new()
            .name("aux-host-answers".to_owned())
            .spawn(move || read_answers(answers, &reading, number))
            .map_err(prepare)?;
        let mut life = Self {
            process,
            socket,
            last_line,
        };
        match life.greet_and_start(config, shared) {
            Ok(metadata) => Ok((life, metadata)),
            Err(fault) => Err(life.end(fault)),
        }
    }

    fn greet_and_start(
        &mut self,
        config: &HostConfig,
        shared: &Shared,
    ) -> Result<Metadata, HostFault> {
        let begun = Instant::now();
        let answer = shared.answer(config.patience.hello, None)?;
        let Answer::Hello { protocol, java } = &answer else {
            return Err(out_of_turn(&answer));
        };
        if *protocol != PROTOCOL {
            return Err(HostFault::Protocol {
                found: *protocol,
                expected: PROTOCOL,
            });
        }
        let too_long = |bytes| {
            let error = io::Error::other(format!("the configuration takes {bytes} bytes"));
            HostFault::Prepare(error)
        };
        let frame = message::start(config).map_err(too_long)?;
        self.send(&frame, config)?;
        let mut metadata = Vec::new();
        for (index, service) in config.services.iter().enumerate() {
            let within = config.patience.service;
            let name = Some(&service.name);
            let answer = shared.answer(within, name)?;
            if answer != Answer::Begins(index) {
                return Err(out_of_turn(&answer));
            }
            let answer = shared.answer(within, name)?;
            if let Answer::Failed(failed, text) = &answer
                && *failed == index
            {
                return Err(HostFault::Service {
                    service: service.name.clone(),
                    class: service.class.clone(),
                    text: text.clone(),
                });
            }
            match &answer {
                Answer::Started(started, published) if *started == index => {
                    metadata.push(published.clone());
                }
                Answer::Hello { .. }
                | Answer::Begins(_)
                | Answer::Started(..)
                | Answer::Failed(..)
                | Answer::Done(..)
                | Answer::Stopped
                | Answer::Metrics(_) => return Err(out_of_turn(&answer)),
            }
        }
        let ready_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let services = config.services.len();
        tracing::info!(
            java,
            services,
            ready_ms,
            "the host of auxiliary services runs"
        );
        Ok(metadata)
    }

    /// Sends frames.
    pub(crate) fn send(&mut self, frames: &[u8], config: &HostConfig) -> Result<(), HostFault> {
        let is_late = |error: &io::Error| {
            matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
            )
        };
        self.socket.write_all(frames).map_err(|error| {
            if is_late(&error) {
                HostFault::NoAnswer {
                    within: config.patience.write,
                    during: None,
                }
            } else {
                ended(None)
            }
        })
    }

    /// Ends a life for this reason, which gets what is known of the process's end.
    pub(crate) fn end(mut self, fault: HostFault) -> HostError {
        let fault = if let HostFault::Ended { during, .. } = fault {
            let waited = self.process.wait(END_PATIENCE).map(str::to_owned);
            let how = waited.unwrap_or_else(|| "it has closed its socket".to_owned());
            HostFault::Ended { how, during }
        } else {
            fault
        };
        self.process.kill();
        thread::sleep(LAST_LINE_PATIENCE);
        HostError {
            fault,
            last_line: self.last_line.get(),
        }
    }

    /// Lets the services stop, and ends the process if they take too long.
    pub(crate) fn stop(mut self, config: &HostConfig) {
        // Fails when the process has ended.
        let _gone = self.send(&message::stop(), config);
        if self.process.wait(config.patience.stop).is_some() {
            return;
        }
        tracing::warn!("auxiliary services do not stop in time");
        self.process.signal(Signal::SIGTERM);
        if self.process.wait(config.patience.terminate).is_none() {
            self.process.kill();
        }
    }
}

/// Returns the fault of a process that is gone, before it is known how.
pub(crate) fn ended(during: Option<&String>) -> HostFault {
    HostFault::Ended {
        how: String::new(),
        during: during.cloned(),
    }
}

/// Returns the fault of a host that says something else than it should.
pub(crate) fn out_of_turn(answer: &Answer) -> HostFault {
    let shown: String = format!("{answer:?}").chars().take(200).collect();
    HostFault::Garbage(format!("{shown} out of turn"))
}

fn read_answers(mut socket: UnixStream, shared: &Shared, life: u64) {
    loop {
        let closed = match frame::read(&mut socket) {
            Ok(Some(frame)) => match message::read(&frame) {
                Ok(answer) => {
                    if shared.take(life, answer) {
                        continue;
                    }
                    return;
                }
                Err(error) => Closed::Garbage(error.to_string()),
            },
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Closed::Garbage(error.to_string())
            }
            Ok(None) | Err(_) => Closed::Gone,
        };
        shared.closed(life, closed);
        return;
    }
}
