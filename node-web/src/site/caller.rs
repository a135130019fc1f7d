//! Who asks, where names are believed: `hadoop.http.authentication.type=simple` (Hadoop:
//! `AuthenticationFilter` with `PseudoAuthenticationHandler`).
//!
//! A caller gives a name once, as the parameter `user.name`, and gets it back as a signed cookie,
//! so that the links of a page need not repeat it. The signature proves that this agent wrote the
//! cookie and nothing more: whoever may reach the port may give any name.

use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::header::{self, HeaderMap, HeaderValue};
use records::EpochMillis;
use sha1::Sha1;

use super::target::Target;

/// Name of the cookie, as clients of Hadoop know it.
pub(super) const COOKIE: &str = "hadoop.auth";
/// How long a cookie is good (Hadoop: `hadoop.http.authentication.token.validity`).
const VALIDITY: Duration = Duration::from_secs(36_000);
/// Longest name, in bytes. No system knows longer ones.
const NAME_BYTES_MAX: usize = 255;

/// The caller of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Caller {
    /// `None`: anonymous.
    pub(super) name: Option<String>,
    /// Cookie to send back.
    pub(super) cookie: Option<HeaderValue>,
    /// Proof of the server to send back.
    pub(super) challenge: Option<HeaderValue>,
}

/// The key of this agent's cookies, made anew at each start.
pub(super) struct Callers {
    key: Hmac<Sha1>,
    /// Whether browsers send cookies back over TLS only.
    over_tls: bool,
}

impl std::fmt::Debug for Callers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Callers")
    }
}

impl Callers {
    pub(super) fn new(over_tls: bool) -> Self {
        let key: [u8; 32] = rand::random();
        Self {
            key: Hmac::new_from_slice(&key).expect("HMAC takes keys of any length"),
            over_tls,
        }
    }

    /// Returns who asks: by a cookie of this agent that is still good, or by `user.name`.
    pub(super) fn caller(&self, headers: &HeaderMap, target: &Target, now: EpochMillis) -> Caller {
        if let Some(name) = self.name_in_cookie(headers, now) {
            return Caller {
                name: Some(name),
                ..Caller::default()
            };
        }
        let given = target.parameter("user.name");
        match given.filter(|name| !name.is_empty() && name.len() <= NAME_BYTES_MAX) {
            Some(name) => Caller {
                name: Some(name.to_owned()),
                cookie: self.cookie(name, now),
                challenge: None,
            },
            None => Caller::default(),
        }
    }

    /// Returns the header that makes a browser remember the name; `None` for one that cannot stand
    /// in a cookie, which must then be given with each request.
    fn cookie(&self, name: &str, now: EpochMillis) -> Option<HeaderValue> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-@/$".contains(c);
        if !name.chars().all(plain) {
            return None;
        }
        let validity_ms = i64::try_from(VALIDITY.as_millis()).unwrap_or(0);
        let mut text = format!(
            "u={name}&p={name}&t=simple&e={}",
            now.0.saturating_add(validity_ms)
        );
        let mut mac = self.key.clone();
        mac.update(text.as_bytes());
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        // Writing to a string does not fail.
        let _ = write!(text, "&s={signature}");
        let secure = if self.over_tls { "; Secure" } else { "" };
        HeaderValue::try_from(format!("{COOKIE}=\"{text}\"; Path=/{secure}; HttpOnly")).ok()
    }

    fn name_in_cookie(&self, headers: &HeaderMap, now: EpochMillis) -> Option<String> {
        headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
            .find_map(|text| self.verified(text.trim_matches('"'), now))
    }

    fn verified(&self, text: &str, now: EpochMillis) -> Option<String> {
        let (signed, signature) = text.rsplit_once("&s=")?;
        let mut mac = self.key.clone();
        mac.update(signed.as_bytes());
        mac.verify_slice(&STANDARD.decode(signature).ok()?).ok()?;
        let field = |name: &str| {
            let mut fields = signed.split('&').filter_map(|field| field.split_once('='));
            fields.find_map(|(found, value)| (found == name).then_some(value))
        };
        let good_until: i64 = field("e")?.parse().ok()?;
        (now.0 < good_until).then(|| field("u").map(str::to_owned))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: EpochMillis = EpochMillis(1_700_000_000_000);

    fn asked(path: &str) -> Target {
        Target::parse(&path.parse().unwrap()).unwrap()
    }

    fn with_cookie(text: &str) -> HeaderMap {
        let value = HeaderValue::try_from(text).unwrap();
        HeaderMap::from_iter([(header::COOKIE, value)])
    }

    /// Returns what a browser sends back of a `Set-Cookie` header.
    fn sent_back(caller: &Caller) -> String {
        let text = caller.cookie.as_ref().unwrap().to_str().unwrap();
        text.split(';').next().unwrap().to_owned()
    }

    #[test]
    fn a_name_that_was_given_once_comes_back_by_its_cookie() {
        let callers = Callers::new(false);
        let first = callers.caller(&HeaderMap::new(), &asked("/x?user.name=alice"), NOW);
        assert_eq!(first.name.as_deref(), Some("alice"));
        let cookie = sent_back(&first);
        let headers = with_cookie(&format!("a=b; {cookie}"));
        // As in Hadoop, the cookie counts and not a further name.
        let second = callers.caller(&headers, &asked("/x?user.name=bob"), NOW);
        assert_eq!(
            (second.name.as_deref(), second.cookie),
            (Some("alice"), None)
        );
        let late = EpochMillis(NOW.0 + 36_000_000);
        assert_eq!(
            callers.caller(&headers, &asked("/x"), late),
            Caller::default()
        );
    }

    #[test]
    fn changed_and_foreign_cookies_are_as_good_as_none() {
        let callers = Callers::new(false);
        let cookie = sent_back(&callers.caller(&HeaderMap::new(), &asked("/?user.name=eve"), NOW));
        let unsigned = cookie.split("&s=").next().unwrap().to_owned();
        for text in [
            cookie.replace("u=eve", "u=root"),
            cookie.replace("&e=17", "&e=18"),
            format!("{unsigned}\""),
            format!("{unsigned}&s=\""),
            format!("{unsigned}&s=***\""),
            "hadoop.auth=".to_owned(),
            "hadoop.auth=\"\"".to_owned(),
            "hadoop.auth".to_owned(),
            "x=y".to_owned(),
        ] {
            let caller = callers.caller(&with_cookie(&text), &asked("/"), NOW);
            assert_eq!(caller, Caller::default(), "{text}");
        }
        let other = Callers::new(false).caller(&with_cookie(&cookie), &asked("/"), NOW);
        assert_eq!(other, Caller::default());
        assert!(
            callers
                .caller(&with_cookie(&cookie), &asked("/"), NOW)
                .name
                .is_some()
        );
    }

    #[test]
    fn names_that_cannot_stand_in_a_cookie_get_none() {
        let callers = Callers::new(false);
        for name in [
            "a%26u%3Droot",
            "a%22b",
            "%C3%BC",
            "a%20b",
            "a%0D%0Ab",
            "a%3Bb",
        ] {
            let caller = callers.caller(
                &HeaderMap::new(),
                &asked(&format!("/?user.name={name}")),
                NOW,
            );
            assert!(caller.name.is_some() && caller.cookie.is_none(), "{name}");
        }
        let long = format!("/?user.name={}", "x".repeat(NAME_BYTES_MAX + 1));
        for nameless in ["/", "/?user.name", "/?user.name=", &long] {
            let caller = callers.caller(&HeaderMap::new(), &asked(nameless), NOW);
            assert_eq!(caller, Caller::default(), "{nameless}");
        }
    }
}
