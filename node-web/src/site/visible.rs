//! Output of containers as text that can be read: what would steer a terminal or a browser is shown
//! and has no effect. Pure.

use node_view::overview::words::picture;

/// Bytes of a log that a page shows as its tail.
pub(super) const TAIL_BYTES: u64 = 4 * 1024;

/// Returns a piece of output as text, each character as its [`picture`]; bytes that are not UTF-8
/// become U+FFFD.
pub(super) fn visible(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(picture).collect()
}

/// Returns the piece without the beginning of a line that is cut off, unless that is all there is.
pub(super) fn whole_lines(piece: &[u8]) -> &[u8] {
    let first_end = piece.iter().position(|byte| *byte == b'\n');
    match first_end.and_then(|end| piece.get(end + 1..)) {
        Some(rest) if !rest.is_empty() => rest,
        Some(_) | None => piece,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_of_a_terminal_and_bytes_are_shown_and_do_nothing() {
        let text = visible(b"\x1b[2J\x07red\r\n\tx\x7f\xff\xc2\x9b31m\0");
        assert_eq!(text, "␛[2J␇red␍\n\tx␡\u{fffd}\u{fffd}31m␀");
        assert_eq!(visible("a\u{202e}b".as_bytes()), "a\u{fffd}b");
    }

    #[test]
    fn a_piece_begins_with_a_whole_line_where_it_has_one() {
        assert_eq!(whole_lines(b"cut\nwhole\n"), b"whole\n");
        assert_eq!(whole_lines(b"one long line"), b"one long line");
        assert_eq!(whole_lines(b"one long line\n"), b"one long line\n");
        assert_eq!(whole_lines(b""), b"");
    }

    proptest! {
        #[test]
        fn nothing_is_left_that_controls_anything(bytes: Vec<u8>) {
            let text = visible(&bytes);
            prop_assert!(text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
            prop_assert!(text.len() <= bytes.len() * 3);
        }
    }
}
