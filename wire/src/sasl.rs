//! The authentication that comes before the first call, as two state machines over messages.
//!
//! ```text
//! client                         server
//!   NEGOTIATE            ──▶                          only with a token at hand; otherwise the preamble says NONE
//!                        ◀──     NEGOTIATE{TOKEN + challenge, SIMPLE}     or SUCCESS: "just say your name"
//!   INITIATE{TOKEN, response} ─▶                      or INITIATE{SIMPLE}, which nobody answers
//!                        ◀──     SUCCESS{rspauth}
//! ```
//! A client may also open with INITIATE and an empty token; then the challenge comes as CHALLENGE and the response goes
//! as RESPONSE. No sockets and no randomness here: nonces are handed in. Source: `org.apache.hadoop.ipc.Server` and
//! `org.apache.hadoop.security.SaslRpcClient`.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::digest_md5::{self, ClientResponse, DigestError, ServerCheck};
use crate::exception::{HadoopException, RemoteException, RpcErrorCode};
use crate::proto::hadoop_common::RpcSaslProto;
use crate::proto::hadoop_common::rpc_sasl_proto::{SaslAuth, SaslState};
use crate::rpc::SecretManager;
use crate::token::Token;

/// Name of authentication by token.
const METHOD_TOKEN: &str = "TOKEN";
/// Name of authentication by saying a user name.
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

/// The advertised TOKEN entry. Java compares it with the client's choice field by field, presence included, so the
/// empty protocol has to be there.
fn token_auth() -> SaslAuth {
    SaslAuth {
        method: METHOD_TOKEN.to_owned(),
        mechanism: digest_md5::MECHANISM.to_owned(),
        protocol: Some(String::new()),
        server_id: Some(digest_md5::SERVER_ID.to_owned()),
        challenge: None,
    }
}

/// How callers of a server prove who they are.
#[derive(Clone)]
pub enum ServerAuth {
    /// They say their name; nothing is proven.
    Simple,
    /// They prove to hold a token whose password this manager knows; nothing else is accepted.
    Token(Arc<dyn SecretManager>),
    /// Either of the two.
    TokenOrSimple(Arc<dyn SecretManager>),
}

impl ServerAuth {
    const fn secrets(&self) -> Option<&Arc<dyn SecretManager>> {
        match self {
            Self::Simple => None,
            Self::Token(secrets) | Self::TokenOrSimple(secrets) => Some(secrets),
        }
    }

    /// Whether a caller may just say its name.
    #[must_use]
    pub const fn allows_simple(&self) -> bool {
        match self {
            Self::Simple | Self::TokenOrSimple(_) => true,
            Self::Token(_) => false,
        }
    }

    /// The list as Java prints it in refusals.
    const fn available(&self) -> &'static str {
        match self {
            Self::Simple => "[SIMPLE]",
            Self::Token(_) => "[TOKEN]",
            Self::TokenOrSimple(_) => "[TOKEN, SIMPLE]",
        }
    }

    /// The refusal of a method that this server does not offer.
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

    /// The refusal of a client that wants no authentication, if this server insists on a token.
    ///
    /// # Errors
    /// The answer to send.
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

/// What a client has proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    /// The RPC user that the token stands for.
    pub user: String,
    /// The token identifier, exactly as received.
    pub identifier: Bytes,
    /// The kind of token.
    pub kind: &'static str,
}

/// What the server does after a client's message.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum ServerStep {
    /// Send this and wait for more.
    Reply(RpcSaslProto),
    /// Authentication is over and nothing was proven: the context will say the name. The message, if any, is sent
    /// first.
    SwitchToSimple(Option<RpcSaslProto>),
    /// Send this; the client is authenticated.
    Done(RpcSaslProto, Authenticated),
}

/// Where a server stands with one client.
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
    nonce: String,
    state: ServerState,
}

impl SaslServer {
    /// A negotiation with this nonce, which must be unpredictable and fresh (see [`digest_md5::nonce`]).
    #[must_use]
    pub const fn new(auth: ServerAuth, nonce: String) -> Self {
        Self {
            auth,
            nonce,
            state: ServerState::Start,
        }
    }

    /// Takes the client's next message. After an error or a final step the negotiation is over.
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

    /// Offers what this server accepts; a server that wants no token says so by SUCCESS.
    fn negotiate(&mut self) -> ServerStep {
        let mut auths = Vec::new();
        if self.auth.secrets().is_some() {
            let challenge = digest_md5::challenge(&self.nonce).into();
            auths.push(SaslAuth {
                challenge: Some(challenge),
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
            let challenge = digest_md5::challenge(&self.nonce).into();
            return Ok(ServerStep::Reply(RpcSaslProto {
                token: Some(challenge),
                ..message(SaslState::Challenge)
            }));
        }
        self.evaluate(received)
    }

    fn evaluate(&self, received: &RpcSaslProto) -> Result<ServerStep, RemoteException> {
        let token = received
            .token
            .as_ref()
            .ok_or_else(|| sasl_error("Client did not send a token"))?;
        let Some(secrets) = self.auth.secrets() else {
            return Err(self.auth.refusal(METHOD_TOKEN));
        };
        let check = ServerCheck::parse(&self.nonce, token)
            .map_err(|error| sasl_error(&error.to_string()))?;
        let verified = secrets
            .retrieve(check.identifier())
            .map_err(|error| RemoteException {
                code: RpcErrorCode::FatalUnauthorized,
                ..error
            })?;
        let rspauth = check
            .verify(&verified.password)
            .map_err(|error| sasl_error(&error.to_string()))?;
        let authenticated = Authenticated {
            user: verified.user,
            identifier: check.identifier().clone(),
            kind: secrets.kind(),
        };
        let reply = RpcSaslProto {
            token: Some(rspauth.into()),
            ..message(SaslState::Success)
        };
        Ok(ServerStep::Done(reply, authenticated))
    }
}

fn sasl_error(text: &str) -> RemoteException {
    RemoteException::new(HadoopException::Sasl, text)
}

/// A peer's word for use in a message: short and without control characters.
fn printable(text: &str) -> String {
    text.chars()
        .filter(|character| !character.is_control())
        .take(40)
        .collect()
}

/// Why a client gives up its authentication.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaslError {
    /// The server does not take tokens, and the caller did not allow going on without proof.
    #[error("the server offers no authentication by token: {offered:?}")]
    NoToken {
        /// The methods that it offers; empty when it wants none.
        offered: Vec<String>,
    },
    /// A message of the wrong kind or form.
    #[error("unexpected SASL state {state} from the server")]
    UnexpectedState {
        /// The number of the state.
        state: i32,
    },
    /// The challenge or the server's proof is wrong.
    #[error("the server's digest is wrong")]
    Digest(#[from] DigestError),
}

/// What the client does after a server's message.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum ClientStep {
    /// Send this and wait for more.
    Send(RpcSaslProto),
    /// Authentication is over without proof: the context says the name. The message, if any, is sent first.
    SwitchToSimple(Option<RpcSaslProto>),
    /// Both sides have proven themselves.
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
    cnonce: String,
    simple_allowed: bool,
    state: ClientState,
}

impl SaslClient {
    /// A negotiation for the holder of this token. With `simple_allowed` the client goes on without proof when the
    /// server does not take tokens.
    #[must_use]
    pub const fn new(token: Token, cnonce: String, simple_allowed: bool) -> Self {
        Self {
            token,
            cnonce,
            simple_allowed,
            state: ClientState::Negotiating,
        }
    }

    /// The first message.
    #[must_use]
    pub fn start(&self) -> RpcSaslProto {
        message(SaslState::Negotiate)
    }

    /// Takes the server's next message.
    ///
    /// # Errors
    /// See [`SaslError`]; the negotiation is over.
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
            (ClientState::Negotiating, SaslState::Success) => self.simple(None, &received.auths),
            (ClientState::Initiated(response), SaslState::Success) => {
                response.verify(received.token.as_deref().unwrap_or_default())?;
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
            let simple = offered.iter().any(|auth| auth.method == METHOD_SIMPLE);
            let chosen = RpcSaslProto {
                auths: vec![simple_auth()],
                ..message(SaslState::Initiate)
            };
            return if simple {
                self.simple(Some(chosen), offered)
            } else {
                Err(no_token(offered))
            };
        };
        let response = ClientResponse::new(
            challenge,
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

    fn simple(
        &self,
        chosen: Option<RpcSaslProto>,
        offered: &[SaslAuth],
    ) -> Result<ClientStep, SaslError> {
        if self.simple_allowed {
            Ok(ClientStep::SwitchToSimple(chosen))
        } else {
            Err(no_token(offered))
        }
    }
}

fn no_token(offered: &[SaslAuth]) -> SaslError {
    SaslError::NoToken {
        offered: offered.iter().map(|auth| printable(&auth.method)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message as _;

    use super::*;
    use crate::rpc::Verified;
    use crate::testing::{Keys, am_token, hex};

    const NONCE: &str = "t6kM3aJdaQj4zoKIHKunxp8+8tUVlXROGGkkxvqo";
    const CNONCE: &str = "dDgCPworofLRuKtHVt2G6PEXsGK/+FkwUAWnirLY";

    fn server(auth: ServerAuth) -> SaslServer {
        SaslServer::new(auth, NONCE.to_owned())
    }

    fn token_only() -> ServerAuth {
        ServerAuth::Token(Arc::new(Keys))
    }

    fn client(simple_allowed: bool) -> SaslClient {
        SaslClient::new(am_token(), CNONCE.to_owned(), simple_allowed)
    }

    fn reply(server: &mut SaslServer, received: &RpcSaslProto) -> RpcSaslProto {
        match server.handle(received) {
            Ok(ServerStep::Reply(reply)) => reply,
            other => panic!("no reply but {other:?}"),
        }
    }

    fn sent(client: &mut SaslClient, received: &RpcSaslProto) -> RpcSaslProto {
        match client.handle(received) {
            Ok(ClientStep::Send(message)) => message,
            other => panic!("nothing to send but {other:?}"),
        }
    }

    fn refusal(server: &mut SaslServer, received: &RpcSaslProto) -> RemoteException {
        server.handle(received).unwrap_err()
    }

    #[test]
    fn token_proves_its_holder_and_the_server() {
        let (mut server, mut client) = (server(token_only()), client(false));
        let offer = reply(&mut server, &client.start());
        assert_eq!(
            offer.encode_to_vec(),
            [
                hex("1001 228c01 0a05544f4b454e 120a4449474553542d4d4435 1a00 220764656661756c74 2a6c"),
                digest_md5::challenge(NONCE).into_bytes(),
            ]
            .concat()
        );
        let initiate = sent(&mut client, &offer);
        let bytes = initiate.encode_to_vec();
        assert_eq!(bytes[..5], hex("1002 1a9202"));
        assert_eq!(
            bytes[bytes.len() - 32..],
            hex("221e 0a05544f4b454e 120a4449474553542d4d4435 1a00 220764656661756c74")
        );
        let ServerStep::Done(success, authenticated) = server.handle(&initiate).unwrap() else {
            panic!("not done");
        };
        assert_eq!(
            success.encode_to_vec(),
            hex(
                "1000 1a28 727370617574683d3663383032343663636565373432396561373333306531666430356138656361"
            )
        );
        assert_eq!(authenticated.identifier, am_token().identifier);
        assert_eq!(authenticated.user, "appattempt_1700000000000_0007_000001");
        assert_eq!(client.handle(&success), Ok(ClientStep::Done));
    }

    #[test]
    fn challenge_and_response_work_without_negotiation() {
        let mut server = server(token_only());
        let opening = RpcSaslProto {
            token: Some(Bytes::new()),
            auths: vec![token_auth()],
            ..message(SaslState::Initiate)
        };
        let challenge = reply(&mut server, &opening);
        assert_eq!(challenge.state, i32::from(SaslState::Challenge));
        let token = am_token();
        let response = ClientResponse::new(
            &challenge.token.unwrap(),
            &token.identifier,
            &token.password,
            CNONCE,
        )
        .unwrap();
        let response = RpcSaslProto {
            token: Some(response.message.into()),
            ..message(SaslState::Response)
        };
        assert!(matches!(server.handle(&response), Ok(ServerStep::Done(..))));
    }

    #[test]
    fn server_without_tokens_answers_success_and_asks_for_a_name() {
        let mut server = server(ServerAuth::Simple);
        let step = server.handle(&client(true).start());
        assert_eq!(
            step,
            Ok(ServerStep::SwitchToSimple(Some(message(
                SaslState::Success
            ))))
        );
        let success = message(SaslState::Success);
        assert_eq!(
            client(true).handle(&success),
            Ok(ClientStep::SwitchToSimple(None))
        );
        assert_eq!(
            client(false).handle(&success),
            Err(SaslError::NoToken { offered: vec![] })
        );
    }

    #[test]
    fn simple_choice_on_a_mixed_server_is_not_answered() {
        let mut server = server(ServerAuth::TokenOrSimple(Arc::new(Keys)));
        let offer = reply(&mut server, &client(true).start());
        assert_eq!(offer.auths[1].encode_to_vec(), hex("0a0653494d504c45 1200"));
        let choice = RpcSaslProto {
            auths: vec![simple_auth()],
            ..message(SaslState::Initiate)
        };
        assert_eq!(
            choice.encode_to_vec(),
            hex("1002 220a 0a06 53494d504c45 1200")
        );
        assert_eq!(server.handle(&choice), Ok(ServerStep::SwitchToSimple(None)));
    }

    #[test]
    fn client_prefers_its_token_on_a_mixed_server() {
        let mut server = server(ServerAuth::TokenOrSimple(Arc::new(Keys)));
        let mut client = client(true);
        let offer = reply(&mut server, &client.start());
        let initiate = sent(&mut client, &offer);
        assert!(matches!(server.handle(&initiate), Ok(ServerStep::Done(..))));
    }

    #[test]
    fn choice_that_is_not_the_advertised_one_is_refused() {
        let without_protocol = SaslAuth {
            protocol: None,
            ..token_auth()
        };
        let with_challenge = SaslAuth {
            challenge: Some(Bytes::from_static(b"c")),
            ..token_auth()
        };
        for auth in [without_protocol, with_challenge, simple_auth()] {
            let mut server = server(token_only());
            reply(&mut server, &message(SaslState::Negotiate));
            let error = refusal(
                &mut server,
                &RpcSaslProto {
                    auths: vec![auth],
                    ..message(SaslState::Initiate)
                },
            );
            assert!(error.is(HadoopException::AccessControl));
            assert_eq!(error.code, RpcErrorCode::FatalUnauthorized);
        }
    }

    #[test]
    fn unadvertised_choice_without_negotiation_is_answered_by_an_offer() {
        let mut server = server(token_only());
        let choice = RpcSaslProto {
            auths: vec![simple_auth()],
            ..message(SaslState::Initiate)
        };
        assert_eq!(
            reply(&mut server, &choice).state,
            i32::from(SaslState::Negotiate)
        );
    }

    #[test]
    fn second_negotiation_and_foreign_states_are_refused() {
        let mut twice = server(token_only());
        reply(&mut twice, &message(SaslState::Negotiate));
        assert!(
            refusal(&mut twice, &message(SaslState::Negotiate)).is(HadoopException::AccessControl)
        );
        for state in [
            SaslState::Success,
            SaslState::Challenge,
            SaslState::Response,
            SaslState::Wrap,
        ] {
            let error = refusal(&mut server(token_only()), &message(state));
            assert!(error.is(HadoopException::Sasl));
            assert_eq!(error.code, RpcErrorCode::FatalUnauthorized);
        }
        let unknown = RpcSaslProto {
            state: 77,
            ..RpcSaslProto::default()
        };
        assert!(refusal(&mut server(token_only()), &unknown).is(HadoopException::Sasl));
    }

    #[test]
    fn finished_negotiation_takes_no_more() {
        let mut server = server(ServerAuth::Simple);
        let _ = server.handle(&message(SaslState::Negotiate));
        assert_eq!(
            refusal(&mut server, &message(SaslState::Negotiate)).code,
            RpcErrorCode::FatalInvalidRpcHeader
        );
    }

    #[test]
    fn wrong_password_is_a_sasl_exception() {
        let token = Token {
            password: Bytes::from_static(b"wrong"),
            ..am_token()
        };
        let error = refused_token(token);
        assert!(error.is(HadoopException::Sasl));
        assert_eq!(error.code, RpcErrorCode::FatalUnauthorized);
    }

    #[test]
    fn forged_identifier_is_not_proven_by_the_old_password() {
        let mut identifier = am_token().identifier.to_vec();
        identifier[5] ^= 1;
        assert!(
            refused_token(Token {
                identifier: identifier.into(),
                ..am_token()
            })
            .is(HadoopException::Sasl)
        );
    }

    #[test]
    fn identifier_that_the_manager_refuses_is_an_invalid_token() {
        struct Refusing;
        impl SecretManager for Refusing {
            fn kind(&self) -> &'static str {
                "NMToken"
            }
            fn retrieve(&self, _: &[u8]) -> Result<Verified, RemoteException> {
                Err(RemoteException::new(
                    HadoopException::InvalidToken,
                    "unknown key",
                ))
            }
        }
        let mut server = server(ServerAuth::Token(Arc::new(Refusing)));
        let mut client = client(false);
        let offer = reply(&mut server, &client.start());
        let error = refusal(&mut server, &sent(&mut client, &offer));
        assert!(error.is(HadoopException::InvalidToken));
        assert_eq!(error.code, RpcErrorCode::FatalUnauthorized);
    }

    fn refused_token(token: Token) -> RemoteException {
        let mut server = server(token_only());
        let mut client = SaslClient::new(token, CNONCE.to_owned(), false);
        let offer = reply(&mut server, &client.start());
        refusal(&mut server, &sent(&mut client, &offer))
    }

    #[test]
    fn server_that_does_not_know_the_password_is_found_out() {
        let mut client = client(true);
        let offer = reply(&mut server(token_only()), &client.start());
        let _ = sent(&mut client, &offer);
        let fake = RpcSaslProto {
            token: Some(Bytes::from_static(b"rspauth=00")),
            ..message(SaslState::Success)
        };
        assert_eq!(
            client.handle(&fake),
            Err(SaslError::Digest(DigestError::Mismatch))
        );
        let mut client = self::client(true);
        let _ = sent(&mut client, &offer);
        assert!(client.handle(&message(SaslState::Success)).is_err());
    }

    proptest! {
        #[test]
        fn any_message_leaves_both_sides_without_panic(
            states in proptest::collection::vec(-1_i32..8, 1..6),
            token in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..60)),
            advertised in any::<bool>(),
        ) {
            let (mut server, mut client) = (server(token_only()), client(true));
            let auths = if advertised { vec![token_auth()] } else { vec![] };
            for state in states {
                let message =
                    RpcSaslProto { state, token: token.clone().map(Bytes::from), auths: auths.clone(), version: None };
                prop_assert!(!matches!(server.handle(&message), Ok(ServerStep::Done(..))));
                prop_assert_ne!(client.handle(&message), Ok(ClientStep::Done));
            }
        }
    }
}
