use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::proto::hadoop_common::TokenProto;
use crate::proto::hadoop_yarn::{
    AmrmTokenIdentifierProto, ClientToAmTokenIdentifierProto, ContainerTokenIdentifierProto,
    ContainerTypeProto, MasterKeyProto, NmTokenIdentifierProto, YarnDelegationTokenIdentifierProto,
};

const ATTEMPT: ApplicationAttemptId = test_support::ids::attempt(7);

fn hex(message: &impl Message) -> String {
    message
        .encode_to_vec()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Asserts that the bytes written by real Hadoop decode to `message`, and that `message` encodes to
/// them.
#[track_caller]
fn assert_hadoop_writes<M: Message + Default + PartialEq + std::fmt::Debug>(
    message: &M,
    golden: &str,
) {
    assert_eq!(hex(message), golden);
    assert_eq!(&M::decode(&message.encode_to_vec()[..]).unwrap(), message);
}

fn node() -> NodeId {
    NodeId {
        host: "127.0.0.1".to_owned(),
        port: 45454,
    }
}

/// Returns a container token's identifier as a Java ResourceManager issues it.
fn container_token(id: i64) -> ContainerTokenIdentifierProto {
    ContainerTokenIdentifierProto {
        container_id: Some(ATTEMPT.container(id).into()),
        nm_host_addr: Some(node().to_string()),
        app_submitter: Some("alice".to_owned()),
        resource: Some(Resource::new(1024, 1).into()),
        expiry_time_stamp: Some(1_700_000_600_000),
        master_key_id: Some(43),
        rm_identifier: Some(1_700_000_000_123),
        priority: Some(1.into()),
        creation_time: Some(1_700_000_000_456),
        log_aggregation_context: None,
        node_label_expression: Some(String::new()),
        container_type: Some(ContainerTypeProto::Task.into()),
        execution_type: Some(ExecutionTypeProto::from(ExecutionType::Guaranteed).into()),
        version: Some(0),
        allocation_request_id: Some(-1),
        allocation_tags: Vec::new(),
    }
}

#[test]
fn an_amrm_token_identifier_is_written_as_hadoop_writes_it() {
    let identifier = |key_id| AmrmTokenIdentifierProto {
        app_attempt_id: Some(ATTEMPT.into()),
        key_id: Some(key_id),
    };
    assert_hadoop_writes(
        &identifier(-1_234_567),
        "0a0d0a0908071080d095ffbc31100110f9d2b4ffffffffffff01",
    );
    assert_hadoop_writes(&identifier(5), "0a0d0a0908071080d095ffbc3110011005");
}

#[test]
fn an_nm_token_identifier_is_written_as_hadoop_writes_it() {
    let identifier = NmTokenIdentifierProto {
        app_attempt_id: Some(ATTEMPT.into()),
        node_id: Some((&node()).into()),
        app_submitter: Some("alice".to_owned()),
        key_id: Some(42),
    };
    assert_hadoop_writes(
        &identifier,
        "0a0d0a0908071080d095ffbc311001120f0a093132372e302e302e31108ee3021a05616c696365202a",
    );
}

#[test]
fn a_container_token_identifier_is_written_as_hadoop_writes_it() {
    assert_hadoop_writes(
        &container_token(2),
        "0a11120d0a0908071080d095ffbc3110011802120f3132372e302e302e313a34353435341a05616c696365222b08800810011a140a09\
         6d656d6f72792d6d621080081a024d6920001a0e0a0676636f72657310011a00200028c09fbaffbc31302b38fbd095ffbc31420208\
         0148c8d395ffbc315a0060026801700078ffffffffffffffffff01",
    );
}

#[test]
fn an_opportunistic_container_token_of_a_later_epoch_is_written_as_hadoop_writes_it() {
    let identifier = ContainerTokenIdentifierProto {
        priority: Some(0.into()),
        execution_type: Some(ExecutionTypeProto::from(ExecutionType::Opportunistic).into()),
        allocation_request_id: Some(7),
        allocation_tags: vec!["t1".to_owned()],
        ..container_token(3_298_534_883_330)
    };
    assert_hadoop_writes(
        &identifier,
        "0a16120d0a0908071080d095ffbc31100118828080808060120f3132372e302e302e313a34353435341a05616c696365222b08800810\
         011a140a096d656d6f72792d6d621080081a024d6920001a0e0a0676636f72657310011a00200028c09fbaffbc31302b38fbd095ff\
         bc314202080048c8d395ffbc315a0060026802700078078201027431",
    );
}

#[test]
fn other_identifiers_and_keys_are_written_as_hadoop_writes_them() {
    assert_hadoop_writes(
        &ClientToAmTokenIdentifierProto {
            app_attempt_id: Some(ATTEMPT.into()),
            client_name: Some("alice".to_owned()),
        },
        "0a0d0a0908071080d095ffbc3110011205616c696365",
    );
    assert_hadoop_writes(
        &YarnDelegationTokenIdentifierProto {
            owner: Some("alice".to_owned()),
            renewer: Some("yarn".to_owned()),
            real_user: None,
            issue_date: Some(1_700_000_000_000),
            max_date: Some(1_700_604_800_000),
            sequence_number: Some(3),
            master_key_id: Some(2),
        },
        "0a05616c69636512047961726e2080d095ffbc312880d8c79fbf3130033802",
    );
    assert_hadoop_writes(
        &MasterKeyProto {
            key_id: Some(42),
            bytes: Some(Bytes::from_static(&[1, 2, 3, 4, 5, 6, 7, 8])),
        },
        "082a12080102030405060708",
    );
}

#[test]
fn a_token_keeps_empty_fields_as_hadoop_does() {
    let token = TokenProto {
        identifier: Bytes::new(),
        password: Bytes::new(),
        kind: "K".to_owned(),
        service: String::new(),
    };
    assert_hadoop_writes(&token, "0a0012001a014b2200");
}

#[test]
fn ids_without_their_parts_are_refused_by_name() {
    let missing = |message, field| ConvertError::Missing { message, field };
    let container = ATTEMPT.container(2);

    let mut proto = ContainerIdProto::from(container);
    proto.id = None;
    assert_eq!(
        ContainerId::try_from(&proto),
        Err(missing("ContainerIdProto", "id"))
    );

    let mut proto = ContainerIdProto::from(container);
    proto.app_attempt_id = None;
    // Java never writes the application beside the attempt; it cannot replace an absent attempt.
    proto.app_id = Some(ATTEMPT.application_id.into());
    assert_eq!(
        ContainerId::try_from(&proto),
        Err(missing("ContainerIdProto", "app_attempt_id"))
    );

    assert_eq!(
        ApplicationAttemptId::try_from(&ApplicationAttemptIdProto::default()),
        Err(missing("ApplicationAttemptIdProto", "application_id"))
    );
    assert_eq!(
        ApplicationId::try_from(&ApplicationIdProto::default()),
        Err(missing("ApplicationIdProto", "cluster_timestamp"))
    );
    let proto = NodeIdProto {
        host: Some(String::new()),
        port: Some(1),
    };
    assert_eq!(
        NodeId::try_from(&proto),
        Err(missing("NodeIdProto", "host"))
    );
}

#[test]
fn negative_parts_of_ids_are_refused() {
    let proto = ApplicationIdProto {
        id: Some(-1),
        cluster_timestamp: Some(1),
    };
    assert_eq!(
        ApplicationId::try_from(&proto),
        Err(ConvertError::OutOfRange {
            message: "ApplicationIdProto",
            field: "id",
            value: -1
        })
    );
    let proto = ApplicationAttemptIdProto {
        attempt_id: Some(i32::MIN),
        ..ATTEMPT.into()
    };
    assert!(ApplicationAttemptId::try_from(&proto).is_err());
}

#[test]
fn a_container_number_below_zero_is_taken() {
    // First id of a Java node when the ResourceManager's epoch is 0.
    let id = ATTEMPT.container(-1);
    let proto = ContainerIdProto::from(id);
    assert_eq!(ContainerId::try_from(&proto), Ok(id));
}

#[test]
fn ports_that_no_server_can_have_are_refused() {
    for port in [i32::MIN, -1, 0, 65_536, i32::MAX] {
        let proto = NodeIdProto {
            host: Some("node".to_owned()),
            port: Some(port),
        };
        assert_eq!(
            NodeId::try_from(&proto),
            Err(ConvertError::OutOfRange {
                message: "NodeIdProto",
                field: "port",
                value: port.into()
            })
        );
    }
}

#[test]
fn absent_amounts_are_zero_and_the_map_does_not_replace_them() {
    assert_eq!(
        Resource::try_from(&ResourceProto::default()),
        Ok(Resource::default())
    );
    let proto = ResourceProto {
        memory: None,
        virtual_cores: None,
        ..Resource::new(5, 2).into()
    };
    assert_eq!(Resource::try_from(&proto), Ok(Resource::default()));
}

#[test]
fn negative_amounts_are_refused_by_name() {
    let proto = ResourceProto {
        memory: Some(-1),
        ..ResourceProto::default()
    };
    let error = Resource::try_from(&proto).unwrap_err();
    assert_eq!(error.to_string(), "ResourceProto has -1 as its memory");
    let proto = ResourceProto {
        virtual_cores: Some(i32::MIN),
        ..ResourceProto::default()
    };
    let error = Resource::try_from(&proto).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ResourceProto has -2147483648 as its virtual_cores"
    );
}

#[test]
fn amounts_beyond_the_fields_are_cut_not_wrapped() {
    let proto = ResourceProto::from(Resource::new(u64::MAX, u32::MAX));
    assert_eq!(proto.memory, Some(i64::MAX));
    assert_eq!(proto.virtual_cores, Some(i32::MAX));
}

#[test]
fn a_message_that_makes_no_sense_becomes_an_error_that_is_not_retried() {
    let error = ConvertError::Missing {
        message: "ContainerIdProto",
        field: "id",
    };
    let error = RemoteException::from(error);
    assert!(error.is(HadoopException::YarnException));
    assert_eq!(error.message, "ContainerIdProto has no id");
}

#[test]
fn an_exception_in_a_reply_keeps_its_class_and_message() {
    let error = RemoteException::new(HadoopException::InvalidToken, "forged");
    let proto = SerializedExceptionProto::from(error.clone());
    assert_eq!(RemoteException::from(proto), error);
    let nameless = RemoteException::from(SerializedExceptionProto::default());
    assert!(nameless.is(HadoopException::YarnException));
}

#[test]
fn an_unknown_execution_type_is_read_as_guaranteed() {
    let token = ContainerTokenIdentifierProto {
        execution_type: Some(99),
        ..ContainerTokenIdentifierProto::default()
    };
    assert_eq!(
        ExecutionType::from(token.execution_type()),
        ExecutionType::Guaranteed
    );
}

#[test]
fn states_survive_the_wire() {
    for state in [ContainerState::Running, ContainerState::Complete] {
        assert_eq!(
            ContainerState::from(ContainerStateProto::from(state)),
            state
        );
    }
    for state in [
        ContainerSubState::Scheduled,
        ContainerSubState::Running,
        ContainerSubState::Paused,
        ContainerSubState::Completing,
        ContainerSubState::Done,
    ] {
        assert_eq!(
            ContainerSubState::from(ContainerSubStateProto::from(state)),
            state
        );
    }
    for execution_type in [ExecutionType::Guaranteed, ExecutionType::Opportunistic] {
        assert_eq!(
            ExecutionType::from(ExecutionTypeProto::from(execution_type)),
            execution_type
        );
    }
}

proptest! {
    #[test]
    fn every_value_survives_the_wire(
        cluster_timestamp in 0..=i64::MAX,
        app in 0..=i32::MAX,
        attempt in 0..=i32::MAX,
        id: i64,
        host in "[a-z0-9.-]{1,32}",
        port in 1..=u16::MAX,
        memory_mb in 0..=u64::MAX / 2,
        vcores in 0..=u32::MAX / 2,
    ) {
        let container = ApplicationId::new(cluster_timestamp, app).attempt(attempt).container(id);
        let bytes = ContainerIdProto::from(container).encode_to_vec();
        prop_assert_eq!(ContainerId::try_from(&ContainerIdProto::decode(&bytes[..]).unwrap()), Ok(container));

        let node = NodeId { host, port };
        let bytes = NodeIdProto::from(&node).encode_to_vec();
        prop_assert_eq!(NodeId::try_from(&NodeIdProto::decode(&bytes[..]).unwrap()), Ok(node));

        let resource = Resource { memory_mb, vcores };
        let bytes = ResourceProto::from(resource).encode_to_vec();
        prop_assert_eq!(Resource::try_from(&ResourceProto::decode(&bytes[..]).unwrap()), Ok(resource));
    }

    #[test]
    fn any_bytes_are_read_or_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        if let Ok(token) = ContainerTokenIdentifierProto::decode(&bytes[..]) {
            let _ = token.container_id.as_ref().map(ContainerId::try_from);
            let _ = token.resource.as_ref().map(Resource::try_from);
        }
        if let Ok(token) = NmTokenIdentifierProto::decode(&bytes[..]) {
            let _ = token.node_id.as_ref().map(NodeId::try_from);
        }
    }
}

#[test]
fn an_ask_survives_and_one_below_nothing_is_refused() {
    let ask = records::ResourceRequest {
        priority: records::Priority(7),
        resource_name: records::ResourceName::Rack("/r".to_owned()),
        capability: Resource::new(1024, 2),
        num_containers: 3,
        relax_locality: false,
        allocation_request_id: 9,
        execution_type_request: records::ExecutionTypeRequest {
            execution_type: ExecutionType::Opportunistic,
            enforce_execution_type: true,
        },
        node_label_expression: Some("gpu".to_owned()),
    };
    let mut proto = ResourceRequestProto::from(&ask);
    assert_eq!(records::ResourceRequest::try_from(&proto), Ok(ask));
    proto.num_containers = Some(0);
    assert!(records::ResourceRequest::try_from(&proto).is_ok());
    proto.num_containers = Some(-1);
    assert!(matches!(
        records::ResourceRequest::try_from(&proto),
        Err(ConvertError::OutOfRange { value: -1, .. })
    ));
}
