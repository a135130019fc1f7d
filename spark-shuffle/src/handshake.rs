//! Proof of a client that it has its application's secret: SASL with DIGEST-MD5 (Spark:
//! `SaslRpcHandler`, `SparkSaslServer`), or the handshake of `spark.network.crypto` (Spark:
//! `AuthRpcHandler`).
//!
//! A message of the handshake is a tag, the application's id and the mechanism's bytes. The
//! mechanism protects the proof and not what follows; encryption by SASL is not offered.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;
use wire::digest_md5::{DigestError, ServerCheck, challenge, nonce};
use wire::protection::{Protection, Protections};

use crate::auth_engine::{self, AUTH_TAG, AuthMessage, NoAuth};
use crate::cursor::{Cursor, Malformed};
use crate::executors::{ApplicationSecret, Applications, NoExecutor};
use crate::frame::{self, APP_ID_BYTES_MAX, Request};
use crate::session::Reply;
use crate::shared::Encryption;

/// First byte of a message of SASL.
const SASL_TAG: u8 = 0xEA;

/// Name that every client has (Spark: `SecretKeyHolder.getSaslUser`).
const SASL_USER: &[u8] = b"sparkSaslUser";

/// Characters of a line of base64 (Netty: `Base64.MAX_LINE_LENGTH`).
const PASSWORD_LINE_BYTES: usize = 76;

/// Name of the service in proofs: Spark's mechanism has no protocol.
const DIGEST_URI: &str = "null/default";

/// Answer to what is no message of a handshake.
const NOT_SASL: &str = "java.lang.IllegalStateException: Expected SaslMessage, received something \
                        else (maybe your client does not have SASL enabled?)";

/// Proof that failed.
#[derive(Debug, Error)]
enum NoProof {
    #[error("the message is none of SASL: {0}")]
    Malformed(#[from] Malformed),
    #[error("the client is not the one of its first message")]
    OtherApplication,
    #[error("the application has no secret here")]
    NoSecret,
    #[error("the application is not known yet")]
    NotYet,
    #[error("the proof is wrong: {0}")]
    Digest(#[from] DigestError),
    #[error("the user is not Spark's")]
    User,
    #[error("the challenge is wrong: {0}")]
    Auth(#[from] NoAuth),
}

/// Handshake of one connection.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    /// Encryption that clients may ask for; `None`: SASL alone is spoken.
    encryption: Option<Encryption>,
    /// Challenge that was sent.
    sent: Option<Sent>,
}

#[derive(Debug)]
struct Sent {
    application: Arc<str>,
    nonce: String,
}

/// Step that succeeded.
enum Step {
    Challenge(String),
    Proven(Arc<str>, String),
}

impl Handshake {
    pub(crate) const fn new(encryption: Option<Encryption>) -> Self {
        Self {
            encryption,
            sent: None,
        }
    }

    /// Answers a request. Returns the application whose secret the client has, once that is
    /// proven.
    pub(crate) fn answer(
        &mut self,
        request: Request<'_>,
        applications: &Applications,
    ) -> (Reply, Option<Arc<str>>) {
        let refusal = |frame| Reply {
            is_refusal: true,
            ..Reply::frame(frame)
        };
        let speaks_sasl = self.encryption.is_none_or(|it| it.allows_sasl);
        let reply = match (request, self.encryption) {
            (Request::Rpc { id, body }, Some(encryption)) if body.first() == Some(&AUTH_TAG) => {
                return Self::auth(id, body, encryption, applications);
            }
            (Request::Rpc { id, body }, _) if speaks_sasl && body.first() == Some(&SASL_TAG) => {
                return self.sasl(id, body, applications);
            }
            (request, _) => Self::refuse(request, refusal),
        };
        (reply, None)
    }

    /// Answers what is no message of a handshake.
    fn refuse(request: Request<'_>, refusal: impl Fn(Vec<u8>) -> Reply) -> Reply {
        match request {
            Request::Rpc { id, .. } | Request::MergedBlockMeta { id } => {
                refusal(frame::rpc_failure(id, NOT_SASL))
            }
            Request::ChunkFetch(chunk) => refusal(frame::chunk_failure(chunk, NOT_SASL)),
            Request::Stream(name) => refusal(frame::stream_failure(name, NOT_SASL)),
            Request::Upload { id } => Reply {
                // Its data would follow.
                ends: true,
                ..refusal(frame::rpc_failure(id, NOT_SASL))
            },
            Request::OneWay | Request::Answer => Reply::default(),
        }
    }

    /// Answers a challenge of `spark.network.crypto`: one message proves the client, and agrees on
    /// the keys of what follows.
    fn auth(
        id: i64,
        body: &[u8],
        encryption: Encryption,
        applications: &Applications,
    ) -> (Reply, Option<Arc<str>>) {
        let agreed = || {
            let message = AuthMessage::parse(body)?;
            let secret = secret(applications, message.application)?;
            let agreed = auth_engine::answer(body, message, &secret.0, encryption.version)?;
            Ok((message.application.into(), agreed))
        };
        match agreed() {
            Ok((application, agreed)) => {
                let reply = Reply {
                    ciphers: Some(agreed.ciphers),
                    ..Reply::frame(frame::rpc_response(id, &agreed.response))
                };
                (reply, Some(application))
            }
            Err(error) => {
                let text = "java.lang.IllegalArgumentException: Authentication failed.";
                (not_proven(id, &error, text), None)
            }
        }
    }

    fn sasl(
        &mut self,
        id: i64,
        body: &[u8],
        applications: &Applications,
    ) -> (Reply, Option<Arc<str>>) {
        match self.step(body, applications) {
            Ok(Step::Challenge(text)) => {
                let frame = frame::rpc_response(id, text.as_bytes());
                (Reply::frame(frame), None)
            }
            Ok(Step::Proven(application, text)) => {
                let frame = frame::rpc_response(id, text.as_bytes());
                (Reply::frame(frame), Some(application))
            }
            Err(error) => {
                let text = "java.lang.RuntimeException: javax.security.sasl.SaslException: \
                            DIGEST-MD5: authentication failed";
                (not_proven(id, &error, text), None)
            }
        }
    }

    fn step(&mut self, body: &[u8], applications: &Applications) -> Result<Step, NoProof> {
        let mut fields = Cursor::new(body);
        let _tag = fields.u8()?;
        let application = fields.text(APP_ID_BYTES_MAX)?;
        let message = fields.bytes()?;
        let offered = Protections::from(Protection::Authentication);
        let Some(sent) = self.sent.take() else {
            let nonce = nonce(rand::random());
            let text = challenge(&nonce, &offered);
            let application = application.into();
            self.sent = Some(Sent { application, nonce });
            return Ok(Step::Challenge(text));
        };
        if *sent.application != *application {
            return Err(NoProof::OtherApplication);
        }
        let check = ServerCheck::parse_at(DIGEST_URI, &sent.nonce, &offered, message)?;
        if check.identifier() != SASL_USER {
            return Err(NoProof::User);
        }
        let secret = secret(applications, application)?;
        let proof = check.verify_text(&password_text(&secret.0))?;
        Ok(Step::Proven(sent.application, proof.message))
    }
}

fn secret(applications: &Applications, id: &str) -> Result<ApplicationSecret, NoProof> {
    applications.secret(id).map_err(|none| match none {
        NoExecutor::NotYet => NoProof::NotYet,
        NoExecutor::Unknown => NoProof::NoSecret,
    })
}

/// Returns the answer to a client that proved nothing, after which its connection ends.
fn not_proven(id: i64, error: &NoProof, text: &str) -> Reply {
    if matches!(error, NoProof::NotYet) {
        // Without an answer the client comes again.
        return Reply {
            ends: true,
            ..Reply::default()
        };
    }
    tracing::debug!(%error, "a client of Spark proved nothing");
    Reply {
        ends: true,
        is_refusal: true,
        ..Reply::frame(frame::rpc_failure(id, text))
    }
}

/// Returns the text that stands for a secret: base64 in lines, as Netty writes it, for both sides.
/// Spark's own secrets have 64 characters, which is more than a line.
fn password_text(secret: &[u8]) -> String {
    let text = STANDARD.encode(secret);
    let lines = text.as_bytes().chunks(PASSWORD_LINE_BYTES);
    let lines: Vec<_> = lines.map(String::from_utf8_lossy).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::put_bytes;
    use crate::testing::{APPLICATION, Lab};

    /// Recorded from Spark 3.5.5, with the secret of [`SECRET`].
    const NONCE: &str = "oul5v+DgmhYL7pnWtGhtqVrDYsQX4FOEix+tRM2x";
    const RESPONSE: &str = "charset=utf-8,username=\"c3BhcmtTYXNsVXNlcg==\",realm=\"default\",\
        nonce=\"oul5v+DgmhYL7pnWtGhtqVrDYsQX4FOEix+tRM2x\",nc=00000001,\
        cnonce=\"N3C9DNeZd0cd6LxXQHNR8AvbA28OZ5jkVkXVfOU3\",digest-uri=\"null/default\",\
        maxbuf=65536,response=fe763faa0eb5a34a824943f749ca6ff5,qop=auth";
    const PROOF: &str = "rspauth=f12e7648343fed322ee54e21ba92a1af";
    const SECRET: &str = "0123456789abcdef";

    fn message(application: &str, token: &str) -> Vec<u8> {
        let mut message = vec![SASL_TAG];
        put_bytes(&mut message, application.as_bytes());
        put_bytes(&mut message, token.as_bytes());
        message
    }

    /// Returns the step of a handshake whose challenge had the recorded nonce.
    fn respond(lab: &Lab, application: &str, response: &str) -> Result<Step, NoProof> {
        let mut handshake = Handshake {
            sent: Some(Sent {
                application: APPLICATION.into(),
                nonce: NONCE.to_owned(),
            }),
            ..Handshake::default()
        };
        handshake.step(&message(application, response), &lab.applications)
    }

    #[test]
    fn the_recorded_proof_is_verified_and_answered() {
        let lab = Lab::new();
        lab.bring(Some(SECRET));
        let step = respond(&lab, APPLICATION, RESPONSE);
        let Step::Proven(application, proof) = step.unwrap() else {
            panic!("another challenge");
        };
        assert_eq!((&*application, &*proof), (APPLICATION, PROOF));
    }

    #[test]
    fn a_wrong_proof_another_application_and_a_replay_prove_nothing() {
        let lab = Lab::new();
        assert!(matches!(
            respond(&lab, APPLICATION, RESPONSE),
            Err(NoProof::NoSecret)
        ));
        lab.bring(Some("another"));
        let wrong = respond(&lab, APPLICATION, RESPONSE);
        assert!(matches!(wrong, Err(NoProof::Digest(DigestError::Mismatch))));
        lab.bring(Some(SECRET));
        let other = respond(&lab, "application_1_0001", RESPONSE);
        assert!(matches!(other, Err(NoProof::OtherApplication)));
        for (good, bad) in [
            ("c3BhcmtTYXNsVXNlcg==", "c29tZWJvZHk="),
            ("qop=auth", "qop=auth-conf,cipher=\"3des\""),
            ("null/default", "/default"),
            ("nc=00000001", "nc=00000002"),
        ] {
            let changed = RESPONSE.replace(good, bad);
            assert!(respond(&lab, APPLICATION, &changed).is_err(), "{bad}");
        }
        // To a challenge of its own, the recorded response is a replay.
        let mut handshake = Handshake::default();
        let first = handshake.step(&message(APPLICATION, ""), &lab.applications);
        assert!(matches!(first, Ok(Step::Challenge(text)) if text.contains("qop=\"auth\"")));
        let replay = handshake.step(&message(APPLICATION, RESPONSE), &lab.applications);
        assert!(matches!(replay, Err(NoProof::Digest(_))));
    }

    #[test]
    fn a_long_secret_has_several_lines() {
        assert_eq!(password_text(&[b'a'; 57]), "YWFh".repeat(19));
        let long = format!("{}\nYWFhYWFhYQ==", "YWFh".repeat(19));
        assert_eq!(password_text(&[b'a'; 64]), long);
    }

    #[test]
    fn an_empty_secret_proves_nothing() {
        let lab = Lab::new();
        lab.bring(Some(""));
        let step = respond(&lab, APPLICATION, RESPONSE);
        assert!(matches!(step, Err(NoProof::NoSecret)));
    }
}
