//! What stands in a frame: headers of calls and answers, and the connection context.
//!
//! Client to server: [`RpcRequestHeaderProto`] and a payload by call id. Server to client: [`RpcResponseHeaderProto`]
//! and, on success, one message. Everything here is a function over bytes.

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

/// Answer to a connection whose request header was not understood.
pub const CALL_ID_INVALID: i32 = -1;
/// The connection context, once per connection before its first call.
pub const CALL_ID_CONTEXT: i32 = -3;
/// A sign of life from a client that waits; never answered.
pub const CALL_ID_PING: i32 = -4;
/// A step of the authentication, in both directions.
pub const CALL_ID_SASL: i32 = -33;

/// Retry count where none applies.
const RETRY_NONE: i32 = -1;

/// The number that names one client process in all its connections, a random UUID's bytes.
pub type ClientId = [u8; 16];

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
/// [`FrameError::TooLong`] when the token in it is absurdly long.
pub fn put_sasl_request(out: &mut BytesMut, message: &RpcSaslProto) -> Result<(), FrameError> {
    put_frame(out, |out| {
        put_delimited(out, &request_header(CALL_ID_SASL, &[], RETRY_NONE));
        put_delimited(out, message);
    })
}

/// Appends the connection context. Without `user` the authenticated name applies, as a token requires.
///
/// # Errors
/// [`FrameError::TooLong`] when a name is absurdly long.
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

/// Appends a ping.
pub fn put_ping(out: &mut BytesMut, client_id: &ClientId) {
    put_frame(out, |out| {
        put_delimited(out, &request_header(CALL_ID_PING, client_id, RETRY_NONE))
    })
    .expect("a ping is 31 bytes");
}

/// One method of one version of one protocol, as a call names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodName<'a> {
    /// The method, for example `allocate`.
    pub method: &'a str,
    /// The protocol that declares it.
    pub protocol: &'a str,
    /// That protocol's version.
    pub version: u64,
}

/// Appends a call. `request` is an encoded message without length.
///
/// # Errors
/// [`FrameError::TooLong`] when the request does not fit into a frame.
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
/// See [`DelimitedError`]. Such a frame is answered under [`CALL_ID_INVALID`].
pub fn take_request_header(frame: &mut Bytes) -> Result<RpcRequestHeaderProto, DelimitedError> {
    take_delimited(frame)
}

/// What is wrong with a request header that does parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// No operation, or one other than "whole request".
    #[error("the request header has no operation, or one other than RPC_FINAL_PACKET")]
    Operation,
    /// No serialisation is named.
    #[error("the request header has no rpc kind")]
    NoKind,
    /// A serialisation that is not protobuf.
    #[error("rpc kind {kind} is not spoken, only protocol buffers are")]
    Kind {
        /// The number of the kind.
        kind: i32,
    },
}

impl HeaderError {
    /// The code to answer with.
    #[must_use]
    pub const fn code(self) -> RpcErrorCode {
        match self {
            Self::Operation | Self::NoKind => RpcErrorCode::FatalInvalidRpcHeader,
            Self::Kind { .. } => RpcErrorCode::FatalUnsupportedSerialization,
        }
    }
}

/// Checks what a Java server checks of every header before it looks at the payload.
///
/// # Errors
/// See [`HeaderError`]; each is fatal for the connection.
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

/// Takes a call's payload apart: which method, and the request message's bytes.
///
/// # Errors
/// See [`DelimitedError`]; only the call fails.
pub fn take_call(mut payload: Bytes) -> Result<(RequestHeaderProto, Bytes), DelimitedError> {
    let header = take_delimited(&mut payload)?;
    Ok((header, take_delimited_bytes(&mut payload)?))
}

/// The call that an answer belongs to, echoed from its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRef {
    /// The request's call id.
    pub call_id: i32,
    /// The request's client id; empty for what is not a call.
    pub client_id: Bytes,
    /// The request's retry count.
    pub retry_count: i32,
}

impl CallRef {
    /// The reference for answers during the handshake, where no client is named.
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

/// Appends a successful answer. `response` is an encoded message without length; an empty one is a single zero byte.
///
/// # Errors
/// [`FrameError::TooLong`] when the response does not fit into a frame.
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
/// [`FrameError::TooLong`], which no message of a server of this crate is.
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
/// [`FrameError::TooLong`] when the message does not fit into a frame.
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

/// An answer as the client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The id of the call answered; negative outside calls.
    pub call_id: i32,
    /// The client id that the server echoes; empty when it does not.
    pub client_id: Bytes,
    /// How the call ended.
    pub outcome: Outcome,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With this encoded message.
    Success(Bytes),
    /// With an error; the connection stays.
    Error(RemoteException),
    /// With an error that ends the connection.
    Fatal(RemoteException),
}

/// A frame from a server that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// Header or message do not parse.
    #[error("answer does not parse")]
    Delimited(#[from] DelimitedError),
    /// A status that is not in the enumeration.
    #[error("unknown status {status} in an answer")]
    Status {
        /// The number of the status.
        status: i32,
    },
    /// Bytes follow the message; both sides disagree on the format.
    #[error("{length} bytes after the end of an answer")]
    Trailing {
        /// How many.
        length: usize,
    },
}

/// Reads a frame from a server.
///
/// # Errors
/// See [`AnswerError`]; the connection is of no use afterwards.
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::exception::HadoopException;
    use crate::frame::{Decoded, FrameDecoder};
    use crate::proto::hadoop_common::rpc_sasl_proto::{SaslAuth, SaslState};
    use crate::testing::hex;

    const CLIENT_ID: &str = "1fcc17a77af84624a800874b8dc1d732";

    fn client_id() -> ClientId {
        hex(CLIENT_ID).try_into().unwrap()
    }

    fn unframe(frame: &[u8]) -> Bytes {
        let mut decoder = FrameDecoder::new(crate::frame::FRAME_LENGTH_MAX);
        decoder.read_buffer().extend_from_slice(frame);
        match decoder.frame() {
            Ok(Decoded::Complete(frame)) if decoder.buffered_bytes() == 0 => frame,
            other => panic!("not one frame: {other:?}"),
        }
    }

    fn sasl(state: SaslState) -> RpcSaslProto {
        RpcSaslProto {
            state: state.into(),
            ..RpcSaslProto::default()
        }
    }

    #[test]
    fn negotiate_frame_is_javas() {
        let mut out = BytesMut::new();
        put_sasl_request(&mut out, &sasl(SaslState::Negotiate)).unwrap();
        assert_eq!(out, hex("0000000e 0a 0802 1000 1841 2200 2801 02 1001"));
    }

    #[test]
    fn choice_of_simple_authentication_is_javas() {
        let auth = SaslAuth {
            method: "SIMPLE".to_owned(),
            ..SaslAuth::default()
        };
        let mut out = BytesMut::new();
        put_sasl_request(
            &mut out,
            &RpcSaslProto {
                auths: vec![auth],
                ..sasl(SaslState::Initiate)
            },
        )
        .unwrap();
        assert_eq!(
            out,
            hex("0000001a 0a 0802 1000 1841 2200 2801 0e 1002 220a 0a06 53494d504c45 1200")
        );
    }

    #[test]
    fn success_of_a_simple_server_is_javas() {
        let mut out = BytesMut::new();
        put_sasl_response(&mut out, &sasl(SaslState::Success)).unwrap();
        assert_eq!(
            out,
            hex("00000012 0e 08dfffffff0f 1000 1809 3a00 4001 02 1000")
        );
    }

    #[test]
    fn context_with_a_token_is_javas() {
        let mut out = BytesMut::new();
        put_context(
            &mut out,
            &client_id(),
            None,
            "org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB",
        )
        .unwrap();
        let expected = format!(
            "00000056 1a 0802 1000 1805 2210 {CLIENT_ID} 2801 3a 1200 1a36 6f72672e6170616368652e6861646f6f702e796172
             6e2e6170692e4170706c69636174696f6e4d617374657250726f746f636f6c5042"
        );
        assert_eq!(out, hex(&expected));
    }

    #[test]
    fn context_with_a_user_is_javas() {
        let mut out = BytesMut::new();
        let protocol = "org.apache.hadoop.yarn.server.api.ResourceTrackerPB";
        put_context(&mut out, &client_id(), Some("bob"), protocol).unwrap();
        let expected = format!(
            "00000058 1a 0802 1000 1805 2210 {CLIENT_ID} 2801 3c 1205 0a03 626f62 1a33 6f72672e6170616368652e6861646f6
             f702e7961726e2e7365727665722e6170692e5265736f75726365547261636b65725042"
        );
        assert_eq!(out, hex(&expected));
    }

    #[test]
    fn ping_is_javas() {
        let mut out = BytesMut::new();
        put_ping(&mut out, &client_id());
        assert_eq!(
            out,
            hex(&format!("0000001b 1a 0802 1000 1807 2210 {CLIENT_ID} 2801"))
        );
    }

    #[test]
    fn calls_are_javas_in_both_directions() {
        let name = MethodName {
            method: "registerApplicationMaster",
            protocol: "org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB",
            version: 1,
        };
        let request = hex("0a0168 1001 1a00");
        let expected = hex(&format!(
            "00000079 1a 0802 1000 1800 2210 {CLIENT_ID} 2800 55 0a19 72656769737465724170706c69636174696f6e4d6173746572
             1236 6f72672e6170616368652e6861646f6f702e7961726e2e6170692e4170706c69636174696f6e4d617374657250726f746f636f
             6c5042 1801 07 0a0168 1001 1a00"
        ));
        let mut out = BytesMut::new();
        put_call(&mut out, 0, &client_id(), name, &request).unwrap();
        assert_eq!(out, expected);

        let mut frame = unframe(&expected);
        let header = take_request_header(&mut frame).unwrap();
        assert_eq!((header.call_id, header.retry_count), (0, Some(0)));
        assert_eq!(header.client_id, hex(CLIENT_ID));
        assert_eq!(check_request_header(&header), Ok(()));
        let (called, body) = take_call(frame).unwrap();
        assert_eq!(called.method_name, name.method);
        assert_eq!(called.declaring_class_protocol_name, name.protocol);
        assert_eq!(called.client_protocol_version, 1);
        assert_eq!(body, request);
    }

    #[test]
    fn heartbeat_without_content_is_javas() {
        let name = MethodName {
            method: "nodeHeartbeat",
            protocol: "org.apache.hadoop.yarn.server.api.ResourceTrackerPB",
            version: 1,
        };
        let mut out = BytesMut::new();
        put_call(&mut out, 6, &client_id(), name, &[]).unwrap();
        let expected = format!(
            "00000063 1a 0802 1000 180c 2210 {CLIENT_ID} 2800 46 0a0d 6e6f6465486561727462656174 1233 6f72672e61706163
             68652e6861646f6f702e7961726e2e7365727665722e6170692e5265736f75726365547261636b65725042 1801 00"
        );
        assert_eq!(out, hex(&expected));
    }

    fn call() -> CallRef {
        CallRef {
            call_id: 0,
            client_id: hex(CLIENT_ID).into(),
            retry_count: 0,
        }
    }

    #[test]
    fn success_is_javas_in_both_directions() {
        let mut out = BytesMut::new();
        put_success(&mut out, &call(), &hex("2a07 64656661756c74")).unwrap();
        let expected = hex(&format!(
            "00000025 1a 0800 1000 1809 3a10 {CLIENT_ID} 4000 09 2a07 64656661756c74"
        ));
        assert_eq!(out, expected);
        let answer = decode_answer(unframe(&expected)).unwrap();
        assert_eq!(answer.call_id, 0);
        assert_eq!(answer.client_id, hex(CLIENT_ID));
        assert_eq!(
            answer.outcome,
            Outcome::Success(hex("2a07 64656661756c74").into())
        );
    }

    #[test]
    fn empty_response_is_one_byte() {
        let mut out = BytesMut::new();
        put_success(&mut out, &call(), &[]).unwrap();
        assert_eq!(out.last(), Some(&0));
        assert_eq!(
            decode_answer(unframe(&out)).unwrap().outcome,
            Outcome::Success(Bytes::new())
        );
    }

    #[test]
    fn refusal_of_a_client_without_token_is_javas() {
        let error = RemoteException::with_code(
            HadoopException::AccessControl,
            "SIMPLE authentication is not enabled.  Available:[TOKEN]",
            RpcErrorCode::FatalUnauthorized,
        );
        let mut out = BytesMut::new();
        put_failure(&mut out, &CallRef::out_of_band(CALL_ID_INVALID), &error).unwrap();
        let expected = hex(
            "0000007e 7d 08ffffffff0f 1002 1809 2231 6f72672e6170616368652e6861646f6f702e73656375726974792e416363657373
             436f6e74726f6c457863657074696f6e 2a38 53494d504c452061757468656e7469636174696f6e206973206e6f7420656e61626c
             65642e2020417661696c61626c653a5b544f4b454e5d 300f 3a00 4001",
        );
        assert_eq!(out, expected);
        let answer = decode_answer(unframe(&expected)).unwrap();
        assert_eq!(
            (answer.call_id, answer.outcome),
            (CALL_ID_INVALID, Outcome::Fatal(error))
        );
    }

    #[test]
    fn invalid_token_refusal_is_javas() {
        let error = RemoteException::with_code(
            HadoopException::InvalidToken,
            "0123456789012345678901",
            RpcErrorCode::FatalUnauthorized,
        );
        let mut out = BytesMut::new();
        put_failure(&mut out, &CallRef::out_of_band(CALL_ID_SASL), &error).unwrap();
        let start = hex("00000066 65 08dfffffff0f 1002 1809 223b");
        assert_eq!(out[..start.len()], start);
        assert_eq!(out[out.len() - 6..], hex("300f 3a00 4001"));
    }

    #[test]
    fn error_of_a_call_ends_as_javas() {
        let error = RemoteException::new(HadoopException::YarnException, "no");
        let mut out = BytesMut::new();
        put_failure(&mut out, &call(), &error).unwrap();
        let end = hex(&format!("3001 3a10 {CLIENT_ID} 4000"));
        assert_eq!(out[out.len() - end.len()..], end);
        assert_eq!(
            decode_answer(unframe(&out)).unwrap().outcome,
            Outcome::Error(error)
        );
    }

    #[test]
    fn special_call_ids_are_as_hadoop_writes_them() {
        for (call_id, request, response) in [
            (CALL_ID_INVALID, "01", "ffffffff0f"),
            (CALL_ID_CONTEXT, "05", "fdffffff0f"),
            (CALL_ID_PING, "07", "fcffffff0f"),
            (CALL_ID_SASL, "41", "dfffffff0f"),
        ] {
            let header = request_header(call_id, &[], RETRY_NONE).encode_to_vec();
            assert_eq!(header, hex(&format!("0802 1000 18{request} 2200 2801")));
            let header = CallRef::out_of_band(call_id)
                .response_header(RpcStatusProto::Success)
                .encode_to_vec();
            assert_eq!(header, hex(&format!("08{response} 1000 1809 3a00 4001")));
        }
    }

    #[test]
    fn headers_without_operation_or_of_another_kind_are_refused() {
        let good = request_header(0, &[], 0);
        let no_operation = RpcRequestHeaderProto {
            rpc_op: None,
            ..good.clone()
        };
        let close = RpcRequestHeaderProto {
            rpc_op: Some(2),
            ..good.clone()
        };
        let no_kind = RpcRequestHeaderProto {
            rpc_kind: None,
            ..good.clone()
        };
        let writable = RpcRequestHeaderProto {
            rpc_kind: Some(1),
            ..good
        };
        assert_eq!(
            check_request_header(&no_operation),
            Err(HeaderError::Operation)
        );
        assert_eq!(check_request_header(&close), Err(HeaderError::Operation));
        assert_eq!(check_request_header(&no_kind), Err(HeaderError::NoKind));
        assert_eq!(
            check_request_header(&writable),
            Err(HeaderError::Kind { kind: 1 })
        );
    }

    #[test]
    fn answer_with_trailing_bytes_or_unknown_status_is_refused() {
        let mut out = BytesMut::new();
        put_success(&mut out, &call(), &[]).unwrap();
        let mut longer = out.split_off(4);
        longer.extend_from_slice(&[0]);
        assert_eq!(
            decode_answer(longer.freeze()),
            Err(AnswerError::Trailing { length: 1 })
        );
        let strange = Bytes::from(hex("04 0800 1007 00"));
        assert_eq!(
            decode_answer(strange),
            Err(AnswerError::Status { status: 7 })
        );
    }

    proptest! {
        #[test]
        fn any_frame_decodes_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut frame = Bytes::from(bytes);
            let _ = decode_answer(frame.clone());
            if let Ok(header) = take_request_header(&mut frame) {
                let _ = check_request_header(&header);
                let _ = take_call(frame);
            }
        }
    }
}
