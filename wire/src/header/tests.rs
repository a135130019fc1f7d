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
