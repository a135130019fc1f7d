use proptest::prelude::*;

use super::*;
use crate::frame::FRAME_LENGTH_MAX_UNAUTHENTICATED;
use crate::protection::{Protection, Protections};
use crate::proto::hadoop_common::RpcSaslProto;
use crate::testing::hex;
use crate::{digest_md5, header};

/// Returns both sides' layers of one session.
fn layers(level: Protection) -> (crate::layer::Layer, crate::layer::Layer) {
    let (nonce, levels) = (digest_md5::nonce([1; 30]), Protections::from(level));
    let challenge = digest_md5::challenge(&nonce, &levels);
    let client =
        digest_md5::ClientResponse::new(challenge.as_bytes(), &levels, b"id", b"pw", "cnonce")
            .unwrap();
    let message = client.message.as_bytes();
    let check = digest_md5::ServerCheck::parse(&nonce, &levels, message).unwrap();
    let proof = check.verify(b"pw").unwrap();
    let client = client.verify(proof.message.as_bytes()).unwrap();
    (client.unwrap(), proof.layer.unwrap())
}

/// Returns a writer of one side and a reader of the other.
fn link(level: Protection) -> (WrappedWriter, WrappedReader) {
    let (client, server) = layers(level);
    let reader = WrappedReader::new(server.unwrap, FRAME_LENGTH_MAX_UNAUTHENTICATED);
    (WrappedWriter::new(client.wrap, Sender::Client), reader)
}

fn frame(body: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    put_frame(&mut out, |out| out.extend_from_slice(body)).unwrap();
    out
}

/// Takes the token out of a wrapped frame of a client, with its length.
fn token(mut frame: BytesMut) -> Bytes {
    let mut frame = frame.split_off(4).freeze();
    let header = header::take_request_header(&mut frame).unwrap();
    assert!(header::check_request_header(&header).is_ok());
    token_of_request(header.call_id, frame).unwrap()
}

/// Takes every complete frame.
fn frames(reader: &mut WrappedReader) -> Result<Vec<Bytes>, FrameError> {
    let mut frames = Vec::new();
    loop {
        match reader.frame()? {
            Decoded::Complete(frame) => frames.push(frame),
            Decoded::Incomplete if reader.unfed_bytes() == 0 => return Ok(frames),
            Decoded::Incomplete => reader.feed(),
        }
    }
}

#[test]
fn frames_have_the_headers_that_java_sends() {
    let put = |sender| {
        let mut out = BytesMut::new();
        put_token(&mut out, sender, &[0xab; 3]).unwrap();
        out
    };
    assert_eq!(
        put(Sender::Client),
        hex("00000013 0a 08021000184122002801 07 1005 1a03 ababab")
    );
    assert_eq!(
        put(Sender::Server),
        hex("00000017 0e 08dfffffff0f1000 18093a004001 07 1005 1a03 ababab")
    );
    let by_hand = put(Sender::Server).split_off(4).freeze();
    assert_eq!(token_of_answer(by_hand).unwrap(), [0xab; 3][..]);
}

#[test]
fn a_long_token_is_framed_as_protobuf_says() {
    for length in [0, 1, 127, 128, 300, 20_000] {
        let (mut by_hand, mut by_prost) = (BytesMut::new(), BytesMut::new());
        let token = Bytes::from(vec![7; length]);
        put_token(&mut by_hand, Sender::Client, &token).unwrap();
        let message = RpcSaslProto {
            state: SaslState::Wrap.into(),
            token: Some(token),
            ..RpcSaslProto::default()
        };
        header::put_sasl_request(&mut by_prost, &message).unwrap();
        assert_eq!(by_hand, by_prost);
    }
}

#[test]
fn a_token_may_have_several_frames_or_a_part_of_one() {
    for level in [Protection::Integrity, Protection::Privacy] {
        let (mut writer, mut reader) = link(level);
        let mut wrapped = |bytes: &[u8]| {
            let mut out = BytesMut::new();
            let put = writer.put(&mut out, |clear| clear.extend_from_slice(bytes));
            put.unwrap();
            token(out)
        };
        let both = [frame(b"context"), frame(b"first call")].concat();
        reader.open(wrapped(&both)).unwrap();
        assert_eq!(frames(&mut reader).unwrap(), ["context", "first call"]);
        let long = frame(&[5; 10_000]);
        for part in long.chunks(3_000) {
            assert!(frames(&mut reader).unwrap().is_empty());
            reader.open(wrapped(part)).unwrap();
        }
        assert_eq!(frames(&mut reader).unwrap(), [&[5; 10_000][..]]);
    }
}

#[test]
fn nothing_to_send_uses_no_number() {
    let (mut writer, mut reader) = link(Protection::Integrity);
    let mut out = BytesMut::new();
    writer.put(&mut out, |_| ()).unwrap();
    assert!(out.is_empty());
    let put = writer.put(&mut out, |clear| clear.extend_from_slice(&frame(b"one")));
    put.unwrap();
    reader.open(token(out)).unwrap();
    assert_eq!(frames(&mut reader).unwrap(), ["one"]);
}

#[test]
fn a_frame_longer_than_allowed_is_refused_by_its_length_inside() {
    let (mut writer, mut reader) = link(Protection::Privacy);
    let mut out = BytesMut::new();
    let length = FRAME_LENGTH_MAX_UNAUTHENTICATED + 1;
    let declared = u32::try_from(length).unwrap().to_be_bytes();
    let put = writer.put(&mut out, |clear| clear.extend_from_slice(&declared));
    put.unwrap();
    reader.open(token(out)).unwrap();
    let limit = FRAME_LENGTH_MAX_UNAUTHENTICATED;
    assert_eq!(
        frames(&mut reader),
        Err(FrameError::TooLong { length, limit })
    );
}

#[test]
fn only_wrapped_messages_are_taken() {
    let message = |text: &str| take_token(&Bytes::from(hex(text)));
    assert_eq!(message("1005 1a01aa").unwrap(), [0xaa][..]);
    // Unknown fields, a list of methods and repeated fields, of which the last one counts.
    assert_eq!(
        message("0801 2200 2200 1a01bb 1001 1a01aa 1005").unwrap(),
        [0xaa][..]
    );
    assert_eq!(
        message("1001 1a01aa"),
        Err(WrappedError::State { state: 1 })
    );
    assert_eq!(message("1a01aa"), Err(WrappedError::Incomplete("state")));
    assert_eq!(message("1005"), Err(WrappedError::Incomplete("token")));
    assert_eq!(
        message("1005 1a05aa"),
        Err(WrappedError::Malformed(RawMessageError::Truncated))
    );
    assert_eq!(
        token_of_request(0, Bytes::from(hex("05 1005 1a01aa"))),
        Err(WrappedError::InClear)
    );
    let mut answer = BytesMut::new();
    let call = header::CallRef::out_of_band(3);
    header::put_success(&mut answer, &call, b"").unwrap();
    assert_eq!(
        token_of_answer(answer.split_off(4).freeze()),
        Err(WrappedError::InClear)
    );
}

proptest! {
    #[test]
    fn any_message_gives_a_token_or_an_error(message in proptest::collection::vec(any::<u8>(), 0..40)) {
        let message = Bytes::from(message);
        if let Ok(token) = take_token(&message) {
            prop_assert!(token.len() < message.len());
        }
    }
}
