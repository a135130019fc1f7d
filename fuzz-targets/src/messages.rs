//! Messages that are edited field by field, and the memory that decoding a request takes.

use bytes::Bytes;
use prost::{Message, Name};
use wire::decode_cost;
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, NodeHeartbeatRequestProto, RegisterNodeManagerRequestProto,
    StartContainersRequestProto, StopContainersRequestProto,
};
use wire::raw_message::RawMessage;

use crate::{Memory, Target};

pub(crate) const TARGET: Target = Target {
    name: "messages",
    bytes_max: 8 * 1024,
    // Decoding is compared with its own bound below; what is left are copies of the input.
    memory: Memory {
        base: 64 * 1024,
        per_byte: 4 * 1024,
    },
    run,
    seeds,
};

/// Checks that decoding takes no more memory than what was computed before, and changes nothing.
fn decode<M: Message + Name + Default>(input: &Bytes) {
    let cost = decode_cost::of_message::<M>(input);
    let mut decoded = None;
    let taken = allocation_counter::measure(|| decoded = M::decode(input.clone()).ok());
    let Some(message) = decoded else {
        return;
    };
    let cost = cost.unwrap_or_else(|error| panic!("{} is decoded, but {error}", M::NAME));
    let cost = u64::try_from(cost).expect("a cost fits");
    assert!(
        taken.bytes_max <= cost,
        "{} takes {} bytes, {cost} were expected",
        M::NAME,
        taken.bytes_max
    );
    // Compared as bytes: a number that is none differs from itself.
    let written = message.encode_to_vec();
    let again = M::decode(&*written).expect("a message that was written is read");
    let again = again.encode_to_vec();
    assert!(again == written, "{} changes when it is written", M::NAME);
}

fn run(input: &[u8]) {
    let Some((kind, message)) = input.split_first() else {
        return;
    };
    let message = Bytes::copy_from_slice(message);
    match kind % 5 {
        0 => decode::<StartContainersRequestProto>(&message),
        1 => decode::<AllocateRequestProto>(&message),
        2 => decode::<NodeHeartbeatRequestProto>(&message),
        3 => decode::<RegisterNodeManagerRequestProto>(&message),
        _ => decode::<StopContainersRequestProto>(&message),
    }
    let Ok(mut raw) = RawMessage::parse(message.clone()) else {
        return;
    };
    assert_eq!(raw.encode(), message, "an unedited message keeps its bytes");
    let (before, number) = (raw.count(1), 1);
    raw.push(number, b"added");
    let edited = RawMessage::parse(raw.encode()).expect("an edited message is one");
    assert_eq!(edited.count(number), before + 1);
    raw.remove(number);
    assert_eq!(raw.count(number), 0);
    RawMessage::parse(raw.encode()).expect("an edited message is one");
}

fn seeds() -> Vec<Vec<u8>> {
    let context = test_support::LaunchContext::command("true").env("A", "1");
    let start = wire::proto::hadoop_yarn::StartContainerRequestProto {
        container_launch_context: Some(context.into_proto()),
        ..Default::default()
    };
    let starts = StartContainersRequestProto {
        start_container_request: vec![start.clone(), start],
    };
    let attempt = test_support::ids::application(7).attempt(1);
    let stops = StopContainersRequestProto {
        container_id: vec![attempt.container(2).into(), attempt.container(3).into()],
    };
    let allocate = AllocateRequestProto {
        response_id: Some(3),
        progress: Some(0.5),
        release: stops.container_id.clone(),
        ..AllocateRequestProto::default()
    };
    let seed = |kind: u8, message: Vec<u8>| [&[kind][..], &message].concat();
    vec![
        seed(0, starts.encode_to_vec()),
        seed(1, allocate.encode_to_vec()),
        seed(4, stops.encode_to_vec()),
        // An unknown group between two varints.
        seed(2, b"\x08\x01\x13\x1b\x08\x02\x1c\x14\x10\x03".to_vec()),
    ]
}
