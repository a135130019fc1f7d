//! The server: who asks, one request, one answer.

use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;

use access_control::Groups;
use http_server::{Activity, PeerKey, Phase, Place};
use nix::unistd::{Gid, Group, Uid, User as SystemUser};
use refusals::{Reason, Refusals};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::UCred;
use tokio::task::{Id, JoinError, JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::access::{AdminRules, Caller};
use crate::callers::{Answers, Callers};
use crate::message::{Answer, Permission, Refusal, RefusalKind, Reply, Request};
use crate::socket::{BindError, Socket};
use crate::{ANSWER_BYTES_MAX, CALLER_TIMEOUT, NODE_TIMEOUT, REQUEST_BYTES_MAX};

/// Pause after a failed accept. The likely cause, no file descriptors left, does not go away at
/// once.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// Maker of answers: the node.
pub trait AdminNode: Send + Sync + 'static {
    /// Answers a request of a caller who may make it.
    fn answer(
        &self,
        request: Request,
        caller: &Caller,
    ) -> impl Future<Output = Result<Answer, Refusal>> + Send;
}

/// A server that has its socket but does not serve yet.
#[derive(Debug)]
pub struct AdminServer {
    socket: Socket,
    rules: AdminRules,
    refusals: Arc<Refusals>,
}

impl AdminServer {
    /// Listens on `path`. Its permissions follow the group of the rules. Runs within a runtime of
    /// tokio.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind(path: &Path, rules: AdminRules) -> Result<Self, BindError> {
        let socket = Socket::bind(path, rules.group.as_deref())?;
        Ok(Self {
            socket,
            rules,
            refusals: Arc::default(),
        })
    }

    /// Counts refusals here.
    #[must_use]
    pub fn with_refusals(mut self, refusals: Arc<Refusals>) -> Self {
        self.refusals = refusals;
        self
    }

    /// Path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.socket.path()
    }

    /// Serves until `stop`; then removes the socket and lets answers under way end within their
    /// time limits.
    pub async fn serve<N: AdminNode>(self, node: N, stop: CancellationToken) {
        let Self {
            socket,
            rules,
            refusals,
        } = self;
        let mut accepting = Accepting {
            serving: Arc::new(Serving {
                node,
                rules,
                groups: Groups::default(),
                answers: Answers::new(),
                refusals,
            }),
            callers: Callers::new(),
            tasks: JoinSet::new(),
            epoch: Instant::now(),
            stop,
        };
        accepting.accept_all(&socket).await;
        drop(socket);
        while accepting.tasks.join_next().await.is_some() {}
    }
}

/// The accept loop: the one owner of the connections.
struct Accepting<N> {
    serving: Arc<Serving<N>>,
    callers: Callers<Id>,
    tasks: JoinSet<()>,
    epoch: Instant,
    stop: CancellationToken,
}

impl<N: AdminNode> Accepting<N> {
    async fn accept_all(&mut self, socket: &Socket) {
        loop {
            let may_accept = self.callers.may_accept(self.tasks.len());
            tokio::select! {
                () = self.stop.cancelled() => return,
                Some(ended) = self.tasks.join_next_with_id() => self.reap(ended),
                accepted = socket.listener.accept(), if may_accept => match accepted {
                    Ok((stream, _)) => self.open(stream),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection to the admin socket");
                        // Frees a descriptor, if that is what is missing.
                        self.callers.evict(|_| true);
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
    }

    fn open(&mut self, stream: UnixStream) {
        let credentials = match stream.peer_cred() {
            Ok(credentials) => credentials,
            Err(error) => {
                tracing::debug!(%error, "a caller of the admin socket is unknown");
                return;
            }
        };
        let peer = PeerKey::of_user(credentials.uid());
        if !self.callers.admit(peer) {
            self.serving.refusals.count(Reason::NoPlace);
            return;
        }
        let activity = Arc::new(Activity::new(self.epoch));
        let evicted = CancellationToken::new();
        let (serving, stop) = (Arc::clone(&self.serving), self.stop.clone());
        let place = Place {
            peer,
            activity: Arc::clone(&activity),
            evicted: evicted.clone(),
        };
        let task = self.tasks.spawn(async move {
            let served = tokio::select! {
                served = serving.serve_one(stream, credentials, &activity) => served,
                () = evicted.cancelled() => return serving.refusals.count(Reason::Evicted),
                // Answers under way are not worth the wait of a node that stops.
                () = stop.cancelled() => return,
            };
            if let Err(error) = served {
                if error.kind() == io::ErrorKind::TimedOut {
                    serving.refusals.count(Reason::Stalled);
                }
                tracing::debug!(%error, "a connection to the admin socket failed");
            }
        });
        self.callers.insert(task.id(), place);
    }

    fn reap(&mut self, ended: Result<(Id, ()), JoinError>) {
        match ended {
            Ok((id, ())) => self.callers.remove(id),
            Err(error) => {
                self.callers.remove(error.id());
                tracing::error!(%error, "the task of a caller of the admin socket failed");
            }
        }
    }
}

struct Serving<N> {
    node: N,
    rules: AdminRules,
    groups: Groups,
    answers: Answers,
    refusals: Arc<Refusals>,
}

impl<N: AdminNode> Serving<N> {
    /// Answers one request. Nothing is done for a caller before its request is there: who only
    /// connects costs a descriptor.
    async fn serve_one(
        &self,
        stream: UnixStream,
        credentials: UCred,
        activity: &Activity,
    ) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        let line = receive(&mut stream).await;
        activity.enter(Phase::Answering);
        let _place = self.answers.place(credentials.uid()).await;
        let caller = self.caller(credentials.uid(), credentials.gid()).await;
        let reply = match self.request(line, &caller) {
            Ok(request) => self.reply(request, &caller).await,
            Err((reason, refusal)) => {
                self.refusals.count(reason);
                Reply::Refused(refusal)
            }
        };
        let mut text = serde_json::to_vec(&reply)?;
        if text.len() >= ANSWER_BYTES_MAX {
            let refusal = refusal(
                RefusalKind::Unavailable,
                "the answer is too long: ask for less",
            );
            text = serde_json::to_vec(&Reply::Refused(refusal))?;
        }
        text.push(b'\n');
        let sent = async {
            stream.write_all(&text).await?;
            stream.shutdown().await
        };
        timeout(CALLER_TIMEOUT, sent).await?
    }

    /// Checks that the caller may make the request.
    fn request(
        &self,
        line: Result<Vec<u8>, (Reason, String)>,
        caller: &Caller,
    ) -> Result<Request, (Reason, Refusal)> {
        let not_allowed = |message| {
            let refusal = refusal(RefusalKind::NotAllowed, message);
            (Reason::Unauthorized, refusal)
        };
        if !self.rules.allow(caller, Permission::Look) {
            tracing::info!(caller = caller.name(), "the admin socket refuses a caller");
            return Err(not_allowed(format!(
                "the user {} may not ask this node: be root, the agent's user, or in the group of \
                 yarn.nodemanager.agent.admin.group",
                caller.name()
            )));
        }
        let bad = |reason, message| (reason, refusal(RefusalKind::BadRequest, message));
        let line = line.map_err(|(reason, message)| bad(reason, message))?;
        let request: Request = serde_json::from_slice(&line).map_err(|error| {
            let message = format!(
                "this agent does not know the request ({error}): use the agent's own version of the \
                 program"
            );
            bad(Reason::Malformed, message)
        })?;
        if self.rules.allow(caller, request.permission()) {
            return Ok(request);
        }
        let (name, command) = (caller.name(), request.name());
        tracing::info!(caller = name, command, "the admin socket refuses an order");
        Err(not_allowed(format!(
            "the user {name} may look but not {command}: yarn.admin.acl does not name this user"
        )))
    }

    async fn reply(&self, request: Request, caller: &Caller) -> Reply {
        match timeout(NODE_TIMEOUT, self.node.answer(request, caller)).await {
            Ok(Ok(answer)) => Reply::Ok(answer),
            Ok(Err(refusal)) => Reply::Refused(refusal),
            Err(_) => Reply::Refused(refusal(
                RefusalKind::Unavailable,
                "the node did not answer in time: look at the agent's log",
            )),
        }
    }

    /// Returns the caller with its names. The system may ask a directory server for them; callers
    /// who need none do not wait for it.
    async fn caller(&self, uid: u32, gid: u32) -> Caller {
        let names = spawn_blocking(move || {
            let user = SystemUser::from_uid(Uid::from_raw(uid)).ok().flatten();
            let group = Group::from_gid(Gid::from_raw(gid)).ok().flatten();
            let user = user.map(|user| user.name).unwrap_or_default();
            (user, group.map(|group| group.name).unwrap_or_default())
        });
        let names = timeout(CALLER_TIMEOUT, names).await;
        let (name, group) = names.ok().and_then(Result::ok).unwrap_or_default();
        let groups_matter = uid != 0 && uid != self.rules.own_uid && !name.is_empty();
        let user = if groups_matter {
            self.groups.user(name).await
        } else {
            access_control::User {
                name,
                groups: Vec::new(),
            }
        };
        Caller { uid, user, group }
    }
}

/// Receives the line of a request. It is read before any refusal: a connection with unread bytes
/// breaks off, and takes the refusal with it.
///
/// # Errors
/// The reason and the words of the refusal.
async fn receive(stream: &mut BufReader<UnixStream>) -> Result<Vec<u8>, (Reason, String)> {
    let mut line = Vec::new();
    let mut limited = stream.take(REQUEST_BYTES_MAX as u64);
    let read = timeout(CALLER_TIMEOUT, limited.read_until(b'\n', &mut line));
    let (reason, message) = match read.await {
        Ok(Ok(_)) if line.ends_with(b"\n") => return Ok(line),
        Ok(Ok(_)) if line.len() >= REQUEST_BYTES_MAX => {
            (Reason::TooLarge, "the request is too long".to_owned())
        }
        Ok(Ok(_)) => (Reason::Malformed, "the request has no end".to_owned()),
        Ok(Err(error)) => {
            let message = format!("the request cannot be read: {error}");
            (Reason::Malformed, message)
        }
        Err(_) => {
            let message = "the request did not arrive in time".to_owned();
            (Reason::Late, message)
        }
    };
    Err((reason, message))
}

fn refusal(kind: RefusalKind, message: impl Into<String>) -> Refusal {
    let message = message.into();
    Refusal { kind, message }
}
