//! What a NameNode may say until a client and it have proved who they are. Pure: the frames of a
//! server in, what becomes of each out.
//!
//! ```text
//!  TOKEN      NEGOTIATE (challenge)               SUCCESS (its proof)
//!  KERBEROS   NEGOTIATE ── CHALLENGE (its proof) ── CHALLENGE (layers) ── SUCCESS
//! ```
//! Source: `org.apache.hadoop.security.SaslRpcClient.saslConnect`, which refuses the same.

use bytes::{Bytes, BytesMut};
use prost::Message as _;
use wire::exception::{HadoopException, RemoteException, RpcErrorCode};
use wire::header::{CALL_ID_SASL, CallRef, Outcome, decode_answer, put_failure, put_sasl_response};
use wire::kerberos::{OfferedName, ServerPrincipal};
use wire::proto::hadoop_common::RpcSaslProto;
use wire::proto::hadoop_common::rpc_sasl_proto::{SaslAuth, SaslState};

use crate::tokens::printable;

/// Longest frame of a server before it has proved itself, in bytes: an answer of Kerberos with the
/// groups of a large directory has some ten thousand.
pub const FRAME_MAX: usize = 256 * 1024;

/// Challenges after which a server is refused.
const CHALLENGES_MAX: u32 = 4;

/// Methods that a refusal names at most.
const NAMED_MAX: usize = 8;

/// Hadoop's text to a server that wants no proof.
const SIMPLE: &str = "Server asks us to fall back to SIMPLE auth, but this client is configured to \
                      only allow secure connections.";

/// How the client proves itself, and what the server must prove to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Method {
    /// By a token, whose password the server knows, too.
    Token,
    /// By Kerberos.
    Kerberos {
        /// Principal of the configuration.
        server: ServerPrincipal,
        /// Canonical name of the address that the client is connected to.
        host: String,
    },
}

/// Decision on a frame of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The client gets this frame, with its length.
    Pass(Bytes),
    /// The client gets this frame, and from now on whatever the server sends.
    PassLast(Bytes),
    /// The client gets this frame, which tells a reason, and the connections end.
    Refuse(Bytes),
}

/// A negotiation.
#[derive(Debug)]
pub struct Handshake {
    method: Method,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Offer,
    /// The server's method was passed on; so many challenges followed.
    Proof(u32),
}

impl Handshake {
    /// Returns a negotiation of which nothing was said yet.
    #[must_use]
    pub const fn new(method: Method) -> Self {
        Self {
            method,
            stage: Stage::Offer,
        }
    }

    /// Takes a frame of the server, without its length.
    pub fn take(&mut self, frame: Bytes) -> Verdict {
        self.judge(frame)
            .unwrap_or_else(|reason| Verdict::Refuse(refusal(&reason)))
    }

    fn judge(&mut self, frame: Bytes) -> Result<Verdict, String> {
        let answer = decode_answer(frame.clone());
        let answer = answer.map_err(|error| format!("the NameNode's answer: {error}"))?;
        let message = match answer.outcome {
            Outcome::Success(_) if answer.call_id != CALL_ID_SASL => {
                return Err("the NameNode answers what nobody asked".to_owned());
            }
            Outcome::Success(message) => message,
            // Its own reason.
            Outcome::Error(_) | Outcome::Fatal(_) => return Ok(Verdict::Refuse(framed(&frame))),
        };
        let message = RpcSaslProto::decode(message);
        let message = message.map_err(|_| "the NameNode's negotiation does not parse")?;
        let Ok(state) = SaslState::try_from(message.state) else {
            return Err("the NameNode's negotiation has an unknown state".to_owned());
        };
        match (&self.stage, state) {
            (Stage::Offer, SaslState::Negotiate) => {
                let auth = self.method.choose(&message.auths)?;
                self.stage = Stage::Proof(0);
                let chosen = RpcSaslProto {
                    auths: vec![auth],
                    ..message
                };
                let mut out = BytesMut::new();
                put_sasl_response(&mut out, &chosen).map_err(|error| error.to_string())?;
                Ok(Verdict::Pass(out.freeze()))
            }
            (Stage::Offer, SaslState::Success) => Err(SIMPLE.to_owned()),
            (Stage::Proof(count), SaslState::Challenge) if message.token.is_some() => {
                if *count >= CHALLENGES_MAX {
                    return Err("the NameNode's challenges do not end".to_owned());
                }
                self.stage = Stage::Proof(*count + 1);
                Ok(Verdict::Pass(framed(&frame)))
            }
            (Stage::Proof(count), SaslState::Success) => {
                let has_token = message.token.is_some_and(|token| !token.is_empty());
                if self.method.is_proved(*count, has_token) {
                    Ok(Verdict::PassLast(framed(&frame)))
                } else {
                    Err("the NameNode has not proved who it is".to_owned())
                }
            }
            (Stage::Offer | Stage::Proof(_), _) => {
                Err("the NameNode does not keep to the order of a negotiation".to_owned())
            }
        }
    }
}

impl Method {
    const fn name(&self) -> &'static str {
        match self {
            Self::Token => "TOKEN",
            Self::Kerberos { .. } => "KERBEROS",
        }
    }

    /// Returns the offer of this method, from the server that must make it.
    fn choose(&self, offers: &[SaslAuth]) -> Result<SaslAuth, String> {
        let offered = offers.iter().find(|auth| auth.method == self.name());
        let Some(auth) = offered else {
            let names = offers.iter().take(NAMED_MAX);
            let names: Vec<String> = names.map(|auth| printable(&auth.method)).collect();
            if names.iter().all(|name| name == "SIMPLE") {
                return Err(SIMPLE.to_owned());
            }
            return Err(format!(
                "Client cannot authenticate via:[{}]: it has nothing but {}",
                names.join(", "),
                self.name()
            ));
        };
        match self {
            Self::Token if auth.challenge.is_none() => {
                Err("the NameNode offers TOKEN without a challenge".to_owned())
            }
            Self::Token => Ok(auth.clone()),
            Self::Kerberos { server, host } => {
                let name = OfferedName {
                    service: printable(auth.protocol()),
                    host: printable(auth.server_id()),
                };
                let target = server.target(&name, host);
                target.map_err(|error| error.to_string())?;
                Ok(auth.clone())
            }
        }
    }

    /// Returns whether a server may end the negotiation after so many challenges. The client
    /// examines the token of each challenge, and of the end, and gives up at a wrong one.
    const fn is_proved(&self, challenges: u32, has_token: bool) -> bool {
        match self {
            Self::Token => has_token || challenges >= 1,
            Self::Kerberos { .. } => challenges >= 2,
        }
    }
}

fn framed(frame: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(frame.len() + 4);
    // A frame that was read is short enough.
    let length = u32::try_from(frame.len()).unwrap_or(0);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(frame);
    out.freeze()
}

/// Returns the frame that tells a client why it cannot prove itself.
pub(crate) fn refusal(reason: &str) -> Bytes {
    failure(HadoopException::AccessControl, reason)
}

/// Returns the frame that tells a client of the lack of a usable token.
pub(crate) fn token_refusal(reason: &str) -> Bytes {
    failure(HadoopException::InvalidToken, reason)
}

/// Returns the frame that sends a client to the next NameNode, or to this one again.
pub(crate) fn unavailable(reason: &str) -> Bytes {
    failure(HadoopException::Standby, reason)
}

fn failure(class: HadoopException, reason: &str) -> Bytes {
    let exception = RemoteException::with_code(class, reason, RpcErrorCode::FatalUnauthorized);
    let mut out = BytesMut::new();
    // Reasons are short.
    let _fits = put_failure(&mut out, &CallRef::out_of_band(CALL_ID_SASL), &exception);
    out.freeze()
}

#[cfg(test)]
mod tests;
