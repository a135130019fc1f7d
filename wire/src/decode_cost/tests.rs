use prost::Message;

use super::*;
use crate::proto::hadoop_yarn::{
    AllocateRequestProto, ContainerIdProto, ContainerLaunchContextProto, NodeHeartbeatRequestProto,
    RegisterNodeManagerRequestProto, ResourceBlacklistRequestProto, ResourceProto,
    ResourceRequestProto, SerializedExceptionProto, StartContainerRequestProto,
    StartContainersRequestProto, StopContainersRequestProto, StringStringMapProto,
};

#[test]
fn no_struct_is_larger_than_the_table_has_it() {
    fn check<M: Name>() {
        let shape = ShapeOf::<M>::SHAPE;
        assert_eq!(shape.name, M::full_name());
        let real = size_of::<M>();
        assert!(
            real <= shape.size && shape.size <= 2 * real + 64,
            "{}: {real}, {}",
            shape.name,
            shape.size
        );
    }
    check::<AllocateRequestProto>();
    check::<ContainerIdProto>();
    check::<ContainerLaunchContextProto>();
    check::<NodeHeartbeatRequestProto>();
    check::<RegisterNodeManagerRequestProto>();
    check::<ResourceProto>();
    check::<ResourceRequestProto>();
    check::<SerializedExceptionProto>();
    check::<StartContainerRequestProto>();
    check::<StartContainersRequestProto>();
    check::<StringStringMapProto>();
}

#[test]
fn empty_elements_cost_what_they_take() {
    for count in [1, 10_000] {
        let entries = [0x0a, 0].repeat(count);
        let cost = of_message::<StartContainersRequestProto>(&entries).unwrap();
        let decoded = StartContainersRequestProto::decode(&*entries)
            .unwrap()
            .start_container_request;
        let taken = decoded.capacity() * size_of::<StartContainerRequestProto>();
        assert!((taken..2 * taken).contains(&cost), "{cost} for {taken}");
    }
}

#[test]
fn empty_elements_inside_an_element_cost_what_they_take() {
    // Field 2 of a launch context is a list of texts under names, field 5 one of commands.
    for field in [0x22, 0x2a] {
        let context = [field, 0].repeat(10_000);
        let inner = StartContainerRequestProto {
            container_launch_context: Some(ContainerLaunchContextProto::decode(&*context).unwrap()),
            ..Default::default()
        };
        let whole = StartContainersRequestProto {
            start_container_request: vec![inner],
        };
        let cost = of_message::<StartContainersRequestProto>(&whole.encode_to_vec()).unwrap();
        let context = whole.start_container_request[0]
            .container_launch_context
            .as_ref()
            .unwrap();
        let taken = context.environment.capacity() * size_of::<StringStringMapProto>()
            + context.command.capacity() * size_of::<String>();
        assert!((taken..8 * taken).contains(&cost), "{cost} for {taken}");
    }
}

#[test]
fn an_honest_request_costs_a_few_times_its_length() {
    let variable = |n: u32| StringStringMapProto {
        key: Some(format!("VARIABLE_OF_THE_CONTAINER_{n}")),
        value: Some("/usr/lib/hadoop/".repeat(8)),
    };
    let context = ContainerLaunchContextProto {
        environment: (0..40).map(variable).collect(),
        ..Default::default()
    };
    let start = StartContainerRequestProto {
        container_launch_context: Some(context),
        ..Default::default()
    };
    let bytes = StartContainersRequestProto {
        start_container_request: vec![start; 10],
    }
    .encode_to_vec();
    let cost = of_message::<StartContainersRequestProto>(&bytes).unwrap();
    assert!(
        (bytes.len()..4 * bytes.len()).contains(&cost),
        "{cost} for {}",
        bytes.len()
    );
}

#[test]
fn unknown_and_repeated_fields_cost_what_splitting_them_takes() {
    let unknown = [0xf8, 0x3f, 0].repeat(1_000);
    let repeated = [0x18, 0].repeat(1_000);
    for bytes in [unknown, repeated] {
        let cost = of_message::<ResourceRequestProto>(&bytes).unwrap();
        assert!(cost >= 900 * FIELD_BYTES, "{cost}");
    }
}

#[test]
fn packed_numbers_cost_what_a_list_of_them_takes() {
    let packed = [&[0x22, 100][..], &[0; 100]].concat();
    let cost = of_message::<AllocateRequestProto>(&packed).unwrap();
    assert!(cost >= 100 * NUMBER_BYTES, "{cost}");
}

#[test]
fn a_number_inside_its_message_costs_nothing_more() {
    let numbers = ResourceProto {
        memory: Some(1 << 40),
        virtual_cores: Some(8),
        ..Default::default()
    };
    let cost = of_message::<ResourceProto>(&numbers.encode_to_vec());
    assert_eq!(cost, of_message::<ResourceProto>(&[]));
}

#[test]
fn a_list_read_line_by_line_costs_its_longest_line() {
    let ask = ResourceRequestProto {
        resource_name: Some("host".to_owned()),
        ..Default::default()
    };
    let many = AllocateRequestProto {
        ask: vec![ask; 1_000],
        ..Default::default()
    }
    .encode_to_vec();
    let whole = of_message::<AllocateRequestProto>(&many).unwrap();
    let lines = of_one_field_at_a_time::<AllocateRequestProto>(&many).unwrap();
    assert!(
        lines < whole / 3 && lines >= 1_000 * FIELD_BYTES,
        "{lines}, {whole}"
    );

    let blacklist = ResourceBlacklistRequestProto {
        blacklist_additions: vec![String::new(); 10_000],
        ..Default::default()
    };
    let one = AllocateRequestProto {
        blacklist_request: Some(blacklist),
        ..Default::default()
    };
    let cost = of_one_field_at_a_time::<AllocateRequestProto>(&one.encode_to_vec()).unwrap();
    assert!(cost >= 10_000 * size_of::<String>(), "{cost}");
}

#[test]
fn what_does_not_parse_or_is_too_deep_is_refused() {
    assert!(of_message::<StopContainersRequestProto>(&[0x0a, 0x7f, 1]).is_err());
    let mut deep = Vec::new();
    for _ in 0..200 {
        let mut outer = vec![0x22];
        prost::encode_length_delimiter(deep.len(), &mut outer).unwrap();
        outer.extend(&deep);
        deep = outer;
    }
    assert_eq!(
        of_message::<SerializedExceptionProto>(&deep),
        Err(RawMessageError::Depth)
    );
}
