//! Requests of Spark's clients, and stored executors.

use std::fs;
use std::sync::Arc;

use dir_handle::DirHandle;
use spark_shuffle::fuzzing::{Answer, answers};
use spark_shuffle::{Application, ApplicationFolder, ApplicationSecret, Applications};
use tempfile::TempDir;

use crate::{Memory, Target};

pub(crate) const REQUESTS: Target = Target {
    name: "spark_requests",
    bytes_max: 8 * 1024,
    memory: Memory {
        base: 256 * 1024,
        per_byte: 256,
    },
    run: run_requests,
    seeds: request_seeds,
};

pub(crate) const EXECUTOR: Target = Target {
    name: "spark_executor",
    bytes_max: 4 * 1024,
    memory: Memory {
        base: 8 * 1024,
        per_byte: 16,
    },
    run: run_executor,
    seeds: executor_seeds,
};

const APPLICATION: &str = "application_1700000000000_0009";
/// Path of the application's folder as its containers know it.
const PATH: &str = "/d";
const BLOCK: &[u8] = b"partition";

/// An application with a kept partition, beside which is a file that nobody may reach.
struct Lab {
    base: TempDir,
    applications: Arc<Applications>,
}

impl Lab {
    fn new() -> Self {
        let base = tempfile::tempdir().expect("a folder");
        // The only directory with the only sub-folder has every file.
        let folder = base.path().join("application/b/00");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("rdd_4_0"), BLOCK).expect("a file");
        fs::write(base.path().join("victim"), "").expect("a file");
        let applications = Arc::new(Applications::new(None));
        let root = DirHandle::open_ambient(base.path()).expect("the folder is opened");
        let application = Application {
            user: "joe".into(),
            secret: Some(ApplicationSecret(b"0123456789abcdef".to_vec())),
            is_recovered: false,
            folders: vec![ApplicationFolder {
                root: Arc::new(root),
                below: "application".into(),
                path: PATH.into(),
            }],
        };
        applications.initialize(APPLICATION, application);
        Self { base, applications }
    }
}

/// Answers an input with a lab of its own. The kept partition may have been removed.
fn answered(input: &[u8], authenticates: bool) -> Vec<Answer> {
    let lab = Lab::new();
    let answers = answers(input, &lab.applications, authenticates);
    assert!(lab.base.path().join("victim").exists());
    if authenticates {
        assert_eq!(lab.applications.executors(), 0, "without a proof");
    }
    answers
}

fn run_requests(input: &[u8]) {
    for answer in answered(input, true) {
        assert_eq!(answer.range_bytes, None, "without a proof");
    }
    let whole = answered(input, false);
    for answer in &whole {
        assert!(answer.used <= input.len());
        let block = u64::try_from(BLOCK.len()).expect("a length fits");
        assert!(answer.range_bytes.is_none_or(|bytes| bytes == block));
    }
    // What follows does not change an answer.
    let Some(last) = whole.last() else {
        return;
    };
    assert_eq!(answered(&input[..last.used], false), whole);
    let without_last = &whole[..whole.len() - 1];
    assert_eq!(answered(&input[..last.used - 1], false), without_last);
}

fn text(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).expect("a length fits");
    [&length.to_be_bytes(), text.as_bytes()].concat()
}

fn framed(rest: &[u8]) -> Vec<u8> {
    let length = u64::try_from(rest.len() + 8).expect("a length fits");
    [&length.to_be_bytes(), rest].concat()
}

fn rpc(kind: u8, fields: &[u8]) -> Vec<u8> {
    framed(&[&[3][..], &[0; 12], &[kind], fields].concat())
}

fn request_seeds() -> Vec<Vec<u8>> {
    let executor = [text(APPLICATION), text("1")].concat();
    let dirs = [
        &1_u32.to_be_bytes()[..],
        &text("/d/b"),
        &1_u32.to_be_bytes(),
    ]
    .concat();
    let register = rpc(2, &[&executor[..], &dirs, &text("Sort")].concat());
    let one = 1_u32.to_be_bytes();
    let names = [&one[..], &text("rdd_4_0")].concat();
    let open = rpc(0, &[&executor[..], &names].concat());
    let chunk = framed(&[&[0][..], &1_i64.to_be_bytes(), &[0; 4]].concat());
    let stream = framed(&[&[6][..], &text("1_0")].concat());
    let remove = rpc(7, &[&executor[..], &names].concat());
    let local_dirs = rpc(10, &[&text(APPLICATION)[..], &one, &text("1")].concat());
    let fetch = [
        &executor[..],
        &3_u32.to_be_bytes(),
        &one,
        &5_i64.to_be_bytes(),
        &one,
        &one,
        &[0; 4],
        &[0],
    ];
    let fetch = rpc(9, &fetch.concat());
    let diagnose = [
        &executor[..],
        &3_u32.to_be_bytes(),
        &5_i64.to_be_bytes(),
        &[0; 12],
        &text("ADLER32"),
    ];
    let diagnose = rpc(16, &diagnose.concat());
    let sasl = rpc(0xea, &[&text(APPLICATION)[..], &[0; 4]].concat());
    vec![
        [&register[..], &open, &chunk].concat(),
        [&register[..], &open, &stream, &remove].concat(),
        [&register[..], &local_dirs, &diagnose].concat(),
        [&register[..], &fetch, &chunk].concat(),
        [&sasl[..], &sasl].concat(),
    ]
}

fn run_executor(input: &[u8]) {
    let applications = Applications::new(None);
    let is_read = applications.restore(APPLICATION, "1", input);
    assert_eq!(applications.executors(), usize::from(is_read));
    if is_read && !input.is_empty() {
        let cut = &input[..input.len() - 1];
        assert!(!applications.restore(APPLICATION, "2", cut), "it was cut");
    }
}

fn executor_seeds() -> Vec<Vec<u8>> {
    let dirs = [text("/d/blockmgr-a"), text("/d/blockmgr-b")].concat();
    let record = [&[1][..], &64_u32.to_be_bytes(), &2_u32.to_be_bytes(), &dirs];
    vec![record.concat()]
}
