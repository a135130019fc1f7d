//! Which form of a REST document a client wants, by its `Accept` header (RFC 9110, 12.5.1). Pure.

use hyper::header::{self, HeaderMap};

/// Whether the client wants XML rather than JSON. Of equal wishes the first counts, and without one
/// JSON, as in Hadoop. A browser accepts XML too; JSON is what it can show.
pub(super) fn wants_xml(headers: &HeaderMap) -> bool {
    let ranges: Vec<Range<'_>> = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(Range::parse)
        .collect();
    if ranges.iter().any(|range| range.media == "text/html") {
        return false;
    }
    let (xml, json) = (
        wish(&ranges, "application/xml"),
        wish(&ranges, "application/json"),
    );
    match (xml, json) {
        (Some(xml), Some(json)) => {
            xml.quality > json.quality || (xml.quality == json.quality && xml.place < json.place)
        }
        (Some(xml), None) => xml.quality > 0,
        (None, _) => false,
    }
}

/// Media range of the header.
struct Range<'a> {
    media: &'a str,
    /// In thousandths.
    quality: u32,
}

impl<'a> Range<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let quality = parts.find_map(|part| part.strip_prefix("q="));
        let quality = quality.and_then(|text| text.parse::<f32>().ok());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the number is between 0 and 1000"
        )]
        let thousandths = (quality.unwrap_or(1.0).clamp(0.0, 1.0) * 1000.0) as u32;
        Self {
            media,
            quality: thousandths,
        }
    }
}

/// How much a client wants a media type.
struct Wish {
    quality: u32,
    /// Place of the type itself in the list; behind all of them where only a wildcard fits.
    place: usize,
}

/// Returns the wish of the most specific range that fits.
fn wish(ranges: &[Range<'_>], media: &str) -> Option<Wish> {
    let named = ranges.iter().position(|range| range.media == media);
    let of = |wildcard: &str| ranges.iter().position(|range| range.media == wildcard);
    let found = named
        .or_else(|| of("application/*"))
        .or_else(|| of("*/*"))?;
    Some(Wish {
        quality: ranges[found].quality,
        place: named.unwrap_or(ranges.len()),
    })
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn the_form_is_the_one_that_the_client_wants_more() {
        for (accept, xml) in [
            ("", false),
            ("*/*", false),
            ("application/*", false),
            ("application/xml", true),
            ("application/json", false),
            ("application/xml, application/json", true),
            ("application/json, application/xml", false),
            ("application/json;q=0.5, application/xml", true),
            ("application/xml;q=0.5, application/json", false),
            ("application/xml, */*", true),
            ("application/xml;q=0.9, */*", false),
            ("application/xml;q=0", false),
            ("application/xml;q=nonsense", true),
            (
                "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
                false,
            ),
            ("text/plain", false),
        ] {
            let value = HeaderValue::from_static(accept);
            let headers = HeaderMap::from_iter([(header::ACCEPT, value)]);
            assert_eq!(wants_xml(&headers), xml, "{accept}");
        }
        assert!(!wants_xml(&HeaderMap::new()));
    }
}
