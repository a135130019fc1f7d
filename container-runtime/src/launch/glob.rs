//! File name patterns as Hadoop's `GlobPattern` has them: `{a,b}`, `*`, `?`, `[a-z]`, `[^a]` and
//! `\`.
//!
//! Patterns come from the configuration, names from containers. A pattern with `/` matches nothing
//! here: only names in one directory are compared.

/// Alternatives that a pattern may stand for; `{a,b}` side by side multiply. Further ones are not
/// tried.
const ALTERNATIVES_MAX: usize = 64;

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glob {
    alternatives: Vec<Vec<Token>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Literal(char),
    AnyOne,
    Any,
    OneOf {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Token {
    fn matches(&self, c: char) -> bool {
        match self {
            Self::Literal(literal) => *literal == c,
            Self::AnyOne | Self::Any => true,
            Self::OneOf { negated, ranges } => {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) != *negated
            }
        }
    }
}

impl Glob {
    pub(super) fn new(pattern: &str) -> Self {
        let mut texts = Vec::new();
        expand_braces(pattern, &mut texts);
        Self {
            alternatives: texts.iter().map(|text| tokens(text)).collect(),
        }
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        self.alternatives
            .iter()
            .any(|tokens| matches(tokens, &name))
    }
}

/// Writes a pattern out without its braces. One without a partner stands for itself.
fn expand_braces(pattern: &str, expanded: &mut Vec<String>) {
    let mut pending = vec![pattern.to_owned()];
    while let Some(text) = pending.pop() {
        if expanded.len() + pending.len() >= ALTERNATIVES_MAX {
            return;
        }
        let Some((open, close, commas)) = first_braces(&text) else {
            expanded.push(text);
            continue;
        };
        let mut start = open + 1;
        for end in commas.into_iter().chain([close]) {
            pending.push(format!(
                "{}{}{}",
                &text[..open],
                &text[start..end],
                &text[close + 1..]
            ));
            start = end + 1;
        }
    }
}

/// The first pair of braces that match, and the commas that separate what stands in it.
fn first_braces(text: &str) -> Option<(usize, usize, Vec<usize>)> {
    let mut open = None;
    let mut depth = 0_usize;
    let mut commas = Vec::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => {
                characters.next();
            }
            '{' => {
                open.get_or_insert(at);
                depth += 1;
            }
            '}' if depth == 1 => return Some((open?, at, commas)),
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 1 => commas.push(at),
            _other => {}
        }
    }
    None
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        tokens.push(match c {
            '\\' => Token::Literal(rest.next().unwrap_or('\\')),
            '?' => Token::AnyOne,
            '*' => Token::Any,
            '[' => match character_class(rest.as_str()) {
                Some((token, tail)) => {
                    rest = tail.chars();
                    token
                }
                None => Token::Literal('['),
            },
            literal => Token::Literal(literal),
        });
    }
    tokens
}

/// Parses a character class from behind its `[` to its `]`. Returns the class and the rest of the
/// text.
fn character_class(text: &str) -> Option<(Token, &str)> {
    let (class, tail) = text.split_once(']')?;
    let (negated, class) = match class.strip_prefix(['^', '!']) {
        Some(rest) => (true, rest),
        None => (false, class),
    };
    let characters: Vec<char> = class.chars().collect();
    let mut ranges = Vec::new();
    let mut rest = characters.as_slice();
    while let Some(first) = rest.first() {
        if let [from, '-', to, tail @ ..] = rest {
            ranges.push((*from, *to));
            rest = tail;
        } else {
            ranges.push((*first, *first));
            rest = &rest[1..];
        }
    }
    Some((Token::OneOf { negated, ranges }, tail))
}

/// Compares; on a mismatch, the last `*` takes one character more. At most length of pattern times
/// length of name.
fn matches(tokens: &[Token], name: &[char]) -> bool {
    let (mut token, mut at) = (0, 0);
    let mut last_star: Option<(usize, usize)> = None;
    while at < name.len() {
        match tokens.get(token) {
            Some(Token::Any) => {
                last_star = Some((token, at));
                token += 1;
            }
            Some(other) if other.matches(name[at]) => {
                token += 1;
                at += 1;
            }
            Some(_) | None => {
                let Some((star, taken)) = last_star else {
                    return false;
                };
                last_star = Some((star, taken + 1));
                token = star + 1;
                at = taken + 1;
            }
        }
    }
    tokens[token..].iter().all(|rest| *rest == Token::Any)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_default_pattern_finds_error_files() {
        let glob = Glob::new("{*stderr*,*STDERR*}");
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
            ("a}", "a}", true),
            ("", "", true),
            ("*", "", true),
            ("\\", "\\", true),
        ] {
            assert_eq!(
                Glob::new(pattern).matches(name),
                expected,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn a_pattern_that_multiplies_is_cut_short() {
        let glob = Glob::new(&"{a,b}".repeat(40));
        assert!(glob.alternatives.len() <= ALTERNATIVES_MAX);
    }

    proptest! {
        #[test]
        fn any_pattern_and_name_are_compared_without_panic(pattern in "[a{},*?\\[\\]\\\\^é-]{0,12}", name in "[aé*\\[]{0,12}") {
            let _answer: bool = Glob::new(&pattern).matches(&name);
        }
    }
}
