//! A proxy on a port, and the AMs that it has admitted.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use amrm_proxy::NodeTokenKeys;
use amrm_proxy::config::{FileAccess, InterceptorKind, ProxyConfig, ThrottleConfig, TokenPolicy};
use amrm_proxy::observe::{Observation, Observer};
use amrm_proxy::rm_forwarder::RmConfig;
use amrm_proxy::store::{NoStore, Store, StoredState};
use amrm_proxy::{
    Admission, AdmitError, AmStart, AmrmProxy, AmrmProxyService, LookParts, NodeKeys, PendingStart,
    ProxyParts,
};
use bytes::Bytes;
use records::{ApplicationAttemptId, EpochMillis, MonoMillis, Now};
use sched::DistributedAllocatorConfig;
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::client::{ClientAuth, ClientOptions, RpcClient, RpcError};
use wire::credentials::Credentials;
use wire::exception::RemoteException;
use wire::protocol::application_master::{PROTOCOL, VERSION};
use wire::server::{RpcServer, ServerAuth};
use wire::token::{Token, kind};

use test_support::scripted::{KEYS, Script, ScriptedScheduler};

/// A scheduler on a free port that records calls.
pub(crate) async fn start_scheduler(script: Arc<Script>) -> ScriptedScheduler {
    ScriptedScheduler::open(script).await.record_calls()
}

/// Makes a configuration with every interceptor that needs no further settings.
pub(crate) fn config(rms: &[SocketAddr]) -> ProxyConfig {
    ProxyConfig {
        pipeline: vec![
            InterceptorKind::CallMetrics,
            InterceptorKind::Throttle,
            InterceptorKind::Forwarder,
        ],
        rm: RmConfig {
            addresses: rms.iter().map(ToString::to_string).collect(),
            max_wait: Some(Duration::from_secs(20)),
            retry_interval: Duration::from_millis(10),
            distributed_scheduling: false,
            protections: wire::protection::Protections::default(),
        },
        token: TokenPolicy::default(),
        keys: KEYS,
        throttle: ThrottleConfig::default(),
        relabel: Vec::new(),
        role_history: None,
        allocator: DistributedAllocatorConfig::default(),
    }
}

#[derive(Default)]
pub(crate) struct Seen(Mutex<Vec<Observation>>);

impl Observer for Seen {
    fn observe(&self, observation: &Observation) {
        self.0.lock().unwrap().push(*observation);
    }
}

impl Seen {
    pub(crate) fn all(&self) -> Vec<Observation> {
        self.0.lock().unwrap().clone()
    }
}

/// Keys of a node that cannot sign.
struct Unregistered;

impl NodeKeys for Unregistered {
    fn current(&self) -> Option<NodeTokenKeys> {
        None
    }
}

/// Keys of a node that signs.
pub(crate) struct Keys(pub(crate) NodeTokenKeys);

impl NodeKeys for Keys {
    fn current(&self) -> Option<NodeTokenKeys> {
        Some(self.0.clone())
    }
}

/// A running proxy with its port.
pub(crate) struct Node {
    pub(crate) proxy: Arc<AmrmProxy>,
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Seen>,
    clock_ms: Arc<AtomicU64>,
    _stop: DropGuard,
}

impl Node {
    pub(crate) async fn start(config: ProxyConfig) -> Self {
        Self::start_with(config, Arc::new(NoStore), StoredState::default()).await
    }

    pub(crate) async fn start_with(
        config: ProxyConfig,
        store: Arc<dyn Store>,
        found: StoredState,
    ) -> Self {
        let parts = (Arc::new(Unregistered) as Arc<_>, LookParts::default());
        Self::start_keyed(config, store, found, parts).await
    }

    /// Starts a node that can sign.
    pub(crate) async fn start_signing(config: ProxyConfig, keys: Arc<dyn NodeKeys>) -> Self {
        let parts = (keys, LookParts::default());
        Self::start_keyed(config, Arc::new(NoStore), StoredState::default(), parts).await
    }

    /// Starts a node with all that it may have.
    pub(crate) async fn start_keyed(
        config: ProxyConfig,
        store: Arc<dyn Store>,
        found: StoredState,
        (node_keys, looks): (Arc<dyn NodeKeys>, LookParts),
    ) -> Self {
        let seen = Arc::new(Seen::default());
        let clock_ms = Arc::new(AtomicU64::new(0));
        let of_clock = Arc::clone(&clock_ms);
        let (proxy, update_task) = AmrmProxy::new(
            config,
            ProxyParts {
                store,
                found,
                node_keys,
                files: FileAccess::default(),
                looks,
                reservations: None,
                observer: Arc::clone(&seen) as Arc<_>,
                clock: Arc::new(move || Now {
                    mono: MonoMillis(of_clock.load(Ordering::Relaxed)),
                    wall: EpochMillis(1_700_000_000_000),
                }),
            },
        );
        let proxy = Arc::new(proxy);
        let auth = ServerAuth::Token(proxy.tokens());
        let (server, address) = RpcServer::builder(auth)
            .service(AmrmProxyService::new(Arc::clone(&proxy)))
            .limits(amrm_proxy::server_limits())
            .bind(SocketAddr::from(([127, 0, 0, 1], 0)))
            .await
            .unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(server.serve(stop.clone()));
        tokio::spawn(update_task.run(stop.clone()));
        Self {
            proxy,
            address,
            seen,
            clock_ms,
            _stop: stop.drop_guard(),
        }
    }

    pub(crate) fn set_clock_ms(&self, now_ms: u64) {
        self.clock_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Starts an AM with this token of the ResourceManager; returns the AM's local token.
    pub(crate) fn admit(&self, attempt: ApplicationAttemptId, rm_token: Token) -> Token {
        let (token, start) = self.begin(attempt, rm_token).unwrap();
        start.succeeded();
        token
    }

    /// Begins an AM's start, whose outcome is open.
    pub(crate) fn begin(
        &self,
        attempt: ApplicationAttemptId,
        rm_token: Token,
    ) -> Result<(Token, PendingStart), AdmitError> {
        let tokens = BTreeMap::from([(String::new(), rm_token)]);
        let (mut tokens, start) = self.begin_with(attempt, tokens)?;
        assert_eq!(tokens.len(), 1);
        let token = tokens.remove("").unwrap();
        assert_eq!(
            (token.kind.as_str(), token.service.as_str()),
            (kind::AM_RM_TOKEN, "")
        );
        Ok((token, start))
    }

    /// Begins the start of an AM with these tokens; returns those that it gets.
    pub(crate) fn begin_with(
        &self,
        attempt: ApplicationAttemptId,
        tokens: BTreeMap<String, Token>,
    ) -> Result<(BTreeMap<String, Token>, PendingStart), AdmitError> {
        let credentials = Credentials {
            tokens,
            ..Credentials::default()
        };
        let start = AmStart {
            attempt,
            user: "alice",
            tags: Vec::new(),
            role_history: None,
            credentials: &credentials.write_v0(),
        };
        let Admission::Admitted { credentials, start } = self.proxy.admit(&start)? else {
            panic!("an AM with a token is proxied");
        };
        let credentials = Credentials::read(&credentials.0).unwrap();
        Ok((credentials.tokens, start))
    }

    pub(crate) async fn connect(&self, token: Token) -> Result<Am, RpcError> {
        connect(self.address, token).await
    }
}

/// Connects to the scheduler port of a node or of the ResourceManager.
pub(crate) async fn connect(address: SocketAddr, token: Token) -> Result<Am, RpcError> {
    let auth = ClientAuth::Token(token);
    let client = RpcClient::connect(address, PROTOCOL, auth, &ClientOptions::default()).await?;
    Ok(Am(client))
}

/// Connection of an AM.
#[derive(Clone, Debug)]
pub(crate) struct Am(RpcClient);

impl Am {
    pub(crate) async fn call(
        &self,
        method: &str,
        request: impl Into<Bytes>,
    ) -> Result<Bytes, RemoteException> {
        self.try_call(method, request).await.map_err(|error| {
            let exception = error.remote().cloned();
            exception.unwrap_or_else(|| panic!("the proxy does not answer: {error}"))
        })
    }

    pub(crate) async fn try_call(
        &self,
        method: &str,
        request: impl Into<Bytes>,
    ) -> Result<Bytes, RpcError> {
        let request = request.into();
        self.0.call_raw(method, PROTOCOL, VERSION, request).await
    }
}
