//! Patterns of an operator that match a whole text.

use regex::{Regex, RegexBuilder};
use thiserror::Error;

/// Limit on the memory of a compiled pattern, in bytes. Matching takes time in proportion to the
/// text, whatever the pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// A pattern that cannot be used: it has look-around or back references, or is too large.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the pattern {text} cannot be used ({why})")]
pub struct BadPattern {
    text: String,
    why: String,
}

/// A pattern that matches a whole text or not at all (Java: `Matcher.matches`).
#[derive(Clone, Debug)]
pub(super) struct WholePattern {
    text: String,
    pattern: Regex,
}

impl PartialEq for WholePattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for WholePattern {}

impl WholePattern {
    pub(super) fn new(text: &str) -> Result<Self, BadPattern> {
        // Apart first, so that no parenthesis of the text closes that of the whole.
        let built = build(text).and_then(|_| build(&format!(r"\A(?:{text})\z")));
        match built {
            Ok(pattern) => Ok(Self {
                text: text.to_owned(),
                pattern,
            }),
            Err(error) => {
                let told = error.to_string();
                let why = told.lines().last().unwrap_or_default();
                Err(BadPattern {
                    text: text.chars().take(200).collect(),
                    why: why.trim_start_matches("error: ").to_owned(),
                })
            }
        }
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.pattern.is_match(text)
    }
}

fn build(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text)
        .size_limit(PATTERN_BYTES_MAX)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_the_whole_text() {
        let pattern = WholePattern::new("^Mozilla.*|Opera").unwrap();
        assert!(pattern.matches("Mozilla/5.0") && pattern.matches("Opera"));
        assert!(!pattern.matches("Opera/9") && !pattern.matches("a Mozilla"));
    }

    #[test]
    fn patterns_that_need_unbounded_time_or_memory_are_refused() {
        for text in ["(?=a)", r"(a)\1", "a)|(b", "(((a{1000}){1000}){1000})", "("] {
            assert!(WholePattern::new(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_pattern_that_never_ends_in_java_ends_here() {
        let pattern = WholePattern::new("(a+)+b|(x*)*y").unwrap();
        assert!(!pattern.matches(&"a".repeat(64 * 1024)));
        assert!(!pattern.matches(&"x".repeat(64 * 1024)));
    }
}
