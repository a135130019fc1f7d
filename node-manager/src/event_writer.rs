//! Writer of the record of the scheduler's events: bounded files in a directory, oldest removed.
//!
//! The core's task hands entries over and never waits: while the writer is behind, they are lost.
//! That, and a disk that is full or broken, costs entries and a line in the log. After each loss,
//! and when a file is full, the record begins anew, in another file, with the scheduler's state.

mod files;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use event_record::{Begin, Entry, LINE_BYTES_MAX, Step};
use node_core::WorkerEvent;
use records::Now;
use refusals::Pace;
use sched::SchedulerSnapshot;
use threads::ThreadOwner;

use self::files::Files;

/// Batches that may wait for the writer. When it is full, entries are lost.
const BATCHES_MAX: usize = 1_024;

/// Events and actions that may wait for the writer, of some 150 bytes each. A state beside them
/// comes only when the writer asked for it.
const VALUES_MAX: usize = 100_000;

/// Time from a failure of the disk to the next try.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// Configuration of the record (`yarn.nodemanager.agent.event-record.*`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecordConfig {
    /// Directory of the files. It is created if it is missing.
    pub dir: PathBuf,
    /// Largest file in bytes.
    pub file_bytes_max: u64,
    /// Most files.
    pub files_max: usize,
}

/// State that both sides see.
#[derive(Debug, Default)]
struct Shared {
    /// Events and actions that wait.
    waiting: AtomicUsize,
    /// The writer wants the record to begin anew.
    wants_begin: AtomicBool,
}

/// Entries that go to the writer together.
#[derive(Debug)]
struct Batch {
    entries: Vec<Entry>,
    /// Events and actions in them.
    values: usize,
    /// Entries before these are lost.
    follows_loss: bool,
}

/// Handle on the writer.
#[derive(Debug)]
pub struct EventWriter {
    // Dropped before the channel, whose end the thread notices.
    thread: ThreadOwner,
    batches: SyncSender<Batch>,
    shared: Arc<Shared>,
    /// Entries are lost until the writer has caught up.
    is_losing: bool,
    /// Lines about that.
    lines: Pace,
}

impl EventWriter {
    /// Starts the writer. A directory that cannot be used is in the log, and tried again.
    ///
    /// # Errors
    /// The system cannot start another thread.
    pub fn start(config: EventRecordConfig) -> io::Result<Self> {
        let (handle, receiver) = Self::new(BATCHES_MAX);
        let writer = Writer::new(config, Arc::clone(&handle.shared));
        let serve = move || writer.serve(&receiver);
        handle.thread.start("event-record", serve)?;
        Ok(handle)
    }

    fn new(batches_max: usize) -> (Self, Receiver<Batch>) {
        let (batches, receiver) = sync_channel(batches_max);
        let handle = Self {
            thread: ThreadOwner::default(),
            batches,
            shared: Arc::default(),
            is_losing: false,
            lines: Pace::new(1),
        };
        (handle, receiver)
    }

    /// Hands entries over, or loses them. Returns the event that makes the record begin anew, when
    /// it must.
    pub fn record(&mut self, mut entries: Vec<Entry>) -> Option<WorkerEvent> {
        let waiting = self.shared.waiting.load(Ordering::Acquire);
        let follows_loss = self.is_losing;
        if follows_loss {
            // What comes before the next begin goes on from what was lost.
            let begin = entries.iter().position(is_begin).unwrap_or(entries.len());
            entries.drain(..begin);
        }
        if !entries.is_empty() {
            let values = entries.iter().map(values_in).sum();
            let batch = Batch {
                entries,
                values,
                follows_loss,
            };
            self.send(batch, waiting);
        }
        let has_caught_up = self.is_losing && self.shared.waiting.load(Ordering::Acquire) == 0;
        let is_wanted = self.shared.wants_begin.swap(false, Ordering::AcqRel);
        (has_caught_up || is_wanted).then_some(WorkerEvent::RecordAnew)
    }

    fn send(&mut self, batch: Batch, waiting: usize) {
        let values = batch.values;
        let has_room = waiting == 0 || waiting.saturating_add(values) <= VALUES_MAX;
        self.shared.waiting.fetch_add(values, Ordering::AcqRel);
        let sent = if has_room {
            self.batches.try_send(batch)
        } else {
            Err(TrySendError::Full(batch))
        };
        self.is_losing = sent.is_err();
        if sent.is_ok() {
            return;
        }
        // A writer that is gone took all that waited with it. Its panic is in the log, and as
        // something waits for ever, nobody asks for a state that nobody takes.
        if matches!(sent, Err(TrySendError::Full(_))) {
            self.shared.waiting.fetch_sub(values, Ordering::AcqRel);
        }
        if let Some(earlier) = self.lines.due(Instant::now()) {
            tracing::warn!(
                earlier,
                "the writer of the scheduler's events is behind: they are lost until it has caught up"
            );
        }
    }
}

const fn is_begin(entry: &Entry) -> bool {
    matches!(entry, Entry::Begin { .. })
}

fn values_in(entry: &Entry) -> usize {
    match entry {
        Entry::Begin { .. } => 1,
        Entry::Step(step) => 1 + step.actions.len(),
    }
}

/// A file that is being written.
struct Open {
    out: BufWriter<File>,
    bytes: u64,
}

/// The writer's thread.
struct Writer {
    file_bytes_max: u64,
    files: Files,
    shared: Arc<Shared>,
    /// `None`: the record has not begun, or entries are lost.
    open: Option<Open>,
    /// The next begin was asked for.
    has_asked: bool,
    retry_at: Option<Instant>,
    /// The last write failed, and the log says so.
    is_broken: bool,
}

impl Writer {
    fn new(config: EventRecordConfig, shared: Arc<Shared>) -> Self {
        Self {
            file_bytes_max: config.file_bytes_max,
            files: Files::new(config.dir, config.files_max),
            shared,
            open: None,
            has_asked: false,
            retry_at: None,
            is_broken: false,
        }
    }

    /// Writes until the handle is gone and all is written.
    fn serve(mut self, batches: &Receiver<Batch>) {
        while let Ok(batch) = batches.recv() {
            let values = batch.values;
            self.take(batch);
            if self.shared.waiting.fetch_sub(values, Ordering::AcqRel) == values {
                self.flush();
            }
        }
        self.flush();
    }

    fn take(&mut self, batch: Batch) {
        if batch.follows_loss {
            self.flush();
            self.close();
        }
        for entry in batch.entries {
            let result = match entry {
                Entry::Begin { at, scheduler } => self.begin(at, *scheduler),
                Entry::Step(step) => self.step(&step),
            };
            self.note(result);
        }
    }

    fn flush(&mut self) {
        if let Some(open) = &mut self.open {
            let flushed = open.out.flush();
            self.note(flushed);
        }
    }

    fn note(&mut self, result: io::Result<()>) {
        let Err(error) = result else {
            return;
        };
        let dir = self.files.dir().display();
        if !std::mem::replace(&mut self.is_broken, true) {
            tracing::warn!(%dir, %error, "the scheduler's events are not recorded until it works");
        }
        self.close();
        self.retry_at = Some(Instant::now() + RETRY_AFTER);
    }

    /// Gives the present file up: the next one does not go on where it ends.
    fn close(&mut self) {
        self.open = None;
        self.has_asked = false;
    }

    fn ask(&mut self) {
        if !std::mem::replace(&mut self.has_asked, true) {
            self.shared.wants_begin.store(true, Ordering::Release);
        }
    }

    fn begin(&mut self, at: Now, scheduler: SchedulerSnapshot) -> io::Result<()> {
        self.flush();
        self.has_asked = false;
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            self.close();
            return Ok(());
        }
        self.retry_at = None;
        let follows = self.open.take().is_some();
        let line = Begin::new(at, scheduler, follows).line();
        let bytes = line.len() as u64;
        // Steps need room, too. A state may be large by what tenants ask for.
        if bytes > (LINE_BYTES_MAX as u64).min(self.file_bytes_max / 2) {
            let words = format!("the scheduler's state is too large: {bytes} bytes");
            return Err(io::Error::other(words));
        }
        let out = BufWriter::new(self.files.create(at.wall, &line)?);
        self.open = Some(Open { out, bytes });
        if std::mem::take(&mut self.is_broken) {
            tracing::info!(dir = %self.files.dir().display(), "events are recorded again");
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> io::Result<()> {
        let most = self.file_bytes_max;
        let Some(open) = &mut self.open else {
            if self.retry_at.is_none_or(|at| Instant::now() >= at) {
                self.ask();
            }
            return Ok(());
        };
        let line = step.line();
        let bytes = open.bytes.saturating_add(line.len() as u64);
        if bytes > most || line.len() > LINE_BYTES_MAX {
            self.flush();
            self.close();
            self.ask();
            return Ok(());
        }
        open.bytes = bytes;
        open.out.write_all(&line)?;
        // What is on its way still fits.
        if bytes > most / 8 * 7 {
            self.ask();
        }
        Ok(())
    }
}
