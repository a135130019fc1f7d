use super::*;

/// A context whose library needs this many tokens of the peer, and whose messages have a mark for
/// signed or sealed in front.
struct Scripted {
    steps_left: usize,
}

const SIGNED: u8 = b'i';
const SEALED: u8 = b'c';

impl GssContext for Scripted {
    fn step(&mut self, token: &[u8]) -> Result<Vec<u8>, GssError> {
        if token == b"wrong" {
            return Err(GssError("Invalid token was supplied".to_owned()));
        }
        self.steps_left -= 1;
        Ok(if token.is_empty() {
            b"request".to_vec()
        } else {
            Vec::new()
        })
    }

    fn is_complete(&self) -> bool {
        self.steps_left == 0
    }

    fn wrap(&mut self, message: &[u8], seal: bool) -> Result<Vec<u8>, GssError> {
        assert!(self.is_complete(), "wrapped too early");
        Ok([&[if seal { SEALED } else { SIGNED }], message].concat())
    }

    fn unwrap(&mut self, token: &[u8]) -> Result<Unwrapped, GssError> {
        let (mark, message) = token.split_first().ok_or(GssError("empty".to_owned()))?;
        Ok(Unwrapped {
            message: message.to_vec(),
            is_sealed: *mark == SEALED,
        })
    }
}

/// Returns a client whose library is complete, before the server's offer.
fn choosing(levels: impl IntoIterator<Item = Protection>) -> GssapiClient {
    let context = Box::new(Scripted { steps_left: 2 });
    let mut client = GssapiClient::new(context, levels.into_iter().collect());
    assert_eq!(client.start().unwrap(), b"request");
    // The library has nothing more to say; an empty token says so.
    assert_eq!(client.handle(b"answer").unwrap(), b"");
    client
}

fn offer(bits: u8) -> [u8; 5] {
    [SIGNED, bits, 1, 0, 0]
}

#[test]
fn a_client_answers_measured_offers_as_java_does() {
    use Protection::{Authentication, Integrity, Privacy};
    for (levels, offered, answer) in [
        (vec![Authentication], 1, [1, 0, 0, 0]),
        (vec![Integrity], 2, [2, 1, 0, 0]),
        (vec![Privacy], 4, [4, 1, 0, 0]),
        (vec![Authentication, Privacy], 5, [1, 0, 0, 0]),
        (vec![Privacy, Authentication], 5, [4, 1, 0, 0]),
        (vec![Privacy, Integrity], 3, [2, 1, 0, 0]),
    ] {
        let mut client = choosing(levels.clone());
        let reply = client.handle(&offer(offered)).unwrap();
        // Signed, whatever is chosen.
        assert_eq!(reply, [&[SIGNED][..], &answer].concat(), "{levels:?}");
        let layer = client.finish().unwrap();
        assert_eq!(layer.is_some(), answer[0] != 1, "{levels:?}");
    }
}

#[test]
fn nothing_in_common_and_a_broken_offer_end_the_authentication() {
    let mut client = choosing([Protection::Privacy]);
    let refused = client.handle(&offer(3));
    assert_eq!(refused, Err(GssapiError::NoCommonProtection));
    assert_eq!(client.handle(&offer(4)), Err(GssapiError::Over));
    assert_eq!(client.finish().unwrap_err(), GssapiError::TooEarly);
    for length in [0, 3, 5] {
        let token = vec![SIGNED; length + 1];
        let refused = choosing([Protection::Privacy]).handle(&token);
        assert_eq!(refused, Err(GssapiError::Offer { length }));
    }
}

#[test]
fn a_server_that_ends_early_is_not_believed() {
    let context = || Box::new(Scripted { steps_left: 2 });
    let mut started = GssapiClient::new(context(), Protection::Authentication.into());
    started.start().unwrap();
    assert_eq!(started.finish().unwrap_err(), GssapiError::TooEarly);
    let unchosen = choosing([Protection::Authentication]);
    assert_eq!(unchosen.finish().unwrap_err(), GssapiError::TooEarly);
}

#[test]
fn a_refusal_of_the_library_has_its_words() {
    let context = Box::new(Scripted { steps_left: 2 });
    let mut client = GssapiClient::new(context, Protections::default());
    client.start().unwrap();
    let refused = client.handle(b"wrong").unwrap_err();
    let words = GssError("Invalid token was supplied".to_owned());
    assert_eq!(refused, GssapiError::Library(words));
}

#[test]
fn messages_are_protected_as_agreed_in_both_directions() {
    for (level, mark, other) in [
        (Protection::Integrity, SIGNED, SEALED),
        (Protection::Privacy, SEALED, SIGNED),
    ] {
        let mut client = choosing([level]);
        client.handle(&offer(7)).unwrap();
        let mut layer = client.finish().unwrap().expect("a layer");
        let mut bytes = BytesMut::from(&b"message"[..]);
        layer.wrap.wrap(&mut bytes).unwrap();
        assert_eq!(bytes, [&[mark][..], b"message"].concat());
        layer.unwrap.unwrap(&mut bytes).unwrap();
        assert_eq!(bytes, b"message"[..]);
        let mut weaker = BytesMut::from(&[&[other][..], b"message"].concat()[..]);
        assert!(matches!(
            layer.unwrap.unwrap(&mut weaker),
            Err(LayerError::Mechanism(_))
        ));
    }
}
