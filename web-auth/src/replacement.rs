//! The replacement of a rule, in Java's form (`Matcher.appendReplacement`).

use regex::Captures;

/// Pieces of a replacement, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replacement(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Group(usize),
}

impl Replacement {
    /// Reads a replacement: `$1` is a group, of the pattern's `groups` (0 is all), and `\` takes
    /// the meaning of the next character. `None` for what Java would throw at.
    pub(crate) fn parse(text: &str, groups: usize) -> Option<Self> {
        let mut pieces = Vec::new();
        let mut chars = text.chars().peekable();
        let mut plain = String::new();
        while let Some(char) = chars.next() {
            match char {
                '\\' => plain.push(chars.next()?),
                '$' => {
                    let digit = |char: &char| char.to_digit(10);
                    let mut group = chars.next().as_ref().and_then(digit)? as usize;
                    // Further digits belong to the number while there is such a group.
                    while let Some(next) = chars.peek().and_then(digit) {
                        let longer = group * 10 + next as usize;
                        if longer >= groups {
                            break;
                        }
                        group = longer;
                        chars.next();
                    }
                    if group >= groups {
                        return None;
                    }
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    pieces.push(Piece::Group(group));
                }
                other => plain.push(other),
            }
        }
        pieces.push(Piece::Text(plain));
        Some(Self(pieces))
    }

    /// Returns the text that takes the place of a match.
    pub(crate) fn of(&self, captures: &Captures<'_>) -> String {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Text(text) => text.as_str(),
            Piece::Group(group) => captures.get(*group).map_or("", |found| found.as_str()),
        });
        pieces.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_escapes_are_javas() {
        let pattern = regex::Regex::new("(a)(b)").expect("a pattern");
        let groups = pattern.captures_len();
        let captures = pattern.captures("ab").expect("a match");
        for (text, expected) in [
            ("", Some("")),
            ("x", Some("x")),
            ("$1x", Some("ax")),
            ("$12", Some("a2")),
            ("$2$1$0", Some("baab")),
            (r"\$1\\", Some(r"$1\")),
            ("$3", None),
            ("$", None),
            ("$x", None),
            ("\\", None),
        ] {
            let replaced = Replacement::parse(text, groups).map(|it| it.of(&captures));
            assert_eq!(replaced.as_deref(), expected, "{text}");
        }
    }
}
