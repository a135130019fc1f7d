//! Choice of an application's token for a NameNode. Pure.
//!
//! Source: `org.apache.hadoop.security.token.delegation.AbstractDelegationTokenIdentifier`,
//! `org.apache.hadoop.hdfs.security.token.delegation.DelegationTokenSelector`.

use wire::credentials::Credentials;
use wire::token::Token;
use wire::token::kind::HDFS_DELEGATION_TOKEN as KIND;
use wire::writable::{WritableError, WritableReader};

/// Version of the identifiers that Hadoop writes.
const IDENTIFIER_VERSION: u8 = 0;

/// Time before its end at which `hdfs-native` passes a token by, in milliseconds.
const END_MARGIN_MS: i64 = 60_000;

/// Services of tokens that a refusal names at most.
const NAMED_MAX: usize = 5;

/// Reason why no token is for a NameNode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoToken {
    /// No token is for this NameNode.
    #[error("the application has no {KIND} for {wanted}; it has {}", list(.found))]
    Missing {
        /// The NameNode.
        wanted: String,
        /// Services of the tokens that are there.
        found: Vec<String>,
    },
    /// The token is over, or about to be.
    #[error("the application's {KIND} for {service} reaches its maximum lifetime: it ends {}", end(*.left_ms))]
    Expired {
        /// Service of the token.
        service: String,
        /// Time until the end, in milliseconds; negative after it.
        left_ms: i64,
    },
    /// The token's identifier cannot be read.
    #[error("the application's {KIND} for {service} is malformed")]
    Malformed {
        /// Service of the token.
        service: String,
        /// Cause.
        #[source]
        source: IdentifierError,
    },
}

fn list(services: &[String]) -> String {
    let mut named = services.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>();
    match services.len().saturating_sub(NAMED_MAX) {
        0 if named.is_empty() => "none".to_owned(),
        0 => named.join(", "),
        more => {
            named.push(format!("and {more} more"));
            named.join(", ")
        }
    }
}

fn end(left_ms: i64) -> String {
    let seconds = left_ms / 1000;
    if seconds < 0 {
        format!("{} s ago", seconds.unsigned_abs())
    } else {
        format!("in {seconds} s")
    }
}

/// Identifier that no NameNode writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentifierError {
    /// The version is another.
    #[error("its identifier has version {0}")]
    Version(u8),
    /// A number is none of 32 bits.
    #[error("its identifier has a number beyond 32 bits")]
    Number,
    /// The identifier is too short, or has a length beyond its end.
    #[error("its identifier does not parse")]
    Writable(#[from] WritableError),
}

/// Returns the token for one of these services: of several, the one with the latest end.
///
/// # Errors
/// [`NoToken`].
pub fn token_for<'a>(
    credentials: &'a Credentials,
    services: &[String],
    now_ms: i64,
) -> Result<&'a Token, NoToken> {
    let of_kind = || {
        credentials
            .tokens
            .values()
            .filter(|token| token.kind == KIND)
    };
    let fitting = of_kind().filter(|token| services.contains(&token.service));
    let mut best: Result<(i64, &Token), NoToken> = Err(NoToken::Missing {
        wanted: services.first().cloned().unwrap_or_default(),
        found: of_kind().map(|token| printable(&token.service)).collect(),
    });
    for token in fitting {
        match (maximum_date_ms(&token.identifier), &best) {
            (Ok(end), Ok((best_end, _))) if end <= *best_end => {}
            (Ok(end), _) => best = Ok((end, token)),
            (Err(_), Ok(_)) => {}
            (Err(source), Err(_)) => {
                let service = printable(&token.service);
                best = Err(NoToken::Malformed { service, source });
            }
        }
    }
    let (end, token) = best?;
    let left_ms = end.saturating_sub(now_ms);
    if left_ms <= END_MARGIN_MS {
        let service = printable(&token.service);
        return Err(NoToken::Expired { service, left_ms });
    }
    Ok(token)
}

/// Returns a text of a tenant's for a sentence in logs.
pub(crate) fn printable(text: &str) -> String {
    const LENGTH_MAX: usize = 200;
    let chars = text.chars().filter(|char| !char.is_control());
    chars.take(LENGTH_MAX).collect()
}

/// Reads the time at which a token ends for good, in milliseconds since the epoch, out of an
/// identifier that is whole.
fn maximum_date_ms(identifier: &[u8]) -> Result<i64, IdentifierError> {
    let mut reader = WritableReader::new(identifier);
    let version = reader.take(1)?.first().copied().unwrap_or_default();
    if version != IDENTIFIER_VERSION {
        return Err(IdentifierError::Version(version));
    }
    let (_owner, _renewer, _real_user) = (reader.text()?, reader.text()?, reader.text()?);
    let (_issued, end) = (reader.vlong()?, reader.vlong()?);
    for _sequence_number_and_key in 0..2 {
        // The library takes neither bound of the type.
        let is_number = i32::try_from(reader.vlong()?)
            .is_ok_and(|number| number > i32::MIN && number < i32::MAX);
        if !is_number {
            return Err(IdentifierError::Number);
        }
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use wire::writable::{put_bytes, put_vlong};

    use super::*;

    const NOW_MS: i64 = 1_700_000_000_000;
    const DAY_MS: i64 = 86_400_000;

    fn identifier(end_ms: i64) -> Vec<u8> {
        let mut out = vec![IDENTIFIER_VERSION];
        for text in ["alice@NODES.TEST", "yarn", ""] {
            put_bytes(&mut out, text.as_bytes());
        }
        for number in [NOW_MS, end_ms, 7, 2] {
            put_vlong(&mut out, number);
        }
        out
    }

    fn token(service: &str, identifier: Vec<u8>) -> Token {
        Token {
            identifier: identifier.into(),
            password: Bytes::from_static(b"secret"),
            kind: KIND.to_owned(),
            service: service.to_owned(),
        }
    }

    fn credentials(tokens: impl IntoIterator<Item = Token>) -> Credentials {
        let aliased = tokens.into_iter().enumerate();
        Credentials {
            tokens: aliased.map(|(n, token)| (n.to_string(), token)).collect(),
            ..Credentials::default()
        }
    }

    fn wanted(name: &str) -> Vec<String> {
        vec![name.to_owned(), "127.0.0.1:8020".to_owned()]
    }

    #[test]
    fn the_token_with_the_latest_end_is_taken() {
        let all = credentials([
            token("127.0.0.1:8020", identifier(NOW_MS + DAY_MS)),
            token("nn:8020", identifier(NOW_MS + 3 * DAY_MS)),
            token("nn:8020", identifier(NOW_MS + 2 * DAY_MS)),
            token("nn:8020", vec![9]),
            token("other:8020", identifier(NOW_MS + 9 * DAY_MS)),
        ]);
        let found = token_for(&all, &wanted("nn:8020"), NOW_MS).unwrap();
        assert_eq!(found.identifier, identifier(NOW_MS + 3 * DAY_MS));
    }

    #[test]
    fn a_token_of_another_name_node_is_named_and_not_used() {
        let mut other = token("other:8020", identifier(NOW_MS + DAY_MS));
        let mut all = vec![other.clone()];
        other.kind = "RM_DELEGATION_TOKEN".to_owned();
        other.service = "nn:8020".to_owned();
        all.push(other);
        let error = token_for(&credentials(all), &wanted("nn:8020"), NOW_MS).unwrap_err();
        let expected =
            "the application has no HDFS_DELEGATION_TOKEN for nn:8020; it has other:8020";
        assert_eq!(error.to_string(), expected);
        let error = token_for(&Credentials::default(), &wanted("nn:8020"), NOW_MS).unwrap_err();
        assert!(error.to_string().ends_with("it has none"), "{error}");
        let many = (0..9).map(|n| token(&format!("n{n}:1\n"), vec![]));
        let error = token_for(&credentials(many), &wanted("nn:8020"), NOW_MS).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("it has n0:1, n1:1, n2:1, n3:1, n4:1, and 4 more")
        );
    }

    #[test]
    fn a_token_that_ends_within_a_minute_is_refused() {
        for (left_ms, words) in [
            (-5_000, "it ends 5 s ago"),
            (END_MARGIN_MS, "it ends in 60 s"),
        ] {
            let all = credentials([token("nn:8020", identifier(NOW_MS + left_ms))]);
            let error = token_for(&all, &wanted("nn:8020"), NOW_MS).unwrap_err();
            assert!(error.to_string().ends_with(words), "{error}");
        }
        let all = credentials([token("nn:8020", identifier(NOW_MS + END_MARGIN_MS + 1))]);
        assert!(token_for(&all, &wanted("nn:8020"), NOW_MS).is_ok());
    }

    #[test]
    fn an_identifier_that_the_library_would_panic_at_is_malformed() {
        let whole = identifier(NOW_MS + DAY_MS);
        let refused = |identifier: Vec<u8>| {
            let all = credentials([token("nn:8020", identifier)]);
            token_for(&all, &wanted("nn:8020"), NOW_MS).unwrap_err()
        };
        for length in 0..whole.len() {
            let error = refused(whole[..length].to_vec());
            assert!(
                matches!(error, NoToken::Malformed { .. }),
                "{length}: {error}"
            );
        }
        let mut other = whole.clone();
        other[0] = 1;
        let version = IdentifierError::Version(1);
        assert!(matches!(refused(other), NoToken::Malformed { source, .. } if source == version));
        for number in [i64::from(i32::MAX), i64::from(i32::MIN), i64::MAX] {
            let mut out = identifier(NOW_MS + DAY_MS);
            out.truncate(out.len() - 1);
            put_vlong(&mut out, number);
            let error = refused(out);
            let source = IdentifierError::Number;
            assert!(matches!(&error, NoToken::Malformed { source: found, .. } if *found == source));
        }
        // A text of 2^62 bytes.
        let mut long = vec![IDENTIFIER_VERSION];
        put_vlong(&mut long, 1 << 62);
        assert!(matches!(refused(long), NoToken::Malformed { .. }));
    }
}
