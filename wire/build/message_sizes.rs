//! The table of message sizes: for each message how many bytes the generated struct takes at most,
//! and which of its fields take more. In: descriptors. Out: Rust source.
//!
//! Sizes are bounds, from the way in which prost maps types on a 64-bit machine. A test beside the
//! table's reader compares them with the real ones.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

/// Bytes of a `String` or `Vec`, optional or not.
const VEC: usize = 24;
/// Bytes of a `bytes::Bytes`, optional or not.
const BYTES: usize = 32;
/// Bytes of a number of 32 bits, a `bool` or an enumeration, optional or not.
const SHORT: usize = 8;
/// Bytes of a number of 64 bits, optional or not.
const LONG: usize = 16;
/// Bytes by which an `Option` of a struct may exceed the struct.
const OPTION: usize = 8;

/// Messages by their full name, as fields refer to them: with a dot in front.
type Messages<'a> = BTreeMap<String, &'a DescriptorProto>;

/// Returns the source of the table, an expression of type `&[MessageShape]`.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the types of protobuf's descriptors are not ours, and all others are numbers"
)]
pub(crate) fn table(descriptors: &FileDescriptorSet) -> Result<String, Box<dyn Error>> {
    let mut messages = Messages::new();
    for file in &descriptors.file {
        collect(
            &format!(".{}", file.package()),
            &file.message_type,
            &mut messages,
        );
    }
    let indices: BTreeMap<&str, usize> = messages.keys().map(String::as_str).zip(0..).collect();
    let mut out = String::from("&[\n");
    for (name, message) in &messages {
        let size = size_of(name, &messages)?;
        let shown = &name[1..];
        write!(
            out,
            "MessageShape {{ name: {shown:?}, size: {size}, fields: &["
        )?;
        let mut fields: Vec<&FieldDescriptorProto> = message.field.iter().collect();
        fields.sort_by_key(|field| field.number());
        for field in fields {
            let apart = field.label() == Label::Repeated || is_boxed(field, name, &messages);
            let kind = match field.r#type() {
                Type::Message => format!("Message({})", indices[field.type_name()]),
                Type::String => "Text".to_owned(),
                Type::Bytes => "Bytes".to_owned(),
                _ => "Number".to_owned(),
            };
            write!(
                out,
                "FieldShape {{ number: {}, apart: {apart}, kind: Kind::{kind} }}, ",
                field.number()
            )?;
        }
        out.push_str("] },\n");
    }
    out.push(']');
    Ok(out)
}

fn collect<'a>(scope: &str, messages: &'a [DescriptorProto], found: &mut Messages<'a>) {
    for message in messages {
        let name = format!("{scope}.{}", message.name());
        collect(&name, &message.nested_type, found);
        found.insert(name, message);
    }
}

/// Returns the size of a message's struct, without what its fields point to.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the types of protobuf's descriptors are not ours, and all others are short"
)]
fn size_of(name: &str, messages: &Messages<'_>) -> Result<usize, String> {
    let message = messages
        .get(name)
        .ok_or_else(|| format!("no message {name}"))?;
    let mut size = 0;
    for field in &message.field {
        size += if field.label() == Label::Repeated {
            VEC
        } else {
            match field.r#type() {
                Type::Message if is_boxed(field, name, messages) => OPTION,
                Type::Message => OPTION + size_of(field.type_name(), messages)?,
                Type::String => VEC,
                Type::Bytes => BYTES,
                Type::Int64
                | Type::Uint64
                | Type::Double
                | Type::Fixed64
                | Type::Sfixed64
                | Type::Sint64 => LONG,
                _ => SHORT,
            }
        };
    }
    Ok(size)
}

/// Returns whether a message contains another, at any depth, or is the same.
fn reaches(from: &str, to: &str, messages: &Messages<'_>) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(name) = open.pop() {
        if name == to {
            return true;
        }
        if seen.insert(name) {
            let fields = messages
                .get(name)
                .into_iter()
                .flat_map(|message| &message.field);
            open.extend(
                fields
                    .filter(|field| is_message(field))
                    .map(|field| field.type_name()),
            );
        }
    }
    false
}

fn is_message(field: &FieldDescriptorProto) -> bool {
    field.r#type() == Type::Message
}

/// Returns whether prost boxes a field: one that may contain the message it is a field of.
fn is_boxed(field: &FieldDescriptorProto, of: &str, messages: &Messages<'_>) -> bool {
    is_message(field) && reaches(field.type_name(), of, messages)
}
