//! Requests that a page of a stranger has a browser send (Hadoop: `RestCsrfPreventionFilter`).

use hyper::HeaderMap;
use hyper::header::{HeaderName, USER_AGENT};
use thiserror::Error;

use super::first;
use super::pattern::{BadPattern, WholePattern};

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadCsrf {
    /// `custom-header`.
    #[error("must be the name of a header")]
    Header,
    /// `browser-useragents-regex`.
    #[error(transparent)]
    UserAgents(#[from] BadPattern),
}

/// Header that requests of browsers must have: no page of another origin can add one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsrfPrevention {
    header: HeaderName,
    ignored_methods: Vec<String>,
    browsers: Vec<WholePattern>,
}

impl CsrfPrevention {
    /// Reads the settings as Hadoop does: methods and patterns of browsers stand between commas,
    /// with the blanks around them.
    ///
    /// # Errors
    /// [`BadCsrf`] for the first that cannot be used.
    pub fn new(header: &str, ignored_methods: &str, browsers: &str) -> Result<Self, BadCsrf> {
        let header = header.trim().parse::<HeaderName>();
        let header = header.map_err(|_| BadCsrf::Header)?;
        let browsers = browsers.split(',').map(WholePattern::new);
        Ok(Self {
            header,
            ignored_methods: ignored_methods.split(',').map(str::to_owned).collect(),
            browsers: browsers.collect::<Result<_, _>>()?,
        })
    }

    /// Whether a request may be answered.
    pub(in crate::site) fn allows(&self, method: &str, headers: &HeaderMap) -> bool {
        if headers.contains_key(&self.header) {
            return true;
        }
        if self.ignored_methods.iter().any(|ignored| ignored == method) {
            return true;
        }
        let Some(agent) = first(headers, &USER_AGENT) else {
            return true;
        };
        !self.browsers.iter().any(|browser| browser.matches(&agent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BROWSERS: &str = "^Mozilla.*,^Opera.*";

    fn allows(rule: &CsrfPrevention, method: &str, headers: &[(&str, &str)]) -> bool {
        let headers = headers.iter();
        let headers = headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        rule.allows(method, &HeaderMap::from_iter(headers))
    }

    #[test]
    fn a_browser_needs_the_header_but_for_some_methods() {
        let rule = CsrfPrevention::new("X-XSRF-Header", "GET,OPTIONS,HEAD", BROWSERS).unwrap();
        let browser = ("user-agent", "Mozilla/5.0 (X11)");
        let header = ("x-xsrf-header", "");
        assert!(!allows(&rule, "POST", &[browser]));
        assert!(!allows(&rule, "get", &[browser]));
        assert!(allows(&rule, "GET", &[browser]));
        assert!(allows(&rule, "POST", &[browser, header]));
        assert!(allows(&rule, "POST", &[("user-agent", "curl/8")]));
        assert!(allows(&rule, "POST", &[]));
    }

    #[test]
    fn blanks_around_methods_count_as_in_hadoop() {
        let rule = CsrfPrevention::new("X", "GET, POST", BROWSERS).unwrap();
        assert!(!allows(&rule, "POST", &[("user-agent", "Opera/9")]));
    }

    #[test]
    fn settings_that_cannot_be_used_are_told_apart() {
        let header = CsrfPrevention::new("a header", "GET", BROWSERS);
        assert_eq!(header, Err(BadCsrf::Header));
        let agents = CsrfPrevention::new("X", "GET", "Mozilla(?=/)");
        assert!(matches!(agents, Err(BadCsrf::UserAgents(_))));
    }
}
