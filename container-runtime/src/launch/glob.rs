//! File name patterns as Hadoop's `GlobPattern` has them: `{a,b}`, `*`, `?`, `[a-z]`, `[^a]` and
//! `\`. A pattern is translated into a regular expression, as Hadoop does.
//!
//! Patterns come from the configuration, names from containers: a pattern has a bounded length, and
//! a comparison takes time proportional to the length of the name. A pattern with `/` matches
//! nothing, since only names in one directory are compared.

use std::fmt::Write as _;
use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};
use thiserror::Error;

/// Maximum length of a pattern, in bytes; Hadoop's default has 19. Bounds the compiled expression
/// too, so that each pattern up to this length compiles: three bytes of a pattern nest the
/// expression by at most two levels, and the library accepts 250.
const PATTERN_BYTES_MAX: usize = 256;

/// Maximum number of bytes that comparisons cache.
const CACHED_BYTES_MAX: usize = 256 * 1024;

/// Character class that matches nothing.
const NO_CHARACTER: &str = r"[^\x{0}-\x{10FFFF}]";

/// Refusal of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the pattern has more than {PATTERN_BYTES_MAX} bytes")]
pub(super) struct PatternTooLong;

/// A pattern. The first comparison compiles it, which takes longer than all other steps of the
/// agent's start together.
#[derive(Debug)]
pub(super) struct Glob {
    pattern: String,
    compiled: OnceLock<Regex>,
}

impl Glob {
    /// Takes a pattern without compiling it.
    ///
    /// # Errors
    /// [`PatternTooLong`] above [`PATTERN_BYTES_MAX`].
    pub(super) fn new(pattern: &str) -> Result<Self, PatternTooLong> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(PatternTooLong);
        }
        Ok(Self {
            pattern: pattern.to_owned(),
            compiled: OnceLock::new(),
        })
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        let compiled = self.compiled.get_or_init(|| {
            RegexBuilder::new(&Translation::of(&self.pattern))
                .dot_matches_new_line(true)
                .dfa_size_limit(CACHED_BYTES_MAX)
                .build()
                .expect("a pattern of this length compiles")
        });
        compiled.is_match(name)
    }
}

/// Regular expression of the part of a pattern that was read so far.
#[derive(Default)]
struct Translation {
    /// Text outside of open braces.
    whole: String,
    /// Alternatives of each open brace, the innermost brace last.
    open: Vec<Vec<String>>,
}

impl Translation {
    fn of(pattern: &str) -> String {
        let mut translation = Self::default();
        let mut rest = pattern.chars();
        while let Some(c) = rest.next() {
            match c {
                '\\' => translation.push_literal(rest.next().unwrap_or('\\')),
                '?' => translation.target().push('.'),
                '*' => translation.target().push_str(".*"),
                '[' => match character_class(rest.as_str()) {
                    Some((class, tail)) => {
                        translation.target().push_str(&class);
                        rest = tail.chars();
                    }
                    None => translation.push_literal('['),
                },
                '{' => translation.open.push(vec![String::new()]),
                ',' => translation.comma(),
                '}' => translation.close(),
                literal => translation.push_literal(literal),
            }
        }
        translation.finish()
    }

    /// Returns the text to which the next character of the pattern is appended.
    fn target(&mut self) -> &mut String {
        let alternative = self.open.last_mut().and_then(|group| group.last_mut());
        alternative.unwrap_or(&mut self.whole)
    }

    fn push_literal(&mut self, literal: char) {
        let escaped = regex::escape(literal.encode_utf8(&mut [0; 4]));
        self.target().push_str(&escaped);
    }

    fn comma(&mut self) {
        match self.open.last_mut() {
            Some(group) => group.push(String::new()),
            None => self.push_literal(','),
        }
    }

    fn close(&mut self) {
        match self.open.pop() {
            Some(group) => {
                let text = format!("(?:{})", group.join("|"));
                self.target().push_str(&text);
            }
            None => self.push_literal('}'),
        }
    }

    /// Returns the whole expression. A brace that is still open stands for itself.
    fn finish(mut self) -> String {
        while let Some(group) = self.open.pop() {
            let text = format!(r"\{{{}", group.join(","));
            self.target().push_str(&text);
        }
        format!(r"\A(?:{})\z", self.whole)
    }
}

/// Translates a character class from behind its `[` to its `]`. Returns the class and the rest of
/// the text; `None` without `]`.
fn character_class(text: &str) -> Option<(String, &str)> {
    let (class, tail) = text.split_once(']')?;
    let (negated, class) = match class.strip_prefix(['^', '!']) {
        Some(rest) => (true, rest),
        None => (false, class),
    };
    let characters: Vec<char> = class.chars().collect();
    let mut ranges = String::new();
    let mut rest = characters.as_slice();
    while let Some(first) = rest.first() {
        let (from, to) = if let [from, '-', to, tail @ ..] = rest {
            rest = tail;
            (*from, *to)
        } else {
            rest = &rest[1..];
            (*first, *first)
        };
        // A range that runs backwards holds nothing; the expression's syntax refuses it.
        if from <= to {
            let (from, to) = (u32::from(from), u32::from(to));
            // Writing to a string cannot fail.
            let _ = write!(ranges, r"\x{{{from:X}}}-\x{{{to:X}}}");
        }
    }
    let class = match (ranges.is_empty(), negated) {
        (false, false) => format!("[{ranges}]"),
        (false, true) => format!("[^{ranges}]"),
        (true, false) => NO_CHARACTER.to_owned(),
        (true, true) => ".".to_owned(),
    };
    Some((class, tail))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Glob::new(pattern).unwrap().matches(name)
    }

    #[test]
    fn the_default_pattern_finds_error_files() {
        let glob = Glob::new("{*stderr*,*STDERR*}").unwrap();
        for name in ["stderr", "stderr.1", "my.STDERR.log"] {
            assert!(glob.matches(name), "{name}");
        }
        for name in ["stdout", "Stderr", "std err", ""] {
            assert!(!glob.matches(name), "{name}");
        }
    }

    #[test]
    fn every_kind_of_pattern_is_understood() {
        for (pattern, name, expected) in [
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a*b*c", "axxbyybc", true),
            ("a*b*c", "axxbyyb", false),
            ("[a-c]x[^0-9]", "bxy", true),
            ("[a-c]x[^0-9]", "bx1", false),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("{a,b{c,d}}", "bd", true),
            ("{a,b{c,d}}", "b", false),
            ("{a", "{a", true),
            ("[a", "[a", true),
            ("{a,b", "{a,b", true),
            ("{a{b,c}", "{ac", true),
            ("{a,{b,}c}", "c", true),
            ("a,b", "a,b", true),
            ("[", "[", true),
            ("[!a]", "b", true),
            ("[z-a]", "m", false),
            ("[^z-a]", "m", true),
            ("[]", "", false),
            ("[a&&b]", "&", true),
            ("[a-]", "-", true),
            ("[\\d]", "d", true),
            ("[\\d]", "1", false),
            ("(a|b)+.$", "(a|b)+.$", true),
            (".*", "a", false),
            ("a*", "a\nb", true),
            ("a", "a\n", false),
            ("a}", "a}", true),
            ("", "", true),
            ("*", "", true),
            ("\\", "\\", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn alternatives_side_by_side_do_not_multiply() {
        let glob = Glob::new(&"{a,b}".repeat(40)).unwrap();
        assert!(glob.matches(&"ab".repeat(20)));
        assert!(!glob.matches(&"ab".repeat(21)));
    }

    #[test]
    fn the_longest_patterns_compile_and_longer_ones_are_refused() {
        // Nests by the most levels a byte, and compiles to the largest expressions a byte.
        let parts = [
            "{",
            "{,",
            "{a,",
            "{a",
            "{a,a",
            "?",
            "[^]",
            "[^a]",
            "*",
            "?{",
            "(",
            "\u{10ffff}",
        ];
        for (part, close) in parts.iter().flat_map(|part| [(part, ""), (part, "}")]) {
            let count = PATTERN_BYTES_MAX / (part.len() + close.len());
            let _answer = matches(&(part.repeat(count) + &close.repeat(count)), "a");
        }
        let longer = "a".repeat(PATTERN_BYTES_MAX + 1);
        assert_eq!(Glob::new(&longer).unwrap_err(), PatternTooLong);
    }

    #[test]
    fn a_pattern_is_compiled_when_the_first_name_is_compared() {
        let glob = Glob::new("{*stderr*,*STDERR*}").unwrap();
        assert!(glob.compiled.get().is_none());
        assert!(glob.matches("stderr") && glob.compiled.get().is_some());
    }

    proptest! {
        #[test]
        fn any_pattern_and_name_are_compared_without_panic(pattern in "[a{},*?\\[\\]\\\\^é-]{0,128}", name in "[aé*\\[]{0,12}") {
            let _answer: bool = matches(&pattern, &name);
        }
    }
}
