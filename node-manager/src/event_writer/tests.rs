//! Tests of the writer.

use std::fs::{self, OpenOptions};
use std::io::BufReader;
use std::path::Path;
use std::sync::Mutex;

use event_record::{Input, Reader};
use records::{EpochMillis, MonoMillis, Resource};
use sched::{ContainerScheduler, ContainerSchedulerConfig, Event};

use super::*;

fn at(ms: u64) -> Now {
    Now {
        mono: MonoMillis(ms),
        wall: EpochMillis(1_700_000_000_000),
    }
}

fn begin(ms: u64) -> Entry {
    let node = Resource::new(2_048, 2);
    let scheduler = ContainerScheduler::new(ContainerSchedulerConfig::default(), node);
    let (at, scheduler) = (at(ms), Box::new(scheduler.snapshot()));
    Entry::Begin { at, scheduler }
}

fn step(ms: u64) -> Entry {
    Entry::Step(Box::new(Step {
        at: at(ms),
        input: Input::Event(Event::EstimateWaits),
        refused: false,
        actions: Vec::new(),
    }))
}

fn take(writer: &mut Writer, entry: Entry) {
    writer.take(Batch {
        values: values_in(&entry),
        entries: vec![entry],
        follows_loss: false,
    });
}

fn paths(dir: &Path) -> Vec<PathBuf> {
    let names = Files::new(dir.to_owned(), 3).names().unwrap();
    let names = names.into_iter();
    names.map(|name| dir.join(name.to_string())).collect()
}

fn writer(dir: &Path, file_bytes_max: u64) -> Writer {
    let config = EventRecordConfig {
        dir: dir.to_owned(),
        file_bytes_max,
        files_max: 3,
    };
    Writer::new(config, Arc::default())
}

fn asks(writer: &Writer) -> bool {
    writer.shared.wants_begin.swap(false, Ordering::AcqRel)
}

#[test]
fn full_files_follow_each_other_and_the_oldest_goes() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("made/here");
    let mut writer = writer(&dir, 4_000);
    take(&mut writer, begin(0));
    let mut begun = 1;
    for ms in 1..1_000 {
        take(&mut writer, step(ms));
        if asks(&writer) {
            take(&mut writer, begin(ms));
            begun += 1;
        }
    }
    writer.flush();
    assert!(begun > 5);
    let paths = paths(&dir);
    assert_eq!(paths.len(), 3);
    let mut steps = 0;
    for path in paths {
        let file = File::open(path).unwrap();
        assert!(file.metadata().unwrap().len() <= 4_000);
        let (mut reader, begin) = Reader::new(BufReader::new(file)).unwrap();
        assert!(begin.follows);
        while reader.next_step().unwrap().is_some() {
            steps += 1;
        }
    }
    assert!(steps > 20, "{steps}");
}

#[test]
fn a_record_goes_on_in_a_new_file_that_follows_nothing_once_the_directory_can_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("blocked");
    fs::write(&dir, "a file").unwrap();
    let mut writer = writer(&dir, 100_000);
    take(&mut writer, begin(0));
    take(&mut writer, step(1));
    assert!(!asks(&writer), "it is not asked for before the next try");
    fs::remove_file(&dir).unwrap();
    writer.retry_at = Some(Instant::now());
    take(&mut writer, step(2));
    assert!(asks(&writer));
    take(&mut writer, begin(3));
    take(&mut writer, step(4));
    writer.flush();
    let paths = paths(&dir);
    let file = File::open(&paths[0]).unwrap();
    let (mut reader, begin) = Reader::new(BufReader::new(file)).unwrap();
    assert!(paths.len() == 1 && !begin.follows);
    assert_eq!(reader.next_step().unwrap().unwrap().at, at(4));
}

#[test]
fn a_state_that_leaves_no_room_for_steps_is_tried_again_later_and_costs_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = writer(folder.path(), 600);
    take(&mut writer, begin(0));
    take(&mut writer, step(1));
    assert!(!asks(&writer) && writer.is_broken);
    assert!(paths(folder.path()).is_empty());
}

/// Lines of a log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn logged(work: impl FnOnce()) -> String {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone());
    tracing::subscriber::with_default(subscriber.finish(), work);
    let bytes = log.0.lock().unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn entries_are_lost_while_the_writer_is_behind_and_the_log_says_so_once() {
    let (mut handle, receiver) = EventWriter::new(1);
    let shared = Arc::clone(&handle.shared);
    let log = logged(|| {
        assert!(handle.record(vec![begin(0)]).is_none());
        assert!(handle.record(vec![step(1)]).is_none());
        assert!(handle.record(vec![step(1)]).is_none());
    });
    assert_eq!(log.matches("is behind").count(), 1, "{log}");
    assert_eq!(receiver.recv().unwrap().entries, [begin(0)]);
    shared.waiting.store(0, Ordering::Release);
    let anew = handle.record(vec![step(2)]);
    assert!(matches!(anew, Some(WorkerEvent::RecordAnew)));
    assert!(receiver.try_recv().is_err());
    // The step before the begin goes on from those that are lost.
    let entries = vec![step(3), begin(3), step(4)];
    assert!(handle.record(entries).is_none());
    let batch = receiver.recv().unwrap();
    assert_eq!(batch.entries, [begin(3), step(4)]);
    assert!(batch.follows_loss);
}

#[test]
fn a_file_after_a_loss_follows_none_although_the_one_before_was_begun_since() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = writer(folder.path(), 100_000);
    for entry in [begin(0), step(1), begin(1), step(2)] {
        take(&mut writer, entry);
    }
    writer.take(Batch {
        entries: vec![begin(9), step(9)],
        values: 2,
        follows_loss: true,
    });
    writer.flush();
    let follow = paths(folder.path()).into_iter().map(|path| {
        let file = BufReader::new(File::open(path).unwrap());
        let (mut reader, begin) = Reader::new(file).unwrap();
        assert!(reader.next_step().unwrap().is_some());
        begin.follows
    });
    assert_eq!(follow.collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn a_writer_that_is_gone_is_asked_for_nothing() {
    let (mut handle, receiver) = EventWriter::new(1);
    drop(receiver);
    for ms in 0..3 {
        assert!(handle.record(vec![begin(ms), step(ms)]).is_none());
    }
}

#[test]
fn a_full_disk_costs_entries_and_a_line_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = writer(folder.path(), 100_000);
    take(&mut writer, begin(0));
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    writer.open.as_mut().unwrap().out = BufWriter::new(full);
    let log = logged(|| {
        take(&mut writer, step(1));
        writer.flush();
        take(&mut writer, step(2));
        writer.flush();
    });
    assert_eq!(log.matches("not recorded").count(), 1, "{log}");
    assert!(writer.open.is_none() && !asks(&writer));
}
