//! The client's side of an authentication by Kerberos, as messages. The mechanism's own tokens are
//! made by [`gssapi`](crate::gssapi), between the steps.
//!
//! ```text
//!   NEGOTIATE            ──▶
//!                        ◀──     NEGOTIATE{KERBEROS, service and host of the server}
//!   INITIATE{KERBEROS, token} ─▶
//!                        ◀──     CHALLENGE{token}     until both sides are proven and
//!   RESPONSE{token, perhaps empty} ─▶                 a layer is chosen
//!                        ◀──     SUCCESS
//! ```

use bytes::Bytes;

use super::{SaslError, message, methods, printable};
use crate::gssapi::MECHANISM;
use crate::kerberos::OfferedName;
use crate::proto::hadoop_common::RpcSaslProto;
use crate::proto::hadoop_common::rpc_sasl_proto::{SaslAuth, SaslState};

/// Name of authentication by Kerberos.
const METHOD_KERBEROS: &str = "KERBEROS";

/// Next step of a client after a message of the server.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum KerberosStep {
    /// Begin the proof to the server of this name, if it is the right one, and send the first token
    /// with [`initiate`].
    Begin {
        /// The server's entry, to be sent back as it is.
        auth: SaslAuth,
        /// Name in it.
        offered: OfferedName,
    },
    /// Give this token to the mechanism and send the next one with [`respond`].
    Continue(Bytes),
    /// The server accepts. Whether it has proven itself, the mechanism knows.
    Finish,
    /// The server wants no proof.
    NoProof,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Negotiating,
    Proving,
    Over,
}

/// The client's side of one authentication by Kerberos.
#[derive(Debug)]
pub struct KerberosClient {
    state: State,
}

impl KerberosClient {
    /// Starts a negotiation; returns the first message to send with it.
    #[must_use]
    pub fn start() -> (Self, RpcSaslProto) {
        let client = Self {
            state: State::Negotiating,
        };
        (client, message(SaslState::Negotiate))
    }

    /// Handles the server's next message.
    ///
    /// # Errors
    /// [`SaslError`]; the negotiation is over.
    pub fn handle(&mut self, received: &RpcSaslProto) -> Result<KerberosStep, SaslError> {
        let unexpected = SaslError::UnexpectedState {
            state: received.state,
        };
        let Ok(state) = SaslState::try_from(received.state) else {
            return Err(unexpected);
        };
        match (std::mem::replace(&mut self.state, State::Over), state) {
            (State::Negotiating, SaslState::Negotiate) => {
                self.state = State::Proving;
                begin(&received.auths)
            }
            (State::Negotiating, SaslState::Success) => Ok(KerberosStep::NoProof),
            (State::Proving, SaslState::Challenge) => {
                let token = received.token.clone().ok_or(SaslError::NoChallenge)?;
                self.state = State::Proving;
                Ok(KerberosStep::Continue(token))
            }
            // A token beside SUCCESS has no place in this mechanism (RFC 4752).
            (State::Proving, SaslState::Success) if received.token.is_none() => {
                Ok(KerberosStep::Finish)
            }
            (State::Negotiating, SaslState::Challenge)
            | (State::Proving, SaslState::Negotiate | SaslState::Success)
            | (State::Over, SaslState::Success | SaslState::Negotiate | SaslState::Challenge)
            | (_, SaslState::Initiate | SaslState::Response | SaslState::Wrap) => Err(unexpected),
        }
    }
}

fn begin(offered: &[SaslAuth]) -> Result<KerberosStep, SaslError> {
    let auth = offered
        .iter()
        .find(|auth| auth.method == METHOD_KERBEROS && auth.mechanism == MECHANISM);
    let Some(auth) = auth else {
        return Err(SaslError::NoKerberos {
            offered: methods(offered),
        });
    };
    let name = OfferedName {
        service: printable(auth.protocol.as_deref().unwrap_or_default()),
        host: printable_host(auth.server_id.as_deref().unwrap_or_default()),
    };
    Ok(KerberosStep::Begin {
        auth: auth.clone(),
        offered: name,
    })
}

/// Shortens a host's name to the longest that DNS has, and removes control characters.
fn printable_host(text: &str) -> String {
    let characters = text.chars().filter(|character| !character.is_control());
    characters.take(255).collect()
}

/// Makes the message with the mechanism's first token, for the server's entry.
#[must_use]
pub fn initiate(auth: SaslAuth, token: Vec<u8>) -> RpcSaslProto {
    RpcSaslProto {
        token: Some(token.into()),
        auths: vec![auth],
        ..message(SaslState::Initiate)
    }
}

/// Makes the message with a later token of the mechanism, which is present also when empty.
#[must_use]
pub fn respond(token: Vec<u8>) -> RpcSaslProto {
    RpcSaslProto {
        token: Some(token.into()),
        ..message(SaslState::Response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kerberos() -> SaslAuth {
        SaslAuth {
            method: METHOD_KERBEROS.to_owned(),
            mechanism: MECHANISM.to_owned(),
            protocol: Some("rm".to_owned()),
            server_id: Some("localhost".to_owned()),
            challenge: None,
        }
    }

    fn offer(auths: Vec<SaslAuth>) -> RpcSaslProto {
        RpcSaslProto {
            auths,
            ..message(SaslState::Negotiate)
        }
    }

    fn with_token(state: SaslState, token: &'static [u8]) -> RpcSaslProto {
        RpcSaslProto {
            token: Some(Bytes::from_static(token)),
            ..message(state)
        }
    }

    fn proving() -> KerberosClient {
        let (mut client, _) = KerberosClient::start();
        let step = client.handle(&offer(vec![kerberos()]));
        assert!(matches!(step, Ok(KerberosStep::Begin { .. })), "{step:?}");
        client
    }

    #[test]
    fn the_servers_entry_goes_back_as_it_is_among_others() {
        let (mut client, first) = KerberosClient::start();
        assert!(first.state() == SaslState::Negotiate);
        let token = SaslAuth {
            method: "TOKEN".to_owned(),
            mechanism: "DIGEST-MD5".to_owned(),
            ..SaslAuth::default()
        };
        let step = client.handle(&offer(vec![token, kerberos()])).unwrap();
        let KerberosStep::Begin { auth, offered } = step else {
            panic!("{step:?}");
        };
        assert_eq!(
            (offered.service.as_str(), offered.host.as_str()),
            ("rm", "localhost")
        );
        let sent = initiate(auth, vec![1]);
        assert_eq!(sent.auths, [kerberos()]);
    }

    #[test]
    fn an_empty_answer_is_present() {
        assert_eq!(respond(Vec::new()).token, Some(Bytes::new()));
    }

    #[test]
    fn a_server_without_kerberos_is_refused_with_what_it_offers() {
        let simple = SaslAuth {
            method: "SIMPLE".to_owned(),
            ..SaslAuth::default()
        };
        let (mut client, _) = KerberosClient::start();
        let refused = client.handle(&offer(vec![simple])).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "Client cannot authenticate via:[SIMPLE]"
        );
        let (mut client, _) = KerberosClient::start();
        let step = client.handle(&message(SaslState::Success));
        assert_eq!(step, Ok(KerberosStep::NoProof));
    }

    #[test]
    fn messages_out_of_their_order_end_the_negotiation() {
        let (mut client, _) = KerberosClient::start();
        assert!(
            client
                .handle(&with_token(SaslState::Challenge, b"x"))
                .is_err()
        );
        assert_eq!(
            proving().handle(&message(SaslState::Challenge)),
            Err(SaslError::NoChallenge)
        );
        for state in [SaslState::Negotiate, SaslState::Initiate, SaslState::Wrap] {
            assert!(proving().handle(&message(state)).is_err());
        }
        assert!(
            proving()
                .handle(&with_token(SaslState::Success, b"x"))
                .is_err()
        );
        let mut client = proving();
        let step = client.handle(&message(SaslState::Success));
        assert_eq!(step, Ok(KerberosStep::Finish));
        assert!(client.handle(&message(SaslState::Success)).is_err());
    }
}
