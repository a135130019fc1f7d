//! Aggregated logs are those of the pinned Hadoop: byte by byte where nothing is compressed, and as
//! its reader reads them otherwise.

#![expect(
    clippy::unwrap_used,
    reason = "bodies of tests are tests too: a panic is a failed test"
)]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;

use log_aggregation::aggregated_log::{AccessType, AggregatedLog};
use log_aggregation::tfile::Compression;
use records::ContainerId;
use test_support::ids::container;
use tests::{java, require};

const OWNER: &str = "joe";
const VIEW_ACL: &str = "ann,bob ops";

/// Files of the containers, in the order of the logs: empty, of a few bytes, around the sizes at
/// which chunks and blocks end, and of several blocks.
const FILES: [(i64, &str, usize); 9] = [
    (1, "AppMaster.stderr", 0),
    (1, "AppMaster.stdout", 300),
    (2, "stdout", 65_535),
    (2, "syslog", 65_536),
    (2, "zähler.log", 131_071),
    (3, "stdout", 262_144),
    (4, "stderr", 1),
    (4, "stdout", 1_500_000),
    (5, "stdout", 7),
];

fn content(seed: i64, length: usize) -> Vec<u8> {
    let seed = usize::try_from(seed).unwrap_or(0);
    let bytes = (0..length).map(|at| (at * (seed + 7) + at / 1000) % 251);
    bytes.map(|byte| u8::try_from(byte).unwrap_or(0)).collect()
}

fn containers() -> Vec<ContainerId> {
    (1..=5).map(container).collect()
}

#[track_caller]
fn run_java(arguments: &[&str]) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("java/AggregatedLogs.java");
    let output = java::source_command(&source).args(arguments).output();
    let output = output.expect("a required Java runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Writes the files with our writer.
fn write(path: &Path, compression: Compression) {
    let acls = vec![(AccessType::ViewApp, VIEW_ACL.to_owned())];
    let file = File::create(path).unwrap();
    let mut log = AggregatedLog::new(file, compression, OWNER, &acls).unwrap();
    for id in containers() {
        log.append_container(id.name(), |files| {
            for (number, name, length) in FILES {
                if container(number) == id {
                    let content = content(number, length);
                    files.append(name, length as u64, &mut &content[..])?;
                }
            }
            Ok(())
        })
        .unwrap();
    }
    log.finish().unwrap();
}

#[test]
fn bytes_are_those_of_hadoops_writer() {
    require!(java, hadoop);
    let folder = tempfile::tempdir().unwrap();
    let logs = folder.path().join("logs");
    for (number, name, length) in FILES {
        let id = container(number);
        let folder = logs
            .join(id.application_id().to_string())
            .join(id.to_string());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), content(number, length)).unwrap();
    }
    let (theirs, ours) = (folder.path().join("theirs"), folder.path().join("ours"));
    let ids: Vec<_> = containers().iter().map(ToString::to_string).collect();
    let text = |path: &Path| path.display().to_string();
    let (file, logs) = (text(&theirs), text(&logs));
    let mut arguments = vec!["write", &file, &logs, OWNER, VIEW_ACL];
    arguments.extend(ids.iter().map(String::as_str));
    run_java(&arguments);
    write(&ours, Compression::None);
    let (theirs, ours) = (fs::read(theirs).unwrap(), fs::read(ours).unwrap());
    let difference = theirs
        .iter()
        .zip(&ours)
        .position(|(one, other)| one != other);
    assert_eq!(
        difference,
        None,
        "of {} and {} bytes",
        theirs.len(),
        ours.len()
    );
    assert_eq!(theirs.len(), ours.len());
}

#[test]
fn hadoops_reader_reads_plain_and_compressed_logs() {
    require!(java, hadoop);
    let mut expected = format!("owner {OWNER}\nacls {{VIEW_APP={VIEW_ACL}}}\n");
    for id in containers() {
        writeln!(expected, "{id}").unwrap();
        for (number, name, length) in FILES {
            if container(number) == id {
                let bytes = content(number, length).into_iter().zip((1..=251).cycle());
                let sum: u64 = bytes.map(|(byte, factor)| u64::from(byte) * factor).sum();
                writeln!(expected, "{name} {length} {sum}").unwrap();
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    for compression in [Compression::None, Compression::Gz] {
        let path = folder.path().join(compression.as_str());
        write(&path, compression);
        assert_eq!(run_java(&["read", &path.display().to_string()]), expected);
    }
}
