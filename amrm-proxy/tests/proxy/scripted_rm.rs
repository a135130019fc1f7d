//! A ResourceManager that answers as a test says, and keeps what it was asked.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use records::{ApplicationAttemptId, MonoMillis};
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::exception::RemoteException;
use wire::protocol::{application_master, distributed_scheduling_am};
use wire::rpc::{BoxFuture, Caller, RpcServer, Service};
use wire::secrets::{MasterSecrets, RollTimes};
use wire::server::ServerAuth;
use wire::token::Token;

/// Keys that do not roll by themselves during a test.
pub(crate) const KEYS: RollTimes = RollTimes {
    interval: 1_000_000,
    overlap: 100_000,
};

/// What it answers to a method and its request; a call that it shall not answer waits for ever.
pub(crate) type Script =
    dyn Fn(&str, Bytes) -> BoxFuture<'static, Result<Bytes, RemoteException>> + Send + Sync;

/// One call that came.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) request: Bytes,
    /// The identifier of the token that the caller connected with.
    pub(crate) identifier: Bytes,
}

struct State {
    script: Mutex<Arc<Script>>,
    calls: Mutex<Vec<Call>>,
}

/// Both protocols on one port.
pub(crate) struct ScriptedRm {
    pub(crate) address: SocketAddr,
    pub(crate) secrets: Arc<MasterSecrets>,
    state: Arc<State>,
    _stop: DropGuard,
}

struct Hosted(Arc<State>, &'static str);

impl Service for Hosted {
    fn protocol(&self) -> &'static str {
        self.1
    }

    fn version(&self) -> u64 {
        application_master::VERSION
    }

    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        method: &'a str,
        request: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, RemoteException>> {
        self.0.calls.lock().unwrap().push(Call {
            method: method.to_owned(),
            request: request.clone(),
            identifier: caller.token_identifier.clone().unwrap(),
        });
        let script = Arc::clone(&self.0.script.lock().unwrap());
        script(method, request)
    }
}

/// Answers every call with these bytes.
pub(crate) fn always(answer: impl Into<Bytes>) -> Arc<Script> {
    let answer = answer.into();
    Arc::new(move |_, _| {
        let answer = answer.clone();
        Box::pin(async move { Ok(answer) })
    })
}

/// Refuses every call with this.
pub(crate) fn refuse(exception: RemoteException) -> Arc<Script> {
    Arc::new(move |_, _| {
        let exception = exception.clone();
        Box::pin(async move { Err(exception) })
    })
}

/// Answers nothing.
pub(crate) fn silent() -> Arc<Script> {
    Arc::new(|_, _| Box::pin(std::future::pending()))
}

impl ScriptedRm {
    pub(crate) async fn start(script: Arc<Script>) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), script).await
    }

    pub(crate) async fn start_at(address: SocketAddr, script: Arc<Script>) -> Self {
        let secrets = Arc::new(MasterSecrets::new(KEYS, MonoMillis(0)));
        Self::start_with(address, secrets, script).await
    }

    pub(crate) async fn start_with(
        address: SocketAddr,
        secrets: Arc<MasterSecrets>,
        script: Arc<Script>,
    ) -> Self {
        let state = Arc::new(State {
            script: Mutex::new(script),
            calls: Mutex::default(),
        });
        let auth = ServerAuth::Token(Arc::clone(&secrets) as Arc<_>);
        let mut builder = RpcServer::builder(auth);
        for protocol in [
            application_master::PROTOCOL,
            distributed_scheduling_am::PROTOCOL,
        ] {
            builder = builder.service(Hosted(Arc::clone(&state), protocol));
        }
        let (server, address) = builder.bind(address).await.unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(server.serve(stop.clone()));
        Self {
            address,
            secrets,
            state,
            _stop: stop.drop_guard(),
        }
    }

    pub(crate) fn say(&self, script: Arc<Script>) {
        *self.state.script.lock().unwrap() = script;
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.state.calls.lock().unwrap().clone()
    }

    /// The token that it hands out for this attempt.
    pub(crate) fn token(&self, attempt: ApplicationAttemptId) -> Token {
        self.secrets.admit(attempt)
    }
}
