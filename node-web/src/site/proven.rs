//! Who asks, where callers prove it: `hadoop.http.authentication.type=kerberos` (Hadoop:
//! `AuthenticationFilter` with `KerberosAuthenticationHandler`).
//!
//! A caller proves itself by one token of SPNEGO, and gets Hadoop's signed cookie for further
//! requests. Nothing is kept between two requests: a token that would need a second step is
//! refused.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_server::PeerKey;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, StatusCode};
use records::EpochMillis;
use web_auth::{CookieError, Cookies, Failures, NameRules, Proven, negotiation};

use super::answer::{Answer, text};
use super::caller::{COOKIE, Caller};

/// Verdict of a judge on a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The caller is this principal.
    Accepted {
        /// Principal in full.
        principal: String,
        /// Token by which the server proves itself; may be empty.
        answer: Vec<u8>,
    },
    /// The caller would have to send more, with this answer before it.
    Incomplete(Vec<u8>),
    /// The token is not good.
    Refused(String),
    /// The token cannot be judged now.
    Unavailable(String),
}

/// Judge of tokens: the library of Kerberos, on threads of its own and within a time limit.
pub trait TokenJudge: Send + Sync {
    /// Judges a caller's first token.
    fn judge(&self, token: Vec<u8>) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>>;
}

impl fmt::Debug for dyn TokenJudge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenJudge")
    }
}

/// Proof of callers by Kerberos, from the configuration.
#[derive(Debug)]
pub struct KerberosPages {
    /// Judge of tokens.
    pub judge: Arc<dyn TokenJudge>,
    /// Names of users (`hadoop.security.auth_to_local`).
    pub rules: NameRules,
    /// Realm of users without a rule.
    pub default_realm: String,
    /// Cookies of the cluster's secret.
    pub cookies: Cookies,
    /// How long a cookie is good.
    pub validity: Duration,
    /// Attributes behind a cookie's value, from `; Path=` on.
    pub cookie_attributes: String,
    /// Paths that need no proof, exactly so (`….kerberos.endpoint.whitelist`).
    pub open_paths: Vec<String>,
    /// Wrong proofs by address.
    pub failures: Failures<PeerKey>,
}

impl KerberosPages {
    /// Returns who asks.
    ///
    /// # Errors
    /// The answer to a caller who has not proved it.
    pub(super) async fn caller(
        &self,
        request: &Request<Bytes>,
        now: EpochMillis,
    ) -> Result<Caller, Answer> {
        let path = request.uri().path();
        if self.open_paths.iter().any(|open| open == path) {
            return Ok(Caller::default());
        }
        let forged = match self.proven_before(request.headers(), now) {
            Ok(proven) => {
                return Ok(Caller {
                    name: Some(proven.user),
                    ..Caller::default()
                });
            }
            Err(error) => error == Some(CookieError::Invalid),
        };
        let peer = request.extensions().get::<PeerKey>();
        let peer = peer.copied().unwrap_or(PeerKey::of([0, 0, 0, 0].into()));
        if self.failures.are_too_many(&peer, Instant::now()) {
            let why = "Too many wrong proofs from this address; try again in a second.\n";
            return Err(text(StatusCode::TOO_MANY_REQUESTS, why));
        }
        let sent = request.headers().get(header::AUTHORIZATION);
        let Some(sent) = sent else {
            if forged {
                self.failures.count(peer, Instant::now());
            }
            let why = if forged {
                "Authentication required: Invalid signature\n"
            } else {
                "Authentication required\n"
            };
            return Err(self.unproven(StatusCode::UNAUTHORIZED, why, &[]));
        };
        let token = sent.to_str().ok().and_then(negotiation::token);
        let Some(token) = token else {
            self.failures.count(peer, Instant::now());
            let why = "Authentication required by the scheme Negotiate\n";
            return Err(self.unproven(StatusCode::UNAUTHORIZED, why, &[]));
        };
        self.judged(token, peer, now).await
    }

    async fn judged(
        &self,
        token: Vec<u8>,
        peer: PeerKey,
        now: EpochMillis,
    ) -> Result<Caller, Answer> {
        let (status, why, answer) = match self.judge.judge(token).await {
            Verdict::Accepted { principal, answer } => {
                match self.rules.user(&principal, &self.default_realm) {
                    Ok(user) => return Ok(self.welcome(Proven { user, principal }, &answer, now)),
                    Err(error) => (StatusCode::FORBIDDEN, format!("{error}\n"), Vec::new()),
                }
            }
            Verdict::Incomplete(answer) => {
                let why = "Authentication required: the token needs a further step, and nothing is \
                           kept between two requests\n";
                (StatusCode::UNAUTHORIZED, why.to_owned(), answer)
            }
            Verdict::Refused(reason) => {
                tracing::debug!(reason, "a caller's Kerberos token is refused");
                let why = "The Kerberos token is not accepted\n";
                (StatusCode::FORBIDDEN, why.to_owned(), Vec::new())
            }
            Verdict::Unavailable(reason) => {
                tracing::warn!(reason, "callers of pages cannot prove themselves");
                let why = "Kerberos tokens cannot be judged now\n";
                return Err(text(StatusCode::SERVICE_UNAVAILABLE, why));
            }
        };
        self.failures.count(peer, Instant::now());
        Err(self.unproven(status, &why, &answer))
    }

    /// Returns a caller who has just proved itself, with the answer's headers.
    fn welcome(&self, proven: Proven, answer: &[u8], now: EpochMillis) -> Caller {
        let validity_ms = i64::try_from(self.validity.as_millis()).unwrap_or(i64::MAX);
        let cookie = self
            .cookies
            .write(&proven, now.0.saturating_add(validity_ms));
        let cookie = cookie.and_then(|value| self.cookie_header(&format!("\"{value}\"")));
        Caller {
            name: Some(proven.user),
            cookie,
            challenge: HeaderValue::try_from(negotiation::challenge(answer)).ok(),
        }
    }

    /// Returns who the caller has proved to be before, or the reason why its cookie does not count.
    fn proven_before(
        &self,
        headers: &HeaderMap,
        now: EpochMillis,
    ) -> Result<Proven, Option<CookieError>> {
        let cookies = headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
            .map(|text| text.trim_matches('"'))
            .filter(|text| !text.is_empty());
        let mut why = None;
        for text in cookies {
            match self.cookies.read(text, now.0) {
                Ok(proven) => return Ok(proven),
                Err(error) => why = Some(error),
            }
        }
        Err(why)
    }

    /// Answers a caller who has proved nothing; its cookie goes.
    fn unproven(&self, status: StatusCode, why: &str, answer: &[u8]) -> Answer {
        let mut refusal = text(status, why);
        let headers = refusal.headers_mut();
        if status == StatusCode::UNAUTHORIZED
            && let Ok(challenge) = HeaderValue::try_from(negotiation::challenge(answer))
        {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Some(none) = self.cookie_header("") {
            headers.insert(header::SET_COOKIE, none);
        }
        refusal
    }

    fn cookie_header(&self, value: &str) -> Option<HeaderValue> {
        let attributes = &self.cookie_attributes;
        HeaderValue::try_from(format!("{COOKIE}={value}{attributes}")).ok()
    }
}

#[cfg(test)]
mod tests;
