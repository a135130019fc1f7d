use proptest::prelude::*;

use super::*;
use crate::testing::hex;

/// Bytes of a captured session: its hash of the password, and the tokens of each side in order.
struct Captured {
    ha1: &'static str,
    cipher: Option<Cipher>,
    client: &'static [(&'static str, &'static str)],
    server: &'static [(&'static str, &'static str)],
}

const SIGNED: Captured = Captured {
    ha1: "87b9a6227c949707b2e8e324bda4bb46",
    cipher: None,
    client: &[
        (
            "hello 0",
            "68656c6c6f2030 f025a4a76304142c1302 0001 00000000",
        ),
        (
            "hello 1",
            "68656c6c6f2031 cd46184b750e1fb8a3e1 0001 00000001",
        ),
    ],
    server: &[
        (
            "answer 0",
            "616e737765722030 8ed4e046cef9a7a051bb 0001 00000000",
        ),
        (
            "answer 1",
            "616e737765722031 4ea6611183c4c2bc22ea 0001 00000001",
        ),
    ],
};

const TRIPLE_DES: Captured = Captured {
    ha1: "6830d9e0e6182acfcabdbb962c0a45b8",
    cipher: Some(Cipher::TripleDes),
    client: &[
        (
            "hello 0",
            "3242cc2edcdbd9301e6bd557c5b498948e884618ab804658 0001 00000000",
        ),
        (
            "hello 1",
            "ee9842974a8fb4ccd29660bd0aa6ce56b7e5cd2025fe1c1e 0001 00000001",
        ),
    ],
    server: &[
        (
            "answer 0",
            "b5606780ae096aa0b5645f6a038bae178dcccc499933d3d1 0001 00000000",
        ),
        (
            "answer 1",
            "f40ffc2bb829768e8a488ac8b0cb5f0f8858c11a2eaed4e7 0001 00000001",
        ),
    ],
};

/// The sealing key of the client in this session is known, not the hash that it is made of.
const RC4_KEY: &str = "66d3eebbd1b3283cde773d64da7fca7b";
const RC4_CLIENT: [&str; 2] = [
    "b481a2934ea7b8133ab5b573388cad1b9e 0001 00000000",
    "e3d6cfde717969fab4de9ded255f26aa4f 0001 00000001",
];

fn key(text: &str) -> Key {
    hex(text).try_into().unwrap()
}

fn wrapped(wrap: &mut dyn Wrap, message: &[u8]) -> BytesMut {
    let mut bytes = BytesMut::from(message);
    wrap.wrap(&mut bytes).unwrap();
    bytes
}

fn opened(unwrap: &mut dyn Unwrap, token: &[u8]) -> Result<BytesMut, LayerError> {
    let mut bytes = BytesMut::from(token);
    unwrap.unwrap(&mut bytes).map(|()| bytes)
}

/// Returns both sides' layers under one password.
fn pair(cipher: Option<Cipher>) -> (Layer, Layer) {
    let ha1 = [7; 16];
    (
        layer(&ha1, Side::Client, cipher),
        layer(&ha1, Side::Server, cipher),
    )
}

const EVERY: [Option<Cipher>; 3] = [None, Some(Cipher::TripleDes), Some(Cipher::Rc4)];

#[test]
fn javas_tokens_are_made_and_opened() {
    for session in [SIGNED, TRIPLE_DES] {
        let ha1 = key(session.ha1);
        let mut client = layer(&ha1, Side::Client, session.cipher);
        let mut server = layer(&ha1, Side::Server, session.cipher);
        for (message, token) in session.client {
            let token = hex(token);
            assert_eq!(wrapped(&mut *client.wrap, message.as_bytes()), token[..]);
            assert_eq!(opened(&mut *server.unwrap, &token).unwrap(), *message);
        }
        for (message, token) in session.server {
            let token = hex(token);
            assert_eq!(wrapped(&mut *server.wrap, message.as_bytes()), token[..]);
            assert_eq!(opened(&mut *client.unwrap, &token).unwrap(), *message);
        }
    }
}

#[test]
fn javas_keys_are_derived() {
    let ha1 = key(TRIPLE_DES.ha1);
    let signing = |side: Side| derived(&ha1, side.key_names().signing);
    assert_eq!(
        signing(Side::Client),
        key("d8ad693f7d1f1087cae7d5ce85e9c266")
    );
    assert_eq!(
        signing(Side::Server),
        key("164e6e9b1bfbe62d3a9357078c042e0c")
    );
    assert_eq!(
        sealing_key(&ha1, Side::Client),
        key("1d3599667a9d6661b1dd5557c88625c8")
    );
    assert_eq!(
        sealing_key(&ha1, Side::Server),
        key("e6c717c37be492ab7772bc8fed796e05")
    );
}

#[test]
fn javas_rc4_goes_on_from_message_to_message() {
    let mut cipher = rc4(&key(RC4_KEY));
    for (number, token) in RC4_CLIENT.into_iter().enumerate() {
        let mut bytes = hex(token);
        bytes.truncate(bytes.len() - TRAILER_BYTES);
        cipher.apply_keystream(&mut bytes);
        let message = format!("hello {number}");
        assert_eq!(bytes[..message.len()], *message.as_bytes());
        assert_eq!(bytes.len(), message.len() + MAC_BYTES);
    }
}

#[test]
fn a_repeated_a_dropped_and_a_moved_message_end_the_connection() {
    for cipher in EVERY {
        let (mut client, _) = pair(cipher);
        let first = wrapped(&mut *client.wrap, b"first");
        let second = wrapped(&mut *client.wrap, b"second");
        let (_, mut repeated) = pair(cipher);
        assert!(opened(&mut *repeated.unwrap, &first).is_ok());
        let sequence = |found, expected| Err(LayerError::Sequence { found, expected });
        assert_eq!(opened(&mut *repeated.unwrap, &first), sequence(0, 1));
        let (_, mut dropped) = pair(cipher);
        assert_eq!(opened(&mut *dropped.unwrap, &second), sequence(1, 0));
        // A message of this side does not come back as one of the other side.
        let (mut reflected, _) = pair(cipher);
        assert_eq!(
            opened(&mut *reflected.unwrap, &first),
            Err(LayerError::Signature)
        );
    }
}

#[test]
fn every_changed_or_cut_token_is_refused() {
    for cipher in EVERY {
        let (mut client, _) = pair(cipher);
        let token = wrapped(&mut *client.wrap, b"some message of more than a block");
        for at in 0..token.len() {
            let mut changed = token.clone();
            changed[at] ^= 0x10;
            assert!(opened(&mut *pair(cipher).1.unwrap, &changed).is_err());
            assert!(opened(&mut *pair(cipher).1.unwrap, &token[..at]).is_err());
        }
        let longer = [&token[..], b"\0"].concat();
        assert!(opened(&mut *pair(cipher).1.unwrap, &longer).is_err());
    }
}

#[test]
fn a_number_with_the_right_signature_under_a_wrong_type_is_refused() {
    let (mut client, mut server) = pair(None);
    let mut token = wrapped(&mut *client.wrap, b"message");
    let type_at = token.len() - TRAILER_BYTES + 1;
    token[type_at] = 2;
    assert_eq!(
        opened(&mut *server.unwrap, &token),
        Err(LayerError::MessageType { found: 2 })
    );
}

#[test]
fn no_number_is_used_twice() {
    let ha1 = [7; 16];
    let last = u64::from(u32::MAX);
    let mut wrap = Wrapping {
        signing: Signing::new(&ha1, Side::Client),
        sealing: None,
    };
    let mut unwrap = Unwrapping {
        signing: Signing::new(&ha1, Side::Client),
        opening: None,
    };
    (wrap.signing.next, unwrap.signing.next) = (last, last);
    let token = wrapped(&mut wrap, b"the last one");
    assert_eq!(token[token.len() - 4..], [0xff; 4]);
    assert!(opened(&mut unwrap, &token).is_ok());
    let mut bytes = BytesMut::from(&b"one more"[..]);
    assert_eq!(wrap.wrap(&mut bytes), Err(LayerError::Exhausted));
    let of_a_new_connection = wrapped(&mut *pair(None).0.wrap, b"first again");
    assert_eq!(
        opened(&mut unwrap, &of_a_new_connection),
        Err(LayerError::Exhausted)
    );
}

proptest! {
    #[test]
    fn what_one_side_wraps_the_other_opens(
        messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..6),
        cipher in proptest::sample::select(&EVERY[..]),
    ) {
        let (mut client, mut server) = pair(cipher);
        for message in messages {
            let token = wrapped(&mut *client.wrap, &message);
            let added = token.len() - message.len();
            prop_assert!((16..=24).contains(&added), "{added} bytes more");
            prop_assert_eq!(&opened(&mut *server.unwrap, &token).unwrap()[..], &message[..]);
            let answer = wrapped(&mut *server.wrap, &message);
            prop_assert_eq!(&opened(&mut *client.unwrap, &answer).unwrap()[..], &message[..]);
        }
    }

    #[test]
    fn any_token_is_opened_or_refused(
        token in proptest::collection::vec(any::<u8>(), 0..80),
        cipher in proptest::sample::select(&EVERY[..]),
    ) {
        prop_assert!(opened(&mut *pair(cipher).1.unwrap, &token).is_err());
    }
}
