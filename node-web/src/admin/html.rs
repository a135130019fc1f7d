//! Text that came from elsewhere, made safe to stand in HTML, XML or a path. Pure.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters that are escaped in a path segment: all but RFC 3986's unreserved ones.
const PATH_SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// As the text of an element or the value of a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match entity(character) {
            Some(entity) => escaped.push_str(entity),
            None => escaped.push(character),
        }
    }
    escaped
}

/// The same for bytes of any encoding that keeps ASCII, cut anywhere: ASCII bytes never are part of
/// a longer UTF-8 character, and a browser takes none of them into a broken one.
pub(super) fn escape_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(bytes.len() + bytes.len() / 8);
    for &byte in bytes {
        match entity(char::from(byte)) {
            Some(entity) => escaped.extend_from_slice(entity.as_bytes()),
            None => escaped.push(byte),
        }
    }
    escaped
}

/// As one segment of a URL's path.
pub(super) fn path_segment(text: &str) -> String {
    utf8_percent_encode(text, PATH_SEGMENT).to_string()
}

fn entity(character: char) -> Option<&'static str> {
    match character {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '"' => Some("&quot;"),
        '\'' => Some("&#39;"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn marks_of_html_become_entities() {
        assert_eq!(escape("<a href='x\">&"), "&lt;a href=&#39;x&quot;&gt;&amp;");
    }

    #[test]
    fn a_path_segment_keeps_no_mark_of_a_url() {
        assert_eq!(
            path_segment("a/b?c#d%e..-_~ü"),
            "a%2Fb%3Fc%23d%25e..-_~%C3%BC"
        );
    }

    proptest! {
        #[test]
        fn bytes_and_text_are_escaped_alike(text: String) {
            prop_assert_eq!(escape_bytes(text.as_bytes()), escape(&text).into_bytes());
        }

        #[test]
        fn no_bytes_keep_a_mark(bytes: Vec<u8>) {
            let escaped = escape_bytes(&bytes);
            prop_assert!(!escaped.iter().any(|byte| b"<>\"'".contains(byte)));
        }
    }
}
