use proptest::prelude::*;

use super::*;

fn decoder(bytes: &[u8]) -> FrameDecoder {
    let mut decoder = FrameDecoder::new(FRAME_LENGTH_MAX_UNAUTHENTICATED);
    decoder.read_buffer().put_slice(bytes);
    decoder
}

#[test]
fn preambles_are_hadoops() {
    assert_eq!(
        Preamble::new(AuthProtocol::None).encode(),
        *b"hrpc\x09\x00\x00"
    );
    assert_eq!(
        Preamble::new(AuthProtocol::Sasl).encode(),
        *b"hrpc\x09\x00\xdf"
    );
    for auth in [AuthProtocol::None, AuthProtocol::Sasl] {
        let preamble = Preamble::new(auth);
        assert_eq!(
            decoder(&preamble.encode()).preamble(),
            Ok(Decoded::Complete(preamble))
        );
    }
}

#[test]
fn any_service_class_is_accepted() {
    let expected = Preamble {
        service_class: 7,
        auth: AuthProtocol::None,
    };
    assert_eq!(
        decoder(b"hrpc\x09\x07\x00").preamble(),
        Ok(Decoded::Complete(expected))
    );
}

#[test]
fn six_bytes_of_preamble_are_incomplete() {
    assert_eq!(decoder(b"hrpc\x09\x00").preamble(), Ok(Decoded::Incomplete));
}

#[test]
fn http_shows_after_four_bytes() {
    assert_eq!(decoder(b"GET ").preamble(), Err(PreambleError::HttpGet));
}

#[test]
fn other_versions_and_auth_bytes_are_distinguished() {
    assert_eq!(
        decoder(b"hrpc\x04\x00\x00").preamble(),
        Err(PreambleError::Version { version: 4 })
    );
    assert_eq!(
        decoder(b"HRPC\x09\x00\x00").preamble(),
        Err(PreambleError::Version { version: 9 })
    );
    assert_eq!(
        decoder(b"SSH-2.0").preamble(),
        Err(PreambleError::Version { version: b'2' })
    );
    assert_eq!(
        decoder(b"hrpc\x09\x00\x51").preamble(),
        Err(PreambleError::UnknownAuth { auth: 0x51 })
    );
}

#[test]
fn frame_is_incomplete_until_its_last_byte() {
    let mut whole = BytesMut::new();
    put_frame(&mut whole, |out| out.put_slice(b"abc")).unwrap();
    assert_eq!(&whole[..], b"\0\0\0\x03abc");
    for cut in 0..whole.len() {
        let mut decoder = decoder(&whole[..cut]);
        assert_eq!(decoder.frame(), Ok(Decoded::Incomplete));
        assert_eq!(decoder.buffered_bytes(), cut);
    }
    assert_eq!(
        decoder(&whole).frame(),
        Ok(Decoded::Complete(Bytes::from_static(b"abc")))
    );
}

#[test]
fn declared_length_reserves_nothing() {
    let mut decoder = FrameDecoder::new(FRAME_LENGTH_MAX);
    decoder
        .read_buffer()
        .put_i32(i32::try_from(FRAME_LENGTH_MAX).unwrap());
    assert_eq!(decoder.frame(), Ok(Decoded::Incomplete));
    assert!(decoder.read_buffer().capacity() <= 2 * READ_CHUNK_BYTES);
}

#[test]
fn long_frame_takes_few_reads_and_room_for_a_few_times_what_came() {
    let mut sent = BytesMut::new();
    put_frame(&mut sent, |out| out.put_bytes(1, 30_000)).unwrap();
    let mut decoder = FrameDecoder::new(FRAME_LENGTH_MAX);
    let mut reads = 0;
    while decoder.frame() == Ok(Decoded::Incomplete) {
        let come = decoder.buffered_bytes();
        let buffer = decoder.read_buffer();
        assert!(buffer.capacity() <= (1 + GROWTH) * come + 2 * READ_CHUNK_BYTES);
        let room = buffer.capacity() - buffer.len();
        buffer.put_slice(&sent.split_to(room.min(sent.len())));
        reads += 1;
    }
    assert!(sent.is_empty());
    assert!(reads <= 3, "{reads}");
}

#[test]
fn long_frame_takes_its_memory_along() {
    let mut decoder = FrameDecoder::new(FRAME_LENGTH_MAX);
    let buffer = decoder.read_buffer();
    put_frame(buffer, |out| out.put_bytes(1, 1 << 20)).unwrap();
    buffer.put_slice(b"rest");
    assert!(matches!(decoder.frame(), Ok(Decoded::Complete(frame)) if frame.len() == 1 << 20));
    assert_eq!(&decoder.read_buffer()[..], b"rest");
    assert!(decoder.read_buffer().capacity() <= 2 * READ_CHUNK_BYTES);
}

#[test]
fn lengths_out_of_bounds_are_refused() {
    assert_eq!(
        decoder(&[0xff, 0xff, 0xff, 0xff]).frame(),
        Err(FrameError::NegativeLength { length: -1 })
    );
    let limit = FRAME_LENGTH_MAX_UNAUTHENTICATED;
    assert_eq!(
        decoder(&[0, 0, 0x40, 1]).frame(),
        Err(FrameError::TooLong {
            length: limit + 1,
            limit
        })
    );
}

#[test]
fn limit_can_be_raised_between_frames() {
    let mut decoder = decoder(&[0, 1, 0, 1]);
    assert!(decoder.frame().is_err());
    decoder.set_length_max(FRAME_LENGTH_MAX);
    assert_eq!(decoder.frame(), Ok(Decoded::Incomplete));
}

#[test]
fn declared_length_shows_before_the_frame() {
    assert_eq!(decoder(&[0, 1, 0]).declared_length(), None);
    assert_eq!(decoder(&[0, 1, 0, 1]).declared_length(), Some(65_537));
    assert_eq!(decoder(&[0xff, 0xff, 0xff, 0xff]).declared_length(), None);
}

#[test]
fn delimited_message_beyond_its_frame_is_refused() {
    for bytes in [
        &[][..],
        &[5, 1, 2],
        &[0xff; 11],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
    ] {
        let mut frame = Bytes::copy_from_slice(bytes);
        assert_eq!(
            take_delimited_bytes(&mut frame),
            Err(DelimitedError::Length)
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_decode_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let mut decoder = decoder(&bytes);
        let _ = decoder.preamble();
        while let Ok(Decoded::Complete(mut frame)) = decoder.frame() {
            let _ = take_delimited_bytes(&mut frame);
        }
    }

    #[test]
    fn frames_survive_any_cut(
        bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..8),
        chunk in 1_usize..50,
    ) {
        let mut stream = BytesMut::new();
        for body in &bodies {
            put_frame(&mut stream, |out| put_delimited_bytes(out, body)).unwrap();
        }
        let mut decoder = FrameDecoder::new(FRAME_LENGTH_MAX);
        let mut received = Vec::new();
        for part in stream.chunks(chunk) {
            decoder.read_buffer().put_slice(part);
            while let Decoded::Complete(mut frame) = decoder.frame().unwrap() {
                received.push(take_delimited_bytes(&mut frame).unwrap().to_vec());
                prop_assert!(frame.is_empty());
            }
        }
        prop_assert_eq!(received, bodies);
    }
}

#[test]
fn a_frame_that_is_too_long_is_not_written() {
    let mut out = BytesMut::from(&b"before"[..]);
    let limit = FRAME_LENGTH_MAX;
    let written = put_frame(&mut out, |out| out.resize(out.len() + limit + 1, 0));
    let length = limit + 1;
    assert_eq!(written, Err(FrameError::TooLong { length, limit }));
    assert_eq!(out, &b"before"[..]);
}
