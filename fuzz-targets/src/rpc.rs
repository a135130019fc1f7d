//! Bytes of a connection: preamble, frames, headers of requests, answers.

use bytes::{Bytes, BytesMut};
use wire::frame::{
    AuthProtocol, Decoded, FRAME_LENGTH_MAX_UNAUTHENTICATED, FrameDecoder, FrameError, Preamble,
    PreambleError, take_delimited,
};
use wire::header::{
    self, CallRef, ClientId, MethodName, Outcome, check_request_header, decode_answer, take_call,
    take_request_header,
};
use wire::proto::hadoop_common::RpcRequestHeaderProto;

use crate::{Memory, Target, in_pieces};

pub(crate) const TARGET: Target = Target {
    name: "rpc",
    bytes_max: 20 * 1024,
    memory: Memory {
        base: 64 * 1024,
        per_byte: 64,
    },
    run,
    seeds,
};

/// What a connection's bytes are.
#[derive(Debug, PartialEq)]
struct Read {
    preamble: Option<Result<Preamble, PreambleError>>,
    frames: Vec<Bytes>,
    end: Option<FrameError>,
}

/// Reads a connection whose bytes arrive in pieces of this length.
fn read(bytes: &[u8], piece: usize) -> Read {
    let mut decoder = FrameDecoder::new(FRAME_LENGTH_MAX_UNAUTHENTICATED);
    let mut read = Read {
        preamble: None,
        frames: Vec::new(),
        end: None,
    };
    for piece in bytes.chunks(piece) {
        decoder.read_buffer().extend_from_slice(piece);
        if read.preamble.is_none() {
            match decoder.preamble() {
                Ok(Decoded::Incomplete) => continue,
                Ok(Decoded::Complete(preamble)) => read.preamble = Some(Ok(preamble)),
                Err(error) => {
                    read.preamble = Some(Err(error));
                    return read;
                }
            }
        }
        loop {
            match decoder.frame() {
                Ok(Decoded::Incomplete) => break,
                Ok(Decoded::Complete(frame)) => read.frames.push(frame),
                Err(error) => {
                    read.end = Some(error);
                    return read;
                }
            }
        }
    }
    read
}

fn run(input: &[u8]) {
    let (piece, bytes) = in_pieces(input);
    let whole = read(bytes, bytes.len().max(1));
    // A preamble with a wrong version is known before its last byte only if all bytes came.
    assert_eq!(read(bytes, piece), whole, "in pieces of {piece}");
    for frame in whole.frames {
        read_request(frame.clone());
        read_answer(frame);
    }
}

fn read_request(mut frame: Bytes) {
    let Ok(header) = take_request_header(&mut frame) else {
        return;
    };
    let mut again = BytesMut::new();
    wire::frame::put_delimited(&mut again, &header);
    let again: RpcRequestHeaderProto =
        take_delimited(&mut again.freeze()).expect("a header that was written is read");
    assert_eq!(again, header);
    if check_request_header(&header).is_ok()
        && let Ok((method, request)) = take_call(frame.clone())
    {
        assert!(method.method_name.len() + request.len() <= frame.len());
    }
}

fn read_answer(frame: Bytes) {
    let Ok(answer) = decode_answer(frame) else {
        return;
    };
    let call = CallRef {
        call_id: answer.call_id,
        client_id: answer.client_id.clone(),
        retry_count: 0,
    };
    let mut out = BytesMut::new();
    let written = match &answer.outcome {
        Outcome::Success(response) => header::put_success(&mut out, &call, response),
        Outcome::Error(error) | Outcome::Fatal(error) => {
            header::put_failure(&mut out, &call, error)
        }
    };
    written.expect("an answer of the length of another fits");
    let again = decode_answer(out.split_off(4).freeze()).expect("an answer that was written");
    assert_eq!(again.call_id, answer.call_id);
    match (&again.outcome, &answer.outcome) {
        (Outcome::Success(again), Outcome::Success(before)) => assert_eq!(again, before),
        // Whether a failure is fatal follows from its code when it is written.
        (
            Outcome::Error(again) | Outcome::Fatal(again),
            Outcome::Error(before) | Outcome::Fatal(before),
        ) => assert_eq!(again, before),
        (_, _) => panic!("{again:?} is not {answer:?}"),
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let client: ClientId = [7; 16];
    let mut out = BytesMut::from(&Preamble::new(AuthProtocol::None).encode()[..]);
    header::put_context(&mut out, &client, Some("alice"), "org.apache.Protocol")
        .expect("a context fits");
    let method = MethodName {
        method: "startContainers",
        protocol: "org.apache.hadoop.yarn.api.ContainerManagementProtocolPB",
        version: 1,
    };
    header::put_call(&mut out, 3, &client, method, b"\x0a\x00").expect("a call fits");
    header::put_ping(&mut out, &client);
    let call = CallRef {
        call_id: 3,
        client_id: Bytes::from_static(&[7; 16]),
        retry_count: 0,
    };
    header::put_success(&mut out, &call, b"\x0a\x00").expect("an answer fits");
    let error = wire::exception::RemoteException::new(
        wire::exception::HadoopException::InvalidToken,
        "no such key",
    );
    header::put_failure(&mut out, &call, &error).expect("an answer fits");
    let with_pieces = |piece: u8| [&[piece], &out[..]].concat();
    vec![
        with_pieces(255),
        with_pieces(0),
        b"\x10GET / HTTP/1.1\r\n\r\n".to_vec(),
    ]
}
