use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use access_control::AccessList;
use node_view::operator::Queue;
use tempfile::TempDir;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_util::sync::CancellationToken;

use crate::access::{AdminRules, Caller};
use crate::client::{AskError, ask};
use crate::message::{Answer, Refusal, RefusalKind, Request};
use crate::{AdminNode, AdminServer, BindError, REQUEST_BYTES_MAX};

/// A node whose queue has as many containers as were asked for.
struct Node;

impl AdminNode for Node {
    async fn answer(&self, request: Request, caller: &Caller) -> Result<Answer, Refusal> {
        match request {
            Request::Queue { first } => Ok(Answer::Queue(Queue {
                total: first,
                containers: Vec::new(),
            })),
            Request::Status
            | Request::Running { .. }
            | Request::Explain { .. }
            | Request::ExplainApplication { .. }
            | Request::Drain { .. }
            | Request::CancelDrain
            | Request::Reload => Err(Refusal {
                kind: RefusalKind::Unavailable,
                message: format!("no status for {}", caller.name()),
            }),
        }
    }
}

fn rules(own_uid: u32) -> AdminRules {
    AdminRules {
        own_uid,
        group: None,
        administrators: AccessList::new("*"),
    }
}

fn own_rules() -> AdminRules {
    rules(nix::unistd::geteuid().as_raw())
}

struct Served {
    folder: TempDir,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Served {
    fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let server = AdminServer::bind(&folder.path().join("socket"), own_rules()).unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(server.serve(Node, stop.clone()));
        Self { folder, stop, task }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    async fn ask(&self, request: Request) -> Result<Answer, AskError> {
        let path = self.path();
        spawn_blocking(move || ask(&path, &request)).await.unwrap()
    }

    /// Sends bytes and returns everything that comes back.
    async fn send(&self, bytes: Vec<u8>) -> String {
        let path = self.path();
        let exchange = move || {
            let mut stream = UnixStream::connect(path).unwrap();
            // The server may close before it has read all.
            let _cut = stream.write_all(&bytes);
            let _cut = stream.shutdown(std::net::Shutdown::Write);
            let mut text = Vec::new();
            let _cut = stream.read_to_end(&mut text);
            String::from_utf8(text).unwrap()
        };
        spawn_blocking(exchange).await.unwrap()
    }
}

fn first(answer: Result<Answer, AskError>) -> usize {
    match answer {
        Ok(Answer::Queue(queue)) => queue.total,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_answer_and_a_refusal_arrive() {
    let served = Served::start();
    assert_eq!(first(served.ask(Request::Queue { first: 3 }).await), 3);
    let refused = served.ask(Request::Status).await.unwrap_err();
    assert!(
        refused.to_string().starts_with("no status for "),
        "{refused}"
    );
    assert!(matches!(refused, AskError::Refused(_)));
}

#[tokio::test]
async fn what_is_no_request_is_refused_and_the_next_caller_is_served() {
    let served = Served::start();
    for bytes in [
        Vec::new(),
        b"\n".to_vec(),
        b"{\"command\":\"status\"}".to_vec(),
        b"{\"command\":\"reboot\"}\n".to_vec(),
        b"\xff\xfe\n".to_vec(),
        vec![b'['; REQUEST_BYTES_MAX - 1],
        [vec![b'['; 4_000], b"\n".to_vec()].concat(),
    ] {
        let text = served.send(bytes.clone()).await;
        assert!(text.contains("bad-request"), "{bytes:?}: {text:?}");
    }
    // The rest of a request that is too long is not read.
    served.send(vec![b' '; 10 * REQUEST_BYTES_MAX]).await;
    assert_eq!(first(served.ask(Request::Queue { first: 1 }).await), 1);
}

#[tokio::test]
async fn callers_who_say_nothing_do_not_keep_others_out() {
    let served = Served::start();
    let path = served.path();
    let silent: Vec<_> = (0..300)
        .map(|_| UnixStream::connect(&path).unwrap())
        .collect();
    assert_eq!(first(served.ask(Request::Queue { first: 1 }).await), 1);
    drop(silent);
}

#[tokio::test]
async fn the_socket_is_for_its_user_only_unless_a_group_is_named() {
    let served = Served::start();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert!(fs::metadata(served.path()).unwrap().file_type().is_socket());
    assert_eq!(mode(&served.path()), 0o600);
    let gid = nix::unistd::getegid();
    let group = nix::unistd::Group::from_gid(gid).unwrap().unwrap().name;
    let path = served.folder.path().join("shared");
    let rules = AdminRules {
        group: Some(group),
        ..own_rules()
    };
    let _server = AdminServer::bind(&path, rules).unwrap();
    assert_eq!(mode(&path), 0o660);
    let rules = AdminRules {
        group: Some("no such group".to_owned()),
        ..own_rules()
    };
    let refused = AdminServer::bind(&served.folder.path().join("other"), rules);
    assert!(matches!(refused, Err(BindError::NoSuchGroup(_))));
}

#[tokio::test]
async fn a_socket_in_use_is_left_alone_and_one_of_an_ended_agent_is_replaced() {
    let served = Served::start();
    let refused = AdminServer::bind(&served.path(), own_rules());
    assert!(matches!(refused, Err(BindError::InUse(_))), "{refused:?}");
    assert_eq!(first(served.ask(Request::Queue { first: 1 }).await), 1);
    // As an agent that was killed leaves it.
    let left = served.folder.path().join("left");
    drop(std::os::unix::net::UnixListener::bind(&left).unwrap());
    assert!(matches!(
        ask(&left, &Request::Status),
        Err(AskError::NotRunning(_))
    ));
    let server = AdminServer::bind(&left, own_rules()).unwrap();
    drop(server);
    assert!(!left.exists());
}

#[tokio::test]
async fn a_stop_removes_the_socket_and_closes_connections() {
    let served = Served::start();
    let silent = UnixStream::connect(served.path()).unwrap();
    let path = served.path();
    served.stop.cancel();
    served.task.await.unwrap();
    assert!(!path.exists());
    assert!(matches!(
        ask(&path, &Request::Status),
        Err(AskError::NotRunning(_))
    ));
    drop(silent);
}

#[tokio::test]
async fn a_path_that_no_socket_can_have_is_refused_with_its_reason() {
    let folder = TempDir::new().unwrap();
    let long = folder.path().join("a".repeat(120));
    let refused = AdminServer::bind(&long, own_rules());
    assert!(matches!(refused, Err(BindError::TooLong { .. })));
    fs::write(folder.path().join("file"), "").unwrap();
    let below = folder.path().join("file/socket");
    let refused = AdminServer::bind(&below, own_rules()).unwrap_err();
    assert!(matches!(refused, BindError::Io { .. }), "{refused}");
}

#[tokio::test]
async fn a_caller_whom_the_rules_do_not_know_is_refused() {
    // Root may always ask, so this test needs another user's view: the rules alone.
    if nix::unistd::geteuid().is_root() {
        let caller = Caller {
            uid: 65_534,
            user: access_control::User::default(),
            group: String::new(),
        };
        assert!(!rules(0).allow(&caller, crate::message::Permission::Look));
        return;
    }
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("socket");
    let server = AdminServer::bind(&path, rules(0)).unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(server.serve(Node, stop.clone()));
    let refused = spawn_blocking(move || ask(&path, &Request::Status)).await;
    let Err(AskError::Refused(refusal)) = refused.unwrap() else {
        panic!("not refused");
    };
    assert_eq!(refusal.kind, RefusalKind::NotAllowed);
}
