//! The scheme `Negotiate` of HTTP (RFC 4559).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Name of the scheme, for a challenge.
pub const SCHEME: &str = "Negotiate";

/// Longest header that is read, in bytes. Tokens with the groups of a large directory have tens of
/// thousands.
pub const HEADER_BYTES_MAX: usize = 64 * 1024;

/// Returns the token of a caller's `Authorization` header; `None` for another scheme, or what is no
/// token.
#[must_use]
pub fn token(header: &str) -> Option<Vec<u8>> {
    if header.len() > HEADER_BYTES_MAX {
        return None;
    }
    let (scheme, token) = header.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return None;
    }
    let token = STANDARD.decode(token.trim()).ok()?;
    (!token.is_empty()).then_some(token)
}

/// Returns the header `WWW-Authenticate` with the answer to a token, which may be empty.
#[must_use]
pub fn challenge(answer: &[u8]) -> String {
    if answer.is_empty() {
        SCHEME.to_owned()
    } else {
        format!("{SCHEME} {}", STANDARD.encode(answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_what_stands_behind_the_scheme() {
        assert_eq!(token("Negotiate YWJj").as_deref(), Some(&b"abc"[..]));
        assert_eq!(token("negotiate  YWJj ").as_deref(), Some(&b"abc"[..]));
        assert_eq!(challenge(b"abc"), "Negotiate YWJj");
        assert_eq!(challenge(b""), "Negotiate");
        let long = format!("Negotiate {}", "YWJj".repeat(16 * 1024));
        for none in [
            "",
            "Negotiate",
            "Negotiate ",
            "Negotiate ***",
            "Basic YWJj",
            "NegotiateYWJj",
            &long,
        ] {
            assert_eq!(token(none), None, "{none:.40}");
        }
    }
}
