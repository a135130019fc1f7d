//! Claims about the numbers that a node sends back.

use node_view::snapshot::NodeHealth;
use records::{ApplicationId, EpochMillis};
use wire::credentials::Credentials;
use wire::proto::hadoop_yarn::{MasterKeyProto, SystemCredentialsForAppsProto};
use wire::token::{Token, kind};

use super::*;

fn session() -> Session {
    let intervals = Intervals {
        usual: Duration::from_secs(1),
        max: Duration::from_secs(100),
    };
    let node = NodeDescription {
        node_id: test_support::ids::node("node1"),
        http_port: 8042,
        capability: Resource::new(1, 1),
        physical: Resource::new(1, 1),
        version: String::new(),
    };
    Session::new(node, intervals)
}

/// Returns the answer to a heartbeat with this number, and with credentials of so many
/// applications.
fn answer(number: i64, applications: usize) -> NodeHeartbeatResponseProto {
    NodeHeartbeatResponseProto {
        token_sequence_no: Some(number),
        system_credentials_for_apps: vec![SystemCredentialsForAppsProto::default(); applications],
        ..NodeHeartbeatResponseProto::default()
    }
}

fn report() -> HeartbeatReport {
    HeartbeatReport {
        containers: Vec::new(),
        increased: Vec::new(),
        opportunistic: Default::default(),
        log_reports: (Vec::new(), 0),
        health: NodeHealth {
            healthy: true,
            report: String::new(),
            updated_at: EpochMillis(0),
        },
        keep_alive: Vec::new(),
    }
}

fn acknowledged(session: &mut Session) -> i64 {
    let heartbeat = session.heartbeat(report(), Sample::default(), (None, None));
    heartbeat.request.token_sequence_no()
}

#[test]
fn a_heartbeat_names_the_applications_whose_tokens_are_needed() {
    let id = ApplicationId {
        cluster_timestamp: 1,
        id: 7,
    };
    let report = HeartbeatReport {
        keep_alive: vec![id],
        ..report()
    };
    let heartbeat = session().heartbeat(report, Sample::default(), (None, None));
    let status = heartbeat.request.node_status.unwrap();
    assert_eq!(status.keep_alive_applications, [id.into()]);
}

#[test]
fn credentials_are_acknowledged_once_they_are_stored() {
    let mut session = session();
    let _answer = session.answered(answer(1, 0));
    assert_eq!(acknowledged(&mut session), 1);
    for number in [2, 3] {
        let _answer = session.answered(answer(number, 1));
        assert!(session.has_credentials_to_store());
        assert_eq!(acknowledged(&mut session), 1);
    }
    session.credentials_stored();
    assert_eq!(acknowledged(&mut session), 3);
    session.credentials_stored();
    assert_eq!(acknowledged(&mut session), 3);
    // The applications have ended.
    let _answer = session.answered(answer(4, 0));
    assert_eq!(acknowledged(&mut session), 4);
}

#[test]
fn a_new_resource_manager_counts_anew() {
    let mut session = session();
    let _answer = session.answered(answer(7, 0));
    let key = Some(MasterKeyProto {
        key_id: Some(1),
        bytes: Some("12345678".into()),
    });
    let mut registration = RegisterNodeManagerResponseProto {
        rm_identifier: Some(2),
        container_token_master_key: key.clone(),
        nm_token_master_key: key,
        ..RegisterNodeManagerResponseProto::default()
    };
    assert!(session.registered(&mut registration).is_ok());
    assert_eq!(acknowledged(&mut session), 0);
}

#[test]
fn credentials_within_the_limits_are_read_and_others_are_left_out() {
    let entry = |id: i32, bytes: Vec<u8>| SystemCredentialsForAppsProto {
        app_id: Some(ApplicationId::new(1, id).into()),
        credentials_for_app: Some(bytes.into()),
    };
    let credentials = |bytes: usize| {
        let token = |service: &str, kind: &str| Token {
            identifier: vec![1].into(),
            password: vec![0; bytes].into(),
            kind: kind.to_owned(),
            service: service.to_owned(),
        };
        let mut credentials = Credentials::default();
        let of_files = token("nn:8020", kind::HDFS_DELEGATION_TOKEN);
        credentials.tokens.insert("a".to_owned(), of_files);
        credentials
            .tokens
            .insert("b".to_owned(), token("rm:8032", "OTHER"));
        credentials.write_v0()
    };
    let mut entries = vec![
        entry(1, credentials(10)),
        entry(2, b"HDTS\0\x01\x01a\x88\xff".to_vec()),
        entry(3, credentials(600_000)),
        SystemCredentialsForAppsProto::default(),
    ];
    // The second half of these is beyond the limit on all.
    entries.extend((4..24).map(|id| entry(id, credentials(400_000))));
    let response = NodeHeartbeatResponseProto {
        system_credentials_for_apps: entries,
        ..NodeHeartbeatResponseProto::default()
    };
    let answer = session().answered(response);
    let Answer::GoOn {
        orders,
        refused_credentials,
        ..
    } = answer
    else {
        panic!("not an order to go on");
    };
    assert_eq!(refused_credentials, 13);
    let read: Vec<i32> = orders.tokens.iter().map(|(id, _)| id.id).collect();
    let expected: Vec<i32> = [1].into_iter().chain(4..14).collect();
    assert_eq!(read, expected);
    let services = orders.tokens.iter().flat_map(|(_, tokens)| tokens);
    assert!(
        services
            .map(|token| &*token.service)
            .all(|service| service == "nn:8020")
    );
}
