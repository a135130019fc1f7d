//! Archives that workers read, each worker this test binary in a role that its first argument
//! names.

#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "../common/mod.rs"]
mod common;
mod log;

use std::ffi::OsString;
use std::io::{self, Cursor, Read, Write as _};
use std::time::Duration;

use archives::{ArchiveReader as _, Form, Here, ReadError, Region, Unsupported};
use common::{DEADLINE, only_worker, pool, pool_of, program, session_of, until, workers_of};
use file_worker::message::{CONTENT_MAX, Reply};
use file_worker::record::Record;
use file_worker::{COMMAND, Pool};
use flate2::Compression;
use flate2::write::GzEncoder;
use hadoop_fs::Caller;
use log::{Entry, Log};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tar::{EntryType, Header};

fn main() {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    match arguments.get(1).and_then(|role| role.to_str()) {
        Some(COMMAND) => file_worker::serve().unwrap(),
        Some("liar") => liar(arguments[2].to_str().unwrap()),
        _ => {
            a_worker_tells_what_this_process_reads();
            whatever_an_archive_is_a_worker_tells_the_same_of_it();
            a_worker_that_is_killed_fails_the_archive_with_the_reason();
            a_content_that_fails_and_a_receiver_that_stops_cost_no_worker();
            a_pattern_that_is_too_long_is_refused();
            a_reader_that_lies_harms_nobody_but_its_callers();
            println!("6 tests of archives passed");
        }
    }
}

fn caller(work: &str) -> Caller<'_> {
    Caller::user("joe", work)
}

/// Reads an archive; returns what was told, and the text of the error. An error in the middle of a
/// content may be known to the receiver or to the reader.
fn told(
    reader: &dyn archives::ArchiveReader,
    form: Form<'_>,
    archive: &[u8],
) -> (Log, Option<String>) {
    let mut log = Log::default();
    let read = reader.read(caller("a"), form, &mut Cursor::new(archive), &mut log);
    let error = match (read, log.entries.pop()) {
        (Err(ReadError::Stopped), Some(Entry::Broken(error))) => Some(error),
        (read, last) => {
            log.entries.extend(last);
            read.err().map(|error| error.to_string())
        }
    };
    (log, error)
}

#[track_caller]
fn same(pool: &Pool, form: Form<'_>, archive: &[u8]) -> Log {
    let here = told(&Here, form, archive);
    let (log, error) = told(pool, form, archive);
    assert_eq!(error, here.1, "{form:?}");
    assert!(log == here.0, "{form:?}: {log:?}\ninstead of {:?}", here.0);
    log
}

/// Appends an entry with exactly these names.
fn entry(tar: &mut Vec<u8>, kind: u8, name: &str, target: &str, content: &[u8]) {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::new(kind));
    header.set_size(content.len() as u64);
    header.set_mtime(1_700_000_000);
    let old = header.as_old_mut();
    old.name[..name.len()].copy_from_slice(name.as_bytes());
    old.linkname[..target.len()].copy_from_slice(target.as_bytes());
    header.set_cksum();
    tar.extend_from_slice(header.as_bytes());
    tar.extend_from_slice(content);
    tar.resize(tar.len().next_multiple_of(512), 0);
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| at.to_le_bytes()[at % 3]).collect()
}

/// A tar with every kind of entry: files of several messages, long names, and a sparse file whose
/// regions need several records.
fn rich_tar() -> Vec<u8> {
    let mut tar = Vec::new();
    entry(&mut tar, b'5', "d/", "", b"");
    entry(&mut tar, b'0', "d/empty", "", b"");
    entry(&mut tar, b'0', "d/large", "", &pattern(700_001));
    let long = format!("{}\0", "n".repeat(5000));
    entry(&mut tar, b'L', "long", "", long.as_bytes());
    entry(&mut tar, b'0', "short", "", b"1");
    entry(&mut tar, b'2', "d/link", "../..", b"");
    entry(&mut tar, b'1', "d/hard", "d/large", b"");
    entry(&mut tar, b'V', "label", "", &pattern(300_000));
    let regions = 5000;
    let parts = (0..regions).map(|at| format!("{},512", at * 1024));
    let map = parts.collect::<Vec<_>>().join(",");
    let size = (regions * 1024).to_string();
    let mut pax = String::new();
    for (key, value) in [("GNU.sparse.size", &size), ("GNU.sparse.map", &map)] {
        let rest = format!(" {key}={value}\n");
        let digits = (1..).find(|digits| (rest.len() + digits).to_string().len() == *digits);
        pax += &format!("{}{rest}", rest.len() + digits.unwrap());
    }
    entry(&mut tar, b'x', "pax", "", pax.as_bytes());
    entry(&mut tar, b'0', "sparse", "", &pattern(regions * 512));
    tar.resize(tar.len() + 1024, 0);
    tar
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zip_of(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in entries {
        let options = zip::write::SimpleFileOptions::default();
        zip.start_file(*name, options).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn a_worker_tells_what_this_process_reads() {
    let pool = pool();
    let tar = rich_tar();
    for (form, archive) in [(Form::Tar, tar.clone()), (Form::GzippedTar, gzip(&tar))] {
        let log = same(&pool, form, &archive).entries;
        let is_sparse =
            |entry: &Entry| matches!(entry, Entry::Sparse(_, parts, ..) if parts.len() == 5000);
        assert!(log.iter().any(is_sparse), "{form:?}");
        assert!(log.contains(&Entry::HardLink(b"d/hard".into(), b"d/large".into())));
    }
    let zip = zip_of(&[("a/b", &pattern(700_001)), ("c", b"")]);
    for form in [Form::Zip, Form::Jar(None), Form::Jar(Some("a/.*"))] {
        let log = same(&pool, form, &zip).entries;
        let files = log.iter().filter(|entry| matches!(entry, Entry::File(..)));
        let wanted = if form == Form::Jar(Some("a/.*")) {
            1
        } else {
            2
        };
        assert_eq!(files.count(), wanted, "{form:?}");
    }
    // Nothing, something else, a part, and what is refused.
    same(&pool, Form::Zip, b"");
    same(&pool, Form::GzippedTar, &tar);
    same(&pool, Form::Tar, &tar[..300_000]);
    same(&pool, Form::GzippedTar, &gzip(&tar)[..1000]);
    same(&pool, Form::Jar(Some("[")), &zip);
    let mut refused = Vec::new();
    for kind in [b'3', b'M', b'A'] {
        let mut tar = Vec::new();
        entry(&mut tar, kind, "entry", "", b"");
        refused.extend(same(&pool, Form::Tar, &tar).entries);
    }
    let reasons = [
        Unsupported::SpecialFile,
        Unsupported::Continued,
        Unsupported::UnknownKind(b'A'),
    ];
    assert_eq!(
        refused,
        reasons.map(|reason| Entry::Refused(b"entry".into(), reason))
    );
    only_worker();
}

fn whatever_an_archive_is_a_worker_tells_the_same_of_it() {
    let pool = pool();
    let mut tar = Vec::new();
    entry(&mut tar, b'0', "a/b", "", b"content");
    entry(&mut tar, b'2', "c", "a", b"");
    let archives = [
        (Form::Tar, tar.clone()),
        (Form::GzippedTar, gzip(&tar)),
        (Form::Zip, zip_of(&[("a/b", b"content"), ("c", b"more")])),
    ];
    let changes = (0..archives.len(), any::<prop::sample::Index>(), any::<u8>());
    let mut runner = TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(200)
    });
    let ran = runner.run(&(changes, any::<bool>()), |((which, at, byte), is_cut)| {
        let (form, mut archive) = archives[which].clone();
        let at = at.index(archive.len());
        if is_cut {
            archive.truncate(at);
        } else {
            archive[at] = byte;
        }
        same(&pool, form, &archive);
        Ok(())
    });
    ran.unwrap();
}

/// Content that does something when more of it is read than one message to the worker takes.
struct Then<'a, F> {
    content: &'a [u8],
    read: usize,
    then: F,
}

impl<F: FnMut() -> io::Result<()>> Read for Then<'_, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let before = self.read;
        let read = self.content.read(buffer)?;
        self.read += read;
        if before <= CONTENT_MAX && self.read > CONTENT_MAX {
            (self.then)()?;
        }
        Ok(read)
    }
}

fn then<F>(content: &[u8], then: F) -> Then<'_, F> {
    Then {
        content,
        read: 0,
        then,
    }
}

fn a_worker_that_is_killed_fails_the_archive_with_the_reason() {
    let pool = pool();
    let tar = rich_tar();
    let killer = || {
        kill(Pid::from_raw(only_worker()), Signal::SIGKILL).unwrap();
        Ok(())
    };
    let mut log = Log::default();
    let content = &mut then(&tar, killer);
    let read = pool.read(caller("a"), Form::Tar, content, &mut log);
    assert!(matches!(read, Err(ReadError::Stopped)), "{read:?}");
    let reason = "its file worker ended with signal 9 (SIGKILL)".to_owned();
    assert_eq!(log.entries.last(), Some(&Entry::Broken(reason.clone())));
    // Between two entries it is an error of the archive.
    let mut folders = Vec::new();
    for _ in 0..1000 {
        entry(&mut folders, b'5', "d", "", b"");
    }
    let content = &mut then(&folders, killer);
    let read = pool.read(caller("a"), Form::Tar, content, &mut Log::default());
    assert_eq!(read.unwrap_err().to_string(), reason);
    same(&pool, Form::Tar, &tar);
}

fn a_content_that_fails_and_a_receiver_that_stops_cost_no_worker() {
    let pool = pool();
    let tar = rich_tar();
    same(&pool, Form::Tar, &tar);
    let worker = only_worker();
    let mut log = Log::default();
    let content = &mut then(&tar, || Err(io::Error::other("no such block")));
    let read = pool.read(caller("a"), Form::Tar, content, &mut log);
    assert!(matches!(read, Err(ReadError::Stopped)), "{read:?}");
    let broken = Entry::Broken("no such block".to_owned());
    assert_eq!(log.entries.last(), Some(&broken));
    let mut log = Log {
        stop_at: Some("d/large"),
        ..Log::default()
    };
    let read = pool.read(caller("a"), Form::Tar, &mut tar.as_slice(), &mut log);
    assert!(matches!(read, Err(ReadError::Stopped)), "{read:?}");
    assert_eq!(log.entries.len(), 3);
    same(&pool, Form::Tar, &tar);
    assert_eq!(only_worker(), worker);
}

fn a_pattern_that_is_too_long_is_refused() {
    let long = "a".repeat(70_000);
    let read = pool().read(
        caller("a"),
        Form::Jar(Some(&long)),
        &mut &b""[..],
        &mut Log::default(),
    );
    let error = read.unwrap_err().to_string();
    assert_eq!(error, "it has 70000 bytes, of at most 65536");
}

/// Worker that tells of an archive what none should.
fn liar(lie: &str) {
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned().unwrap());
    let session = session_of(&control);
    let frame = |message: &[u8]| {
        let length = u32::try_from(message.len()).unwrap().to_le_bytes();
        drop((&session).write_all(&[&length, message].concat()));
    };
    let records = |records: &[Record<'_>]| {
        let bytes: Vec<u8> = records.iter().flat_map(Record::encode).collect();
        frame(&Reply::Records(&bytes).encode());
    };
    let (name, modified) = (&b"a"[..], None);
    let file = Record::File { name, modified };
    let sparse = |size, regions| Record::Sparse {
        name,
        size,
        regions,
        modified,
    };
    let region = |offset, length| Region { offset, length };
    frame(&Reply::Done.encode());
    match lie {
        "other answer" => frame(&Reply::Existed(true).encode()),
        "garbage" => frame(&Reply::Records(&[99, 1, 2]).encode()),
        "half a record" => frame(&Reply::Records(&file.encode()[..4]).encode()),
        "content without a file" => records(&[Record::Content(b"x")]),
        "a file in a file" => records(&[file, Record::Folder { name }]),
        "endless regions" => records(&[sparse(u64::MAX, u32::MAX)]),
        "regions out of order" => records(&[
            sparse(9000, 2),
            Record::Regions(vec![region(512, 512), region(0, 512)]),
        ]),
        "a region beyond the file" => records(&[
            sparse(9000, 1),
            Record::Regions(vec![region(u64::MAX, 512)]),
        ]),
        "content beyond regions" => records(&[
            sparse(9000, 1),
            Record::Regions(vec![region(0, 1)]),
            Record::Content(b"xyz"),
            Record::End,
        ]),
        "endless hunger" => loop {
            frame(&Reply::Want.encode());
            let mut length = [0; 4];
            (&session).read_exact(&mut length).unwrap();
            let mut message = vec![0; u32::from_le_bytes(length) as usize];
            (&session).read_exact(&mut message).unwrap();
        },
        "memory" => drop(std::hint::black_box(Vec::<u8>::with_capacity(1 << 46))),
        "end" => return,
        "silence" => {}
        _ => panic!("{lie}"),
    }
    std::thread::sleep(DEADLINE);
}

fn a_reader_that_lies_harms_nobody_but_its_callers() {
    const BROKE: &str = "its file worker broke the protocol: ";
    for (lie, reason) in [
        ("other answer", "a record stands where it may not"),
        ("garbage", "the record is of no known kind"),
        ("half a record", "the message ends too early"),
        ("content without a file", "a record stands where it may not"),
        ("a file in a file", "a record stands where it may not"),
        ("endless regions", "a sparse file has too many regions"),
        (
            "regions out of order",
            "the regions of a sparse file are out of order",
        ),
        (
            "a region beyond the file",
            "the regions of a sparse file are out of order",
        ),
        (
            "content beyond regions",
            "a file has more content than regions",
        ),
        ("endless hunger", "more content is wanted than there is"),
        ("memory", "memory allocation of 70368744177664 bytes failed"),
        ("end", "its file worker ended with status 0"),
        ("silence", "its file worker did not answer in time"),
    ] {
        let limit = if lie == "silence" {
            Duration::from_millis(100)
        } else {
            DEADLINE
        };
        let pool = pool_of(program("liar", lie), Box::new(|_| None), limit);
        let mut log = Log::default();
        let content = &mut &pattern(300_000)[..];
        let read = pool.read(caller("a"), Form::Tar, content, &mut log);
        let error = match (read, log.entries.pop()) {
            (Err(ReadError::Stopped), Some(Entry::Broken(error))) => error,
            (Err(error), _) => error.to_string(),
            (Ok(()), _) => panic!("{lie}"),
        };
        // A busy machine may take longer than the limit to start the silent one.
        let is_late = lie == "silence" && error.starts_with("no turn for a file worker in time");
        assert!(is_late || error.contains(reason), "{lie}: {error}");
        let broke = reason.starts_with("its ") || error.starts_with(BROKE) || lie == "memory";
        assert!(is_late || broke, "{lie}: {error}");
        drop(pool);
        until("the liar's end", || {
            workers_of(std::process::id()).is_empty()
        });
    }
}
