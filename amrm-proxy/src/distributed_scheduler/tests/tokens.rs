//! Tokens of the containers that are given out.

use super::*;

#[test]
fn containers_carry_tokens_that_their_nodes_will_take() {
    let mut attempt = Attempt::registered();
    let told = attempt.call(0, opportunistic(1));
    let container = &told.allocated_containers[0];
    let token = container.container_token.as_ref().unwrap();
    assert_eq!(token.kind, kind::CONTAINER_TOKEN);
    assert!(
        keys(1)
            .container_token
            .verify(&token.identifier, &token.password)
    );
    let identifier = ContainerTokenIdentifierProto::decode(&*token.identifier).unwrap();
    assert_eq!(identifier.nm_host_addr(), "host1:8041");
    assert_eq!(identifier.app_submitter(), "alice");
    assert_eq!(identifier.master_key_id(), -5);
    assert_eq!(identifier.rm_identifier(), 77);
    assert_eq!(identifier.container_id, container.id);
    let resource = Resource::try_from(identifier.resource.as_ref().unwrap()).unwrap();
    // The increment equals the minimum where the ResourceManager names none.
    assert_eq!(resource, Resource::new(256, 1));
    assert_eq!(
        identifier.expiry_time_stamp() - identifier.creation_time(),
        600_000
    );
    assert_eq!(container.resource, identifier.resource);
    assert_eq!(container.allocation_request_id(), 9);
    assert_eq!(identifier.allocation_request_id(), 9);
    assert_eq!(
        container.execution_type(),
        ExecutionTypeProto::Opportunistic
    );
    assert_eq!(
        identifier.execution_type(),
        ExecutionTypeProto::Opportunistic
    );
    assert_eq!(container.node_http_address(), "host1:8042");
    let nm_token = told.nm_tokens[0].token.as_ref().unwrap();
    assert_eq!(told.nm_tokens[0].node_id, container.node_id);
    assert!(
        keys(1)
            .nm_token
            .verify(&nm_token.identifier, &nm_token.password)
    );
    let identifier = NmTokenIdentifierProto::decode(&*nm_token.identifier).unwrap();
    assert_eq!(
        (identifier.key_id(), identifier.app_submitter()),
        (1, "alice")
    );
}

#[test]
fn an_nm_token_is_given_once_for_each_node_and_key() {
    let mut attempt = Attempt::registered();
    attempt.send(0, opportunistic(3)).unwrap();
    let told = attempt.answer(&AllocateResponseProto {
        nm_tokens: vec![token_of_the_rm("host2", 1)],
        ..AllocateResponseProto::default()
    });
    assert_eq!(
        told.nm_tokens.len(),
        3,
        "one of the ResourceManager, two of ours"
    );
    assert_eq!(attempt.call(1, opportunistic(3)).nm_tokens.len(), 0);
    attempt.keys = Some(keys(2));
    assert_eq!(attempt.call(2, opportunistic(3)).nm_tokens.len(), 3);
}

#[test]
fn containers_of_one_call_each_carry_a_token_of_their_own() {
    let mut attempt = Attempt::registered();
    let other = ResourceRequestProto {
        priority: Some(7.into()),
        capability: Some(Resource::new(1024, 2).into()),
        ..ask("*", 1, ExecutionType::Opportunistic)
    };
    let mut asks = opportunistic(2);
    asks.insert(0, other);
    let told = attempt.call(0, asks).allocated_containers;
    let of = |container: &ContainerProto| {
        let size = container.resource.as_ref().unwrap().virtual_cores();
        (container.priority.unwrap().priority(), size)
    };
    let kinds: Vec<_> = told.iter().map(of).collect();
    assert_eq!(kinds, [(2, 1), (7, 2), (2, 1)]);
    for container in &told {
        let token = container.container_token.as_ref().unwrap();
        let key = keys(1).container_token;
        assert!(key.verify(&token.identifier, &token.password));
        let identifier = ContainerTokenIdentifierProto::decode(&*token.identifier).unwrap();
        let node = NodeId::try_from(container.node_id.as_ref().unwrap()).unwrap();
        assert_eq!(identifier.nm_host_addr(), node.to_string());
        assert_eq!(token.service, node.to_string());
        assert_eq!(identifier.container_id, container.id);
        assert_eq!(identifier.resource, container.resource);
        assert_eq!(identifier.priority, container.priority);
    }
}

#[test]
fn a_container_of_a_named_partition_carries_its_name() {
    let mut attempt = Attempt::new();
    let mut granted = granted(START, 0);
    let mut node = nodes(1).remove(0);
    node.node_partition = Some("gpu".to_owned());
    granted.nodes = node_list(&[node]);
    let context = context(0);
    let mut outcome = Ok(granted);
    attempt.scheduler.on_response(
        AmMethod::Register,
        &mut outcome,
        &context,
        &mut Requested::new().actions(),
    );
    let asks = vec![ResourceRequestProto {
        node_label_expression: Some("gpu".to_owned()),
        ..ask("*", 1, ExecutionType::Opportunistic)
    }];
    let (_, announced) = attempt.send(0, asks).unwrap();
    let token = announced[0].container_token.as_ref().unwrap();
    let identifier = ContainerTokenIdentifierProto::decode(&*token.identifier).unwrap();
    assert_eq!(identifier.node_label_expression(), "gpu");
}
