//! A pool and its workers, each this test binary in a role that its first argument names. The files
//! are local ones, which a worker serves as those of HDFS.

#![expect(clippy::unwrap_used, reason = "a test")]

mod common;

use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use common::{DEADLINE, only_worker, pool, pool_of, program, session_of, until, workers_of};
use file_worker::message::Reply;
use file_worker::{COMMAND, Pool, Program};
use hadoop_fs::{Caller, FileSystem, FsError, Opener as _, Uri};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use test_support::skip;
use users::Account;

fn main() {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    match arguments.get(1).and_then(|role| role.to_str()) {
        Some(COMMAND) => file_worker::serve().unwrap(),
        Some("agent") => agent(),
        Some("greedy") => greedy(),
        Some("liar") => liar(arguments[2].to_str().unwrap()),
        _ => {
            a_worker_serves_files();
            a_worker_has_no_more_than_it_needs();
            a_worker_that_is_killed_fails_its_own_operations_with_the_reason();
            a_worker_without_memory_says_so();
            a_worker_ends_with_the_agent_that_is_killed();
            a_worker_that_lies_harms_nobody_but_its_callers();
            a_worker_that_cannot_start_fails_at_once();
            println!("7 tests of workers passed");
        }
    }
}

fn open(pool: &Pool, work: &str) -> Result<Box<dyn FileSystem>, FsError> {
    pool.open(&Uri::file("/"), Caller::user("joe", work))
}

fn write(files: &dyn FileSystem, path: &str, content: &[u8]) -> Result<(), FsError> {
    let mut file = files.create(path, 0o600, false)?;
    file.write_all(content).unwrap();
    file.close()
}

fn a_worker_serves_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let pool = pool();
    let files = open(&pool, "a").unwrap();
    files.make_dirs(&at("a/b"), 0o750).unwrap();
    // Several messages, and a part of one.
    let content: Vec<u8> = (0..700_001_u32)
        .map(|number| number.to_le_bytes()[1])
        .collect();
    write(&*files, &at("a/b/new"), &content).unwrap();
    assert_eq!(fs::read(at("a/b/new")).unwrap(), content);
    files.rename(&at("a/b/new"), &at("a/b/old"), false).unwrap();
    files.set_mode(&at("a/b/old"), 0o640).unwrap();
    let status = files.status(&at("a/b/old")).unwrap();
    assert_eq!((status.length, status.mode), (700_001, 0o640));
    assert_eq!(
        files.list(&at("a/b"), 5).unwrap(),
        std::slice::from_ref(&status)
    );
    let mut file = files.open(&at("a/b/old")).unwrap();
    assert_eq!(file.modified_ms().unwrap(), status.modified_ms);
    let mut read = Vec::new();
    file.read_to_end(&mut read).unwrap();
    assert_eq!(read, content);
    for (target, from) in [
        (SeekFrom::Start(300_000), 300_000),
        (SeekFrom::Current(5), 300_015),
        (SeekFrom::End(-10), 699_991),
        (SeekFrom::Start(7), 7),
    ] {
        assert_eq!(file.seek(target).unwrap(), from as u64);
        let mut ten = [0; 10];
        file.read_exact(&mut ten).unwrap();
        assert_eq!(ten, content[from..from + 10]);
    }
    let error = files.list(&at("a/b"), 0).unwrap_err();
    assert!(
        matches!(error, FsError::TooMany { limit: 0, .. }),
        "{error}"
    );
    let error = files.open(&at("none")).err().unwrap();
    assert!(matches!(error, FsError::NotFound { .. }), "{error}");
    let error = write(&*files, &at("a/b/old"), b"").unwrap_err();
    assert!(matches!(error, FsError::Exists { .. }), "{error}");
    // Places for open files are given back.
    for _ in 0..20 {
        drop(files.open(&at("a/b/old")).unwrap());
    }
    let error = files
        .status(&format!("/{}", "n".repeat(100_000)))
        .unwrap_err();
    assert!(error.to_string().contains("of at most"), "{error}");
    assert!(files.delete(&at("a")).unwrap());
    assert!(!files.delete(&at("a")).unwrap());
    drop(file);
    // The same work has one worker, another has its own.
    let _again = open(&pool, "a").unwrap();
    assert_eq!(workers_of(std::process::id()).len(), 1);
    let _other = open(&pool, "b").unwrap();
    assert_eq!(workers_of(std::process::id()).len(), 2);
    drop(pool);
    assert!(workers_of(std::process::id()).is_empty());
}

fn a_worker_has_no_more_than_it_needs() {
    let test = "a_worker_has_no_more_than_it_needs";
    if let Some(obstacle) = users::obstacles().first() {
        return skip::skip(test, obstacle);
    }
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    // Inherited by every program that this process starts.
    let _leak = leaked_descriptor(&secret);
    let account = Arc::new(Account::anybody());
    let uid = account.uid();
    let pool = pool_of(
        Program::own(),
        Box::new(move |caller| (!caller.is_own).then(|| Arc::clone(&account))),
        DEADLINE,
    );
    let files = open(&pool, "a").unwrap();
    let error = files.open(secret.to_str().unwrap()).err().unwrap();
    assert!(matches!(error, FsError::Denied { .. }), "{error}");
    confined(only_worker(), uid);
    drop(files);
    // The agent's own work has its user, but no capabilities.
    let before = workers_of(std::process::id());
    let files = pool.open(&Uri::file("/"), Caller::own("nm", "a")).unwrap();
    let workers = workers_of(std::process::id()).into_iter();
    let own: Vec<_> = workers.filter(|worker| !before.contains(worker)).collect();
    confined(own[0], nix::unistd::geteuid().as_raw());
    files.open(secret.to_str().unwrap()).unwrap();
}

fn leaked_descriptor(path: &Path) -> fs::File {
    use nix::fcntl::{FcntlArg, FdFlag, fcntl};
    let file = fs::File::open(path).unwrap();
    fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    file
}

/// Checks what the kernel says of a worker.
#[track_caller]
fn confined(worker: i32, uid: u32) {
    let read = |name: &str| fs::read_to_string(format!("/proc/{worker}/{name}")).unwrap();
    assert_eq!(read("environ"), "");
    let status = read("status");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let words = line.unwrap().split_whitespace();
        words.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(field("Uid:"), format!("{uid} {uid} {uid} {uid}"));
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(field(set), "0000000000000000", "{set}");
    }
    assert_eq!(field("NoNewPrivs:"), "1");
    let limits = read("limits");
    let limit = |name: &str| limits.lines().any(|line| line.starts_with(name));
    assert!(limit("Max address space         268435456 "), "{limits}");
    assert!(limit("Max core file size        0 "), "{limits}");
    let stat = read("stat");
    let session = stat.rsplit(") ").next().unwrap().split(' ').nth(3).unwrap();
    assert_eq!(session, worker.to_string(), "a session of its own");
    let mut open = Vec::new();
    for entry in fs::read_dir(format!("/proc/{worker}/fd"))
        .unwrap()
        .flatten()
    {
        let target = fs::read_link(entry.path()).unwrap();
        open.push(
            target
                .to_str()
                .unwrap()
                .split(':')
                .next()
                .unwrap()
                .to_owned(),
        );
    }
    open.sort_unstable();
    // Control, a session, and standard error, which the agent reads.
    assert_eq!(open, ["/dev/null", "/dev/null", "pipe", "socket", "socket"]);
}

fn a_worker_that_is_killed_fails_its_own_operations_with_the_reason() {
    let pool = pool();
    let files = open(&pool, "a").unwrap();
    let same = open(&pool, "a").unwrap();
    let worker = only_worker();
    let other = open(&pool, "b").unwrap();
    kill(Pid::from_raw(worker), Signal::SIGKILL).unwrap();
    let expected =
        "cannot read the status of file:/: its file worker ended with signal 9 (SIGKILL)";
    assert_eq!(files.status("/").unwrap_err().to_string(), expected);
    assert_eq!(same.status("/").unwrap_err().to_string(), expected);
    assert!(other.status("/").is_ok());
    assert!(open(&pool, "a").unwrap().status("/").is_ok());
    // One that ends while nothing is open is not missed.
    let workers = workers_of(std::process::id());
    for worker in workers {
        kill(Pid::from_raw(worker), Signal::SIGKILL).unwrap();
    }
    until("the next worker", || {
        open(&pool, "a").unwrap().status("/").is_ok()
    });
}

/// Worker that wants more memory than there is.
fn greedy() {
    let _taken = std::hint::black_box(Vec::<u8>::with_capacity(1 << 46));
}

fn a_worker_without_memory_says_so() {
    let pool = pool_of(program("greedy", ""), Box::new(|_| None), DEADLINE);
    let error = open(&pool, "a").err().unwrap().to_string();
    // It may end while it is being started, or when it is asked for the first time.
    assert_eq!(
        error.replace("its file worker cannot be started: ", ""),
        "cannot open file:/: its file worker ended with signal 6 (SIGABRT): memory allocation of \
         70368744177664 bytes failed"
    );
}

/// Agent that opens a file system and waits for its end.
fn agent() {
    let pool = pool();
    let files = open(&pool, "a").unwrap();
    files.status("/").unwrap();
    println!("{}", only_worker());
    std::thread::sleep(DEADLINE);
}

fn a_worker_ends_with_the_agent_that_is_killed() {
    let mut agent = Command::new("/proc/self/exe")
        .arg("agent")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 16];
    let read = agent.stdout.as_mut().unwrap().read(&mut line).unwrap();
    let worker: i32 = String::from_utf8_lossy(&line[..read])
        .trim()
        .parse()
        .unwrap();
    // One that is stopped does not see that its socket has ended.
    kill(Pid::from_raw(worker), Signal::SIGSTOP).unwrap();
    agent.kill().unwrap();
    agent.wait().unwrap();
    until("the worker's end", || {
        let stat = fs::read_to_string(format!("/proc/{worker}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z")
    });
}

/// Worker that answers its first request in a way that none should.
fn liar(lie: &str) {
    use std::os::fd::AsFd as _;
    let control = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let session = session_of(&control);
    let send = |bytes: &[u8]| drop((&session).write_all(bytes));
    let frame = |message: &[u8]| {
        let length = u32::try_from(message.len()).unwrap().to_le_bytes();
        send(&[&length, message].concat());
    };
    // The answer to the request that opens the session.
    frame(&Reply::Done.encode());
    match lie {
        "long frame" => send(&u32::MAX.to_le_bytes()),
        "garbage" => frame(&[99, 1, 2, 3]),
        "other answer" => frame(&Reply::Existed(true).encode()),
        "half a frame" => return send(&[9, 0, 0, 0, 1]),
        "endless list" => loop {
            let batch = vec![
                hadoop_fs::Status {
                    name: "n".repeat(4000),
                    kind: hadoop_fs::Kind::File,
                    length: 0,
                    modified_ms: 0,
                    mode: 0,
                    owner: String::new(),
                };
                60
            ];
            frame(
                &Reply::Entries {
                    batch,
                    is_last: false,
                }
                .encode(),
            );
        },
        "silence" => {}
        _ => panic!("{lie}"),
    }
    std::thread::sleep(DEADLINE);
}

fn a_worker_that_lies_harms_nobody_but_its_callers() {
    for (lie, reason) in [
        (
            "long frame",
            "broke the protocol: a message of 4294967295 bytes",
        ),
        (
            "garbage",
            "broke the protocol: the reply is of no known kind",
        ),
        (
            "other answer",
            "broke the protocol: the reply answers another request",
        ),
        ("half a frame", "its file worker ended with status 0"),
        (
            "endless list",
            "broke the protocol: a list of more than 16777216 bytes",
        ),
        ("silence", "its file worker did not answer in time"),
    ] {
        let limit = if lie == "silence" {
            Duration::from_millis(100)
        } else {
            DEADLINE
        };
        let pool = pool_of(program("liar", lie), Box::new(|_| None), limit);
        // A busy machine may take longer than the limit to start it.
        let files = loop {
            match open(&pool, "a") {
                Ok(files) => break files,
                Err(error) => assert_eq!(lie, "silence", "{error}"),
            }
        };
        let error = files.list("/", usize::MAX).unwrap_err();
        assert!(error.to_string().contains(reason), "{lie}: {error}");
        let again = files.list("/", 1).unwrap_err();
        assert_eq!(again.to_string(), error.to_string());
        until("the liar's end", || {
            workers_of(std::process::id()).is_empty()
        });
    }
}

fn a_worker_that_cannot_start_fails_at_once() {
    let program = Program {
        path: "/no/such/program".into(),
        arguments: Vec::new(),
    };
    let pool = pool_of(program, Box::new(|_| None), DEADLINE);
    let error = open(&pool, "a").err().unwrap();
    let text = error.to_string();
    assert!(
        text.contains("its file worker cannot be started: No such file"),
        "{text}"
    );
}
