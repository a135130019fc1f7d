//! Aggregated logs in the indexed format are those of the pinned Hadoop byte by byte where nothing
//! is compressed, and have the index that its reader expects otherwise.

#![expect(
    clippy::unwrap_used,
    reason = "bodies of tests are tests too: a panic is a failed test"
)]

use std::fs::{self, File};
use std::path::Path;
use std::time::UNIX_EPOCH;

use log_aggregation::aggregated_log::AccessType;
use log_aggregation::indexed_log::{Description, IndexedLog};
use log_aggregation::tfile::Compression;
use records::EpochMillis;
use test_support::ids::{application, container};
use tests::{java, require};

const OWNER: &str = "joe";
const VIEW_ACL: &str = "ann,bob ops";
const NODE: &str = "host.example:45454";
const FILE: &str = "host.example_45454";

/// Containers of the log: so many that Java's table of them grows, and texts share places in it.
const CONTAINERS: i64 = 40;

/// Files of each container, with their lengths.
const FILES: [(&str, usize); 4] = [
    ("stdout", 65_536),
    ("syslog", 0),
    ("zähler.log", 7),
    ("prelaunch.out", 300),
];

#[track_caller]
fn run_java(arguments: &[&str]) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("java/IndexedLogs.java");
    let output = java::source_command(&source).args(arguments).output();
    let output = output.expect("a required Java runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn write_local(logs: &Path) {
    for (number, letter) in (1..=CONTAINERS).zip((b'a'..=b'z').cycle()) {
        let folder = logs
            .join(application(1).to_string())
            .join(container(number).to_string());
        fs::create_dir_all(&folder).unwrap();
        for (name, length) in FILES {
            fs::write(folder.join(name), vec![letter; length]).unwrap();
        }
    }
}

/// Writes the log with our writer, as the printed index of Hadoop's says: its time, and the order
/// of the files of each container, which Hadoop takes as they come out of a set.
fn write(path: &Path, logs: &Path, compression: Compression, index: &str) {
    let mut lines = index.lines().skip(1);
    let (time, _) = lines.next().unwrap().split_once(' ').unwrap();
    let files: Vec<Vec<&str>> = lines.map(|line| line.split(' ').collect()).collect();
    let description = Description {
        application: application(1),
        owner: OWNER.to_owned(),
        acls: vec![(AccessType::ViewApp, VIEW_ACL.to_owned())],
        node: NODE.to_owned(),
    };
    let out = File::create(path).unwrap();
    let mut log = IndexedLog::new(out, compression, description).unwrap();
    for number in 1..=CONTAINERS {
        let id = container(number).to_string();
        log.begin_container(container(number).name());
        for file in files.iter().filter(|file| file[0] == id) {
            let folder = logs.join(application(1).to_string()).join(&id);
            let mut content = File::open(folder.join(file[2])).unwrap();
            let metadata = content.metadata().unwrap();
            let modified = metadata.modified().unwrap().duration_since(UNIX_EPOCH);
            let modified = i64::try_from(modified.unwrap().as_millis()).unwrap();
            let modified = EpochMillis(modified);
            log.append(file[2], metadata.len(), modified, &mut content)
                .unwrap();
        }
    }
    log.finish(FILE, EpochMillis(time.parse().unwrap()))
        .unwrap();
}

#[test]
fn bytes_and_index_are_those_of_hadoops_controller() {
    require!(java, hadoop);
    let folder = tempfile::tempdir().unwrap();
    let (logs, theirs) = (folder.path().join("logs"), folder.path().join(FILE));
    write_local(&logs);
    let text = |path: &Path| path.display().to_string();
    let ids: Vec<_> = (1..=CONTAINERS)
        .map(|it| container(it).to_string())
        .collect();
    let (file, local) = (text(&theirs), text(&logs));
    let mut arguments = vec!["write", &file, &local, OWNER, VIEW_ACL, NODE];
    arguments.extend(ids.iter().map(String::as_str));
    let index = run_java(&arguments);
    assert_eq!(
        index.lines().count(),
        2 + ids.len() * FILES.len(),
        "{index}"
    );

    let ours = folder.path().join("ours");
    write(&ours, &logs, Compression::None, &index);
    let (theirs, ours) = (fs::read(theirs).unwrap(), fs::read(ours).unwrap());
    let mut pairs = theirs.iter().zip(&ours);
    let difference = pairs.position(|(one, other)| one != other);
    let lengths = (theirs.len(), ours.len());
    assert_eq!((difference, lengths.0), (None, lengths.1), "{lengths:?}");

    let compressed = folder.path().join("compressed");
    write(&compressed, &logs, Compression::Gz, &index);
    let read = run_java(&["read", &text(&compressed), &application(1).to_string()]);
    assert_eq!(read, index.replacen(" none ", " gz ", 1));
}
