//! Requests and answers as recorded between Spark 3.5.5's client and service, and what a client may
//! not have.

use std::fs;
use std::os::unix::fs::{FileExt as _, symlink};

use super::*;
use crate::executors::Applications;
use crate::shared::SparkShuffleConfig;
use crate::testing::{APPLICATION, Lab, REGISTER, REGISTERED, bytes, framed, rpc, text};

/// Number of the first stream in the recording.
const STREAM: i64 = 0x196_8604_8ba2;

struct Client {
    session: Session,
}

impl Client {
    fn of(lab: &Lab, first_stream: i64) -> Self {
        Self::with(lab, SparkShuffleConfig::default(), first_stream)
    }

    fn with(lab: &Lab, config: SparkShuffleConfig, first_stream: i64) -> Self {
        let applications: Arc<Applications> = Arc::clone(&lab.applications);
        let shared = Shared::new(config, applications, Arc::default());
        Self {
            session: Session::new(Arc::new(shared), first_stream),
        }
    }

    /// Returns what is sent for a request, the range of a file included, and whether the connection
    /// ends.
    async fn send(&mut self, request: &[u8]) -> (Vec<u8>, bool) {
        let request = Request::parse(&request[frame::LENGTH_BYTES..]).unwrap();
        let reply = self.session.answer(request).await;
        let mut sent = reply.frame;
        if let Some(range) = reply.range {
            let mut bytes = vec![0; usize::try_from(range.length).unwrap()];
            range.file.read_exact_at(&mut bytes, range.start).unwrap();
            sent.extend(bytes);
        }
        (sent, reply.ends)
    }

    /// Asserts that a recorded request gets the recorded answer.
    async fn exchange(&mut self, request: &str, answer: &str) {
        let (sent, ends) = self.send(&bytes(request)).await;
        assert_eq!(hex(&sent), hex(&bytes(answer)), "{request}");
        assert!(!ends);
    }

    /// Returns the text of the failure that a message gets.
    async fn failure(&mut self, message: &[u8]) -> String {
        let (sent, _) = self.send(&rpc(7, message)).await;
        assert_eq!(sent[8], 5, "{}", hex(&sent));
        String::from_utf8(sent[21..].to_vec()).unwrap()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const APP: &str = "0000001e6170706c69636174696f6e5f313730303030303030303030305f30303039";

#[tokio::test]
async fn an_executor_registers_and_its_directories_are_told() {
    let lab = Lab::new();
    let mut client = Client::of(&lab, STREAM);
    client.exchange(REGISTER, REGISTERED).await;
    let request =
        format!("00000000000000410367b7ab0ca2cac1410000002c 0a {APP} 00000001 0000000131");
    let answer = "000000000000004d0467b7ab0ca2cac14100000038 0b 00000001 0000000131 00000001 \
                  00000002 00000002 0000000d2f642f626c6f636b6d67722d61 \
                  0000000d2f642f626c6f636b6d67722d62";
    client.exchange(&request, answer).await;
    assert_eq!(lab.applications.executors(), 1);
    lab.applications.stop(APPLICATION);
    assert_eq!(lab.applications.executors(), 0);
}

#[tokio::test]
async fn partitions_are_fetched_one_by_one_and_in_batches() {
    let lab = Lab::new();
    let mut client = Client::of(&lab, STREAM);
    client.exchange(REGISTER, REGISTERED).await;
    let head = format!("09 {APP} 0000000131 00000003 00000002 0000000000000005 0000000000000006");
    let request = format!(
        "000000000000006e035b7b62b2f4ccd18900000059 {head} \
         00000002 00000002 00000000 00000001 00000001 00000001 00"
    );
    let handle = "0000000000000022045b7b62b2f4ccd1890000000d 03 0000019686048ba2 00000003";
    client.exchange(&request, handle).await;
    for (chunk, answer) in [
        (0, "0000000000000019 01 0000019686048ba2 00000000 6d357230"),
        (
            1,
            "000000000000001a 01 0000019686048ba2 00000001 6d35723121",
        ),
        (2, "0000000000000019 01 0000019686048ba2 00000002 6d367231"),
    ] {
        let request = format!("0000000000000015 00 0000019686048ba2 0000000{chunk}");
        client.exchange(&request, answer).await;
    }
    let request = format!(
        "00000000000000720354b80203d43555430000005d {head} \
         00000002 00000002 00000000 00000003 00000002 00000001 00000003 01"
    );
    let handle = "00000000000000220454b80203d43555430000000d 03 0000019686048ba3 00000002";
    client.exchange(&request, handle).await;
    for (chunk, answer) in [
        (
            0,
            "000000000000001e 01 0000019686048ba3 00000000 6d3572306d35723121",
        ),
        (
            1,
            "000000000000001d 01 0000019686048ba3 00000001 6d3672316d367232",
        ),
    ] {
        let request = format!("0000000000000015 00 0000019686048ba3 0000000{chunk}");
        client.exchange(&request, answer).await;
    }
}

#[tokio::test]
async fn a_kept_partition_is_a_stream_and_can_be_removed() {
    let lab = Lab::new();
    // The recorded number of the stream in its name.
    let mut client = Client::of(&lab, 1_746_051_637_014);
    client.exchange(REGISTER, REGISTERED).await;
    let request = format!(
        "000000000000004c036f0802c41618e86000000037 00 {APP} 0000000131 00000001 \
         000000077264645f345f30"
    );
    let (handle, _) = client.send(&bytes(&request)).await;
    assert_eq!(handle[21], 3);
    let request = "000000000000001c 06 0000000f313734363035313633373031345f30";
    let answer = "0000000000000024 07 0000000f313734363035313633373031345f30 0000000000000004 \
                  6d357230";
    client.exchange(request, answer).await;
    let request = format!(
        "0000000000000057035baa4f7e9ab65e9e00000042 07 {APP} 0000000131 00000002 \
         000000077264645f345f30 000000077264645f345f31"
    );
    let removed = "000000000000001a045baa4f7e9ab65e9e00000005 08 00000002";
    client.exchange(&request, removed).await;
    let again = "000000000000001a045baa4f7e9ab65e9e00000005 08 00000000";
    client.exchange(&request, again).await;
    assert!(!lab.path("rdd_4_0").exists() && !lab.path("rdd_4_1").exists());
}

#[tokio::test]
async fn the_cause_of_a_wrong_checksum_is_found() {
    let lab = Lab::new();
    let mut client = Client::of(&lab, STREAM);
    client.exchange(REGISTER, REGISTERED).await;
    let diagnose = |checksum: &str, algorithm: &str| {
        let algorithm = hex(&text(algorithm));
        let message = format!(
            "10 {APP} 0000000131 00000003 0000000000000005 00000000 {checksum} {algorithm}"
        );
        rpc(0x450b_06c9_4eb6_b87b, &bytes(&message))
    };
    let network = "000000000000001704450b06c94eb6b87b00000002 11 01";
    let request = hex(&diagnose("0000000000001234", "ADLER32"));
    client.exchange(&request, network).await;
    let recorded = format!(
        "000000000000006003450b06c94eb6b87b0000004b 10 {APP} 0000000131 00000003 \
         0000000000000005 00000000 0000000000001234 0000000741444c45523332"
    );
    assert_eq!(request, hex(&bytes(&recorded)));
    let right = format!("{:016x}", adler2::adler32_slice(b"m5r0"));
    let cause = async |client: &mut Client, checksum: &str, algorithm: &str| {
        let (answer, _) = client.send(&diagnose(checksum, algorithm)).await;
        answer[22]
    };
    assert_eq!(cause(&mut client, &right, "ADLER32").await, 3);
    assert_eq!(cause(&mut client, &right, "MD5").await, 4);
    assert_eq!(cause(&mut client, &right, "CRC32").await, 2, "no such file");
    lab.write("shuffle_3_5_0.data", b"M5r0m5r1!");
    assert_eq!(cause(&mut client, &right, "ADLER32").await, 0);
    fs::remove_file(lab.path("shuffle_3_5_0.data")).unwrap();
    assert_eq!(cause(&mut client, &right, "ADLER32").await, 2);
}

/// Message of a kind that begins with the application and the executor 1.
fn message(kind: u8, rest: &str) -> Vec<u8> {
    bytes(&format!("{kind:02x} {APP} 0000000131 {rest}"))
}

/// Opens a stream of one partition and returns the answer to its chunk.
async fn fetch(client: &mut Client, map: u64, reduce: i32) -> Vec<u8> {
    let rest = format!("00000003 00000001 {map:016x} 00000001 00000001 {reduce:08x} 00");
    let (handle, _) = client.send(&rpc(1, &message(9, &rest))).await;
    let stream = &handle[22..30];
    let (answer, ends) = client
        .send(&framed(&[&[0][..], stream, &[0; 4]].concat()))
        .await;
    assert!(!ends);
    answer
}

/// Returns the text of the failure of a chunk.
fn text_of(answer: &[u8]) -> String {
    assert_eq!(answer[8], 2, "{}", hex(answer));
    String::from_utf8(answer[25..].to_vec()).unwrap()
}

#[tokio::test]
async fn what_cannot_be_sent_whole_fails_before_its_first_byte() {
    let lab = Lab::new();
    let mut client = Client::of(&lab, STREAM);
    let unknown = fetch(&mut client, 5, 0).await;
    let expected = format!("Executor is not registered (appId={APPLICATION}, execId=1)");
    assert!(text_of(&unknown).contains(&expected));
    client.exchange(REGISTER, REGISTERED).await;
    for (map, reduce, expected) in [
        (
            7,
            0,
            "java.lang.RuntimeException: Failed to open file: shuffle_3_7_0.index",
        ),
        (5, 3, "java.lang.IndexOutOfBoundsException"),
        (5, -1, "java.lang.IndexOutOfBoundsException"),
        (5, i32::MAX, "java.lang.IndexOutOfBoundsException"),
    ] {
        let text = text_of(&fetch(&mut client, map, reduce).await);
        assert!(text.contains(expected), "{text}");
    }
    lab.write("shuffle_3_5_0.data", b"m5");
    let text = text_of(&fetch(&mut client, 5, 0).await);
    assert!(text.contains("ends before the partition"), "{text}");
    let offsets = [10_i64, 0, -1].map(i64::to_be_bytes).concat();
    lab.write("shuffle_3_5_0.index", &offsets);
    let text = text_of(&fetch(&mut client, 5, 0).await);
    assert!(text.contains("count : -10 (expected: >= 0)"), "{text}");
    fs::remove_file(lab.path("shuffle_3_6_0.data")).unwrap();
    let text = text_of(&fetch(&mut client, 6, 0).await);
    assert!(text.contains("shuffle_3_6_0.data"), "{text}");
    assert!(
        !text.contains(&*lab.base.path().to_string_lossy()),
        "{text}"
    );
}

#[tokio::test]
async fn links_and_other_files_are_not_served() {
    let lab = Lab::new();
    let mut client = Client::of(&lab, STREAM);
    client.exchange(REGISTER, REGISTERED).await;
    let secret = lab.base.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let data = lab.path("shuffle_3_5_0.data");
    fs::remove_file(&data).unwrap();
    symlink(&secret, &data).unwrap();
    assert!(text_of(&fetch(&mut client, 5, 0).await).contains("Failed to open"));
    // The folder above it, too.
    let sub = lab.path("shuffle_3_6_0.data");
    let sub = sub.parent().unwrap();
    let moved = lab.base.path().join("moved");
    fs::rename(sub, &moved).unwrap();
    symlink(&moved, sub).unwrap();
    assert!(text_of(&fetch(&mut client, 6, 0).await).contains("Failed to open"));
}

#[tokio::test]
async fn a_removal_touches_files_of_blocks_and_nothing_else() {
    let lab = Lab::new();
    let mut client = Client::of(&lab, STREAM);
    client.exchange(REGISTER, REGISTERED).await;
    let victim = lab.base.path().join("victim");
    fs::write(&victim, "").unwrap();
    lab.write("stderr", b"");
    let target = lab.path("shuffle_3_9_0.data");
    fs::create_dir_all(target.parent().unwrap()).unwrap();
    symlink(&victim, &target).unwrap();
    let names = [
        "../../../victim",
        "/etc/passwd",
        "..",
        "",
        "stderr",
        "shuffle_3_5_0.index/../../x",
        "shuffle_3_9_0.data",
        "shuffle_3_5_0.index",
    ];
    let names: Vec<u8> = names.iter().flat_map(|name| text(name)).collect();
    let request = message(7, &format!("00000008 {}", hex(&names)));
    let (answer, _) = client.send(&rpc(1, &request)).await;
    // The link itself, and the index.
    assert_eq!(answer[21..], bytes("08 00000002"));
    assert!(victim.exists() && lab.path("stderr").exists());
    assert!(lab.path("shuffle_3_5_0.data").exists() && !lab.path("shuffle_3_5_0.index").exists());
}

/// Registration with these directories.
fn registration(application: &str, dirs: &[&str], sub_dirs: i32) -> Vec<u8> {
    let mut message = vec![2];
    message.extend(text(application));
    message.extend(text("1"));
    message.extend(u32::try_from(dirs.len()).unwrap().to_be_bytes());
    for dir in dirs {
        message.extend(text(dir));
    }
    message.extend(sub_dirs.to_be_bytes());
    message.extend(text("any name:{\"mergeDir\": \"x\"}"));
    message
}

#[tokio::test]
async fn registrations_of_others_folders_and_applications_are_refused() {
    let lab = Lab::new();
    let mut client = Client::of(&lab, STREAM);
    let many = vec!["/d/b"; 65];
    for (dirs, sub_dirs) in [
        (&["/etc"][..], 64),
        (&["/d/blockmgr-a", "/d/../etc"], 64),
        (&["/d"], 64),
        (&["d/blockmgr-a"], 64),
        (&["/d/blockmgr-a"], 0),
        (&["/d/blockmgr-a"], -1),
        (&["/d/blockmgr-a"], 4_097),
        (&[], 64),
        (&many, 64),
    ] {
        let text = client
            .failure(&registration(APPLICATION, dirs, sub_dirs))
            .await;
        assert!(
            text.starts_with("java.lang."),
            "{dirs:?} {sub_dirs}: {text}"
        );
    }
    let other = registration("application_1700000000000_0010", &["/d/b"], 64);
    let text = client.failure(&other).await;
    assert!(text.contains("has no containers here"), "{text}");
    assert_eq!(lab.applications.executors(), 0);
    let (answer, _) = client
        .send(&rpc(1, &registration(APPLICATION, &["/d/b"], 64)))
        .await;
    assert_eq!(answer[8], 4);
}

#[tokio::test]
async fn a_client_gets_nothing_of_another_application_than_its_own() {
    let lab = Lab::new();
    let mut owner = Client::of(&lab, STREAM);
    owner.exchange(REGISTER, REGISTERED).await;
    let mut client = Client::of(&lab, STREAM);
    client.session.access = Access::Proven("application_1700000000000_0010".into());
    let block = hex(&text("shuffle_3_5_0"));
    let index = hex(&text("shuffle_3_5_0.index"));
    let adler = hex(&text("ADLER32"));
    let messages = [
        // Blocks by their names, a removal, partitions by their numbers.
        message(0, &format!("00000001 {block}")),
        message(7, &format!("00000001 {index}")),
        message(
            9,
            "00000003 00000001 0000000000000005 00000001 00000001 00000000 00",
        ),
        bytes(&format!("0a {APP} 00000001 0000000131")),
        message(
            16,
            &format!("00000003 0000000000000005 00000000 0000000000000001 {adler}"),
        ),
        registration(APPLICATION, &["/d/blockmgr-b"], 64),
    ];
    for message in messages {
        let failure = client.failure(&message).await;
        let expected = "java.lang.SecurityException: Client for application_1700000000000_0010 not \
                        authorized for application";
        assert!(failure.starts_with(expected), "{}: {failure}", message[0]);
    }
    assert!(lab.path("shuffle_3_5_0.index").exists());
    let place = ExecutorName {
        application: APPLICATION,
        executor: "1",
    };
    let Ok(place) = lab.applications.find(place) else {
        panic!("the owner's executor is there");
    };
    assert_eq!(place.executor.dirs.len(), 2);
}

#[tokio::test]
async fn messages_of_others_get_sparks_failures() {
    let lab = Lab::new();
    let mut client = Client::of(&lab, STREAM);
    for (kind, expected) in [
        (
            99,
            "java.lang.IllegalArgumentException: Unknown message type: 99",
        ),
        (
            1,
            "java.lang.UnsupportedOperationException: Unexpected message",
        ),
        (
            6,
            "java.lang.UnsupportedOperationException: Unexpected message",
        ),
        (
            3,
            "java.lang.UnsupportedOperationException: Unexpected message",
        ),
        (
            13,
            "java.lang.UnsupportedOperationException: Cannot handle shuffle block merge",
        ),
        (
            15,
            "java.lang.UnsupportedOperationException: Cannot handle shuffle block merge",
        ),
        (
            9,
            "java.lang.IllegalArgumentException: the message ends inside a field",
        ),
    ] {
        let text = client.failure(&[kind]).await;
        assert!(text.starts_with(expected), "{text}");
    }
    // More maps than lists of reduces, and a batch that is no range.
    for rest in [
        "00000003 00000002 0000000000000005 0000000000000006 00000001 00000001 00000000 00",
        "00000003 00000001 0000000000000005 00000001 00000001 00000000 01",
    ] {
        let text = client.failure(&message(9, rest)).await;
        assert!(text.contains("the numbers of map ids"), "{text}");
    }
    // A count of blocks that the message cannot hold.
    let text = client.failure(&message(0, "7fffffff 00000000")).await;
    assert!(text.contains("ends inside a field"), "{text}");
    let upload = framed(&bytes("0a 5a8d30bf4abb4b59 00000001 0c 0000000000000009"));
    let (answer, ends) = client.send(&upload).await;
    assert!(ends && answer[8] == 5);
    let meta = framed(&bytes(&format!(
        "0b 760c6fd4d53a8080 {APP} 00000003 00000000 00000000"
    )));
    let (answer, ends) = client.send(&meta).await;
    assert!(!ends && answer[8] == 5);
}

#[tokio::test]
async fn an_executor_of_an_earlier_agent_is_served_once_its_application_is_known() {
    let lab = Lab::new();
    let record = bytes("01 00000040 00000001 0000000d2f642f626c6f636b6d67722d61");
    let restored = Applications::new(None);
    assert!(restored.restore(APPLICATION, "1", &record));
    for length in 0..record.len() {
        assert!(!restored.restore(APPLICATION, "2", &record[..length]));
    }
    let lab = Lab {
        applications: Arc::new(restored),
        ..lab
    };
    let mut client = Client::of(&lab, STREAM);
    let ask = rpc(1, &bytes(&format!("0a {APP} 00000001 0000000131")));
    // No failure, which would be final: the client comes again.
    assert_eq!(client.send(&ask).await, (Vec::new(), true));
    lab.bring(None);
    let (answer, ends) = client.send(&ask).await;
    assert!(!ends && answer[8] == 4, "{}", hex(&answer));
    assert!(client.session.user().is_some());
}
