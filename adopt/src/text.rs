//! Texts of other processes and of files, made fit for a terminal.

use std::path::Path;

/// Characters of a text that are printed; more than most paths and problems have.
const SHOWN_CHARS_MAX: usize = 1000;

/// Returns a text as it is printed: control characters and those that turn the direction of writing
/// are escaped, and what is beyond 1000 characters is cut.
#[must_use]
pub fn shown(text: &str) -> String {
    let mut out = String::new();
    for (index, c) in text.chars().enumerate() {
        if index == SHOWN_CHARS_MAX {
            out.push('…');
            break;
        }
        if c.is_control() || turns_direction(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Returns a path as it is printed.
pub(crate) fn shown_path(path: &Path) -> String {
    shown(&path.to_string_lossy())
}

const fn turns_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_a_cursor_is_printed() {
        let text = shown("/a\x1b[2J\r\n\u{9b}31m\u{202e}b");
        assert_eq!(text, "/a\\u{1b}[2J\\r\\n\\u{9b}31m\\u{202e}b");
    }

    #[test]
    fn a_long_text_is_cut() {
        let text = shown(&"x".repeat(10_000));
        assert_eq!(text.chars().count(), SHOWN_CHARS_MAX + 1);
        assert!(text.ends_with('…'));
    }
}
