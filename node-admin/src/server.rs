//! The server: who asks, one request, one answer.

use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;

use nix::unistd::{Gid, Group, Uid, User as SystemUser};
use node_web::access::Groups;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::access::{AdminRules, Caller};
use crate::message::{Answer, Permission, Refusal, RefusalKind, Reply, Request};
use crate::socket::{BindError, Socket};
use crate::{ANSWER_BYTES_MAX, CALLER_TIMEOUT, NODE_TIMEOUT, REQUEST_BYTES_MAX};

/// Connections served at once. Others wait in the kernel's list; each of these ends within the
/// time limits, so that a caller that stalls delays others and keeps nobody out.
const CONNECTIONS_MAX: usize = 16;

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
}

impl AdminServer {
    /// Listens on `path`. Its permissions follow the group of the rules. Runs within a runtime of
    /// tokio.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind(path: &Path, rules: AdminRules) -> Result<Self, BindError> {
        let socket = Socket::bind(path, rules.group.as_deref())?;
        Ok(Self { socket, rules })
    }

    /// Path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.socket.path()
    }

    /// Serves until `stop`; then removes the socket and lets answers under way end within their
    /// time limits.
    pub async fn serve<N: AdminNode>(self, node: N, stop: CancellationToken) {
        let serving = Arc::new(Serving {
            node,
            rules: self.rules,
            groups: Groups::default(),
        });
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        loop {
            let accepted = async {
                let place = Arc::clone(&places).acquire_owned().await;
                (self.socket.listener.accept().await, place)
            };
            tokio::select! {
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => {}
                accepted = accepted => match accepted {
                    (Ok((stream, _)), place) => {
                        let (serving, stop) = (Arc::clone(&serving), stop.clone());
                        connections.spawn(async move {
                            let _place = place;
                            // Answers under way are not worth the wait of a node that stops.
                            let served = stop.run_until_cancelled(serving.serve_one(stream)).await;
                            if let Some(Err(error)) = served {
                                tracing::debug!(%error, "a connection to the admin socket failed");
                            }
                        });
                    }
                    (Err(error), _) => {
                        tracing::warn!(%error, "cannot accept a connection to the admin socket");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(self.socket);
        while connections.join_next().await.is_some() {}
    }
}

struct Serving<N> {
    node: N,
    rules: AdminRules,
    groups: Groups,
}

impl<N: AdminNode> Serving<N> {
    async fn serve_one(&self, stream: UnixStream) -> io::Result<()> {
        let credentials = stream.peer_cred()?;
        let caller = self.caller(credentials.uid(), credentials.gid()).await;
        let mut stream = BufReader::new(stream);
        let reply = match self.request(&mut stream, &caller).await {
            Ok(request) => self.reply(request, &caller).await,
            Err(refusal) => Reply::Refused(refusal),
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

    /// Reads the request, and checks that the caller may make it. The request is read before any
    /// refusal: a connection with unread bytes breaks off, and takes the refusal with it.
    async fn request(
        &self,
        stream: &mut BufReader<UnixStream>,
        caller: &Caller,
    ) -> Result<Request, Refusal> {
        let bad = |message: &str| refusal(RefusalKind::BadRequest, message);
        let mut line = Vec::new();
        let most = REQUEST_BYTES_MAX as u64;
        let mut limited = stream.take(most);
        let read = timeout(CALLER_TIMEOUT, limited.read_until(b'\n', &mut line));
        let read = read.await;
        if !self.rules.allow(caller, Permission::Look) {
            tracing::info!(caller = caller.name(), "the admin socket refuses a caller");
            let message = format!(
                "the user {} may not ask this node: be root, the agent's user, or in the group of \
                 yarn.nodemanager.agent.admin.group",
                caller.name()
            );
            return Err(refusal(RefusalKind::NotAllowed, message));
        }
        match read {
            Ok(Ok(_)) if line.ends_with(b"\n") => {}
            Ok(Ok(_)) if line.len() >= REQUEST_BYTES_MAX => {
                return Err(bad("the request is too long"));
            }
            Ok(Ok(_)) => return Err(bad("the request has no end")),
            Ok(Err(error)) => return Err(bad(&format!("the request cannot be read: {error}"))),
            Err(_) => return Err(bad("the request did not arrive in time")),
        }
        let request: Request = serde_json::from_slice(&line).map_err(|error| {
            bad(&format!(
                "this agent does not know the request ({error}): use the agent's own version of the \
                 program"
            ))
        })?;
        if self.rules.allow(caller, request.permission()) {
            return Ok(request);
        }
        let (name, command) = (caller.name(), request.name());
        tracing::info!(caller = name, command, "the admin socket refuses an order");
        let message = format!(
            "the user {name} may look but not {command}: yarn.admin.acl does not name this user"
        );
        Err(refusal(RefusalKind::NotAllowed, message))
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
            node_web::access::User {
                name,
                groups: Vec::new(),
            }
        };
        Caller { uid, user, group }
    }
}

fn refusal(kind: RefusalKind, message: impl Into<String>) -> Refusal {
    let message = message.into();
    Refusal { kind, message }
}
