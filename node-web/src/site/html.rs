//! The frame of this node's pages, and texts from elsewhere in HTML, XML or a path. Pure.

use maud::{DOCTYPE, Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters that are escaped in a path segment: all but RFC 3986's unreserved ones.
const PATH_SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Pages that every page links to.
const PAGES: [(&str, &str); 6] = [
    (LIVE, "Live"),
    ("/node", "Node"),
    ("/node/allApplications", "Applications"),
    ("/node/allContainers", "Containers"),
    ("/node/roleHistories", "Role histories"),
    ("/metrics", "Metrics"),
];

/// Path of the live page.
pub(super) const LIVE: &str = "/";

/// A page of this node: its parts between head and foot.
#[derive(Debug)]
pub(super) struct Page<'a> {
    /// Title of the browser's window.
    pub(super) title: &'a str,
    /// Elements of the head besides those of every page.
    pub(super) head: Markup,
    /// Path of the page, if it is one of [`PAGES`] and shows so.
    pub(super) path: Option<&'a str>,
    /// Heading and what stands beside it, below the links to the other pages.
    pub(super) heading: Markup,
    /// Content of the page.
    pub(super) main: Markup,
    /// Elements behind the content.
    pub(super) foot: Markup,
}

impl Page<'_> {
    /// Returns the page's HTML.
    pub(super) fn into_string(self) -> String {
        let Self {
            title,
            head,
            path,
            heading,
            main,
            foot,
        } = self;
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) }
                    link rel="icon" href="/static/icon.svg" type="image/svg+xml";
                    link rel="stylesheet" href="/static/agent.css";
                    (head)
                }
                body {
                    header {
                        nav aria-label="Pages of this node" {
                            @for (each, name) in PAGES {
                                a href=(each) aria-current=[(path == Some(each)).then_some("page")] { (name) }
                                " "
                            }
                        }
                        (heading)
                    }
                    main { (main) }
                    (foot)
                }
            }
        };
        page.into_string()
    }
}

/// Returns bytes of a text as HTML. Bytes that are not UTF-8 stay as they are, also parts of a
/// character that is cut at the begin or end: marks of HTML are ASCII, which is part of no longer
/// character.
pub(super) fn escape_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(bytes.len() + bytes.len() / 8);
    for chunk in bytes.utf8_chunks() {
        let text = html! { (chunk.valid()) };
        escaped.extend_from_slice(text.0.as_bytes());
        escaped.extend_from_slice(chunk.invalid());
    }
    escaped
}

/// Returns a text as one segment of a URL's path.
pub(super) fn path_segment(text: &str) -> String {
    utf8_percent_encode(text, PATH_SEGMENT).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn marks_of_html_become_entities() {
        assert_eq!(
            escape_bytes(b"<a href=\"x\">&\xff\xc3"),
            b"&lt;a href=&quot;x&quot;&gt;&amp;\xff\xc3"
        );
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
        fn bytes_cut_anywhere_are_escaped_as_if_whole(text: String, at: prop::sample::Index) {
            let bytes = text.as_bytes();
            let (begin, end) = bytes.split_at(at.index(bytes.len() + 1));
            let pieces = [escape_bytes(begin), escape_bytes(end)].concat();
            prop_assert_eq!(pieces, escape_bytes(bytes));
        }

        #[test]
        fn no_bytes_keep_a_mark(bytes: Vec<u8>) {
            let escaped = escape_bytes(&bytes);
            prop_assert!(!escaped.iter().any(|byte| b"<>\"".contains(byte)));
        }
    }
}
