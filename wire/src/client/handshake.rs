//! The client's side of a connection's opening, from the first byte to the connection context.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{ClientAuth, LossReason, RpcError};
use crate::digest_md5;
use crate::frame::{AuthProtocol, Decoded, DelimitedError, FrameDecoder, Preamble};
use crate::header::{self, AnswerError, CALL_ID_SASL, Outcome};
use crate::layer::Layer;
use crate::protection::Protections;
use crate::proto::hadoop_common::RpcSaslProto;
use crate::sasl::{ClientStep, SaslClient};
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
