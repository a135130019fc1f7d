//! The client's side of a connection's opening, from the first byte to the connection context.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{ClientAuth, KerberosAuth, LossReason, RpcError};
use crate::digest_md5;
use crate::frame::{AuthProtocol, Decoded, DelimitedError, FrameDecoder, Preamble};
use crate::gssapi::{GssapiClient, GssapiError};
use crate::header::{self, AnswerError, CALL_ID_SASL, Outcome};
use crate::kerberos::{self, OfferedName};
use crate::layer::Layer;
use crate::protection::Protections;
use crate::proto::hadoop_common::RpcSaslProto;
use crate::sasl::{self, ClientStep, KerberosClient, KerberosStep, SaslClient, SaslError};
use crate::token::Token;

/// Outcome of the handshake.
pub(super) struct Opening {
    /// User to name in the context; `None` after a token, from which the server derives the user.
    pub(super) user: Option<String>,
    /// Bytes to send ahead of the context, as they are.
    pub(super) unsent: BytesMut,
    /// Layer of the context and everything after it.
    pub(super) layer: Option<Layer>,
}

/// Authenticates, as far as that needs answers. A client that only gives a user name sends nothing
/// yet, so that its preamble, context and first call go out together.
pub(super) async fn run(
    stream: &mut TcpStream,
    decoder: &mut FrameDecoder,
    address: SocketAddr,
    auth: ClientAuth,
    protections: &Protections,
) -> Result<Opening, RpcError> {
    match auth {
        ClientAuth::Simple { user } => {
            let preamble = Preamble::new(AuthProtocol::None).encode();
            Ok(Opening {
                user: Some(user),
                unsent: BytesMut::from(&preamble[..]),
                layer: None,
            })
        }
        ClientAuth::Token(token) => prove(stream, decoder, address, token, protections).await,
        ClientAuth::Kerberos(kerberos) => {
            let mut conversation = Conversation {
                stream,
                decoder,
                address,
            };
            conversation.prove_kerberos(&kerberos, protections).await
        }
    }
}

async fn prove(
    stream: &mut TcpStream,
    decoder: &mut FrameDecoder,
    address: SocketAddr,
    token: Token,
    protections: &Protections,
) -> Result<Opening, RpcError> {
    let mut sasl = SaslClient::new(
        token,
        protections.clone(),
        digest_md5::nonce(rand::random()),
    );
    let mut out = BytesMut::from(&Preamble::new(AuthProtocol::Sasl).encode()[..]);
    let mut next = sasl.start();
    loop {
        header::put_sasl_request(&mut out, &next).map_err(RpcError::RequestTooLong)?;
        let received = exchange(stream, decoder, &mut out)
            .await
            .map_err(|reason| RpcError::lost(address, &Arc::new(reason)))?;
        match sasl
            .handle(&received)
            .map_err(|source| RpcError::Sasl { address, source })?
        {
            ClientStep::Send(message) => next = message,
            ClientStep::Done => {
                return Ok(Opening {
                    user: None,
                    unsent: out,
                    layer: sasl.take_layer(),
                });
            }
        }
    }
}

/// A server that a client proves itself to by Kerberos.
struct Conversation<'a> {
    stream: &'a mut TcpStream,
    decoder: &'a mut FrameDecoder,
    address: SocketAddr,
}

impl Conversation<'_> {
    async fn prove_kerberos(
        &mut self,
        kerberos: &KerberosAuth,
        protections: &Protections,
    ) -> Result<Opening, RpcError> {
        let address = self.address;
        let failed = |source| RpcError::Sasl { address, source };
        let mut out = BytesMut::from(&Preamble::new(AuthProtocol::Sasl).encode()[..]);
        let (mut sasl, mut next) = KerberosClient::start();
        let mut mechanism = None;
        loop {
            header::put_sasl_request(&mut out, &next).map_err(RpcError::RequestTooLong)?;
            let received = self.exchange(&mut out, kerberos).await?;
            match (sasl.handle(&received).map_err(failed)?, mechanism.take()) {
                (KerberosStep::Begin { auth, offered }, _) => {
                    let first = begin(kerberos, offered, address, protections.clone());
                    let (started, token) = first.await.map_err(failed)?;
                    mechanism = Some(started);
                    next = sasl::initiate(auth, token);
                }
                (KerberosStep::Continue(token), Some(started)) => {
                    let (started, reply) = step(kerberos, started, token).await.map_err(failed)?;
                    mechanism = Some(started);
                    next = sasl::respond(reply);
                }
                (KerberosStep::Finish, Some(started)) => {
                    let layer = started.finish().map_err(|error| failed(error.into()))?;
                    return Ok(Opening {
                        user: None,
                        unsent: out,
                        layer,
                    });
                }
                (KerberosStep::Continue(_) | KerberosStep::Finish, None) => {
                    return Err(failed(GssapiError::TooEarly.into()));
                }
                (KerberosStep::NoProof, _) => {
                    let user = kerberos.fall_back_to.clone();
                    return Ok(Opening {
                        user: Some(user.ok_or_else(|| failed(SaslError::NoProof))?),
                        unsent: out,
                        layer: None,
                    });
                }
            }
        }
    }

    /// Sends what is in `out` and reads the server's next message. A server that refuses may refuse
    /// an old ticket, and another server of the list may not.
    async fn exchange(
        &mut self,
        out: &mut BytesMut,
        kerberos: &KerberosAuth,
    ) -> Result<RpcSaslProto, RpcError> {
        let address = self.address;
        let exchanged = exchange(self.stream, self.decoder, out).await;
        exchanged.map_err(|reason| {
            if let LossReason::Fatal(exception) = reason {
                kerberos.library.refused();
                let source = SaslError::Refused(Box::new(exception));
                return RpcError::Sasl { address, source };
            }
            RpcError::lost(address, &Arc::new(reason))
        })
    }
}

/// Begins the proof to the server of this name, on a thread of the library; returns the first
/// token.
async fn begin(
    kerberos: &KerberosAuth,
    offered: OfferedName,
    address: SocketAddr,
    protections: Protections,
) -> Result<(GssapiClient, Vec<u8>), SaslError> {
    let server = kerberos.server.clone();
    let begun = kerberos::run(&kerberos.library, move |library| {
        let host = library.canonical_host(address.ip());
        let target = match server.target(&offered, &host) {
            Ok(target) => target,
            Err(mismatch) => return Ok(Err(SaslError::Server(Box::new(mismatch)))),
        };
        let mut client = GssapiClient::new(library.begin(&target)?, protections);
        let token = client.start();
        Ok(token.map(|token| (client, token)).map_err(SaslError::from))
    });
    begun.await.map_err(GssapiError::from)?
}

/// Gives the server's token to the mechanism, on a thread of the library; returns the next token.
async fn step(
    kerberos: &KerberosAuth,
    mut client: GssapiClient,
    token: Bytes,
) -> Result<(GssapiClient, Vec<u8>), SaslError> {
    let taken = kerberos::run(&kerberos.library, move |_| {
        let reply = client.handle(&token);
        Ok(reply.map(|reply| (client, reply)).map_err(SaslError::from))
    });
    taken.await.map_err(GssapiError::from)?
}

/// Sends what is in `out` and reads the server's next SASL message.
async fn exchange(
    stream: &mut TcpStream,
    decoder: &mut FrameDecoder,
    out: &mut BytesMut,
) -> Result<RpcSaslProto, LossReason> {
    stream.write_all(out).await?;
    out.clear();
    loop {
        if let Decoded::Complete(frame) = decoder.frame()? {
            let answer = header::decode_answer(frame)?;
            return match answer.outcome {
                Outcome::Success(message) if answer.call_id == CALL_ID_SASL => {
                    RpcSaslProto::decode(message).map_err(|error| {
                        LossReason::Answer(AnswerError::Delimited(DelimitedError::Message(error)))
                    })
                }
                Outcome::Success(_) => Err(LossReason::StrangeCallId {
                    call_id: answer.call_id,
                }),
                Outcome::Error(exception) | Outcome::Fatal(exception) => {
                    Err(LossReason::Fatal(exception))
                }
            };
        }
        if stream.read_buf(decoder.read_buffer()).await? == 0 {
            return Err(LossReason::ClosedByServer);
        }
    }
}
