//! A request's target taken apart: path segments and query parameters, each decoded exactly once.
//! Pure.
//!
//! A segment that decodes to something a file system would take for more than one name is refused
//! here, so that no page has to think of it again.

use hyper::Uri;
use percent_encoding::percent_decode_str;
use thiserror::Error;

/// Parameters looked at in one query. No page takes more than four; a link may carry some that are
/// not for us.
const PARAMETERS_MAX: usize = 32;

/// Path and query of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Decoded; none is `.` or `..` or has a slash or a NUL. One trailing slash is dropped.
    pub(super) segments: Vec<String>,
    /// Decoded, in order, with `+` as a space.
    pub(super) parameters: Vec<(String, String)>,
    /// As received, for redirects.
    pub(super) raw_query: String,
}

/// A target that is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum BadTarget {
    /// A `%` without two hexadecimal digits, or bytes that are not UTF-8.
    #[error("the request's target is not properly encoded")]
    Encoding,
    /// A segment that is not one name.
    #[error("the request's path is ambiguous")]
    Ambiguous,
    /// More than [`PARAMETERS_MAX`] parameters.
    #[error("the request's query has too many parameters")]
    TooManyParameters,
}

impl Target {
    /// Takes a target apart.
    pub(super) fn parse(uri: &Uri) -> Result<Self, BadTarget> {
        let path = uri.path();
        let path = path.strip_prefix('/').unwrap_or(path);
        let path = path.strip_suffix('/').unwrap_or(path);
        let segments = match path {
            "" => Vec::new(),
            path => path.split('/').map(segment).collect::<Result<_, _>>()?,
        };
        let raw_query = uri.query().unwrap_or_default();
        let mut parameters = Vec::new();
        for pair in raw_query.split('&').filter(|pair| !pair.is_empty()) {
            if parameters.len() == PARAMETERS_MAX {
                return Err(BadTarget::TooManyParameters);
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            parameters.push((
                decoded(&name.replace('+', " "))?,
                decoded(&value.replace('+', " "))?,
            ));
        }
        Ok(Self {
            segments,
            parameters,
            raw_query: raw_query.to_owned(),
        })
    }

    /// The first parameter of this name; `Some("")` if it is there without a value.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.as_str())
    }
}

fn segment(text: &str) -> Result<String, BadTarget> {
    let name = decoded(text)?;
    let one_name = !matches!(name.as_str(), "." | "..") && !name.contains(['/', '\0']);
    one_name.then_some(name).ok_or(BadTarget::Ambiguous)
}

fn decoded(text: &str) -> Result<String, BadTarget> {
    let escapes_are_whole = text
        .split('%')
        .skip(1)
        .all(|rest| matches!(rest.as_bytes(), [a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit()));
    if !escapes_are_whole {
        return Err(BadTarget::Encoding);
    }
    percent_decode_str(text)
        .decode_utf8()
        .map(String::from)
        .map_err(|_| BadTarget::Encoding)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Target, BadTarget> {
        Target::parse(&text.parse().unwrap())
    }

    #[test]
    fn segments_are_decoded_once_and_a_trailing_slash_is_dropped() {
        assert_eq!(parse("/").unwrap().segments, Vec::<String>::new());
        assert_eq!(parse("/a/b%20c/").unwrap().segments, ["a", "b c"]);
        assert_eq!(parse("/a%252fb").unwrap().segments, ["a%2fb"]);
        assert_eq!(parse("/a//b").unwrap().segments, ["a", "", "b"]);
    }

    #[test]
    fn segments_that_are_not_one_name_are_refused() {
        for text in [
            "/a/..",
            "/a/../b",
            "/./a",
            "/%2e%2e/a",
            "/a/..%2fb",
            "/a%2Fb",
            "/a%00",
        ] {
            assert_eq!(parse(text), Err(BadTarget::Ambiguous), "{text}");
        }
    }

    #[test]
    fn broken_escapes_and_bytes_that_are_no_text_are_refused() {
        for text in ["/a%", "/a%2", "/a%zz", "/a%+2", "/%ff", "/a?b=%f"] {
            assert_eq!(parse(text), Err(BadTarget::Encoding), "{text}");
        }
    }

    #[test]
    fn the_first_of_equal_parameters_counts() {
        let target = parse("/a?start=-5&user=a+b%26&start=7&flag").unwrap();
        assert_eq!(target.parameter("start"), Some("-5"));
        assert_eq!(target.parameter("user"), Some("a b&"));
        assert_eq!(target.parameter("flag"), Some(""));
        assert_eq!(target.parameter("end"), None);
    }

    #[test]
    fn a_query_of_very_many_parameters_is_refused() {
        let text = format!("/a?{}", "b=1&".repeat(PARAMETERS_MAX + 1));
        assert_eq!(parse(&text), Err(BadTarget::TooManyParameters));
    }

    proptest! {
        #[test]
        fn no_target_gives_a_segment_that_leaves_its_directory(path in "(/|%|2|f|F|e|E|\\.|a|0){0,40}") {
            if let Ok(uri) = format!("/{path}").parse::<Uri>()
                && let Ok(target) = Target::parse(&uri) {
                for segment in target.segments {
                    prop_assert!(segment != "." && segment != ".." && !segment.contains('/') && !segment.contains('\0'));
                }
            }
        }
    }
}
