//! Protobuf messages edited field by field on their bytes.
//!
//! A proxy changes a few fields of the messages it forwards. Decoding a message and encoding it
//! again would drop every field that this version does not know, so [`RawMessage`] only finds where
//! each field begins and ends: untouched fields keep their bytes and their order.
//!
//! In: the bytes of a protobuf message. Out: the same with the edits. The meaning of a field is the
//! caller's concern; a field that is itself a message can be parsed and edited in turn.

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::encoding::{decode_varint, encode_varint, encoded_len_varint};

/// Deepest nesting of messages, or of groups, that is followed; prost refuses more.
pub(crate) const DEPTH_MAX: usize = 100;

/// Maximum size of a field's key and length together, in bytes.
const FIELD_HEAD_BYTES_MAX: usize = 5 + 10;

/// Bytes that are not a protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RawMessageError {
    /// The end of the bytes inside a field.
    #[error("the message ends inside a field")]
    Truncated,
    /// A key with field number 0 or an unknown wire type, or the end of a group that was not begun.
    #[error("the message has an invalid key {key}")]
    Key {
        /// Key as read.
        key: u64,
    },
    /// Groups or messages nested deeper than the limit.
    #[error("groups or messages are nested too deeply")]
    Depth,
}

/// A field as it is in the message.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    number: u32,
    /// Key and value.
    whole: Bytes,
    /// Offset of the value's content in `whole`; for bytes, texts and messages, after their length.
    content_at: u32,
    wire_type: WireType,
}

/// Bytes that a field takes here, however short it is.
pub(crate) const FIELD_BYTES: usize = size_of::<Field>();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireType {
    Varint,
    LengthDelimited,
    /// Fixed 32 and 64 bits, groups: copied only.
    Other,
}

impl Field {
    fn new(number: u32, content: &[u8]) -> Self {
        let (key, length) = (u64::from(number) << 3 | 2, content.len() as u64);
        // Sized to the byte, so that freezing does not allocate again.
        let head = encoded_len_varint(key) + encoded_len_varint(length);
        let mut whole = BytesMut::with_capacity(head + content.len());
        encode_varint(key, &mut whole);
        encode_varint(length, &mut whole);
        let content_at = u32::try_from(whole.len()).expect("two varints are at most twenty bytes");
        whole.put_slice(content);
        Self {
            number,
            whole: whole.freeze(),
            content_at,
            wire_type: WireType::LengthDelimited,
        }
    }

    fn varint(number: u32, value: u64) -> Self {
        let mut whole = BytesMut::with_capacity(20);
        encode_varint(u64::from(number) << 3, &mut whole);
        let content_at = u32::try_from(whole.len()).expect("a varint is at most ten bytes");
        encode_varint(value, &mut whole);
        Self {
            number,
            whole: whole.freeze(),
            content_at,
            wire_type: WireType::Varint,
        }
    }

    fn content(&self) -> Bytes {
        let at = usize::try_from(self.content_at).expect("an offset fits");
        self.whole.slice(at..)
    }
}

/// A message as the list of its fields. Clones share the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawMessage {
    fields: Vec<Field>,
}

/// Field at the front of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontField {
    /// Number of the field.
    pub number: u32,
    /// Content of bytes, a text or a message.
    pub content: Bytes,
    /// Bytes of the message after the field.
    pub rest: Bytes,
}

impl FrontField {
    /// Splits off the field at the front of a message, and looks at nothing behind it. `None`
    /// unless there is one that is bytes, a text or a message.
    #[must_use]
    pub fn split(message: &Bytes) -> Option<Self> {
        let span = span(message, 0).ok()?;
        (span.wire_type == WireType::LengthDelimited).then(|| Self {
            number: span.number,
            content: message.slice(span.content_at..span.end),
            rest: message.slice(span.end..),
        })
    }
}

/// Extent of a field at the front of a slice.
pub(crate) struct Span {
    pub(crate) number: u32,
    pub(crate) wire_type: WireType,
    /// Offset of the value's content; for bytes, texts and messages, after their length.
    pub(crate) content_at: usize,
    pub(crate) end: usize,
}

/// Reads a varint at the front; returns it and the rest.
fn varint(mut bytes: &[u8]) -> Result<(u64, &[u8]), RawMessageError> {
    let value = decode_varint(&mut bytes).map_err(|_| RawMessageError::Truncated)?;
    Ok((value, bytes))
}

fn skip(bytes: &[u8], length: u64) -> Result<&[u8], RawMessageError> {
    let length = usize::try_from(length).map_err(|_| RawMessageError::Truncated)?;
    bytes.get(length..).ok_or(RawMessageError::Truncated)
}

/// Finds the extent of the field at the front of `bytes`.
pub(crate) fn span(bytes: &[u8], depth: usize) -> Result<Span, RawMessageError> {
    let (key, rest) = varint(bytes)?;
    let bad_key = RawMessageError::Key { key };
    let number = u32::try_from(key >> 3).map_err(|_| bad_key)?;
    if number == 0 || number >= 1 << 29 {
        return Err(bad_key);
    }
    let mut content = rest;
    let (wire_type, after) = match key & 7 {
        0 => (WireType::Varint, varint(rest)?.1),
        1 => (WireType::Other, skip(rest, 8)?),
        2 => {
            let (length, value) = varint(rest)?;
            content = value;
            (WireType::LengthDelimited, skip(value, length)?)
        }
        3 => (WireType::Other, skip_group(rest, number, depth)?),
        5 => (WireType::Other, skip(rest, 4)?),
        _ => return Err(bad_key),
    };
    Ok(Span {
        number,
        wire_type,
        content_at: bytes.len() - content.len(),
        end: bytes.len() - after.len(),
    })
}

/// Returns the bytes after the end of the group of this number.
fn skip_group(mut rest: &[u8], number: u32, depth: usize) -> Result<&[u8], RawMessageError> {
    if depth == DEPTH_MAX {
        return Err(RawMessageError::Depth);
    }
    loop {
        let (key, after) = varint(rest)?;
        if key == u64::from(number) << 3 | 4 {
            return Ok(after);
        }
        let inner = span(rest, depth + 1)?;
        rest = &rest[inner.end..];
    }
}

impl RawMessage {
    /// Splits a message into its fields.
    ///
    /// # Errors
    /// [`RawMessageError`] if the bytes are not a message.
    pub fn parse(mut bytes: Bytes) -> Result<Self, RawMessageError> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let span = span(&bytes, 0)?;
            let content_at =
                u32::try_from(span.content_at).map_err(|_| RawMessageError::Truncated)?;
            fields.push(Field {
                number: span.number,
                whole: bytes.split_to(span.end),
                content_at,
                wire_type: span.wire_type,
            });
        }
        Ok(Self { fields })
    }

    /// Returns the number of bytes that [`encode`](Self::encode) makes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        self.fields.iter().map(|field| field.whole.len()).sum()
    }

    /// Returns whether there is no field.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns the bytes of the message with its edits.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.encoded_len());
        for field in &self.fields {
            out.put_slice(&field.whole);
        }
        out.freeze()
    }

    /// Returns the bytes of a message that contains this one as field `number`, followed by the
    /// fields of `after`. Built in a single buffer, since this message may be long.
    #[must_use]
    pub fn encode_within(&self, number: u32, after: &Self) -> Bytes {
        let length = self.encoded_len();
        let mut out = BytesMut::with_capacity(FIELD_HEAD_BYTES_MAX + length + after.encoded_len());
        encode_varint(u64::from(number) << 3 | 2, &mut out);
        encode_varint(length as u64, &mut out);
        for field in self.fields.iter().chain(&after.fields) {
            out.put_slice(&field.whole);
        }
        out.freeze()
    }

    /// Returns the length-delimited fields (bytes, texts, messages) of this number, in their order.
    pub fn all(&self, number: u32) -> impl Iterator<Item = Bytes> {
        self.fields
            .iter()
            .filter(move |field| {
                field.number == number && field.wire_type == WireType::LengthDelimited
            })
            .map(Field::content)
    }

    /// Returns how many fields of this number there are.
    #[must_use]
    pub fn count(&self, number: u32) -> usize {
        self.fields
            .iter()
            .filter(|field| field.number == number)
            .count()
    }

    /// Returns the message of this number. Repeated occurrences are concatenated, which protobuf
    /// defines as merging them.
    #[must_use]
    pub fn message(&self, number: u32) -> Option<Bytes> {
        let mut parts = self.all(number);
        let first = parts.next()?;
        let Some(second) = parts.next() else {
            return Some(first);
        };
        let mut joined = BytesMut::from(&first[..]);
        joined.put_slice(&second);
        for part in parts {
            joined.put_slice(&part);
        }
        Some(joined.freeze())
    }

    /// Returns the varint field of this number, unsigned as encoded; the last occurrence wins.
    #[must_use]
    pub fn varint(&self, number: u32) -> Option<u64> {
        let field = self
            .fields
            .iter()
            .rfind(|field| field.number == number && field.wire_type == WireType::Varint)?;
        varint(&field.content()).ok().map(|(value, _)| value)
    }

    /// Returns the field of this number as Java's `int`; the last occurrence wins. Higher bits are
    /// dropped, as all protobuf readers do.
    #[must_use]
    pub fn int32(&self, number: u32) -> Option<i32> {
        let value = self.varint(number)?;
        let low = u32::try_from(value & u64::from(u32::MAX)).expect("32 bits are left");
        Some(low.cast_signed())
    }

    /// Sets a varint field: replaces the first of this number, or is inserted in the order of
    /// numbers.
    pub fn set_varint(&mut self, number: u32, value: u64) {
        self.set_field(Field::varint(number, value));
    }

    /// Sets bytes, a text or a message: replaces the first field of this number, or is inserted in
    /// the order of numbers.
    pub fn set(&mut self, number: u32, content: &[u8]) {
        self.set_field(Field::new(number, content));
    }

    fn set_field(&mut self, new: Field) {
        let number = new.number;
        let mut new = Some(new);
        self.fields.retain_mut(|field| {
            if field.number != number {
                return true;
            }
            match new.take() {
                Some(first) => {
                    *field = first;
                    true
                }
                None => false,
            }
        });
        if let Some(new) = new {
            let at = self.insertion_index(number);
            self.fields.insert(at, new);
        }
    }

    /// Returns the index at which to insert a field of a number that is absent: before the first
    /// higher number, since protobuf writers write in the order of numbers.
    fn insertion_index(&self, number: u32) -> usize {
        self.fields
            .iter()
            .position(|field| field.number > number)
            .unwrap_or(self.fields.len())
    }

    /// Appends bytes, a text or a message after the last field of this number, or in the order of
    /// numbers.
    pub fn push(&mut self, number: u32, content: &[u8]) {
        self.extend(number, [content]);
    }

    /// Appends several fields after the last of this number, or in the order of numbers.
    pub fn extend<T: AsRef<[u8]>>(&mut self, number: u32, contents: impl IntoIterator<Item = T>) {
        let behind = self
            .fields
            .iter()
            .rposition(|field| field.number == number)
            .map_or_else(|| self.insertion_index(number), |last| last + 1);
        let new = contents
            .into_iter()
            .map(|content| Field::new(number, content.as_ref()));
        self.fields.splice(behind..behind, new);
    }

    /// Inserts bytes, a text or a message before the first field of this number, or in the order of
    /// numbers.
    pub fn insert_first(&mut self, number: u32, content: &[u8]) {
        let before = self
            .fields
            .iter()
            .position(|field| field.number == number)
            .unwrap_or_else(|| self.insertion_index(number));
        self.fields.insert(before, Field::new(number, content));
    }

    /// Removes the length-delimited fields of this number for which `keep` returns `false`.
    pub fn retain(&mut self, number: u32, mut keep: impl FnMut(&Bytes) -> bool) {
        self.fields.retain(|field| {
            field.number != number
                || field.wire_type != WireType::LengthDelimited
                || keep(&field.content())
        });
    }

    /// Passes each length-delimited field of this number to `edit` and replaces it by the result,
    /// if any.
    pub fn edit(&mut self, number: u32, mut edit: impl FnMut(&Bytes) -> Option<Bytes>) {
        for field in &mut self.fields {
            if field.number == number
                && field.wire_type == WireType::LengthDelimited
                && let Some(content) = edit(&field.content())
            {
                *field = Field::new(number, &content);
            }
        }
    }

    /// Removes every field of this number, of whatever type.
    pub fn remove(&mut self, number: u32) {
        self.fields.retain(|field| field.number != number);
    }
}

#[cfg(test)]
mod tests;
