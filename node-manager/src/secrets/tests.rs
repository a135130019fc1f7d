//! Claims about whose tokens are taken.

use super::*;
use bytes::Bytes;
use test_support::ids;
use wire::proto::hadoop_yarn::ApplicationAttemptIdProto;

fn attempt() -> ApplicationAttemptId {
    ids::attempt(7)
}

fn node() -> NodeId {
    ids::node("node1")
}

fn key(key_id: i32) -> MasterKey {
    MasterKey::new(key_id, Bytes::from(vec![u8::try_from(key_id).unwrap(); 8]))
}

fn secrets() -> NodeSecrets {
    let secrets = NodeSecrets::default();
    secrets.set_node_id(node());
    secrets.roll_container_token_key(key(1));
    secrets.roll_nm_token_key(key(1));
    secrets
}

fn container_token(key: &MasterKey, address: &str) -> TokenProto {
    let identifier = ContainerTokenIdentifierProto {
        container_id: Some(attempt().container(2).into()),
        nm_host_addr: Some(address.to_owned()),
        master_key_id: Some(key.key_id),
        ..Default::default()
    };
    let identifier = Bytes::from(identifier.encode_to_vec());
    Token::sign(key, identifier, kind::CONTAINER_TOKEN, "node1:8041").into()
}

fn nm_token(key_id: i32, node: &NodeId) -> Vec<u8> {
    NmTokenIdentifierProto {
        app_attempt_id: Some(ApplicationAttemptIdProto::from(attempt())),
        node_id: Some(node.into()),
        app_submitter: Some("alice".to_owned()),
        key_id: Some(key_id),
    }
    .encode_to_vec()
}

fn refusal<T: std::fmt::Debug>(result: Result<T, RemoteException>) -> String {
    let error = result.unwrap_err();
    assert!(error.is(HadoopException::InvalidToken), "{error}");
    error.message
}

#[test]
fn a_container_token_of_the_current_or_previous_key_is_taken() {
    let secrets = secrets();
    secrets.roll_container_token_key(key(2));
    for id in [1, 2] {
        assert!(
            secrets
                .verify_container_token(&container_token(&key(id), "node1:8041"))
                .is_ok()
        );
    }
    secrets.roll_container_token_key(key(3));
    let refused = secrets.verify_container_token(&container_token(&key(1), "node1:8041"));
    assert!(refusal(refused).contains("seems to have an illegally generated token"));
}

#[test]
fn the_same_key_again_does_not_push_out_the_previous_one() {
    let secrets = secrets();
    secrets.roll_container_token_key(key(2));
    secrets.roll_container_token_key(key(2));
    assert!(
        secrets
            .verify_container_token(&container_token(&key(1), "node1:8041"))
            .is_ok()
    );
}

#[test]
fn a_forged_foreign_or_empty_container_token_is_refused() {
    let secrets = secrets();
    let mut forged = container_token(&key(1), "node1:8041");
    let mut identifier = forged.identifier.to_vec();
    identifier.extend([0x70, 0x01]);
    forged.identifier = identifier.into();
    let refused = refusal(secrets.verify_container_token(&forged));
    assert!(refused.contains("Invalid container token"), "{refused}");

    let foreign = secrets.verify_container_token(&container_token(&key(1), "node2:8041"));
    assert!(refusal(foreign).contains("Expected : node1:8041 Found : node2:8041"));

    let mut wrong_kind = container_token(&key(1), "node1:8041");
    wrong_kind.kind = kind::NM_TOKEN.to_owned();
    refusal(secrets.verify_container_token(&wrong_kind));
    refusal(secrets.verify_container_token(&TokenProto::default()));
}

#[test]
fn an_nm_token_names_this_node_and_a_known_key() {
    let secrets = secrets();
    let identifier = nm_token(1, &node());
    let verified = secrets.retrieve(&identifier).unwrap();
    assert_eq!(verified.owner.as_deref(), Some("alice"));
    assert_eq!(verified.user, attempt().to_string());
    assert_eq!(verified.password, key(1).sign(&identifier));

    let elsewhere = NodeId {
        host: "node1".to_owned(),
        port: 1,
    };
    assert!(refusal(secrets.retrieve(&nm_token(1, &elsewhere))).contains("found : node1:1"));
    refusal(secrets.retrieve(&nm_token(9, &node())));
    refusal(secrets.retrieve(b"\xff\xff"));
    refusal(secrets.retrieve(b""));
}

#[test]
fn a_node_is_known_by_the_key_that_nodes_share_and_by_nothing_that_a_tenant_has() {
    let (ours, theirs) = (secrets(), NodeSecrets::default());
    theirs.set_node_id(ids::node("node2"));
    assert_eq!(theirs.token_for(&node()), None);
    theirs.roll_container_token_key(key(1));
    let token = theirs.token_for(&node()).unwrap();
    let verified = ours.retrieve(&token.identifier).unwrap();
    assert_eq!(verified.password, token.password);
    assert_eq!(
        late_binding::peer_of_user(&verified.user),
        Some(ids::node("node2"))
    );

    // For another node.
    let elsewhere = theirs.token_for(&ids::node("node3")).unwrap();
    assert!(refusal(ours.retrieve(&elsewhere.identifier)).contains("not for this node"));
    // With a key that this node has not, and with one of NMTokens.
    theirs.roll_container_token_key(key(2));
    let newer = theirs.token_for(&node()).unwrap();
    assert!(refusal(ours.retrieve(&newer.identifier)).contains("does not have"));
    ours.roll_nm_token_key(key(2));
    refusal(ours.retrieve(&newer.identifier));
    // What an ApplicationMaster has of the same key names no node.
    let container = container_token(&key(1), "node1:8041");
    refusal(ours.retrieve(&container.identifier));
}

#[test]
fn an_attempt_keeps_its_access_over_two_rolls_until_its_application_ends() {
    let secrets = secrets();
    secrets.remember(attempt(), 1).unwrap();
    secrets.roll_nm_token_key(key(2));
    secrets.roll_nm_token_key(key(3));
    assert!(secrets.retrieve(&nm_token(1, &node())).is_ok());
    refusal(secrets.remember(attempt(), 1));
    secrets.forget_application(attempt().application_id);
    refusal(secrets.retrieve(&nm_token(1, &node())));
}
