//! Claims about the numbers that a node sends back.

use node_view::snapshot::NodeHealth;
use records::EpochMillis;
use wire::proto::hadoop_yarn::{MasterKeyProto, SystemCredentialsForAppsProto};

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

fn acknowledged(session: &mut Session) -> i64 {
    let report = HeartbeatReport {
        containers: Vec::new(),
        increased: Vec::new(),
        opportunistic: Default::default(),
        log_reports: (Vec::new(), 0),
        health: NodeHealth {
            healthy: true,
            report: String::new(),
            updated_at: EpochMillis(0),
        },
    };
    let heartbeat = session.heartbeat(report, Sample::default(), (None, None));
    heartbeat.request.token_sequence_no()
}

#[test]
fn credentials_that_are_dropped_are_not_acknowledged() {
    let mut session = session();
    let _answer = session.answered(answer(1, 0));
    assert_eq!(acknowledged(&mut session), 1);
    for number in [2, 3] {
        let _answer = session.answered(answer(number, 1));
        assert_eq!(acknowledged(&mut session), 1);
    }
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
