//! Tokens without the right that they are used for.

use std::time::{Duration, Instant};

use records::NodeId;
use test_support::scripted::{Refusal, ScriptedAm};
use test_support::{Allocation, LaunchContext, RmSecrets, now_ms};
use tests::scripted_cluster::ScriptedCluster;
use tests::wait;
use wire::exception::HadoopException;
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::ContainerUpdateRequestProto;
use wire::protocol::container_management::UpdateContainer;
use wire::rpc::RpcError;
use wire::token::{Token, kind};

use crate::bad_input::cluster;

const DEADLINE: Duration = Duration::from_secs(60);

/// Returns the lines of the audit log about refused tokens, from the user on.
fn audit_lines(cluster: &ScriptedCluster) -> Vec<String> {
    let log = cluster.node.process.log();
    let lines = log
        .lines()
        .filter(|line| line.contains("\tRESULT=FAILURE\t"));
    let lines = lines.filter_map(|line| Some(line[line.find("USER=")?..].to_owned()));
    lines.collect()
}

/// Starts a container with a token that `spoil` changed; expects that the whole call is refused
/// with `InvalidToken` and that the node serves on.
#[track_caller]
fn refused_as_invalid_token(spoil: impl FnOnce(&mut TokenProto)) {
    let cluster = cluster();
    let am = &cluster.am;
    let mut token = am.secrets().container_token(&am.allocate());
    spoil(&mut token);
    let refusal = am
        .start_with(token, LaunchContext::command("true"))
        .unwrap_err();
    assert!(matches!(refusal, Refusal::Call(_)), "{refusal}");
    assert!(refusal.is(HadoopException::InvalidToken), "{refusal}");
    cluster.assert_serves();
}

/// Starts a container whose allocation `spoil` changed; expects that this container is refused and
/// that the node serves on.
#[track_caller]
fn refused_container(
    spoil: impl FnOnce(&mut Allocation),
    exception: HadoopException,
    message: &str,
) {
    let cluster = cluster();
    let mut allocation = cluster.am.allocate();
    spoil(&mut allocation);
    let refusal = cluster
        .am
        .try_start(&allocation, LaunchContext::command("true"))
        .unwrap_err();
    assert!(matches!(refusal, Refusal::Container(_)), "{refusal}");
    assert!(refusal.is(exception), "{refusal}");
    assert!(refusal.exception().message.contains(message), "{refusal}");
    cluster.assert_serves();
}

#[test]
fn a_container_token_with_another_password_is_refused() {
    refused_as_invalid_token(|token| {
        let mut password = token.password.to_vec();
        *password.last_mut().unwrap() ^= 1;
        token.password = password.into();
    });
}

#[test]
fn a_container_token_changed_after_signing_is_refused() {
    refused_as_invalid_token(|token| {
        // One more field, version 9, as an ApplicationMaster that wants more might write it.
        let mut identifier = token.identifier.to_vec();
        identifier.extend([0x70, 9]);
        token.identifier = identifier.into();
    });
}

#[test]
fn a_container_token_of_an_unknown_key_is_refused() {
    let cluster = cluster();
    let stranger = RmSecrets::new();
    let token = stranger.container_token(&cluster.am.allocate());
    let refusal = cluster
        .am
        .start_with(token, LaunchContext::command("true"))
        .unwrap_err();
    assert!(refusal.is(HadoopException::InvalidToken), "{refusal}");
    cluster.assert_serves();
}

#[test]
fn a_container_token_that_is_no_message_is_refused() {
    refused_as_invalid_token(|token| token.identifier = vec![0xff; 40].into());
}

#[test]
fn an_empty_container_token_is_refused() {
    refused_as_invalid_token(|token| *token = TokenProto::default());
}

#[test]
fn a_token_of_another_kind_is_refused() {
    refused_as_invalid_token(|token| kind::NM_TOKEN.clone_into(&mut token.kind));
}

#[test]
fn a_container_token_of_another_node_is_refused() {
    let cluster = cluster();
    let mut allocation = cluster.am.allocate();
    "elsewhere:8041".clone_into(&mut allocation.node);
    let refusal = cluster
        .am
        .try_start(&allocation, LaunchContext::command("true"))
        .unwrap_err();
    assert!(refusal.is(HadoopException::InvalidToken), "{refusal}");
    let message = &refusal.exception().message;
    assert!(message.contains("Found : elsewhere:8041"), "{message}");
    cluster.assert_serves();
}

#[test]
fn an_expired_container_token_is_refused() {
    refused_container(
        |allocation| allocation.expires_ms = now_ms() - 1000,
        HadoopException::YarnException,
        "This token is expired.",
    );
}

#[test]
fn a_container_of_another_run_of_the_resource_manager_is_refused() {
    refused_container(
        |allocation| allocation.rm_identifier -= 1,
        HadoopException::InvalidContainer,
        "rejected as it is allocated by a previous RM",
    );
}

#[test]
fn a_container_of_another_application_is_refused() {
    refused_container(
        |allocation| allocation.id.attempt.application_id.id += 1,
        HadoopException::YarnException,
        "Unauthorized request to start container.",
    );
}

#[test]
fn a_container_token_is_good_for_one_start() {
    let cluster = cluster();
    let allocation = cluster.am.allocate();
    let id = cluster.am.start(&allocation, "true");
    assert_eq!(cluster.rm.wait_completed(id).exit_status, 0);
    let refusal = cluster
        .am
        .try_start(&allocation, LaunchContext::command("true"))
        .unwrap_err();
    let message = &refusal.exception().message;
    assert!(
        message.contains("Attempt to relaunch the same container"),
        "{message}"
    );
    cluster.assert_serves();
}

#[test]
fn a_container_token_stays_used_when_its_container_was_acknowledged() {
    let cluster = cluster();
    let allocation = cluster.am.allocate();
    let id = cluster.am.start(&allocation, "true");
    cluster.rm.wait_completed(id);
    cluster.rm.acknowledge(id);
    cluster.rm.wait_heartbeats(2);
    let again = cluster
        .am
        .try_start(&allocation, LaunchContext::command("true"));
    assert!(again.is_err());
    cluster.assert_serves();
}

/// Opens a connection with a token that `spoil` changed; expects `InvalidToken`, or Java's text for
/// a wrong password.
#[track_caller]
fn refused_connection(make: impl FnOnce(&ScriptedAm) -> Token) {
    let cluster = cluster();
    let token = make(&cluster.am);
    let error = ScriptedAm::open(&cluster.rm, cluster.am.node(), &token).unwrap_err();
    assert!(matches!(error, RpcError::Remote(_)), "{error}");
    cluster.assert_serves();
    drop(ScriptedAm::connect(&cluster.rm, 2));
}

#[test]
fn an_nm_token_of_an_unknown_key_is_refused() {
    refused_connection(|am| RmSecrets::new().nm_token(am.attempt(), am.node(), "alice"));
}

#[test]
fn an_nm_token_with_another_password_is_refused() {
    refused_connection(|am| {
        let mut token = am.secrets().nm_token(am.attempt(), am.node(), "alice");
        token.password = vec![0; token.password.len()].into();
        token
    });
}

#[test]
fn an_nm_token_of_another_node_is_refused() {
    refused_connection(|am| {
        let elsewhere = NodeId {
            host: "elsewhere".to_owned(),
            port: 8041,
        };
        am.secrets().nm_token(am.attempt(), &elsewhere, "alice")
    });
}

#[test]
fn an_update_with_a_bad_token_fails_and_the_container_goes_on() {
    let cluster = cluster();
    let gate = cluster.gate("gate");
    let allocation = cluster.am.allocate();
    let id = cluster.am.start(&allocation, &gate.then("true"));
    let mut updated = allocation;
    updated.version = 1;
    "elsewhere:8041".clone_into(&mut updated.node);
    let refusal = cluster.am.update(&updated).unwrap_err();
    assert!(refusal.is(HadoopException::InvalidToken), "{refusal}");
    gate.open();
    assert_eq!(cluster.rm.wait_completed(id).exit_status, 0);
}

#[test]
fn a_repeated_update_token_updates_once_and_is_refused_once() {
    let cluster = cluster();
    let gate = cluster.gate("gate");
    let mut allocation = cluster.am.allocate();
    let id = cluster.am.start(&allocation, &gate.then("true"));
    allocation.version = 1;
    let token = cluster.am.secrets().container_token(&allocation);
    let request = ContainerUpdateRequestProto {
        update_container_token: vec![token; 1_000],
    };
    let call = cluster.am.client().call::<UpdateContainer>(&request);
    let answer = cluster.rm.runtime().block_on(call).unwrap();
    assert_eq!(answer.succeeded_requests.len(), 1);
    assert_eq!(answer.failed_requests.len(), 1);
    gate.open();
    assert_eq!(cluster.rm.wait_completed(id).exit_status, 0);
}

#[test]
fn other_applications_containers_can_be_neither_seen_nor_stopped() {
    let cluster = cluster();
    let gate = cluster.gate("gate");
    let id = cluster.am.run(&gate.then("true"));
    let other = ScriptedAm::connect(&cluster.rm, 2);
    assert!(other.status(id).is_err());
    assert!(other.stop(id).is_err());
    gate.open();
    assert_eq!(cluster.rm.wait_completed(id).exit_status, 0);
}

#[test]
fn each_refused_token_has_a_line_in_the_audit_log_with_its_holder_and_the_reason() {
    let cluster = cluster();
    let am = &cluster.am;
    let allocation = am.allocate();
    let mut token = am.secrets().container_token(&allocation);
    token.password = vec![0; token.password.len()].into();
    let refused = am.start_with(token, LaunchContext::command("true"));
    assert!(refused.is_err());
    let lines = audit_lines(&cluster);
    let [line] = &lines[..] else {
        panic!("{lines:?}");
    };
    let (attempt, node) = (am.attempt(), am.node());
    let (id, application) = (allocation.id, attempt.application_id);
    assert_eq!(
        *line,
        format!(
            "USER={attempt}\tIP=127.0.0.1\tOPERATION=Start Container Request\t\
             TARGET=ContainerManageImpl\tRESULT=FAILURE\tDESCRIPTION=Invalid container token used \
             for starting container on : {node}\tAPPID={application}\tCONTAINERID={id}"
        )
    );
    let unknown = RmSecrets::new().nm_token(attempt, node, "alice");
    assert!(ScriptedAm::open(&cluster.rm, node, &unknown).is_err());
    let line = wait::until("the line of a connection", DEADLINE, || {
        let lines = audit_lines(&cluster);
        lines.get(1).cloned().ok_or("it is not there")
    });
    let begin = "USER=UnknownUser\tIP=127.0.0.1\tOPERATION=NMToken Authentication\t\
                 TARGET=ContainerManageImpl\tRESULT=FAILURE\tDESCRIPTION=";
    assert!(line.starts_with(begin), "{line}");
    assert!(line.contains(&attempt.to_string()), "{line}");
}

#[test]
fn a_peer_that_tries_many_tokens_does_not_flood_the_audit_log() {
    let cluster = cluster();
    let (am, began) = (&cluster.am, Instant::now());
    for _ in 0..200 {
        let mut token = am.secrets().container_token(&am.allocate());
        token.password = vec![0; token.password.len()].into();
        let refused = am.start_with(token, LaunchContext::command("true"));
        assert!(refused.is_err());
    }
    // Ten in the first second, and ten more in each one that has begun since.
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap() + 2;
    let lines = audit_lines(&cluster).len();
    assert!(
        (10..=10 * seconds).contains(&lines),
        "{lines} in {seconds} s"
    );
    cluster.assert_serves();
}
