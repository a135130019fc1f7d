//! REST documents and their errors.

use super::*;

#[tokio::test]
async fn node_info_has_hadoops_fields_and_types() {
    let lab = Lab::start(busy_node()).await;
    let expected = json!({"nodeInfo": {
        "healthReport": "",
        "totalVmemAllocatedContainersMB": 17203,
        "totalPmemAllocatedContainersMB": 8192,
        "totalVCoresAllocatedContainers": 8,
        "vmemCheckEnabled": false,
        "pmemCheckEnabled": true,
        "lastNodeUpdateTime": 1_700_000_009_000_i64,
        "resourceTypes": "memory-mb (unit=Mi), vcores",
        "nodeHealthy": true,
        "nodeManagerVersion": "3.4.2",
        "nodeManagerBuildVersion": "3.4.2 from abc",
        "nodeManagerVersionBuiltOn": "2025-08-20T10:30Z",
        "hadoopVersion": "3.4.2",
        "hadoopBuildVersion": "3.4.2 from abc",
        "hadoopVersionBuiltOn": "2025-08-20T10:30Z",
        "id": "node-1.example:8041",
        "nodeHostName": "node-1.example",
        "nmStartupTime": 1_700_000_000_123_i64,
    }});
    for path in ["/ws/v1/node", "/ws/v1/node/", "/ws/v1/node/info"] {
        let reply = lab.get(path).await;
        assert_eq!(
            (reply.status, reply.json()),
            (200, expected.clone()),
            "{path}"
        );
        assert_eq!(
            reply.header("content-type"),
            Some("application/json; charset=utf-8")
        );
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("x-frame-options"), Some("SAMEORIGIN"));
    }
}

#[tokio::test]
async fn applications_are_listed_and_filtered() {
    let lab = Lab::start(busy_node()).await;
    let app = json!({
        "id": "application_1700000000000_0007",
        "state": "RUNNING",
        "user": "alice",
        "containerids": [ID],
    });
    let all = json!({"apps": {"app": [app]}});
    let none = json!({"apps": {}});
    for (query, expected) in [
        ("", &all),
        ("?state=RUNNING&user=alice", &all),
        ("?state=", &all),
        ("?state=FINISHED", &none),
        ("?user=bob", &none),
    ] {
        let reply = lab.get(&format!("/ws/v1/node/apps{query}")).await;
        assert_eq!((reply.status, &reply.json()), (200, expected), "{query}");
    }
    let one = lab
        .get("/ws/v1/node/apps/application_1700000000000_0007")
        .await;
    assert_eq!(one.json(), json!({"app": app}));
}

#[tokio::test]
async fn containers_have_hadoops_fields_and_their_log_files() {
    let mut node = busy_node();
    node.containers[0].diagnostics = HOSTILE.to_owned();
    let lab = Lab::start(node).await;
    fs::write(lab.logs.join("stdout"), "x").unwrap();
    fs::write(lab.logs.join("stderr"), "x").unwrap();
    let container = json!({
        "id": ID,
        "state": "RUNNING",
        "exitCode": -1000,
        "diagnostics": HOSTILE,
        "user": "alice",
        "totalMemoryNeededMB": 1024,
        "totalVCoresNeeded": 2,
        "executionType": "GUARANTEED",
        "containerLogsLink": format!("http://node-1.example:8042/node/containerlogs/{ID}/alice"),
        "nodeId": "node-1.example:8041",
        "containerLogFiles": ["stderr", "stdout"],
    });
    let all = lab.get("/ws/v1/node/containers").await.json();
    assert_eq!(all, json!({"containers": {"container": [container]}}));
    let one = lab
        .get(&format!("/ws/v1/node/containers/{ID}"))
        .await
        .json();
    assert_eq!(one, json!({"container": container}));
}

#[tokio::test]
async fn a_node_without_containers_gives_an_empty_object() {
    let lab = Lab::start(node()).await;
    let reply = lab.get("/ws/v1/node/containers").await;
    assert_eq!(reply.json(), json!({"containers": {}}));
}

#[tokio::test]
async fn errors_are_remote_exceptions() {
    let lab = Lab::start(busy_node()).await;
    let package = "org.apache.hadoop.yarn.webapp";
    for (path, status, class, message) in [
        (
            "containers/container_1_2_3_4",
            404,
            format!("{package}.NotFoundException"),
            "java.lang.Exception: container with id, container_1_2_3_4, not found",
        ),
        (
            "containers/x",
            400,
            format!("{package}.BadRequestException"),
            "java.lang.Exception: invalid container id, x",
        ),
        (
            "containers/x/logs",
            400,
            format!("{package}.BadRequestException"),
            "java.lang.Exception: invalid container id, x",
        ),
        (
            "apps/application_1_0001",
            404,
            format!("{package}.NotFoundException"),
            "java.lang.Exception: app with id application_1_0001 not found",
        ),
        (
            "apps/application_x",
            400,
            format!("{package}.BadRequestException"),
            "java.lang.IllegalArgumentException: Invalid ApplicationId: application_x",
        ),
        (
            "apps?user=",
            400,
            format!("{package}.BadRequestException"),
            "java.lang.Exception: Error: You must specify a non-empty string for the user",
        ),
        (
            "apps?state=running",
            400,
            "java.lang.IllegalArgumentException".to_owned(),
            "No enum constant org.apache.hadoop.yarn.server.nodemanager.containermanager.application.ApplicationState.running",
        ),
        (
            "containers/container_1_2_3_4/logs",
            404,
            format!("{package}.NotFoundException"),
            "java.lang.Exception: Unknown container. Container either has not started or has already completed or doesn't belong to this node at all.",
        ),
        (
            "nothing",
            404,
            format!("{package}.NotFoundException"),
            "java.lang.Exception: HTTP 404 Not Found",
        ),
    ] {
        let reply = lab.get(&format!("/ws/v1/node/{path}")).await;
        let expected = json!({"RemoteException": {
            "exception": class.rsplit('.').next(),
            "message": message,
            "javaClassName": class,
        }});
        assert_eq!((reply.status, reply.json()), (status, expected), "{path}");
    }
}

#[tokio::test]
async fn xml_is_for_those_who_accept_nothing_else() {
    let lab = Lab::start(busy_node()).await;
    let request = |accept| {
        format!(
            "GET /ws/v1/node/apps HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: {accept}\r\n\r\n"
        )
    };
    let reply = lab.send(&request("application/xml")).await;
    assert_eq!(
        reply.header("content-type"),
        Some("application/xml; charset=utf-8")
    );
    assert!(
        reply.text().contains("<apps><app><containerids>"),
        "{}",
        reply.text()
    );
    let reply = lab
        .send(&request("text/html,application/xml;q=0.9,*/*"))
        .await;
    assert_eq!(
        reply.header("content-type"),
        Some("application/json; charset=utf-8")
    );
}
