use std::time::Duration;

use hadoop_fs::FsConfig;
use namenode_access::Proof;
use proptest::prelude::*;
use users::AccountIds;

use super::*;

fn entry(name: &str) -> Status {
    Status {
        name: name.to_owned(),
        kind: Kind::Folder,
        length: 7,
        modified_ms: -1,
        mode: 0o1777,
        owner: "joe".to_owned(),
    }
}

fn requests() -> Vec<Request<'static>> {
    vec![
        Request::Open {
            uri: "hdfs://nn:8020/a",
            user: "joe",
        },
        Request::Status { path: "/a" },
        Request::List {
            path: "/a",
            limit: u64::MAX,
        },
        Request::OpenFile { slot: 7, path: "" },
        Request::Read {
            slot: 0,
            at: 1 << 40,
            bytes_max: 9,
        },
        Request::Modified { slot: 1 },
        Request::Create {
            slot: 2,
            path: "/b",
            mode: 0o640,
            overwrite: true,
        },
        Request::Write {
            slot: 2,
            content: b"content",
        },
        Request::Close { slot: 2 },
        Request::Rename {
            from: "/a",
            to: "/b",
            overwrite: false,
        },
        Request::MakeDirs {
            path: "/c",
            mode: 0o750,
        },
        Request::SetMode {
            path: "/c",
            mode: 0o700,
        },
        Request::SetOwner {
            path: "/c",
            owner: "joe",
            group: "hadoop",
        },
        Request::Delete { path: "/c" },
        Request::Unpack { form: Form::Zip },
        Request::Unpack {
            form: Form::Jar(None),
        },
        Request::Unpack {
            form: Form::Jar(Some("a.*")),
        },
        Request::Unpack { form: Form::Tar },
        Request::Unpack {
            form: Form::GzippedTar,
        },
        Request::Supply {
            content: b"content",
        },
    ]
}

fn failures() -> Vec<FsError> {
    let uri = || "hdfs://nn/a".to_owned();
    let text = || "text".to_owned();
    vec![
        FsError::UnsupportedScheme {
            uri: uri(),
            scheme: text(),
        },
        FsError::WithoutHdfs { uri: uri() },
        FsError::Authentication {
            uri: uri(),
            method: text(),
        },
        FsError::NoHost { uri: uri() },
        FsError::NotFound { uri: uri() },
        FsError::Exists {
            step: "create",
            uri: uri(),
        },
        FsError::Denied {
            step: "open",
            uri: uri(),
            message: text(),
        },
        FsError::Remote {
            step: "delete",
            uri: uri(),
            class: "org.apache.hadoop.ipc.StandbyException".to_owned(),
            message: text(),
        },
        FsError::TimedOut {
            step: "read",
            uri: uri(),
            limit: Duration::from_secs(60),
        },
        FsError::TooMany {
            uri: uri(),
            limit: 9,
        },
        FsError::Io {
            step: "write",
            uri: uri(),
            source: std::io::ErrorKind::ConnectionRefused.into(),
        },
        FsError::Client {
            step: "complete",
            uri: uri(),
            message: text(),
        },
        FsError::Worker {
            step: "rename",
            uri: uri(),
            message: text(),
        },
    ]
}

#[test]
fn requests_are_read_as_they_were_written() {
    for request in requests() {
        let message = request.encode();
        assert_eq!(Request::decode(&message), Ok(request));
        let longer = [message.as_slice(), &[0]].concat();
        assert!(Request::decode(&longer).is_err(), "{request:?}");
        for end in 0..message.len() {
            assert!(Request::decode(&message[..end]).is_err(), "{request:?}");
        }
    }
}

#[test]
fn failures_keep_their_text_and_what_callers_decide_by() {
    for error in failures() {
        let (text, kind, resumable) = (error.to_string(), error.kind(), error.is_resumable());
        let message = Reply::Failed(error).encode();
        let Ok(Reply::Failed(read)) = Reply::decode(&message) else {
            panic!("{text}");
        };
        assert_eq!(
            (read.to_string(), read.kind(), read.is_resumable()),
            (text, kind, resumable)
        );
    }
}

#[test]
fn the_orders_of_a_worker_are_read_as_they_were_written() {
    let account = AccountIds {
        uid: 1000,
        gid: 100,
        groups: vec![100, 7],
    };
    let keytab = Proof::Keytab {
        principal: "nm/host@NODES.TEST".to_owned(),
    };
    let setups = [
        (None, None),
        (Some(account), Some(Proof::Tokens)),
        (None, Some(keytab)),
    ];
    for (account, proof) in setups {
        let setup = Setup {
            parent: 4711,
            account,
            proof,
            file_systems: FsConfig {
                default_fs: "hdfs://nn:9000/".parse().unwrap(),
                client_properties: vec![("dfs.a".to_owned(), "b".to_owned())],
                step_limit: Duration::from_millis(1500),
            },
        };
        assert_eq!(Setup::decode(&setup.encode()), Ok(setup));
    }
}

#[test]
fn a_worker_never_becomes_the_superuser() {
    let setup = Setup {
        parent: 1,
        account: Some(AccountIds {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
        }),
        proof: None,
        file_systems: FsConfig::default(),
    };
    let refused = Setup::decode(&setup.encode()).unwrap_err();
    assert_eq!(refused.to_string(), "the account is the superuser's");
}

#[test]
fn entries_with_names_that_lead_elsewhere_are_refused() {
    for name in ["", ".", "..", "a/b", "/", "a\0b"] {
        let reply = Reply::Entries {
            batch: vec![entry("honest"), entry(name)],
            is_last: true,
        };
        assert!(Reply::decode(&reply.encode()).is_err(), "{name:?}");
    }
}

#[test]
fn a_long_list_comes_in_parts_that_fit_into_frames() {
    let long = "n".repeat(NAME_MAX);
    let entries: Vec<_> = (0..500).map(|_| entry(&long)).collect();
    let mut read = 0;
    let parts: Vec<_> = in_parts(entries).collect();
    assert!(parts.len() > 1);
    for (number, part) in parts.iter().enumerate() {
        let message = part.encode();
        assert!(message.len() <= FRAME_MAX, "{}", message.len());
        let Ok(Reply::Entries { batch, is_last }) = Reply::decode(&message) else {
            panic!("part {number}");
        };
        assert_eq!(is_last, number + 1 == parts.len());
        read += batch.len();
    }
    assert_eq!(read, 500);
    assert_eq!(in_parts(Vec::new()).count(), 1);
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_or_refused(bytes: Vec<u8>, kind in 0_u8..16) {
        let message = [&[kind], bytes.as_slice()].concat();
        if let Ok(request) = Request::decode(&message) {
            prop_assert_eq!(request.encode(), message.as_slice());
        }
        let _reply = Reply::decode(&message);
        let _setup = Setup::decode(&message);
    }

    #[test]
    fn a_changed_message_is_a_message_or_refused(
        which: prop::sample::Index, place: prop::sample::Index, byte: u8,
    ) {
        let replies = failures().into_iter().map(Reply::Failed).chain([
            Reply::Status(entry("a")),
            Reply::Entries { batch: vec![entry("a"), entry("b")], is_last: true },
            Reply::Content(b"content"),
            Reply::Want,
            Reply::Records(b"records"),
        ]);
        let mut messages: Vec<_> = replies.map(|reply| reply.encode()).collect();
        messages.extend(requests().into_iter().map(Request::encode));
        let message = &mut messages[which.index(30) % 30];
        let place = place.index(message.len());
        message[place] = byte;
        let _request = Request::decode(message);
        let _reply = Reply::decode(message);
    }
}
