//! Directives: the `key=value` pairs that the mechanism's messages consist of (RFC 2831, section
//! 7.1).

use super::DigestError;

/// Limit on directives in one message. The mechanism defines thirteen.
const DIRECTIVES_MAX: usize = 32;

/// The `key=value` pairs of a message, in their order.
pub(super) struct Directives<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Directives<'a> {
    /// Parses pairs separated by commas; a quoted value may contain commas. Backslash escapes are
    /// refused: no name, nonce or realm of this mechanism has one.
    pub(super) fn parse(message: &'a [u8], length_max: usize) -> Result<Self, DigestError> {
        if message.len() > length_max || !message.is_ascii() {
            return Err(DigestError::Malformed);
        }
        let mut rest = std::str::from_utf8(message).map_err(|_| DigestError::Malformed)?;
        let mut pairs = Vec::new();
        loop {
            rest = rest.trim_start_matches([' ', '\t', '\r', '\n', ',']);
            if rest.is_empty() {
                return Ok(Self(pairs));
            }
            if pairs.len() == DIRECTIVES_MAX {
                return Err(DigestError::Malformed);
            }
            let (key, value) = rest.split_once('=').ok_or(DigestError::Malformed)?;
            let (value, after) = match value.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').ok_or(DigestError::Malformed)?,
                None => value.split_at(value.find(',').unwrap_or(value.len())),
            };
            let after = after.trim_start();
            if value.contains('\\') || !(after.is_empty() || after.starts_with(',')) {
                return Err(DigestError::Malformed);
            }
            pairs.push((key.trim(), value.trim_end()));
            rest = after;
        }
    }

    /// Returns the value of a directive that may occur at most once.
    pub(super) fn get(&self, key: &'static str) -> Result<Option<&'a str>, DigestError> {
        let mut values = self
            .0
            .iter()
            .filter(|pair| pair.0.eq_ignore_ascii_case(key))
            .map(|pair| pair.1);
        let value = values.next();
        if values.next().is_some() {
            Err(DigestError::Directive(key))
        } else {
            Ok(value)
        }
    }

    pub(super) fn required(&self, key: &'static str) -> Result<&'a str, DigestError> {
        self.get(key)?.ok_or(DigestError::Directive(key))
    }

    pub(super) fn expect(&self, key: &'static str, value: &str) -> Result<(), DigestError> {
        if self.required(key)? == value {
            Ok(())
        } else {
            Err(DigestError::Directive(key))
        }
    }
}
