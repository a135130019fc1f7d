//! The signed cookie `hadoop.auth` (Hadoop: `AuthToken`, `Signer`).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use thiserror::Error;

/// Longest cookie that is read, in bytes; Hadoop's have some hundred.
pub const COOKIE_BYTES_MAX: usize = 4096;

/// Type of the tokens that are written and accepted.
const KIND: &str = "kerberos";

/// Caller who has proved to be somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    /// Name of the user.
    pub user: String,
    /// Principal in full.
    pub principal: String,
}

/// Reason for which a cookie proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CookieError {
    /// The signature is not of this secret, or what is signed is no token of Kerberos.
    #[error("Invalid signature")]
    Invalid,
    /// The time of the cookie is over.
    #[error("expired")]
    Expired,
}

/// Writer and reader of cookies of one secret.
#[derive(Clone)]
pub struct Cookies(Hmac<Sha256>);

impl fmt::Debug for Cookies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cookies")
    }
}

impl Cookies {
    /// Returns the cookies that this secret signs.
    ///
    /// # Panics
    /// Never: HMAC takes keys of any length.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        Self(Hmac::new_from_slice(secret).expect("HMAC takes keys of any length"))
    }

    /// Returns the value of a cookie that is good until `expires_ms`, in milliseconds since 1970;
    /// `None` for names that cannot stand in one.
    #[must_use]
    pub fn write(&self, proven: &Proven, expires_ms: i64) -> Option<String> {
        let Proven { user, principal } = proven;
        let is_plain = |text: &str| text.bytes().all(is_plain_byte) && !text.is_empty();
        if !is_plain(user) || !is_plain(principal) {
            return None;
        }
        let signed = format!("u={user}&p={principal}&t={KIND}&e={expires_ms}");
        let signature = STANDARD.encode(self.signature(&signed).finalize().into_bytes());
        let text = format!("{signed}&s={signature}");
        (text.len() <= COOKIE_BYTES_MAX).then_some(text)
    }

    /// Returns who a cookie of another request has proved to be.
    ///
    /// # Errors
    /// [`CookieError`].
    pub fn read(&self, text: &str, now_ms: i64) -> Result<Proven, CookieError> {
        if text.len() > COOKIE_BYTES_MAX {
            return Err(CookieError::Invalid);
        }
        let (signed, signature) = text.rsplit_once("&s=").ok_or(CookieError::Invalid)?;
        let signature = STANDARD.decode(signature);
        let signature = signature.map_err(|_| CookieError::Invalid)?;
        let verified = self.signature(signed).verify_slice(&signature);
        verified.map_err(|_| CookieError::Invalid)?;
        let field = |name: &str| {
            let mut fields = signed.split('&').filter_map(|field| field.split_once('='));
            fields.find_map(|(found, value)| (found == name).then_some(value))
        };
        let (Some(user), Some(principal), Some(KIND), Some(expires_ms)) =
            (field("u"), field("p"), field("t"), field("e"))
        else {
            return Err(CookieError::Invalid);
        };
        let expires_ms: i64 = expires_ms.parse().map_err(|_| CookieError::Invalid)?;
        if now_ms >= expires_ms {
            return Err(CookieError::Expired);
        }
        Ok(Proven {
            user: user.to_owned(),
            principal: principal.to_owned(),
        })
    }

    fn signature(&self, signed: &str) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(signed.as_bytes());
        mac
    }
}

/// Whether a byte means nothing in a cookie, nor between its fields.
const fn is_plain_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'&' | b'=' | b'"' | b'\\' | b';' | b',')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 1_795_333_636_137;
    const SECRET: &[u8] = b"the secret of the cluster\n";

    fn alice() -> Proven {
        Proven {
            user: "alice".to_owned(),
            principal: "alice@NODES.TEST".to_owned(),
        }
    }

    fn written() -> String {
        Cookies::new(SECRET).write(&alice(), NOW).expect("plain")
    }

    #[test]
    fn a_cookie_is_hadoops_and_counts_until_its_time_is_over() {
        let text = written();
        let signed = "u=alice&p=alice@NODES.TEST&t=kerberos&e=1795333636137&s=";
        assert!(text.starts_with(signed), "{text}");
        // Base64 with padding of 32 bytes.
        assert_eq!(text.len(), signed.len() + 44);
        let cookies = Cookies::new(SECRET);
        assert_eq!(cookies.read(&text, NOW - 1), Ok(alice()));
        assert_eq!(cookies.read(&text, NOW), Err(CookieError::Expired));
    }

    /// Computed by Python's hmac over the same text.
    #[test]
    fn the_signature_is_hmac_sha256_of_the_text_before_it() {
        let proven = Proven {
            user: "alice".to_owned(),
            principal: "alice@LAB.TEST".to_owned(),
        };
        let text = Cookies::new(b"secret\n").write(&proven, 1_795_369_636_137);
        let expected = "UvkUdXIcESqu4XZlYreiHSZDGVtKZKWaeil1TQ+iVz0=";
        let text = text.expect("plain");
        assert_eq!(
            text.rsplit_once("&s=").map(|(_, signature)| signature),
            Some(expected)
        );
    }

    #[test]
    fn forged_and_foreign_cookies_prove_nothing() {
        let (cookies, text) = (Cookies::new(SECRET), written());
        let unsigned = text.split("&s=").next().expect("a text").to_owned();
        let simple = "u=eve&p=eve&t=simple&e=9999999999999";
        let signed = Cookies::new(SECRET).signature(simple).finalize();
        let simple = format!("{simple}&s={}", STANDARD.encode(signed.into_bytes()));
        for forged in [
            text.replace("u=alice", "u=root"),
            text.replace("e=1795", "e=2795"),
            text.replace("&s=", "&u=root&s="),
            unsigned.clone(),
            format!("{unsigned}&s="),
            format!("{unsigned}&s=***"),
            format!("{unsigned}&s={}", STANDARD.encode([0; 32])),
            // One that another kind of proof, which is none here, has signed.
            simple,
            String::new(),
            "x".repeat(64 * 1024),
            format!("{}{text}", "x".repeat(64 * 1024)),
        ] {
            assert_eq!(
                cookies.read(&forged, 0),
                Err(CookieError::Invalid),
                "{forged:.200}"
            );
        }
        let other = Cookies::new(b"another secret");
        assert_eq!(other.read(&text, 0), Err(CookieError::Invalid));
    }

    #[test]
    fn names_that_cannot_stand_in_a_cookie_get_none() {
        let cookies = Cookies::new(SECRET);
        for name in ["", "a&u=root", "a b", "a;b", "ü", "a\"b", "a\r\nb"] {
            let user = Proven {
                user: name.to_owned(),
                ..alice()
            };
            let principal = Proven {
                principal: name.to_owned(),
                ..alice()
            };
            assert_eq!(cookies.write(&user, NOW), None, "{name}");
            assert_eq!(cookies.write(&principal, NOW), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_text_but_a_signed_one_is_accepted(text in ".{0,200}") {
            prop_assert_eq!(Cookies::new(SECRET).read(&text, 0), Err(CookieError::Invalid));
        }
    }
}
