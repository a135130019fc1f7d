//! Text of strangers in lines of the log.

use std::fmt::{self, Write};

/// Writer that escapes control characters except tabs.
pub(crate) struct Escaped<W>(pub(crate) W);

impl<W: Write> Write for Escaped<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        // Tabs separate the fields of audit lines, as in Hadoop's.
        let is_escaped = |char: char| char.is_control() && char != '\t';
        while let Some((at, control)) = rest.char_indices().find(|(_, char)| is_escaped(*char)) {
            self.0.write_str(&rest[..at])?;
            write!(self.0, "{}", control.escape_default())?;
            rest = &rest[at + control.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_other_text_stays() {
        let mut text = String::new();
        let hostile = "a\r\nb\u{1b}[2Jc\u{9b}d\te \"é\\\u{7f}";
        write!(Escaped(&mut text), "{hostile}").unwrap();
        assert_eq!(text, "a\\r\\nb\\u{1b}[2Jc\\u{9b}d\te \"é\\\\u{7f}");
    }
}
