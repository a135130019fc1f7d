//! Pages whose frames may show answers (Hadoop: `XFrameOptionsFilter`).

use hyper::HeaderMap;
use hyper::header::{CONTENT_SECURITY_POLICY, HeaderValue, X_FRAME_OPTIONS};

/// Pages whose frames may show answers: the header that says it, and the policy of content, whose
/// word on frames browsers prefer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frames {
    options: Option<HeaderValue>,
    /// Words of the policy; `None`: it says nothing of frames.
    ancestors: Option<String>,
}

impl Default for Frames {
    /// Returns the rule that pages of the node alone may.
    fn default() -> Self {
        Self::of("SAMEORIGIN").unwrap_or_else(Self::of_all)
    }
}

impl Frames {
    /// Returns the rule with this value of the header `X-Frame-Options`; `None` for one that is no
    /// value of a header.
    #[must_use]
    pub fn of(value: &str) -> Option<Self> {
        Some(Self {
            options: Some(HeaderValue::from_str(value).ok()?),
            ancestors: Self::ancestors(value),
        })
    }

    /// Returns the rule that every page may.
    #[must_use]
    pub fn of_all() -> Self {
        Self {
            options: None,
            ancestors: None,
        }
    }

    /// Whether browsers know a value of the header; others protect nothing.
    #[must_use]
    pub fn is_known(value: &str) -> bool {
        Self::ancestors(value).is_some()
    }

    /// Returns the words of a policy that say the same as a value of the header.
    fn ancestors(value: &str) -> Option<String> {
        let value = value.trim();
        if value.eq_ignore_ascii_case("DENY") {
            return Some("'none'".to_owned());
        }
        if value.eq_ignore_ascii_case("SAMEORIGIN") {
            return Some("'self'".to_owned());
        }
        let (word, origin) = value.split_once(' ')?;
        let origin = origin.trim();
        let is_origin = !origin.is_empty()
            && origin
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && !b";,'\"".contains(&byte));
        (word.eq_ignore_ascii_case("ALLOW-FROM") && is_origin).then(|| origin.to_owned())
    }

    pub(super) fn complete(&self, answer: &mut HeaderMap) {
        if let Some(options) = &self.options {
            answer.insert(X_FRAME_OPTIONS, options.clone());
        }
        let Some(ancestors) = &self.ancestors else {
            return;
        };
        let policy = answer.get(CONTENT_SECURITY_POLICY);
        let policy = policy.and_then(|policy| policy.to_str().ok());
        let policy = policy.map_or(String::new(), |policy| format!("{policy}; "));
        let policy = HeaderValue::try_from(format!("{policy}frame-ancestors {ancestors}"));
        if let Ok(policy) = policy {
            answer.insert(CONTENT_SECURITY_POLICY, policy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(frames: &Frames) -> (Option<String>, String) {
        let policy = HeaderValue::from_static("default-src 'none'");
        let mut answer = HeaderMap::from_iter([(CONTENT_SECURITY_POLICY, policy)]);
        frames.complete(&mut answer);
        let text = |name| Some(answer.get(name)?.to_str().unwrap().to_owned());
        let policy = text(CONTENT_SECURITY_POLICY).unwrap();
        let frames = policy
            .strip_prefix("default-src 'none'")
            .unwrap()
            .to_owned();
        (text(X_FRAME_OPTIONS), frames)
    }

    #[test]
    fn the_policy_says_what_the_header_says() {
        for (value, policy) in [
            ("SAMEORIGIN", "; frame-ancestors 'self'"),
            ("deny", "; frame-ancestors 'none'"),
            ("ALLOW-FROM https://a:1", "; frame-ancestors https://a:1"),
            ("ALLOW-FROM x; default-src *", ""),
            ("ALLOWALL", ""),
        ] {
            let told = headers(&Frames::of(value).unwrap());
            assert_eq!(told, (Some(value.to_owned()), policy.to_owned()));
        }
        assert_eq!(headers(&Frames::of_all()), (None, String::new()));
        assert_eq!(Frames::of("a\r\nb"), None);
        assert_eq!(Frames::default(), Frames::of("SAMEORIGIN").unwrap());
    }
}
