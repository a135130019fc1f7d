//! Peers that want nothing unusual: an ApplicationMaster, a scraper, a slow reader of a log. Each
//! call of theirs is timed.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Mutex;
use std::thread::Scope;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use records::ContainerId;
use test_support::scripted::{ScriptedAm, ScriptedRm};
use test_support::{Allocation, LaunchContext};
use tests::http;

use super::{Field, POLITE_USER, allocate};

/// Pause between two turns of a polite peer.
const PAUSE: Duration = Duration::from_millis(250);

/// Rate of the slow reader, in bytes per second.
const READER_RATE: usize = 100 * 1024;

/// Line that a log consists of.
const LINE: &[u8] = b"a line of sixteen\n";

/// A container's log.
#[derive(Clone, Debug)]
pub(super) struct Log {
    /// Path below the web port.
    pub(super) path: String,
    bytes: usize,
}

/// Runs a container that writes a log which the slow reader needs this long for.
pub(super) fn write_log(am: &ScriptedAm, rm: &ScriptedRm, length: Duration) -> Log {
    let bytes = READER_RATE * usize::try_from(length.as_secs()).unwrap().max(1);
    let line = str::from_utf8(LINE).unwrap().trim_end();
    let id = am.run(&format!(
        "yes '{line}' | head -c {bytes} > <LOG_DIR>/stdout; exit 0"
    ));
    assert_eq!(rm.wait_completed(id).exit_status, 0);
    Log {
        path: format!("/ws/v1/node/containers/{id}/logs/stdout"),
        bytes,
    }
}

/// Times of one kind of calls.
#[derive(Debug, Default)]
struct Times {
    calls: u64,
    slowest: Duration,
}

/// Times and failures of all polite calls.
#[derive(Debug, Default)]
struct Experience {
    times: BTreeMap<&'static str, Times>,
    failures: Vec<String>,
}

/// The polite peers, and what they experienced.
#[derive(Debug)]
pub(super) struct Polite {
    am: ScriptedAm,
    log: Log,
    experience: Mutex<Experience>,
}

impl Polite {
    pub(super) fn new(am: ScriptedAm, log: Log) -> Self {
        Self {
            am,
            log,
            experience: Mutex::default(),
        }
    }

    /// Runs many containers that start in one call, of either type.
    pub(super) fn start_many(&self, rm: &ScriptedRm, count: usize) {
        let ended = |id| rm.wait_completed(id);
        for is_opportunistic in [false, true] {
            let allocate = |_| match is_opportunistic {
                true => allocate(&self.am).opportunistic(),
                false => allocate(&self.am),
            };
            let allocations: Vec<Allocation> = (0..count).map(allocate).collect();
            let ids: Vec<ContainerId> = allocations.iter().map(|each| each.id).collect();
            let command = |allocation| (allocation, LaunchContext::command("true"));
            let containers = allocations.into_iter().map(command).collect();
            self.am.start_all(containers).unwrap();
            ids.into_iter().for_each(|id| drop(ended(id)));
        }
    }

    /// Starts each peer; all stop when the soak is over.
    pub(super) fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        field: &'scope Field<'_>,
    ) {
        scope.spawn(|| {
            while !field.is_over() {
                self.run_container(field);
                field.pause(PAUSE);
            }
        });
        scope.spawn(|| {
            while !field.is_over() {
                self.scrape(field);
                field.pause(PAUSE);
            }
        });
        scope.spawn(|| {
            if let Err(error) = self.read_log(field) {
                self.fail(format!("the log: {error}"));
            }
        });
    }

    /// Connects as one more ApplicationMaster, then starts a container, looks at it and stops it.
    fn run_container(&self, field: &Field<'_>) {
        let token = field
            .rm
            .secrets()
            .nm_token(self.am.attempt(), &field.node, POLITE_USER);
        self.timed("connect", || {
            ScriptedAm::open(field.rm, &field.node, &token)
        });
        let allocation = allocate(&self.am);
        let id: Option<ContainerId> = self.timed("startContainers", || {
            let context = LaunchContext::command("exec sleep 600");
            self.am.try_start(&allocation, context)
        });
        let Some(id) = id else { return };
        self.timed("getContainerStatuses", || self.am.status(id));
        self.timed("stopContainers", || self.am.stop(id));
        field.rm.wait_completed(id);
    }

    fn scrape(&self, field: &Field<'_>) {
        for path in ["/health", "/metrics"] {
            let url = format!("http://127.0.0.1:{}{path}", field.web_port);
            let answer = self.timed(path, || http::get(&url));
            if let Some(answer) = answer
                && answer.status != 200
            {
                self.fail(format!("{path}: {answer:?}"));
            }
        }
    }

    /// Reads the whole log at a low rate, with a small buffer of the kernel's.
    fn read_log(&self, field: &Field<'_>) -> Result<(), String> {
        let text = |error: std::io::Error| error.to_string();
        let address = (Ipv4Addr::LOCALHOST, field.web_port);
        let mut stream = TcpStream::connect(address).map_err(text)?;
        setsockopt(&stream, sockopt::RcvBuf, &(16 * 1024)).map_err(|error| error.to_string())?;
        // Version 1.0 has no chunks.
        let request = format!(
            "GET {} HTTP/1.0\r\nHost: 127.0.0.1:{}\r\n\r\n",
            self.log.path, field.web_port
        );
        stream.write_all(request.as_bytes()).map_err(text)?;
        let mut answer = Vec::new();
        let mut bytes = vec![0; READER_RATE / 10];
        loop {
            match stream.read(&mut bytes).map_err(text)? {
                0 => break,
                length => answer.extend_from_slice(&bytes[..length]),
            }
            // The rest is read at once when the soak is over.
            field.pause(Duration::from_millis(100));
        }
        let header = b"LogContents:\n";
        let contents = answer
            .windows(header.len())
            .position(|part| part == header)
            .map(|at| &answer[at + header.len()..])
            .ok_or_else(|| String::from_utf8_lossy(&answer).into_owned())?;
        let expected = LINE.iter().cycle().take(self.log.bytes);
        if contents.iter().take(self.log.bytes).eq(expected) {
            Ok(())
        } else {
            Err(format!("{} bytes came, not the log", contents.len()))
        }
    }

    /// Times a call, and counts its failure.
    fn timed<T, E: fmt::Display>(
        &self,
        name: &'static str,
        call: impl FnOnce() -> Result<T, E>,
    ) -> Option<T> {
        let begin = Instant::now();
        let result = call();
        let taken = begin.elapsed();
        let mut experience = self.experience.lock().unwrap();
        let times = experience.times.entry(name).or_default();
        times.calls += 1;
        times.slowest = times.slowest.max(taken);
        drop(experience);
        result
            .map_err(|error| self.fail(format!("{name}: {error}")))
            .ok()
    }

    fn fail(&self, failure: String) {
        self.experience.lock().unwrap().failures.push(failure);
    }

    /// Asserts that each call was answered.
    #[track_caller]
    pub(super) fn assert_served(&self) {
        let experience = self.experience.lock().unwrap();
        assert_eq!(experience.failures, Vec::<String>::new());
    }

    /// Returns the slowest call of all.
    pub(super) fn slowest(&self) -> (&'static str, Duration) {
        let experience = self.experience.lock().unwrap();
        let times = experience.times.iter();
        let slowest = times.map(|(name, times)| (*name, times.slowest));
        slowest.max_by_key(|(_, time)| *time).unwrap()
    }
}

impl fmt::Display for Polite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let experience = self.experience.lock().unwrap();
        for (name, times) in &experience.times {
            let ms = times.slowest.as_secs_f64() * 1000.0;
            writeln!(f, "  {:8} polite {name}, slowest {ms:.0} ms", times.calls)?;
        }
        for failure in &experience.failures {
            writeln!(f, "  failed: {failure}")?;
        }
        Ok(())
    }
}
