//! Requests of reducers, and the indexes of map outputs.

use std::cell::OnceCell;
use std::fs;
use std::sync::Arc;

use dir_handle::DirHandle;
use shuffle::fuzzing::{Request, request};
use shuffle::{JobSecret, Jobs, OutputFolder, SpillIndex};
use tempfile::TempDir;

use crate::{Memory, Target};

pub(crate) const REQUEST: Target = Target {
    name: "shuffle_request",
    bytes_max: 14 * 1024,
    memory: Memory {
        base: 64 * 1024,
        per_byte: 256,
    },
    run: run_request,
    seeds: request_seeds,
};

pub(crate) const INDEX: Target = Target {
    name: "spill_index",
    bytes_max: 4 * 1024,
    memory: Memory {
        base: 1024,
        per_byte: 8,
    },
    run: run_index,
    seeds: index_seeds,
};

const JOB: &str = "job_1700000000000_0007";
const MAP: &str = "attempt_1700000000000_0007_m_000000_0";
const OUTPUT_BYTES: u64 = 100;

/// A job with one map output of 100 bytes for its only reducer.
struct Lab {
    _base: TempDir,
    jobs: Jobs,
}

impl Lab {
    fn new() -> Self {
        let base = tempfile::tempdir().expect("a folder");
        let output = base.path().join("output").join(MAP);
        fs::create_dir_all(&output).expect("a folder");
        let bytes = usize::try_from(OUTPUT_BYTES).expect("a length fits");
        fs::write(output.join("file.out"), vec![7; bytes]).expect("an output");
        let index = with_checksum(&entry(0, 96, OUTPUT_BYTES));
        fs::write(output.join("file.out.index"), index).expect("an index");
        let root = DirHandle::open_ambient(base.path()).expect("the folder is opened");
        let folder = OutputFolder {
            root: Arc::new(root),
            below: "output".into(),
        };
        let jobs = Jobs::default();
        jobs.register(JOB, "joe".into(), &secret(), vec![folder]);
        Self { _base: base, jobs }
    }
}

fn secret() -> JobSecret {
    JobSecret((0..20).collect())
}

fn run_request(input: &[u8]) {
    thread_local!(static LAB: OnceCell<Lab> = const { OnceCell::new() });
    LAB.with(|lab| {
        let jobs = &lab.get_or_init(Lab::new).jobs;
        let answer = request(input, jobs, &secret());
        let Request::Answered(length, bytes) = answer else {
            return;
        };
        assert!(length <= input.len());
        let head = &input[..length];
        assert_eq!(
            request(head, jobs, &secret()),
            answer,
            "without what follows"
        );
        let maps = u64::try_from(length / MAP.len()).expect("a number fits");
        assert!(
            bytes <= maps * (OUTPUT_BYTES + 64),
            "{bytes} bytes of {maps} outputs"
        );
        for cut in [length / 2, length - 1] {
            assert_eq!(request(&head[..cut], jobs, &secret()), Request::Incomplete);
        }
    });
}

fn request_seeds() -> Vec<Vec<u8>> {
    let request = |query: &str| {
        format!(
            "GET /mapOutput?{query} HTTP/1.1\r\nUrlHash: abc=\r\nname: mapreduce\r\n\
             version: 1.0.0\r\nHost: h:13562\r\nContent-Length: 0\r\n\r\n"
        )
        .into_bytes()
    };
    vec![
        request(&format!(
            "job={JOB}&reduce=0&map={MAP},{MAP}&keepAlive=true"
        )),
        request(&format!("job={JOB}&reduce=1&map={MAP},")),
        request("job=a&job=b;reduce=%30&map=..%2f"),
    ]
}

fn entry(start: u64, raw_length: u64, part_length: u64) -> Vec<u8> {
    let numbers = [start, raw_length, part_length];
    numbers
        .iter()
        .flat_map(|number| number.to_be_bytes())
        .collect()
}

fn with_checksum(entries: &[u8]) -> Vec<u8> {
    let checksum = u64::from(crc32fast::hash(entries)).to_be_bytes();
    [entries, &checksum].concat()
}

/// The input is an index without its checksum, which a fuzzer would never find.
fn run_index(input: &[u8]) {
    let _read_or_not = SpillIndex::parse(input);
    let Ok(index) = SpillIndex::parse(&with_checksum(input)) else {
        return;
    };
    let mut written = Vec::new();
    for reduce in 0..index.len() {
        let partition = index.get(reduce).expect("there are as many");
        let end = partition.start.checked_add(partition.part_length);
        assert!(end.is_some_and(|end| i64::try_from(end).is_ok()));
        written.extend(entry(
            partition.start,
            partition.raw_length,
            partition.part_length,
        ));
    }
    assert_eq!(index.get(index.len()), None);
    assert_eq!(written, input);
}

fn index_seeds() -> Vec<Vec<u8>> {
    let largest = i64::MAX.unsigned_abs();
    vec![
        entry(0, 96, 100),
        [entry(0, 0, 4), entry(4, 1, largest - 4)].concat(),
        entry(largest, largest, largest),
        Vec::new(),
    ]
}
