//! A connection to whichever of several ResourceManagers answers, tried again with patience.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use wire::exception::HadoopException;
use wire::rpc::{ClientAuth, ClientOptions, Method, RpcClient, RpcError};
use wire::token::Token;

use crate::cluster::Patience;
use crate::retry::{Failures, Verdict};

/// Longest time to resolve a name, and then to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time for one call. Every call made here may be made again, so that a ResourceManager that hangs is not waited
/// for as long as Hadoop does.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// Why a call brought no answer.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The name of a ResourceManager has no address.
    #[error("the address of {address} cannot be found")]
    Resolve {
        /// As configured.
        address: String,
        /// What the resolver says; nothing when it knows the name and no address.
        source: Option<io::Error>,
    },
    /// It cannot be reached, or refuses.
    #[error("{method} of the ResourceManager at {address}")]
    Call {
        /// As configured.
        address: String,
        /// Which call.
        method: &'static str,
        /// Why.
        source: RpcError,
    },
    /// It has not answered for as long as the configuration allows.
    #[error("no ResourceManager has answered for {} s", .waited_ms / 1000)]
    GaveUp {
        /// For how long.
        waited_ms: u64,
        /// Why the last try failed.
        source: Box<LinkError>,
    },
}

impl LinkError {
    /// Whether the ResourceManager refused with this exception.
    #[must_use]
    pub fn is(&self, exception: HadoopException) -> bool {
        match self {
            Self::Call { source, .. } => source.remote().is_some_and(|remote| remote.is(exception)),
            Self::Resolve { .. } | Self::GaveUp { .. } => false,
        }
    }

    /// Whether another try, perhaps elsewhere, may bring an answer.
    fn may_pass(&self) -> bool {
        match self {
            Self::Resolve { .. } => true,
            Self::Call { source, .. } => {
                source.is_network()
                    || self.is(HadoopException::Standby)
                    || self.is(HadoopException::Retriable)
            }
            Self::GaveUp { .. } => false,
        }
    }
}

/// Who serves, who calls, how patiently.
#[derive(Clone, Debug)]
pub(crate) struct LinkConfig {
    /// `host:port` of each; at least one.
    pub(crate) addresses: Vec<String>,
    /// The protocol to open connections for.
    pub(crate) protocol: &'static str,
    /// Who calls.
    pub(crate) auth: ClientAuth,
    /// How patient to be.
    pub(crate) patience: Patience,
}

/// At most one open connection.
#[derive(Debug)]
pub(crate) struct RmLink {
    config: LinkConfig,
    current: usize,
    client: Option<RpcClient>,
    failures: Failures,
    started: Instant,
    silence: watch::Sender<Option<u64>>,
}

impl RmLink {
    /// Nothing is opened before the first call.
    pub(crate) fn new(config: LinkConfig) -> Self {
        Self {
            config,
            current: 0,
            client: None,
            failures: Failures::default(),
            started: Instant::now(),
            silence: watch::Sender::new(None),
        }
    }

    /// For how many milliseconds no ResourceManager has answered; `None` while one does.
    pub(crate) fn silence(&self) -> watch::Receiver<Option<u64>> {
        self.silence.subscribe()
    }

    /// From now on it calls with this token, over a new connection.
    pub(crate) fn set_token(&mut self, token: Token) {
        self.config.auth = ClientAuth::Token(token);
        self.client = None;
    }

    fn now(&self) -> records::MonoMillis {
        self.started.elapsed().into()
    }

    /// Makes a call that may be made twice, again and again until there is an answer or patience ends.
    ///
    /// # Errors
    /// The ResourceManager's refusal, or [`LinkError::GaveUp`].
    pub(crate) async fn call<M: Method>(
        &mut self,
        request: &M::Request,
    ) -> Result<M::Response, LinkError> {
        loop {
            let began = self.now();
            let error = match self.call_once::<M>(request).await {
                Ok(answer) => {
                    self.answered();
                    return Ok(answer);
                }
                Err(error) => error,
            };
            if !error.may_pass() {
                self.answered();
                return Err(error);
            }
            self.client = None;
            self.current = (self.current + 1) % self.config.addresses.len().max(1);
            let addresses = self.config.addresses.len();
            let patience = self.config.patience;
            let now = self.now();
            match self.failures.note(began, now, addresses, &patience) {
                Verdict::RetryAfter(pause_ms) => {
                    tracing::debug!(%error, pause_ms, "no answer");
                    self.silence.send_replace(self.failures.lasting_ms(now));
                    sleep(Duration::from_millis(pause_ms)).await;
                }
                Verdict::GiveUp(waited_ms) => {
                    let source = Box::new(error);
                    return Err(LinkError::GaveUp { waited_ms, source });
                }
            }
        }
    }

    fn answered(&mut self) {
        self.failures.clear();
        self.silence
            .send_if_modified(|silence| silence.take().is_some());
    }

    async fn call_once<M: Method>(
        &mut self,
        request: &M::Request,
    ) -> Result<M::Response, LinkError> {
        let address = self
            .config
            .addresses
            .get(self.current)
            .cloned()
            .unwrap_or_default();
        let client = match &self.client {
            Some(client) if !client.is_lost() => client.clone(),
            Some(_) | None => {
                let client = self.open(&address, M::NAME).await?;
                self.client.insert(client).clone()
            }
        };
        client
            .call::<M>(request)
            .await
            .map_err(|source| LinkError::Call {
                address,
                method: M::NAME,
                source,
            })
    }

    async fn open(&self, address: &str, method: &'static str) -> Result<RpcClient, LinkError> {
        let options = ClientOptions {
            connect_timeout: CONNECT_TIMEOUT,
            call_timeout: CALL_TIMEOUT,
            ..ClientOptions::default()
        };
        let mut failure = LinkError::Resolve {
            address: address.to_owned(),
            source: None,
        };
        for found in resolve(address).await? {
            let auth = self.config.auth.clone();
            match RpcClient::connect(found, self.config.protocol, auth, &options).await {
                Ok(client) => return Ok(client),
                Err(source) => {
                    failure = LinkError::Call {
                        address: address.to_owned(),
                        method,
                        source,
                    };
                }
            }
        }
        Err(failure)
    }
}

async fn resolve(address: &str) -> Result<Vec<SocketAddr>, LinkError> {
    let failed = |source| LinkError::Resolve {
        address: address.to_owned(),
        source: Some(source),
    };
    match timeout(CONNECT_TIMEOUT, tokio::net::lookup_host(address)).await {
        Ok(Ok(found)) => Ok(found.collect()),
        Ok(Err(error)) => Err(failed(error)),
        Err(_) => Err(failed(io::ErrorKind::TimedOut.into())),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio_util::sync::CancellationToken;
    use tokio_util::task::AbortOnDropHandle;
    use wire::exception::RemoteException;
    use wire::proto::hadoop_yarn::{GetNewApplicationRequestProto, GetNewApplicationResponseProto};
    use wire::protocol::application_client::{
        self, ApplicationClientProtocol, ApplicationClientService, GetNewApplication,
    };
    use wire::rpc::{Caller, RpcServer, ServerAuth};

    use super::*;

    /// Refuses with an exception for so many times, then answers.
    struct Rm {
        exception: HadoopException,
        refusals: AtomicU32,
    }

    impl ApplicationClientProtocol for Rm {
        async fn get_new_application(
            &self,
            _: &Caller,
            _: GetNewApplicationRequestProto,
        ) -> Result<GetNewApplicationResponseProto, RemoteException> {
            let less = |left: u32| left.checked_sub(1);
            let order = Ordering::Relaxed;
            if self.refusals.fetch_update(order, order, less).is_ok() {
                return Err(RemoteException::new(self.exception, "no"));
            }
            Ok(GetNewApplicationResponseProto::default())
        }
    }

    async fn serve(exception: HadoopException, refusals: u32) -> (String, AbortOnDropHandle<()>) {
        let rm = Rm {
            exception,
            refusals: refusals.into(),
        };
        let server = RpcServer::builder(ServerAuth::Simple)
            .service(ApplicationClientService::new(Arc::new(rm)));
        let server = server.bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = server.1.to_string();
        let serving = tokio::spawn(server.0.serve(CancellationToken::new()));
        (address, AbortOnDropHandle::new(serving))
    }

    fn link(addresses: Vec<String>, give_up_after_ms: u64) -> RmLink {
        RmLink::new(LinkConfig {
            addresses,
            protocol: application_client::PROTOCOL,
            auth: ClientAuth::Simple {
                user: "u".to_owned(),
            },
            patience: Patience {
                give_up_after: Some(Duration::from_millis(give_up_after_ms)),
                interval_max: Duration::from_millis(1),
            },
        })
    }

    async fn ask(link: &mut RmLink) -> Result<GetNewApplicationResponseProto, LinkError> {
        let request = GetNewApplicationRequestProto::default();
        link.call::<GetNewApplication>(&request).await
    }

    #[tokio::test]
    async fn a_standby_is_passed_over() {
        let (standby, _standby) = serve(HadoopException::Standby, u32::MAX).await;
        let (active, _active) = serve(HadoopException::Standby, 0).await;
        let mut link = link(vec![standby, active], 60_000);
        assert!(ask(&mut link).await.is_ok());
    }

    #[tokio::test]
    async fn one_that_cannot_answer_now_is_asked_again() {
        let (address, _serving) = serve(HadoopException::Retriable, 3).await;
        let mut link = link(vec![address], 60_000);
        let silence = link.silence();
        assert!(ask(&mut link).await.is_ok());
        assert_eq!(*silence.borrow(), None);
    }

    #[tokio::test]
    async fn a_refusal_is_final() {
        let (address, _serving) = serve(HadoopException::YarnException, 1).await;
        let mut link = link(vec![address], 60_000);
        let error = ask(&mut link).await.unwrap_err();
        assert!(error.is(HadoopException::YarnException), "{error}");
    }

    #[tokio::test]
    async fn patience_with_nobody_ends() {
        // Removal and given back: nobody listens there.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let error = ask(&mut link(vec![address], 20)).await.unwrap_err();
        assert!(matches!(error, LinkError::GaveUp { .. }), "{error}");
    }
}
