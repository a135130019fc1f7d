//! Memory that decoding a request takes, computed from its bytes before anything is decoded.
//!
//! Two bytes may become an empty element of a list, and the element's struct some hundred bytes: a
//! frame within its limit can take a hundred times its length. So every server computes this cost
//! first, and a request enters only while its user's share has as much ([`crate::server`]). The
//! cost is an upper bound that follows the way in which prost decodes, field by field at every
//! depth; nothing is allocated for it.

use prost::Name;

use crate::raw_message::{DEPTH_MAX, FIELD_BYTES, RawMessageError, WireType, span};

/// Elements for which a list takes memory with its first one: the smallest capacity of a `Vec`.
const FIRST_ELEMENTS: usize = 4;

/// Elements for which a list takes memory with each later one: a `Vec` doubles, and has its old
/// elements beside the new ones while it moves.
const LATER_ELEMENTS: usize = 3;

/// Bytes of a `String` or a `Vec`.
const TEXT_BYTES: usize = size_of::<String>();

/// Bytes of a number, at most.
const NUMBER_BYTES: usize = size_of::<u64>();

/// Bytes by which an allocation may exceed what was requested.
const ALLOCATION_BYTES: usize = 16;

/// A message of the `.proto` files, with all that decoding it may allocate.
struct MessageShape {
    /// Full name, for example `hadoop.yarn.ResourceProto`.
    name: &'static str,
    /// Upper bound of the struct's bytes.
    size: usize,
    /// Fields in the order of their numbers.
    fields: &'static [FieldShape],
}

struct FieldShape {
    number: u32,
    /// Allocated apart from the message's struct: an element of a list, or boxed.
    apart: bool,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// A number, truth value or enumeration; a list of them may be packed into one field.
    Number,
    Text,
    /// Bytes, which share the memory of their frame.
    Bytes,
    /// A message, by its index in [`MESSAGES`].
    Message(usize),
}

/// Every message, in the order of names.
const MESSAGES: &[MessageShape] = include!(concat!(env!("OUT_DIR"), "/message_sizes.rs"));

impl MessageShape {
    const fn index_of(package: &str, name: &str) -> usize {
        let mut index = 0;
        while index < MESSAGES.len() {
            if is_joined(
                MESSAGES[index].name.as_bytes(),
                package.as_bytes(),
                name.as_bytes(),
            ) {
                return index;
            }
            index += 1;
        }
        panic!("the message is not in the .proto files");
    }

    fn field(&self, number: u32) -> Option<(usize, &FieldShape)> {
        let index = self
            .fields
            .binary_search_by_key(&number, |field| field.number)
            .ok()?;
        Some((index, &self.fields[index]))
    }
}

/// Returns whether `whole` is `package`, a dot and `name`.
const fn is_joined(whole: &[u8], package: &[u8], name: &[u8]) -> bool {
    if whole.len() != package.len() + 1 + name.len() || whole[package.len()] != b'.' {
        return false;
    }
    let mut at = 0;
    while at < whole.len() {
        let other = match at {
            _ if at < package.len() => package[at],
            _ if at == package.len() => b'.',
            _ => name[at - package.len() - 1],
        };
        if whole[at] != other {
            return false;
        }
        at += 1;
    }
    true
}

/// The shape of a generated message, found when the program is compiled.
struct ShapeOf<M>(std::marker::PhantomData<M>);

impl<M: Name> ShapeOf<M> {
    const SHAPE: &'static MessageShape = &MESSAGES[MessageShape::index_of(M::PACKAGE, M::NAME)];
}

/// Returns the bytes that `M::decode` of this message allocates at most, beyond the message itself.
///
/// # Errors
/// The bytes are not a message.
pub fn of_message<M: Name>(message: &[u8]) -> Result<usize, RawMessageError> {
    let shape = ShapeOf::<M>::SHAPE;
    Ok(shape.size + cost_of_fields(shape, message, 0)?)
}

/// Returns the bytes that it takes at most to split this message into its fields, as
/// [`RawMessage`](crate::raw_message::RawMessage) does, and to decode one of them at a time.
///
/// # Errors
/// The bytes are not a message.
pub fn of_one_field_at_a_time<M: Name>(message: &[u8]) -> Result<usize, RawMessageError> {
    let (mut split, mut largest) = (0_usize, 0);
    each_field(ShapeOf::<M>::SHAPE, message, 0, |cost| {
        split += LATER_ELEMENTS * FIELD_BYTES;
        largest = cost.apart.max(cost.content).max(largest);
    })?;
    Ok(split + largest)
}

/// Cost of one field in bytes.
struct FieldCost {
    /// Memory for the field itself, outside of its message's struct.
    apart: usize,
    /// Memory that the field points to.
    content: usize,
    /// Whether the message's struct has a place for the field, which it can fill once.
    once: bool,
}

fn cost_of_fields(
    shape: &MessageShape,
    message: &[u8],
    depth: usize,
) -> Result<usize, RawMessageError> {
    let (mut cost, mut once) = (0_usize, 0_usize);
    each_field(shape, message, depth, |field| {
        cost = cost
            .saturating_add(field.apart)
            .saturating_add(field.content);
        once += usize::from(field.once);
    })?;
    // prost ignores repetitions and unknown fields, but a reader of single fields keeps each.
    let superfluous = once.saturating_sub(shape.fields.len());
    Ok(cost.saturating_add(superfluous * LATER_ELEMENTS * FIELD_BYTES))
}

/// Passes the cost of each field of a message to `take`, in their order.
fn each_field(
    shape: &MessageShape,
    message: &[u8],
    depth: usize,
    mut take: impl FnMut(FieldCost),
) -> Result<(), RawMessageError> {
    if depth > DEPTH_MAX {
        return Err(RawMessageError::Depth);
    }
    let mut rest = message;
    // A bit for each field that was seen. Those from the 64th on count as seen for the first time.
    let mut seen = 0_u64;
    while !rest.is_empty() {
        let span = span(rest, 0)?;
        let value = &rest[span.content_at..span.end];
        rest = &rest[span.end..];
        let Some((index, field)) = shape.field(span.number) else {
            take(FieldCost {
                apart: 0,
                content: 0,
                once: true,
            });
            continue;
        };
        let bit = u32::try_from(index)
            .ok()
            .and_then(|index| 1_u64.checked_shl(index));
        let first = seen & bit.unwrap_or(0) == 0;
        seen |= bit.unwrap_or(0);
        let delimited = span.wire_type == WireType::LengthDelimited;
        let (size, content) = match field.kind {
            Kind::Number if delimited => {
                (NUMBER_BYTES, LATER_ELEMENTS * NUMBER_BYTES * value.len())
            }
            Kind::Number => (NUMBER_BYTES, 0),
            Kind::Text => (TEXT_BYTES, value.len() + ALLOCATION_BYTES),
            Kind::Bytes => (size_of::<bytes::Bytes>(), 0),
            Kind::Message(index) => {
                let nested = &MESSAGES[index];
                let content = if delimited {
                    cost_of_fields(nested, value, depth + 1)?
                } else {
                    0
                };
                (nested.size, content)
            }
        };
        let elements = if first {
            FIRST_ELEMENTS
        } else {
            LATER_ELEMENTS
        };
        let apart = elements
            * if field.apart {
                size.max(FIELD_BYTES)
            } else {
                0
            };
        take(FieldCost {
            apart,
            content,
            once: !field.apart,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
