//! The bytes of a file as text, in the encoding that its byte order mark or its XML declaration
//! names.
//!
//! Reads UTF-8, UTF-16 with a byte order mark, ISO-8859-1 and US-ASCII, which is what editors write
//! and Java reads everywhere. Others are refused by name.

/// Bytes at the start of a file among which a declaration is looked for.
const DECLARATION_BYTES_MAX: usize = 256;
/// Characters of a name of an encoding in a message.
const NAME_CHARS_MAX: usize = 40;

const UTF_8_MARK: &[u8] = &[0xef, 0xbb, 0xbf];
const UTF_16_LE_MARK: &[u8] = &[0xff, 0xfe];
const UTF_16_BE_MARK: &[u8] = &[0xfe, 0xff];

/// Bytes that cannot be read as text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Undecodable {
    /// A byte that the encoding does not have.
    Malformed {
        /// Line of the first such byte, from 1.
        line: usize,
        /// Name of the encoding.
        encoding: &'static str,
    },
    /// An encoding that is not read, by its declared name.
    Unknown(String),
}

/// Decodes a file's bytes; without the byte order mark that editors put first.
///
/// # Errors
/// Bytes that their encoding does not have, and other encodings than those above.
pub(super) fn decode(bytes: Vec<u8>) -> Result<String, Undecodable> {
    if let Some(units) = bytes.strip_prefix(UTF_16_LE_MARK) {
        return utf_16(units, u16::from_le_bytes);
    }
    if let Some(units) = bytes.strip_prefix(UTF_16_BE_MARK) {
        return utf_16(units, u16::from_be_bytes);
    }
    // A byte order mark is more certain than what the declaration says.
    if let Some(rest) = bytes.strip_prefix(UTF_8_MARK) {
        return utf_8(rest.to_vec());
    }
    let Some(declared) = declared(&bytes) else {
        return utf_8(bytes);
    };
    match declared.to_ascii_uppercase().as_str() {
        "UTF-8" | "UTF8" => utf_8(bytes),
        "ISO-8859-1" | "ISO8859-1" | "ISO8859_1" | "ISO_8859-1" | "ISO_8859_1" | "LATIN1" => {
            Ok(bytes.into_iter().map(char::from).collect())
        }
        "US-ASCII" | "ASCII" => {
            if let Some(at) = bytes.iter().position(|byte| !byte.is_ascii()) {
                return Err(malformed(&bytes[..at], "US-ASCII"));
            }
            utf_8(bytes)
        }
        _ => Err(Undecodable::Unknown(
            declared.chars().take(NAME_CHARS_MAX).collect(),
        )),
    }
}

/// Returns the encoding that the XML declaration at the start of the file names.
fn declared(bytes: &[u8]) -> Option<String> {
    let start = bytes.get(..DECLARATION_BYTES_MAX).unwrap_or(bytes);
    let start: String = start.iter().copied().map(char::from).collect();
    let declaration = start.strip_prefix("<?xml")?.split_once("?>")?.0;
    let after = declaration.split_once("encoding")?.1.trim_start();
    let value = after.strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let name = value[1..].split_once(quote)?.0;
    Some(name.to_owned())
}

fn utf_8(bytes: Vec<u8>) -> Result<String, Undecodable> {
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        malformed(&error.as_bytes()[..valid], "UTF-8")
    })
}

fn utf_16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, Undecodable> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units = pairs.iter().map(|pair| unit(*pair));
    let mut text = String::with_capacity(bytes.len());
    for character in char::decode_utf16(units) {
        match character {
            Ok(character) => text.push(character),
            Err(_) => return Err(malformed(text.as_bytes(), "UTF-16")),
        }
    }
    if rest.is_empty() {
        Ok(text)
    } else {
        Err(malformed(text.as_bytes(), "UTF-16"))
    }
}

/// Returns the error of a byte that follows valid ones.
fn malformed(valid: &[u8], encoding: &'static str) -> Undecodable {
    let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
    Undecodable::Malformed { line, encoding }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn declaring(encoding: &str) -> String {
        format!("<?xml version=\"1.0\" encoding='{encoding}' standalone=\"yes\"?>\n<a>\u{e9}</a>")
    }

    fn latin(text: &str) -> Vec<u8> {
        text.chars().map(|c| u8::try_from(c).unwrap()).collect()
    }

    #[test]
    fn a_declared_encoding_is_read() {
        for name in ["ISO-8859-1", "iso-8859-1", "latin1"] {
            let text = declaring(name);
            assert_eq!(decode(latin(&text)), Ok(text), "{name}");
        }
        let text = declaring("UTF-8");
        assert_eq!(decode(text.clone().into_bytes()), Ok(text));
    }

    #[test]
    fn utf_16_is_known_by_its_mark() {
        let text = declaring("UTF-16") + "\u{1f600}";
        for (mark, to_bytes) in [
            (UTF_16_LE_MARK, u16::to_le_bytes as fn(u16) -> [u8; 2]),
            (UTF_16_BE_MARK, u16::to_be_bytes),
        ] {
            let units = text.encode_utf16().flat_map(to_bytes);
            let bytes: Vec<u8> = mark.iter().copied().chain(units).collect();
            assert_eq!(decode(bytes.clone()), Ok(text.clone()));
            let cut = bytes[..bytes.len() - 1].to_vec();
            let error = Undecodable::Malformed {
                line: 2,
                encoding: "UTF-16",
            };
            assert_eq!(decode(cut), Err(error));
        }
    }

    #[test]
    fn other_encodings_are_refused_by_name() {
        for name in ["windows-1252", "EUC-JP", "UTF-16"] {
            let told = decode(declaring(name).into_bytes());
            assert_eq!(told, Err(Undecodable::Unknown(name.to_owned())));
        }
    }

    #[test]
    fn a_byte_that_the_encoding_does_not_have_is_found_with_its_line() {
        for name in ["US-ASCII", "UTF-8"] {
            let encoding = name;
            let error = Undecodable::Malformed { line: 2, encoding };
            assert_eq!(decode(latin(&declaring(name))), Err(error));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode(bytes.clone());
            let _ = decode([b"<?xml encoding=".as_slice(), &bytes].concat());
            let _ = decode([UTF_16_LE_MARK, &bytes].concat());
        }
    }
}
