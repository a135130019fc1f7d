//! Messages between an agent and its file workers, of which either side may be a stranger's.

use file_worker::message::{FRAME_MAX, Reply, Request, Setup};
use file_worker::record::Record;
use hadoop_fs::{FsError, Kind, Status};

use crate::{Memory, Target};

pub(crate) const TARGET: Target = Target {
    name: "file_workers",
    bytes_max: 16 * 1024,
    memory: Memory {
        base: 64 * 1024,
        // A property takes 48 bytes in a list that doubles, and 8 in a message.
        per_byte: 64,
    },
    run,
    seeds,
};

fn run(input: &[u8]) {
    if let Ok(request) = Request::decode(input) {
        // There is one way to write a request.
        assert_eq!(request.encode(), input);
    }
    if let Ok(reply) = Reply::decode(input) {
        if let Reply::Entries { batch, .. } = &reply {
            let leads_elsewhere =
                |name: &str| matches!(name, "" | "." | "..") || name.contains('/');
            assert!(batch.iter().all(|entry| !leads_elsewhere(&entry.name)));
        }
        let written = reply.encode();
        assert!(written.len() <= FRAME_MAX);
        assert!(Reply::decode(&written).is_ok(), "{reply:?}");
    }
    if let Ok((record, length)) = Record::decode(input) {
        let written = record.encode();
        assert!(length <= input.len() && written.len() <= FRAME_MAX);
        assert!(Record::decode(&written).is_ok(), "{record:?}");
    }
    if let Ok(setup) = Setup::decode(input) {
        assert_eq!(Setup::decode(&setup.encode()).as_ref(), Ok(&setup));
        assert!(setup.account.is_none_or(|account| account.uid != 0));
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let entry = Status {
        name: "part-00000".to_owned(),
        kind: Kind::File,
        length: 17,
        modified_ms: 1_700_000_000_000,
        mode: 0o644,
        owner: "joe".to_owned(),
    };
    let failure = FsError::NotFound {
        uri: "hdfs://nn:8020/a".to_owned(),
    };
    let replies = [
        Reply::Status(entry.clone()),
        Reply::Entries {
            batch: vec![entry],
            is_last: true,
        },
        Reply::Failed(failure),
        Reply::Content(b"content"),
    ];
    let open = Request::Open {
        uri: "hdfs://nn:8020/a",
        user: "joe",
    };
    let setup = Setup {
        parent: 4711,
        account: None,
        proof: None,
        file_systems: hadoop_fs::FsConfig::default(),
    };
    let file = Record::File {
        name: b"a/b",
        modified: Some((1_700_000_000, 5)),
    };
    let file = file.encode();
    let records = Reply::Records(&file).encode();
    let replies = replies.iter().map(Reply::encode);
    let others = [open.encode(), setup.encode(), records, file.clone()];
    replies.chain(others).collect()
}
