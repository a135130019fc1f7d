//! Role histories as pages and documents.

use amrm_proxy::role_history::view::{
    AskView, HistorySource, PlacementView, RoleHistoryView, RoleNodeView, RoleView,
};
use records::{ApplicationAttemptId, EpochMillis, MonoMillis, Now};
use role_history::{AskReason, ContainerAllocationOutcome};

use super::*;

const NOW: Now = Now {
    mono: MonoMillis(600_000),
    wall: EpochMillis(1_700_000_600_000),
};

/// Attempt of `alice`'s service, which the histories list after the hostile one.
const ATTEMPT: ApplicationAttemptId = APP.attempt(1);

/// A minute before now.
const MINUTE_AGO: EpochMillis = EpochMillis(NOW.wall.0 - 60_000);

/// Two services, one of them with hostile names.
pub(super) fn histories() -> RoleHistories {
    let view = search();
    let hostile = RoleHistoryView {
        service: HOSTILE.to_owned(),
        user: HOSTILE.to_owned(),
        attempt: APP.attempt(2),
        roles: vec![RoleView {
            name: HOSTILE.to_owned(),
            nodes: vec![RoleNodeView {
                host: HOSTILE.into(),
                ..view.roles[0].nodes[0].clone()
            }],
            ..view.roles[0].clone()
        }],
        asks: vec![AskView {
            role: HOSTILE.to_owned(),
            host: Some(HOSTILE.into()),
            ..view.asks[0].clone()
        }],
        placements: vec![PlacementView {
            role: HOSTILE.to_owned(),
            host: HOSTILE.into(),
            ..view.placements[0].clone()
        }],
        ..view.clone()
    };
    RoleHistories::new(NOW, vec![Arc::new(view), Arc::new(hostile)])
}

fn search() -> RoleHistoryView {
    RoleHistoryView {
        service: "search".to_owned(),
        user: "alice".to_owned(),
        attempt: ATTEMPT,
        is_guaranteed: true,
        source: HistorySource::File {
            saved: EpochMillis(1_600_000_000_000),
            entries: 12,
        },
        saved_at: Some(MINUTE_AGO),
        nodes: 70,
        roles: vec![RoleView {
            name: "priority-5".to_owned(),
            requested: 2,
            actual: 3,
            placed: 4,
            placed_on_history: 3,
            escalated: 1,
            failed: 6,
            preempted: 7,
            nodes_excluded: 1,
            nodes: vec![RoleNodeView {
                host: "n7".into(),
                live: 1,
                last_used: Some(MINUTE_AGO),
                failed_recently: 4,
                is_excluded: true,
            }],
            nodes_total: 61,
        }],
        roles_total: 2,
        asks: vec![
            AskView {
                role: "priority-5".to_owned(),
                host: Some("n8".into()),
                asked_at: MonoMillis(NOW.mono.0 - 12_000),
                escalates_at: Some(MonoMillis(NOW.mono.0 + 18_000)),
                reason: AskReason::History {
                    last_used: MINUTE_AGO,
                },
            },
            AskView {
                role: "priority-5".to_owned(),
                host: None,
                asked_at: MonoMillis(NOW.mono.0 - 45_000),
                escalates_at: None,
                reason: AskReason::Escalated,
            },
        ],
        asks_total: 5,
        placements: vec![PlacementView {
            at: MINUTE_AGO,
            container: container_id(1),
            role: "priority-5".to_owned(),
            host: "n7".into(),
            last_used: Some(EpochMillis(MINUTE_AGO.0 - 180_000)),
            outcome: ContainerAllocationOutcome::Placed,
        }],
    }
}

#[tokio::test]
async fn the_services_of_a_node_are_listed() {
    let lab = Lab::start(node()).await;
    let listed = lab.get("/ws/v1/node/agent/roleHistories").await.json();
    let listed = &listed["roleHistories"]["roleHistory"];
    let users = [listed[0]["user"].clone(), listed[1]["user"].clone()];
    assert_eq!(users, [HOSTILE, "alice"]);
    let expected = json!({
        "service": "search",
        "user": "alice",
        "attempt": ATTEMPT.to_string(),
        "guaranteed": true,
        "source": "FILE",
        "savedTime": MINUTE_AGO.0,
        "nodes": 70,
        "roles": 2,
        "asks": 5,
        "placed": 4,
        "placedOnHistory": 3,
        "escalated": 1,
        "nodesExcluded": 1,
    });
    assert_eq!(listed[1], expected);
    let page = lab.get("/node/roleHistories").await.text();
    assert!(
        page.contains(&format!(
            "<a href=\"/node/roleHistories/{ATTEMPT}\">search</a>"
        )),
        "{page}"
    );
    assert!(page.contains("<td class=\"n\">3 of 4</td>"), "{page}");
}

#[tokio::test]
async fn a_service_has_roles_asks_and_placements_with_reasons() {
    let lab = Lab::start(node()).await;
    let path = format!("/ws/v1/node/agent/roleHistories/{ATTEMPT}");
    let service = lab.get(&path).await.json();
    let service = &service["roleHistory"];
    assert_eq!(
        (&service["service"], &service["roles"]),
        (&json!("search"), &json!(2))
    );
    assert_eq!(
        service["role"],
        json!([{
            "name": "priority-5",
            "requested": 2,
            "actual": 3,
            "placed": 4,
            "placedOnHistory": 3,
            "escalated": 1,
            "failed": 6,
            "preempted": 7,
            "nodesExcluded": 1,
            "nodes": 61,
            "node": [{
                "host": "n7",
                "live": 1,
                "lastUsedTime": MINUTE_AGO.0,
                "failedRecently": 4,
                "excluded": true,
            }],
        }])
    );
    assert_eq!(
        service["ask"],
        json!([
            {
                "role": "priority-5",
                "host": "n8",
                "waitingMs": 12_000,
                "escalatesInMs": 18_000,
                "why": "ran here 1 min 00 s ago",
            },
            {
                "role": "priority-5",
                "waitingMs": 45_000,
                "why": "the node that ran the role did not answer in time",
            },
        ])
    );
    assert_eq!(
        service["placement"],
        json!([{
            "time": MINUTE_AGO.0,
            "container": ID,
            "role": "priority-5",
            "host": "n7",
            "outcome": "PLACED",
            "why": "ran here 3 min before",
        }])
    );
}

#[tokio::test]
async fn the_page_of_a_service_says_the_same() {
    let lab = Lab::start(node()).await;
    let page = lab.get(&format!("/node/roleHistories/{ATTEMPT}")).await;
    assert_eq!(page.status, 200);
    let page = page.text();
    for text in [
        "Role history of search",
        "<td>n7: ran here 3 min before</td>",
        "<td>ran here 1 min 00 s ago</td>",
        "<td class=\"n\">18 s</td>",
        "and 3 more asks",
        "and 60 more nodes",
        "and 1 more roles",
        "left out: 4 failed recently",
        "12 entries of a file",
    ] {
        assert!(page.contains(text), "{text} in {page}");
    }
}

#[tokio::test]
async fn names_that_tenants_choose_are_escaped() {
    let lab = Lab::start(node()).await;
    let attempt = APP.attempt(2);
    for path in [
        "/node/roleHistories".to_owned(),
        format!("/node/roleHistories/{attempt}"),
    ] {
        let reply = lab.get(&path).await;
        assert_eq!(reply.status, 200, "{path}");
        let text = reply.text();
        assert!(!text.contains("<script"), "{path}: {text}");
        assert!(text.contains("&lt;script"), "{path}: {text}");
    }
}

#[tokio::test]
async fn a_document_is_xml_for_a_client_that_wants_it() {
    let lab = Lab::start(node()).await;
    let request = format!(
        "GET /ws/v1/node/agent/roleHistories/{ATTEMPT} HTTP/1.1\r\nHost: localhost\r\n\
         Accept: application/xml\r\nConnection: close\r\n\r\n"
    );
    let text = lab.send(&request).await.text();
    for element in [
        "<roleHistory><ask>",
        "<service>search</service>",
        "<node><excluded>true</excluded>",
    ] {
        assert!(text.contains(element), "{element} in {text}");
    }
}

#[tokio::test]
async fn an_attempt_without_a_history_is_not_found() {
    let lab = Lab::start(node()).await;
    for path in ["x", "appattempt_1_0001_000001", "a/b"] {
        let rest = lab
            .get(&format!("/ws/v1/node/agent/roleHistories/{path}"))
            .await;
        assert_eq!(rest.status, 404, "{path}");
        assert_eq!(
            rest.json()["RemoteException"]["exception"],
            "NotFoundException"
        );
        let page = lab.get(&format!("/node/roleHistories/{path}")).await;
        assert_eq!(page.status, 404, "{path}");
    }
}
