//! An interceptor from beginning to end, as an example for the next one. It counts the calls of an
//! attempt and keeps the number in a file of its own, and over a restart of the agent.
//!
//! Trait, chain and pipeline know nothing of it. An interceptor of the agent differs in two things:
//! it is a file in `src` instead of one of the tests, and `interceptors.rs` has a line that makes
//! its link.

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use test_support::scripted::{ScriptedScheduler, answering};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;
use wire::rpc::BoxFuture;

use super::*;
use crate::call::Outcome;
use crate::chain::Chain;
use crate::interceptor::{Action, Actions, Context, Interceptor, Performer};
use crate::link::link;
use crate::store::Part;

/// Number of calls: the part of the attempt's state that a restart needs.
const CALLS: Part = Part::new("call-count");

/// The interceptor: pure, so that a test needs neither a file nor a pipeline.
#[derive(Debug, Default)]
struct CallCount {
    calls: u64,
}

/// Effect of its own: this number goes to the file.
#[derive(Debug)]
struct Write(u64);

/// News: this number is in the file.
#[derive(Debug)]
struct Written(u64);

impl Interceptor for CallCount {
    type Effect = Write;
    type Event = Written;

    const PARTS: &'static [Part] = &[CALLS];

    fn on_response(
        &mut self,
        _method: AmMethod,
        _outcome: &mut Outcome,
        _context: &Context<'_>,
        actions: &mut Actions<'_, Write>,
    ) {
        self.calls += 1;
        actions.own.push(Write(self.calls));
    }

    fn on_event(
        &mut self,
        Written(calls): Written,
        _context: &Context<'_>,
        actions: &mut Actions<'_, Write>,
    ) {
        // An effect of the chain, which every interceptor may request.
        let record = calls.to_be_bytes().to_vec();
        actions.chain.push(Action::Persist(CALLS, Some(record)));
    }

    fn restore(
        &mut self,
        attempt: ApplicationAttemptId,
        _part: Part,
        value: &[u8],
        _now: Now,
        _own: &mut Vec<Write>,
    ) {
        match value.try_into() {
            Ok(calls) => self.calls = u64::from_be_bytes(calls),
            Err(_) => tracing::warn!(%attempt, "the stored number of calls cannot be read"),
        }
    }
}

/// Its performer: hands each number to a thread, since a call must not wait for a disk.
#[derive(Debug)]
struct CountFile {
    numbers: mpsc::Sender<u64>,
    written: UnboundedReceiver<Written>,
    /// Numbers that are not known to be in the file.
    unwritten: usize,
}

/// Longest wait of an AM's last call for the file. A test waits as long as a busy machine takes.
const WRITE_WAIT: Duration = Duration::from_secs(60);

impl CountFile {
    /// Starts the thread, which ends with the performer.
    fn start(path: PathBuf) -> (Self, JoinHandle<()>) {
        let (numbers, to_write) = mpsc::channel();
        let (news, written) = unbounded_channel();
        let thread = thread::spawn(move || {
            for calls in to_write {
                fs::write(&path, format!("{calls}\n")).unwrap();
                let _ = news.send(Written(calls));
            }
        });
        let file = Self {
            numbers,
            written,
            unwritten: 0,
        };
        (file, thread)
    }
}

impl Performer<CallCount> for CountFile {
    fn perform(&mut self, Write(calls): Write) {
        self.unwritten += 1;
        let _ = self.numbers.send(calls);
    }

    fn events(&mut self, method: AmMethod) -> Option<BoxFuture<'_, Vec<Written>>> {
        if method != AmMethod::Finish || self.unwritten == 0 {
            return None;
        }
        Some(Box::pin(async {
            let (mut news, count) = (Vec::new(), self.unwritten);
            while news.len() < count
                && let Ok(Some(written)) = timeout(WRITE_WAIT, self.written.recv()).await
            {
                news.push(written);
                self.unwritten -= 1;
            }
            news
        }))
    }
}

#[tokio::test]
async fn an_interceptor_with_a_file_of_its_own_needs_nothing_of_chain_and_pipeline() {
    let rm = ScriptedScheduler::open(answering(|_| Ok(Bytes::new()))).await;
    let folder = tempfile::tempdir().unwrap();
    let (state, count) = (folder.path().join("state"), folder.path().join("count"));
    // An agent, and the same one after a restart.
    for (expected_file, expected_stored) in [("3\n", 2_u64), ("5\n", 4)] {
        let mut store = StateStore::open(&state).unwrap();
        let found = StoredState::from_contents(store.take_found(KEY_SPACE)).attempts;
        let of_proxy = Arc::new(store.key_space(KEY_SPACE));
        let proxy = proxy_of(rm.address.to_string(), of_proxy, StoredState::default());
        let attempt = Attempt::new(AttemptIdentity {
            attempt: ATTEMPT,
            user: "alice".to_owned(),
            tags: Vec::new(),
            role_history: None,
        });
        let mut work = proxy.work(&attempt, rm.token(ATTEMPT));
        // The line of `interceptors.rs`.
        let (file, thread) = CountFile::start(count.clone());
        work.chain = Chain::new(vec![link(CallCount::default(), file)]);
        let restored = found.get(&ATTEMPT).cloned().unwrap_or_default();
        let now = (proxy.shared.clock)();
        work.chain.restore(ATTEMPT, &restored, now);
        let pipeline = proxy.pipeline(attempt, work);
        for method in AmMethod::ALL {
            pipeline.call(method, b"", Bytes::new()).await.unwrap();
        }
        drop((pipeline, proxy, store));
        thread.join().unwrap();
        assert_eq!(fs::read_to_string(&count).unwrap(), expected_file);
        let mut store = StateStore::open(&state).unwrap();
        let stored = StoredState::from_contents(store.take_found(KEY_SPACE));
        let record = &stored.attempts[&ATTEMPT][CALLS.key()];
        assert_eq!(record[..], expected_stored.to_be_bytes());
    }
}
