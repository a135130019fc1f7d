//! Tests of the edits, against the generated messages and against random bytes.

use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::proto::hadoop_yarn::{AllocateRequestProto, ContainerIdProto, ResourceRequestProto};

fn request() -> AllocateRequestProto {
    let ask = |name: &str| ResourceRequestProto {
        resource_name: Some(name.to_owned()),
        num_containers: Some(3),
        ..ResourceRequestProto::default()
    };
    AllocateRequestProto {
        ask: vec![ask("*"), ask("/rack")],
        release: vec![ContainerIdProto {
            id: Some(-7),
            ..ContainerIdProto::default()
        }],
        response_id: Some(-1),
        progress: Some(0.5),
        ..AllocateRequestProto::default()
    }
}

fn raw(message: &impl prost::Message) -> RawMessage {
    RawMessage::parse(message.encode_to_vec().into()).unwrap()
}

#[test]
fn a_message_that_is_not_edited_keeps_its_bytes() {
    let bytes = Bytes::from(request().encode_to_vec());
    assert_eq!(RawMessage::parse(bytes.clone()).unwrap().encode(), bytes);
}

#[test]
fn a_message_within_another_is_what_pushing_it_makes() {
    let inner = raw(&request());
    let mut after = RawMessage::default();
    after.push(2, b"one");
    after.push(2, b"two");
    let mut pushed = RawMessage::default();
    pushed.push(1, &inner.encode());
    pushed.extend(2, ["one", "two"]);
    assert_eq!(inner.encode_within(1, &after), pushed.encode());
    let nothing = RawMessage::default();
    assert_eq!(nothing.encode_within(1, &nothing), &b"\x0a\x00"[..]);
}

#[test]
fn fields_are_found_by_number() {
    let raw = raw(&request());
    assert_eq!(raw.count(1), 2);
    assert_eq!(raw.int32(4), Some(-1));
    assert_eq!(raw.int32(5), None, "a float is no varint");
    let asks: Vec<_> = raw
        .all(1)
        .map(|ask| ResourceRequestProto::decode(ask).unwrap())
        .collect();
    assert_eq!(asks, request().ask);
}

#[test]
fn edits_are_what_the_generated_message_reads() {
    let mut edited = raw(&request());
    edited.retain(1, |ask| {
        ResourceRequestProto::decode(ask.clone())
            .unwrap()
            .resource_name()
            == "*"
    });
    edited.set_varint(4, 12);
    edited.set(11, b"http://here");
    edited.edit(2, |id| {
        let mut id = RawMessage::parse(id.clone()).unwrap();
        id.set_varint(3, 9);
        Some(id.encode())
    });
    let mut expected = request();
    expected.ask.truncate(1);
    expected.response_id = Some(12);
    expected.tracking_url = Some("http://here".to_owned());
    expected.release[0].id = Some(9);
    assert_eq!(
        AllocateRequestProto::decode(edited.encode()).unwrap(),
        expected
    );
}

#[test]
fn new_entries_stand_behind_the_others_of_their_number() {
    let mut edited = raw(&request());
    let third = ResourceRequestProto {
        resource_name: Some("host".to_owned()),
        ..ResourceRequestProto::default()
    };
    edited.push(1, &third.encode_to_vec());
    edited.insert_first(1, &third.encode_to_vec());
    let read = AllocateRequestProto::decode(edited.encode()).unwrap();
    let names: Vec<_> = read
        .ask
        .iter()
        .map(ResourceRequestProto::resource_name)
        .collect();
    assert_eq!(names, ["host", "*", "/rack", "host"]);
    // Fields are in the order of their numbers, as in every protobuf writer.
    assert_eq!(edited.encode(), read.encode_to_vec());
}

#[test]
fn a_new_number_stands_where_writers_put_it() {
    let mut edited = raw(&request());
    edited.push(3, &[]);
    edited.set(11, b"x");
    edited.set_varint(6, 1);
    let numbers: Vec<_> = edited.fields.iter().map(|field| field.number).collect();
    assert_eq!(numbers, [1, 1, 2, 3, 4, 5, 6, 11]);
}

#[test]
fn parts_of_one_message_are_joined() {
    let mut message = RawMessage::default();
    message.push(3, &[0x08, 1]);
    message.push(3, &[0x10, 2]);
    assert_eq!(message.message(3).unwrap()[..], [0x08, 1, 0x10, 2]);
    message.set(3, &[]);
    assert_eq!(message.encode()[..], [0x1a, 0]);
    message.remove(3);
    assert_eq!(message.message(3), None);
}

#[test]
fn groups_pass_and_deep_ones_are_refused() {
    // Field 9 as a group with field 1 inside, then field 2.
    let bytes = Bytes::from_static(&[0x4b, 0x08, 5, 0x4c, 0x10, 7]);
    let raw = RawMessage::parse(bytes.clone()).unwrap();
    assert_eq!(raw.varint(2), Some(7));
    assert_eq!(raw.encode(), bytes);
    let deep = Bytes::from(vec![0x4b; 10_000]);
    assert_eq!(RawMessage::parse(deep), Err(RawMessageError::Depth));
}

#[test]
fn broken_messages_are_refused() {
    for (bytes, error) in [
        (&[0x0a, 5, 1][..], RawMessageError::Truncated),
        (&[0x08], RawMessageError::Truncated),
        (&[0x0d, 1], RawMessageError::Truncated),
        (&[0x00, 1], RawMessageError::Key { key: 0 }),
        (&[0x0c], RawMessageError::Key { key: 12 }),
        (&[0x0f], RawMessageError::Key { key: 15 }),
        (
            &[
                0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1,
            ],
            RawMessageError::Truncated,
        ),
    ] {
        assert_eq!(RawMessage::parse(Bytes::from_static(bytes)), Err(error));
    }
}

/// Makes the bytes of a message with one field of a number that no message of this crate has.
fn unknown_field() -> impl Strategy<Value = Vec<u8>> {
    let number = 1_000_u32..200_000;
    let content = proptest::collection::vec(any::<u8>(), 0..20);
    (number, content, any::<u64>(), 0..4_u8).prop_map(|(number, content, value, kind)| {
        let mut out = Vec::new();
        let key = u64::from(number) << 3;
        match kind {
            0 => {
                encode_varint(key, &mut out);
                encode_varint(value, &mut out);
            }
            1 => {
                encode_varint(key | 1, &mut out);
                out.extend_from_slice(&value.to_le_bytes());
            }
            2 => {
                encode_varint(key | 2, &mut out);
                encode_varint(content.len() as u64, &mut out);
                out.extend_from_slice(&content);
            }
            _ => {
                encode_varint(key | 5, &mut out);
                out.extend_from_slice(&value.to_le_bytes()[..4]);
            }
        }
        out
    })
}

proptest! {
    #[test]
    fn any_bytes_either_keep_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let bytes = Bytes::from(bytes);
        if let Ok(raw) = RawMessage::parse(bytes.clone()) {
            prop_assert_eq!(raw.encode(), bytes);
        }
    }

    #[test]
    fn unknown_fields_survive_every_edit(
        before in proptest::collection::vec(unknown_field(), 0..4),
        behind in proptest::collection::vec(unknown_field(), 0..4),
        value in any::<u64>(),
        text in "[a-z]{0,30}",
    ) {
        let mut bytes = before.concat();
        bytes.extend(request().encode_to_vec());
        bytes.extend(behind.concat());
        let mut edited = RawMessage::parse(bytes.into()).unwrap();
        edited.set_varint(4, value);
        edited.set(11, text.as_bytes());
        edited.remove(1);
        edited.push(2, &[]);
        let out = edited.encode();
        let unknown: Vec<u8> = edited
            .fields
            .iter()
            .filter(|field| field.number >= 1_000)
            .flat_map(|field| field.whole.to_vec())
            .collect();
        prop_assert_eq!(unknown, [before.concat(), behind.concat()].concat());
        let read = AllocateRequestProto::decode(out.clone()).unwrap();
        prop_assert_eq!(read.tracking_url(), text);
        prop_assert_eq!(read.ask.len(), 0);
        prop_assert_eq!(read.release.len(), 2);
    }
}

#[test]
fn numbers_of_a_field_are_neither_edited_nor_removed_as_its_messages_are() {
    // Field 1 as the number 5, as a text, and as the number 6.
    let bytes = Bytes::from_static(b"\x08\x05\x0a\x01a\x08\x06");
    let raw = RawMessage::parse(bytes.clone()).unwrap();
    assert_eq!(raw.all(1).collect::<Vec<_>>(), [&b"a"[..]]);
    assert_eq!(raw.varint(1), Some(6), "the last occurrence wins");
    let mut edited = raw.clone();
    edited.edit(1, |_| Some(Bytes::from_static(b"b")));
    assert_eq!(edited.encode(), &b"\x08\x05\x0a\x01b\x08\x06"[..]);
    let mut kept = raw;
    kept.retain(1, |_| false);
    assert_eq!(kept.encode(), &b"\x08\x05\x08\x06"[..]);
}

#[test]
fn all_parts_of_a_message_are_joined_in_their_order() {
    let bytes = Bytes::from_static(b"\x0a\x01a\x0a\x01b\x0a\x02cd");
    let raw = RawMessage::parse(bytes).unwrap();
    assert_eq!(raw.message(1).unwrap(), &b"abcd"[..]);
}

#[test]
fn field_numbers_end_where_protobufs_do() {
    let message = |number: u64| {
        let mut bytes = BytesMut::new();
        encode_varint(number << 3, &mut bytes);
        bytes.put_u8(0);
        RawMessage::parse(bytes.freeze()).map(|_| ())
    };
    assert_eq!(message((1 << 29) - 1), Ok(()));
    let key = 1 << 32;
    assert_eq!(message(1 << 29), Err(RawMessageError::Key { key }));
}

#[test]
fn the_front_field_is_split_off_whatever_is_behind_it() {
    let mut message = RawMessage::default();
    message.push(3, b"first");
    let mut bytes = message.encode().to_vec();
    bytes.extend_from_slice(b"\xff no field");
    let front = FrontField::split(&bytes.into()).unwrap();
    assert_eq!((front.number, &front.content[..]), (3, &b"first"[..]));
    assert_eq!(front.rest, &b"\xff no field"[..]);
    let mut number = RawMessage::default();
    number.set_varint(3, 1);
    for other in [
        number.encode(),
        Bytes::new(),
        Bytes::from_static(b"\x1a\x05a"),
    ] {
        assert_eq!(FrontField::split(&other), None, "{other:?}");
    }
}
