//! Messages of a security layer: the token in a SASL message, its signature, the frames inside.

use bytes::{Bytes, BytesMut};
use wire::digest_md5::{self, ClientResponse, ServerCheck};
use wire::frame::{Decoded, FRAME_LENGTH_MAX_UNAUTHENTICATED, FrameDecoder, FrameError};
use wire::header;
use wire::layer::Layer;
use wire::protection::{Protection, Protections};
use wire::wrapped::{
    Sender, WrappedReader, WrappedWriter, put_token, take_token, token_of_request,
};

use crate::{Memory, Target, in_pieces};

pub(crate) const TARGET: Target = Target {
    name: "wrapped",
    bytes_max: 20 * 1024,
    // The bytes are read in clear, wrapped, framed and unwrapped; a buffer is four times what is
    // received of a long frame.
    memory: Memory {
        base: 128 * 1024,
        per_byte: 64,
    },
    run,
    seeds,
};

const PASSWORD: &[u8] = b"password";

/// Returns the layers of a client and of its server.
fn layers(level: Protection) -> (Layer, Layer) {
    let (nonce, levels) = (digest_md5::nonce([5; 30]), Protections::from(level));
    let challenge = digest_md5::challenge(&nonce, &levels);
    let client = ClientResponse::new(challenge.as_bytes(), &levels, b"id", PASSWORD, "cnonce")
        .expect("an honest challenge");
    let check = ServerCheck::parse(&nonce, &levels, client.message.as_bytes());
    let proof = check.and_then(|check| check.verify(PASSWORD));
    let proof = proof.expect("an honest response");
    let client = client.verify(proof.message.as_bytes());
    let client = client.expect("an honest proof").expect("a layer");
    (client, proof.layer.expect("a layer"))
}

fn reader(layer: Layer) -> WrappedReader {
    WrappedReader::new(layer.unwrap, FRAME_LENGTH_MAX_UNAUTHENTICATED)
}

/// Frames of a stream, and the error at its end.
type Read = (Vec<Bytes>, Option<FrameError>);

/// Reads frames in clear.
fn in_clear(bytes: &[u8]) -> Read {
    let mut decoder = FrameDecoder::new(FRAME_LENGTH_MAX_UNAUTHENTICATED);
    decoder.read_buffer().extend_from_slice(bytes);
    let mut frames = Vec::new();
    loop {
        match decoder.frame() {
            Ok(Decoded::Complete(frame)) => frames.push(frame),
            Ok(Decoded::Incomplete) => return (frames, None),
            Err(error) => return (frames, Some(error)),
        }
    }
}

/// Sends the same bytes in tokens of pieces, and reads the frames out of them.
fn through_layer(bytes: &[u8], piece: usize, level: Protection) -> Read {
    let (client, server) = layers(level);
    let (mut writer, mut reader) = (
        WrappedWriter::new(client.wrap, Sender::Client),
        reader(server),
    );
    let mut frames = Vec::new();
    for piece in bytes.chunks(piece) {
        let mut out = BytesMut::new();
        let put = writer.put(&mut out, |clear| clear.extend_from_slice(piece));
        put.expect("a short piece fits");
        let mut frame = out.split_off(4).freeze();
        let head = header::take_request_header(&mut frame).expect("a frame that was written");
        let token = token_of_request(head.call_id, frame).expect("a token that was written");
        reader.open(token).expect("a token that was wrapped");
        loop {
            match reader.frame() {
                Ok(Decoded::Complete(frame)) => frames.push(frame),
                Ok(Decoded::Incomplete) if reader.unfed_bytes() == 0 => break,
                Ok(Decoded::Incomplete) => reader.feed(),
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

fn run(input: &[u8]) {
    let (piece, bytes) = in_pieces(input);
    let clear = in_clear(bytes);
    // Tokens of single bytes say nothing more and take long.
    let piece = piece.max(64);
    for level in [Protection::Integrity, Protection::Privacy] {
        assert_eq!(through_layer(bytes, piece, level), clear, "{level:?}");
        // Nobody without the keys makes a token.
        let opened = reader(layers(level).1).open(Bytes::copy_from_slice(input));
        assert!(opened.is_err(), "a foreign token under {level:?}");
    }
    let message = Bytes::copy_from_slice(input);
    if let Ok(token) = take_token(&message) {
        let mut again = BytesMut::new();
        put_token(&mut again, Sender::Client, &token).expect("a short token fits");
        assert!(again.len() >= token.len() + 4);
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let mut frames = vec![200];
    for length in [0, 1, 30, 700_u32] {
        frames.extend(length.to_be_bytes());
        frames.extend((0..length).map(|_| 9));
    }
    let mut seeds = vec![frames, vec![70, 0xff, 0xff, 0xff, 0xff]];
    for level in [Protection::Integrity, Protection::Privacy] {
        let mut token = BytesMut::from(&b"\0\0\0\x01a"[..]);
        let wrapped = layers(level).0.wrap.wrap(&mut token);
        wrapped.expect("the first message");
        seeds.push([b"\x10\x05\x1a\x1b", &token[..]].concat());
    }
    seeds
}
