//! Contents of frames: headers of calls and answers, and the connection context.
//!
//! Client to server: [`RpcRequestHeaderProto`] and a payload that depends on the call id. Server to
//! client: [`RpcResponseHeaderProto`] and, on success, one message. Everything here is a function
//! over bytes.

use bytes::{Bytes, BytesMut};
use prost::Message;

use crate::exception::{RemoteException, RpcErrorCode};
use crate::frame::{
    DelimitedError, FrameError, IPC_VERSION, put_delimited, put_delimited_bytes, put_frame,
    take_delimited, take_delimited_bytes,
};
use crate::proto::hadoop_common::rpc_request_header_proto::OperationProto;
use crate::proto::hadoop_common::rpc_response_header_proto::{RpcErrorCodeProto, RpcStatusProto};
use crate::proto::hadoop_common::{
    IpcConnectionContextProto, RequestHeaderProto, RpcKindProto, RpcRequestHeaderProto,
    RpcResponseHeaderProto, RpcSaslProto, UserInformationProto,
};

/// Call id of the answer to a request header that cannot be parsed.
pub const CALL_ID_INVALID: i32 = -1;
/// Call id of the connection context, sent once before the first call.
pub const CALL_ID_CONTEXT: i32 = -3;
/// Call id of a keep-alive from a waiting client; never answered.
pub const CALL_ID_PING: i32 = -4;
/// Call id of a step of the authentication, in both directions.
pub const CALL_ID_SASL: i32 = -33;

/// Retry count of messages that are not calls.
const RETRY_NONE: i32 = -1;

/// Identity of one client process in all its connections: the bytes of a random UUID.
pub type ClientId = [u8; 16];

/// Returns the header of a SASL frame from a client.
pub(crate) fn sasl_request_header() -> RpcRequestHeaderProto {
    request_header(CALL_ID_SASL, &[], RETRY_NONE)
}

/// Returns the header of a SASL frame from a server.
pub(crate) fn sasl_response_header() -> RpcResponseHeaderProto {
    CallRef::out_of_band(CALL_ID_SASL).response_header(RpcStatusProto::Success)
}

fn request_header(call_id: i32, client_id: &[u8], retry_count: i32) -> RpcRequestHeaderProto {
    RpcRequestHeaderProto {
        rpc_kind: Some(RpcKindProto::RpcProtocolBuffer.into()),
        rpc_op: Some(OperationProto::RpcFinalPacket.into()),
        call_id,
        client_id: Bytes::copy_from_slice(client_id),
        retry_count: Some(retry_count),
        ..RpcRequestHeaderProto::default()
    }
}

/// Appends a SASL frame from a client.
///
/// # Errors
/// [`FrameError::TooLong`] if the token inside exceeds a frame.
pub fn put_sasl_request(out: &mut BytesMut, message: &RpcSaslProto) -> Result<(), FrameError> {
    put_frame(out, |out| {
        put_delimited(out, &sasl_request_header());
        put_delimited(out, message);
    })
}

/// Appends the connection context. Without `user` the authenticated name applies, as with a token.
///
/// # Errors
/// [`FrameError::TooLong`] if a name exceeds a frame.
pub fn put_context(
    out: &mut BytesMut,
    client_id: &ClientId,
    user: Option<&str>,
    protocol: &str,
) -> Result<(), FrameError> {
    put_frame(out, |out| {
        put_delimited(out, &request_header(CALL_ID_CONTEXT, client_id, RETRY_NONE));
        let user_info = UserInformationProto {
            effective_user: user.map(str::to_owned),
            real_user: None,
        };
        put_delimited(
            out,
            &IpcConnectionContextProto {
                user_info: Some(user_info),
                protocol: Some(protocol.to_owned()),
            },
        );
    })
}

/// Appends a ping, which keeps the connection from being idle.
pub fn put_ping(out: &mut BytesMut, client_id: &ClientId) {
    put_frame(out, |out| {
        put_delimited(out, &request_header(CALL_ID_PING, client_id, RETRY_NONE))
    })
    .expect("a ping is 31 bytes");
}

/// Name of a method, as a call carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodName<'a> {
    /// The method, for example `allocate`.
    pub method: &'a str,
    /// Protocol that declares the method.
    pub protocol: &'a str,
    /// Version of that protocol.
    pub version: u64,
}

/// Appends a call. `request` is an encoded message without length.
///
/// # Errors
/// [`FrameError::TooLong`] if the request does not fit into a frame.
pub fn put_call(
    out: &mut BytesMut,
    call_id: i32,
    client_id: &ClientId,
    name: MethodName<'_>,
    request: &[u8],
) -> Result<(), FrameError> {
    out.reserve(request.len() + 256);
    put_frame(out, |out| {
        put_delimited(out, &request_header(call_id, client_id, 0));
        put_delimited(
            out,
            &RequestHeaderProto {
                method_name: name.method.to_owned(),
                declaring_class_protocol_name: name.protocol.to_owned(),
                client_protocol_version: name.version,
            },
        );
        put_delimited_bytes(out, request);
    })
}

/// Takes the header off a frame from a client; the rest of the frame is its payload.
///
/// # Errors
/// [`DelimitedError`] if the header is malformed. Such a frame is answered under
/// [`CALL_ID_INVALID`].
pub fn take_request_header(frame: &mut Bytes) -> Result<RpcRequestHeaderProto, DelimitedError> {
    take_delimited(frame)
}

/// A request header that can be parsed but not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// No operation, or one other than RPC_FINAL_PACKET (a whole request).
    #[error("the request header has no operation, or one other than RPC_FINAL_PACKET")]
    Operation,
    /// No serialisation named.
    #[error("the request header has no rpc kind")]
    NoKind,
    /// A serialisation that is not protobuf.
    #[error("rpc kind {kind} is not supported, only protocol buffers are")]
    Kind {
        /// Number of the serialisation.
        kind: i32,
    },
}

impl HeaderError {
    /// Returns the code to answer with.
    #[must_use]
    pub const fn code(self) -> RpcErrorCode {
        match self {
            Self::Operation | Self::NoKind => RpcErrorCode::FatalInvalidRpcHeader,
            Self::Kind { .. } => RpcErrorCode::FatalUnsupportedSerialization,
        }
    }
}

/// Checks a header as a Java server does before it looks at the payload.
///
/// # Errors
/// [`HeaderError`]; each is fatal for the connection.
pub fn check_request_header(header: &RpcRequestHeaderProto) -> Result<(), HeaderError> {
    if header.rpc_op != Some(OperationProto::RpcFinalPacket.into()) {
        return Err(HeaderError::Operation);
    }
    match header.rpc_kind {
        None => Err(HeaderError::NoKind),
        Some(kind) if kind == i32::from(RpcKindProto::RpcProtocolBuffer) => Ok(()),
        Some(kind) => Err(HeaderError::Kind { kind }),
    }
}

/// Splits a call's payload into its header, which names the method, and the encoded request.
///
/// # Errors
/// [`DelimitedError`]; only the call fails.
pub fn take_call(mut payload: Bytes) -> Result<(RequestHeaderProto, Bytes), DelimitedError> {
    let header = take_delimited(&mut payload)?;
    Ok((header, take_delimited_bytes(&mut payload)?))
}

/// Reference to the call that an answer belongs to, echoed from its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRef {
    /// Call id of the request.
    pub call_id: i32,
    /// Client id of the request; empty for messages that are not calls.
    pub client_id: Bytes,
    /// Retry count of the request.
    pub retry_count: i32,
}

impl CallRef {
    /// Makes the reference for answers during the handshake, where no client is named.
    #[must_use]
    pub const fn out_of_band(call_id: i32) -> Self {
        Self {
            call_id,
            client_id: Bytes::new(),
            retry_count: RETRY_NONE,
        }
    }

    fn response_header(&self, status: RpcStatusProto) -> RpcResponseHeaderProto {
        RpcResponseHeaderProto {
            call_id: self.call_id.cast_unsigned(),
            status: status.into(),
            server_ipc_version_num: Some(u32::from(IPC_VERSION)),
            client_id: Some(self.client_id.clone()),
            retry_count: Some(self.retry_count),
            ..RpcResponseHeaderProto::default()
        }
    }
}

/// Appends a successful answer. `response` is an encoded message without length; an empty one
/// becomes a single zero byte.
///
/// # Errors
/// [`FrameError::TooLong`] if the response does not fit into a frame.
pub fn put_success(out: &mut BytesMut, call: &CallRef, response: &[u8]) -> Result<(), FrameError> {
    out.reserve(response.len() + 64);
    put_frame(out, |out| {
        put_delimited(out, &call.response_header(RpcStatusProto::Success));
        put_delimited_bytes(out, response);
    })
}

/// Appends a SASL message from a server.
///
/// # Errors
/// [`FrameError::TooLong`], which does not happen with messages of this crate's server.
pub fn put_sasl_response(out: &mut BytesMut, message: &RpcSaslProto) -> Result<(), FrameError> {
    put_success(
        out,
        &CallRef::out_of_band(CALL_ID_SASL),
        &message.encode_to_vec(),
    )
}

/// Appends a failure; whether it is fatal follows from its code.
///
/// # Errors
/// [`FrameError::TooLong`] if the message does not fit into a frame.
pub fn put_failure(
    out: &mut BytesMut,
    call: &CallRef,
    error: &RemoteException,
) -> Result<(), FrameError> {
    let status = if error.code.is_fatal() {
        RpcStatusProto::Fatal
    } else {
        RpcStatusProto::Error
    };
    put_frame(out, |out| {
        let mut header = call.response_header(status);
        header.exception_class_name = Some(error.class_name.clone());
        header.error_msg = Some(error.message.clone());
        header.error_detail = Some(RpcErrorCodeProto::from(error.code).into());
        put_delimited(out, &header);
    })
}

/// An answer as the client receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Id of the call answered; negative for other messages.
    pub call_id: i32,
    /// Client id that the server echoes; may be empty.
    pub client_id: Bytes,
    /// Result or failure of the call.
    pub outcome: Outcome,
}

/// Result or failure of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Success with this encoded message.
    Success(Bytes),
    /// Failure; the connection stays open.
    Error(RemoteException),
    /// Failure that ends the connection.
    Fatal(RemoteException),
}

/// A frame from a server that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// A malformed header or message.
    #[error("answer does not parse")]
    Delimited(#[from] DelimitedError),
    /// A status that is not in the enumeration.
    #[error("unknown status {status} in an answer")]
    Status {
        /// Number of the status.
        status: i32,
    },
    /// Bytes follow the message; both sides disagree on the format.
    #[error("{length} bytes after the end of an answer")]
    Trailing {
        /// Number of extra bytes.
        length: usize,
    },
}

/// Decodes a frame from a server.
///
/// # Errors
/// [`AnswerError`]; the connection is unusable afterwards.
pub fn decode_answer(mut frame: Bytes) -> Result<Answer, AnswerError> {
    let header: RpcResponseHeaderProto = take_delimited(&mut frame)?;
    let status = RpcStatusProto::try_from(header.status).map_err(|_| AnswerError::Status {
        status: header.status,
    })?;
    let code = header
        .error_detail
        .and_then(|code| RpcErrorCodeProto::try_from(code).ok())
        .map(RpcErrorCode::from);
    let call_id = header.call_id.cast_signed();
    let client_id = header.client_id.unwrap_or_default();
    let exception = |code| RemoteException {
        class_name: header.exception_class_name.unwrap_or_default(),
        message: header.error_msg.unwrap_or_default(),
        code,
    };
    let outcome = match status {
        RpcStatusProto::Success => Outcome::Success(take_delimited_bytes(&mut frame)?),
        RpcStatusProto::Error => {
            Outcome::Error(exception(code.unwrap_or(RpcErrorCode::Application)))
        }
        RpcStatusProto::Fatal => {
            Outcome::Fatal(exception(code.unwrap_or(RpcErrorCode::FatalUnknown)))
        }
    };
    if frame.is_empty() {
        Ok(Answer {
            call_id,
            client_id,
            outcome,
        })
    } else {
        Err(AnswerError::Trailing {
            length: frame.len(),
        })
    }
}

#[cfg(test)]
mod tests;
