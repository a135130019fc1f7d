//! The authentication before the first call, as two state machines over messages.
//!
//! ```text
//! client                         server
//!   NEGOTIATE            ──▶                       only if the client has a token; else the
//!                                                  preamble says NONE
//!                        ◀──     NEGOTIATE{TOKEN + challenge, SIMPLE}
//!                                or SUCCESS: no proof wanted
//!   INITIATE{TOKEN, response} ─▶                   or INITIATE{SIMPLE}, which is not answered
//!                        ◀──     SUCCESS{rspauth}
//! ```
//! A client may also open with INITIATE and an empty token; then the challenge comes as CHALLENGE
//! and the response goes as RESPONSE. No sockets and no randomness here: nonces are parameters.
//! Source: `org.apache.hadoop.ipc.Server` and `org.apache.hadoop.security.SaslRpcClient`.

mod error;
mod kerberos;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

pub use self::error::SaslError;
pub use self::kerberos::{KerberosClient, KerberosStep, initiate, respond};
use crate::digest_md5::{self, ClientResponse, ServerCheck};
use crate::exception::{HadoopException, RemoteException, RpcErrorCode};
use crate::layer::Layer;
use crate::protection::Protections;
use crate::proto::hadoop_common::RpcSaslProto;
use crate::proto::hadoop_common::rpc_sasl_proto::{SaslAuth, SaslState};
use crate::service::SecretManager;
use crate::token::Token;

/// Name of authentication by token.
const METHOD_TOKEN: &str = "TOKEN";
/// Name of authentication by claiming a user name.
const METHOD_SIMPLE: &str = "SIMPLE";

fn message(state: SaslState) -> RpcSaslProto {
    RpcSaslProto {
        state: state.into(),
        ..RpcSaslProto::default()
    }
}

fn simple_auth() -> SaslAuth {
    SaslAuth {
        method: METHOD_SIMPLE.to_owned(),
        ..SaslAuth::default()
    }
}

/// Returns the advertised TOKEN entry. Java compares it with the client's choice field by field,
/// presence included, so the empty protocol is required.
fn token_auth() -> SaslAuth {
    SaslAuth {
        method: METHOD_TOKEN.to_owned(),
        mechanism: digest_md5::MECHANISM.to_owned(),
        protocol: Some(String::new()),
        server_id: Some(digest_md5::SERVER_ID.to_owned()),
        challenge: None,
    }
}

/// Authentication that a server requires of its callers.
#[derive(Clone)]
pub enum ServerAuth {
    /// Callers claim a user name; nothing is proven.
    Simple,
    /// Callers prove to hold a token whose password this manager knows; nothing else is accepted.
    Token(Arc<dyn SecretManager>),
    /// Callers may do either of the two.
    TokenOrSimple(Arc<dyn SecretManager>),
}

impl ServerAuth {
    const fn secrets(&self) -> Option<&Arc<dyn SecretManager>> {
        match self {
            Self::Simple => None,
            Self::Token(secrets) | Self::TokenOrSimple(secrets) => Some(secrets),
        }
    }

    /// Returns whether a caller may claim a name without proof.
    #[must_use]
    pub const fn allows_simple(&self) -> bool {
        match self {
            Self::Simple | Self::TokenOrSimple(_) => true,
            Self::Token(_) => false,
        }
    }

    /// Returns the methods as Java prints them in refusals.
    const fn available(&self) -> &'static str {
        match self {
            Self::Simple => "[SIMPLE]",
            Self::Token(_) => "[TOKEN]",
            Self::TokenOrSimple(_) => "[TOKEN, SIMPLE]",
        }
    }

    /// Makes the refusal of a method that this server does not offer.
    #[must_use]
    pub fn refusal(&self, method: &str) -> RemoteException {
        RemoteException::with_code(
            HadoopException::AccessControl,
            format!(
                "{method} authentication is not enabled.  Available:{}",
                self.available()
            ),
            RpcErrorCode::FatalUnauthorized,
        )
    }

    /// Checks whether a client may connect without authentication.
    ///
    /// # Errors
    /// The refusal to send, if this server requires a token.
    pub fn check_simple(&self) -> Result<(), RemoteException> {
        if self.allows_simple() {
            Ok(())
        } else {
            Err(self.refusal(METHOD_SIMPLE))
        }
    }
}

impl fmt::Debug for ServerAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.available())
    }
}

/// The identity that a client has proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    /// RPC user of the token.
    pub user: String,
    /// User whose share of the server the caller takes.
    pub owner: String,
    /// Token identifier, exactly as received.
    pub identifier: Bytes,
    /// Kind of token, for example `NMToken`.
    pub kind: &'static str,
}

/// The server's reaction to a client's message.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum ServerStep {
    /// Sends this and waits for more.
    Reply(RpcSaslProto),
    /// Ends without proof: the context will claim a name. The message, if any, is sent first.
    SwitchToSimple(Option<RpcSaslProto>),
    /// Sends this; the client is authenticated.
    Done(RpcSaslProto, Authenticated),
}

/// The state of a server's negotiation with one client.
///
/// ```text
/// Start ──NEGOTIATE──▶ Negotiated ──INITIATE──▶ (done)
///   │                       │ └────INITIATE, empty token──▶ Challenged ──RESPONSE──▶ (done)
///   └──INITIATE, not advertised──▶ Negotiated       ▲
///   └──INITIATE, empty token────────────────────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerState {
    Start,
    Negotiated,
    Challenged,
    Finished,
}

/// The server's side of one authentication.
#[derive(Debug)]
pub struct SaslServer {
    auth: ServerAuth,
    protections: Protections,
    nonce: String,
    state: ServerState,
    layer: Option<Layer>,
}

impl SaslServer {
    /// Starts a negotiation with this nonce, which must be unpredictable and fresh (see
    /// [`digest_md5::nonce`]). Who proves a token may choose among the levels of protection.
    #[must_use]
    pub const fn new(auth: ServerAuth, protections: Protections, nonce: String) -> Self {
        Self {
            auth,
            protections,
            nonce,
            state: ServerState::Start,
            layer: None,
        }
    }

    /// Takes the layer that protects everything after the last message, if one was agreed on.
    pub const fn take_layer(&mut self) -> Option<Layer> {
        self.layer.take()
    }

    fn challenge(&self) -> Bytes {
        digest_md5::challenge(&self.nonce, &self.protections).into()
    }

    /// Handles the client's next message. After an error or a final step the negotiation is over.
    ///
    /// # Errors
    /// The fatal answer to send; the connection ends with it.
    pub fn handle(&mut self, received: &RpcSaslProto) -> Result<ServerStep, RemoteException> {
        let Ok(state) = SaslState::try_from(received.state) else {
            return Err(sasl_error("unknown SASL state"));
        };
        let step = match (self.state, state) {
            (ServerState::Start, SaslState::Negotiate) => Ok(self.negotiate()),
            (ServerState::Negotiated | ServerState::Challenged, SaslState::Negotiate) => {
                Err(RemoteException::with_code(
                    HadoopException::AccessControl,
                    "Client already attempted negotiation",
                    RpcErrorCode::FatalUnauthorized,
                ))
            }
            (ServerState::Start | ServerState::Negotiated, SaslState::Initiate) => {
                self.initiate(received)
            }
            (ServerState::Challenged, SaslState::Response) => self.evaluate(received),
            (ServerState::Start | ServerState::Negotiated, SaslState::Response)
            | (ServerState::Challenged, SaslState::Initiate)
            | (
                ServerState::Start | ServerState::Negotiated | ServerState::Challenged,
                SaslState::Success | SaslState::Challenge | SaslState::Wrap,
            ) => Err(sasl_error(&format!(
                "Client sent unsupported state {}",
                state.as_str_name()
            ))),
            (
                ServerState::Finished,
                SaslState::Success
                | SaslState::Negotiate
                | SaslState::Initiate
                | SaslState::Challenge
                | SaslState::Response
                | SaslState::Wrap,
            ) => Err(RemoteException::with_code(
                HadoopException::RpcServer,
                "SASL negotiation is over",
                RpcErrorCode::FatalInvalidRpcHeader,
            )),
        };
        if matches!(
            step,
            Err(_) | Ok(ServerStep::Done(..) | ServerStep::SwitchToSimple(_))
        ) {
            self.state = ServerState::Finished;
        }
        step
    }

    /// Offers the accepted methods. A server without tokens answers SUCCESS instead.
    fn negotiate(&mut self) -> ServerStep {
        let mut auths = Vec::new();
        if self.auth.secrets().is_some() {
            auths.push(SaslAuth {
                challenge: Some(self.challenge()),
                ..token_auth()
            });
        } else {
            return ServerStep::SwitchToSimple(Some(message(SaslState::Success)));
        }
        if self.auth.allows_simple() {
            auths.push(simple_auth());
        }
        self.state = ServerState::Negotiated;
        ServerStep::Reply(RpcSaslProto {
            auths,
            ..message(SaslState::Negotiate)
        })
    }

    fn initiate(&mut self, received: &RpcSaslProto) -> Result<ServerStep, RemoteException> {
        let [chosen] = received.auths.as_slice() else {
            return Err(sasl_error("Client mechanism is malformed"));
        };
        if self.auth.allows_simple() && *chosen == simple_auth() {
            return Ok(ServerStep::SwitchToSimple(None));
        }
        if self.auth.secrets().is_none() || *chosen != token_auth() {
            return match self.state {
                ServerState::Start => Ok(self.negotiate()),
                ServerState::Negotiated | ServerState::Challenged | ServerState::Finished => {
                    Err(self.auth.refusal(&printable(&chosen.method)))
                }
            };
        }
        if received.token.as_ref().is_some_and(Bytes::is_empty) {
            self.state = ServerState::Challenged;
            return Ok(ServerStep::Reply(RpcSaslProto {
                token: Some(self.challenge()),
                ..message(SaslState::Challenge)
            }));
        }
        self.evaluate(received)
    }

    fn evaluate(&mut self, received: &RpcSaslProto) -> Result<ServerStep, RemoteException> {
        let token = received
            .token
            .as_ref()
            .ok_or_else(|| sasl_error("Client did not send a token"))?;
        let Some(secrets) = self.auth.secrets() else {
            return Err(self.auth.refusal(METHOD_TOKEN));
        };
        let check = ServerCheck::parse(&self.nonce, &self.protections, token)
            .map_err(|error| sasl_error(&error.to_string()))?;
        let verified = secrets
            .retrieve(check.identifier())
            .map_err(|error| RemoteException {
                code: RpcErrorCode::FatalUnauthorized,
                ..error
            })?;
        let proof = check
            .verify(&verified.password)
            .map_err(|error| sasl_error(&error.to_string()))?;
        let authenticated = Authenticated {
            owner: verified.owner.unwrap_or_else(|| verified.user.clone()),
            user: verified.user,
            identifier: check.identifier().clone(),
            kind: secrets.kind(),
        };
        let reply = RpcSaslProto {
            token: Some(proof.message.into()),
            ..message(SaslState::Success)
        };
        self.layer = proof.layer;
        Ok(ServerStep::Done(reply, authenticated))
    }
}

fn sasl_error(text: &str) -> RemoteException {
    RemoteException::new(HadoopException::Sasl, text)
}

/// Shortens a peer's text for a message and removes control characters.
fn printable(text: &str) -> String {
    text.chars()
        .filter(|character| !character.is_control())
        .take(40)
        .collect()
}

/// The client's reaction to a server's message.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum ClientStep {
    /// Sends this and waits for more.
    Send(RpcSaslProto),
    /// Ends with both sides proven.
    Done,
}

#[derive(Debug)]
enum ClientState {
    Negotiating,
    Initiated(ClientResponse),
    Finished,
}

/// The client's side of one authentication by token.
#[derive(Debug)]
pub struct SaslClient {
    token: Token,
    protections: Protections,
    cnonce: String,
    state: ClientState,
    layer: Option<Layer>,
}

impl SaslClient {
    /// Starts a negotiation for the holder of this token, who accepts these levels of protection.
    #[must_use]
    pub const fn new(token: Token, protections: Protections, cnonce: String) -> Self {
        Self {
            token,
            protections,
            cnonce,
            state: ClientState::Negotiating,
            layer: None,
        }
    }

    /// Takes the layer that protects everything after the last message, if one was agreed on.
    pub const fn take_layer(&mut self) -> Option<Layer> {
        self.layer.take()
    }

    /// Returns the first message to send.
    #[must_use]
    pub fn start(&self) -> RpcSaslProto {
        message(SaslState::Negotiate)
    }

    /// Handles the server's next message.
    ///
    /// # Errors
    /// [`SaslError`]; the negotiation is over.
    pub fn handle(&mut self, received: &RpcSaslProto) -> Result<ClientStep, SaslError> {
        let unexpected = SaslError::UnexpectedState {
            state: received.state,
        };
        let Ok(state) = SaslState::try_from(received.state) else {
            return Err(unexpected);
        };
        match (
            std::mem::replace(&mut self.state, ClientState::Finished),
            state,
        ) {
            (ClientState::Negotiating, SaslState::Negotiate) => self.choose(&received.auths),
            (ClientState::Negotiating, SaslState::Success) => Err(no_token(&received.auths)),
            (ClientState::Initiated(response), SaslState::Success) => {
                self.layer = response.verify(received.token.as_deref().unwrap_or_default())?;
                Ok(ClientStep::Done)
            }
            (ClientState::Negotiating, SaslState::Challenge)
            | (ClientState::Initiated(_), SaslState::Negotiate | SaslState::Challenge)
            | (
                ClientState::Finished,
                SaslState::Success | SaslState::Negotiate | SaslState::Challenge,
            )
            | (_, SaslState::Initiate | SaslState::Response | SaslState::Wrap) => Err(unexpected),
        }
    }

    fn choose(&mut self, offered: &[SaslAuth]) -> Result<ClientStep, SaslError> {
        let token = offered
            .iter()
            .find(|auth| auth.method == METHOD_TOKEN && auth.mechanism == digest_md5::MECHANISM);
        let Some((auth, challenge)) = token.and_then(|auth| Some((auth, auth.challenge.as_ref()?)))
        else {
            return Err(no_token(offered));
        };
        let response = ClientResponse::new(
            challenge,
            &self.protections,
            &self.token.identifier,
            &self.token.password,
            &self.cnonce,
        )?;
        let chosen = SaslAuth {
            challenge: None,
            ..auth.clone()
        };
        let reply = RpcSaslProto {
            token: Some(response.message.clone().into()),
            auths: vec![chosen],
            ..message(SaslState::Initiate)
        };
        self.state = ClientState::Initiated(response);
        Ok(ClientStep::Send(reply))
    }
}

/// Returns the methods that a server offers, for a message.
fn methods(offered: &[SaslAuth]) -> Vec<String> {
    const SHOWN_MAX: usize = 8;
    let shown = offered.iter().take(SHOWN_MAX);
    shown.map(|auth| printable(&auth.method)).collect()
}

fn no_token(offered: &[SaslAuth]) -> SaslError {
    SaslError::NoToken {
        offered: methods(offered),
    }
}

#[cfg(test)]
mod tests;
