//! Scripts of other origins that may read answers (Hadoop: `CrossOriginFilter`).

use hyper::HeaderMap;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderValue, ORIGIN,
};
use thiserror::Error;

use super::pattern::{BadPattern, WholePattern};
use super::{first, trimmed_parts};

/// Beginning of an origin that is a pattern.
const PATTERN: &str = "regex:";

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadCrossOrigin {
    /// `allowed-origins`.
    #[error(transparent)]
    Origins(#[from] BadPattern),
    /// `allowed-methods`.
    #[error("must be printable text, which is sent in a header")]
    Methods,
    /// `allowed-headers`.
    #[error("must be printable text, which is sent in a header")]
    Headers,
    /// `max-age`.
    #[error("must be printable text, which is sent in a header")]
    MaxAge,
}

/// Origins whose scripts may read answers, and what those may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrossOrigin {
    /// `None`: all.
    origins: Option<Vec<Origin>>,
    methods: Vec<String>,
    headers: Vec<String>,
    allowed_methods: HeaderValue,
    allowed_headers: HeaderValue,
    max_age: HeaderValue,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    Exactly(String),
    Like(WholePattern),
}

impl Origin {
    fn new(text: &str) -> Result<Self, BadPattern> {
        let pattern = match text.strip_prefix(PATTERN) {
            Some(pattern) => pattern.to_owned(),
            None if text.contains('*') => text.replace('.', r"\.").replace('*', ".*"),
            None => return Ok(Self::Exactly(text.to_owned())),
        };
        WholePattern::new(&pattern).map(Self::Like)
    }

    fn is(&self, origin: &str) -> bool {
        match self {
            Self::Exactly(known) => known == origin,
            Self::Like(pattern) => pattern.matches(origin),
        }
    }
}

impl CrossOrigin {
    /// Reads `hadoop.http.cross-origin.allowed-origins`, `….allowed-methods`, `….allowed-headers`,
    /// with commas between, and `….max-age`.
    ///
    /// # Errors
    /// [`BadCrossOrigin`] for the first that cannot be used.
    pub fn new(
        origins: &str,
        methods: &str,
        headers: &str,
        max_age: &str,
    ) -> Result<Self, BadCrossOrigin> {
        let origins = trimmed_parts(origins);
        let allows_all = origins.iter().any(|origin| origin == "*");
        let origins = origins.iter().map(|origin| Origin::new(origin));
        let origins: Vec<_> = origins.collect::<Result<_, _>>()?;
        let (methods, headers) = (trimmed_parts(methods), trimmed_parts(headers));
        let value = |text: &str, error| HeaderValue::from_str(text).map_err(|_| error);
        Ok(Self {
            origins: (!allows_all).then_some(origins),
            allowed_methods: value(&methods.join(","), BadCrossOrigin::Methods)?,
            allowed_headers: value(&headers.join(","), BadCrossOrigin::Headers)?,
            max_age: value(max_age.trim(), BadCrossOrigin::MaxAge)?,
            methods,
            headers,
        })
    }

    /// Whether scripts of every origin may read answers.
    #[must_use]
    pub fn allows_all(&self) -> bool {
        self.origins.is_none()
    }

    pub(super) fn complete(&self, request: &HeaderMap, answer: &mut HeaderMap) {
        let Some(sent) = request.get(ORIGIN) else {
            return;
        };
        let origin = first(request, &ORIGIN).unwrap_or_default();
        if !(self.is_allowed(origin.trim()) && self.may_send(request)) {
            return;
        }
        // No value of a header has a line break; blanks around it are taken off on the way.
        for (name, value) in [
            (ACCESS_CONTROL_ALLOW_ORIGIN, sent),
            (
                ACCESS_CONTROL_ALLOW_CREDENTIALS,
                &HeaderValue::from_static("true"),
            ),
            (ACCESS_CONTROL_ALLOW_METHODS, &self.allowed_methods),
            (ACCESS_CONTROL_ALLOW_HEADERS, &self.allowed_headers),
            (ACCESS_CONTROL_MAX_AGE, &self.max_age),
        ] {
            answer.insert(name, value.clone());
        }
    }

    /// Whether one of the origins between blanks is allowed.
    fn is_allowed(&self, origins: &str) -> bool {
        let Some(known) = &self.origins else {
            return true;
        };
        let mut origins = origins.split_ascii_whitespace();
        origins.any(|origin| known.iter().any(|known| known.is(origin)))
    }

    /// Whether a script may send the method and the headers that a browser asks for.
    fn may_send(&self, request: &HeaderMap) -> bool {
        let method = first(request, &ACCESS_CONTROL_REQUEST_METHOD);
        let headers = first(request, &ACCESS_CONTROL_REQUEST_HEADERS);
        method.is_none_or(|method| self.methods.contains(&method))
            && headers.is_none_or(|headers| {
                let mut parts = headers.trim().split(',').map(str::trim);
                parts.all(|part| self.headers.iter().any(|known| known == part))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METHODS: &str = "GET,POST,HEAD";
    const HEADERS: &str = "X-Requested-With, Content-Type,Accept,Origin";

    fn allowed(origins: &str, request: &[(&str, &str)]) -> Option<String> {
        let rule = CrossOrigin::new(origins, METHODS, HEADERS, "1800").unwrap();
        let request = request.iter();
        let request = request.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let mut answer = HeaderMap::new();
        rule.complete(&HeaderMap::from_iter(request), &mut answer);
        let origin = answer.get(ACCESS_CONTROL_ALLOW_ORIGIN);
        assert_eq!(answer.len(), if origin.is_some() { 5 } else { 0 });
        Some(origin?.to_str().unwrap().to_owned())
    }

    #[test]
    fn origins_are_allowed_by_text_star_and_pattern() {
        let origin = "https://a.example:8";
        let asked = [("origin", origin)];
        for known in [
            "*",
            origin,
            "x, https://a.example:8",
            "https://*.example:*",
            r"regex:https://[a-c]\.example(:\d+)?",
        ] {
            assert_eq!(allowed(known, &asked).as_deref(), Some(origin), "{known}");
        }
        for other in [
            "https://a.example",
            "https://*.example",
            "regex:https://a",
            "",
        ] {
            assert_eq!(allowed(other, &asked), None, "{other}");
        }
        // A dot of a text with stars is one.
        assert_eq!(
            allowed("https://*.example", &[("origin", "https://a-example")]),
            None
        );
        assert_eq!(allowed("*", &[]), None);
        let two = [("origin", "https://x https://a.example:8")];
        assert_eq!(allowed(origin, &two).as_deref(), Some(two[0].1));
    }

    #[test]
    fn a_script_gets_nothing_that_it_may_not_send() {
        let origin = ("origin", "https://a");
        let method = "access-control-request-method";
        let headers = "access-control-request-headers";
        assert!(
            allowed(
                "*",
                &[origin, (method, "POST"), (headers, "Accept , Origin")]
            )
            .is_some()
        );
        assert!(allowed("*", &[origin, (method, "DELETE")]).is_none());
        assert!(allowed("*", &[origin, (headers, "Accept,X-Other")]).is_none());
        assert!(allowed("*", &[origin, (headers, "accept")]).is_none());
    }

    #[test]
    fn settings_that_cannot_be_sent_are_told_apart() {
        let rule = |methods, headers, age| CrossOrigin::new("*", methods, headers, age).err();
        assert_eq!(rule("a\nb", "", ""), Some(BadCrossOrigin::Methods));
        assert_eq!(rule("", "a\nb", ""), Some(BadCrossOrigin::Headers));
        assert_eq!(rule("", "", "a\nb"), Some(BadCrossOrigin::MaxAge));
        let pattern = CrossOrigin::new(r"regex:(a)\1", "", "", "");
        assert!(matches!(pattern, Err(BadCrossOrigin::Origins(_))));
    }
}
