//! Container logs: their lists, parts, bounds, and the way to the log server.

use std::os::unix::fs::symlink;

use node_view::snapshot::{AggregatedFile, AggregatedLogs};

use super::*;

#[tokio::test]
async fn the_list_of_logs_has_sizes_as_texts_and_javas_dates() {
    let lab = Lab::start(busy_node()).await;
    fs::write(lab.logs.join("stdout"), "hello").unwrap();
    let reply = lab
        .get(&format!("/ws/v1/node/containers/{ID}/logs"))
        .await
        .json();
    let info = &reply["containerLogsInfo"];
    assert_eq!(info["logAggregationType"], "LOCAL");
    assert_eq!(info["containerId"], ID);
    assert_eq!(info["nodeId"], "node-1.example:8041");
    // One file is no list, as in Hadoop.
    let file = &info["containerLogInfo"];
    assert_eq!(
        (&file["fileName"], &file["fileSize"]),
        (&json!("stdout"), &json!("5"))
    );
    assert_eq!(
        file["lastModifiedTime"].as_str().unwrap().len(),
        "Tue Nov 14 22:13:20 +0000 2023".len()
    );
}

#[tokio::test]
async fn uploaded_logs_of_a_running_container_are_listed_beside_those_on_the_node() {
    let upload = |second: i64, names: &[&str]| {
        let files = names.iter().map(|name| AggregatedFile {
            container: container_id(1).name(),
            name: (*name).to_owned(),
            length: 7,
        });
        // Another container's file is in the same remote file.
        let other = AggregatedFile {
            container: container_id(2).name(),
            name: "other".to_owned(),
            length: 1,
        };
        Arc::new(AggregatedLogs {
            name: format!("node-1.example_8041_{second}000"),
            uploaded_at: EpochMillis(second * 1000),
            files: files.chain([other]).collect(),
        })
    };
    let mut node = busy_node();
    node.applications[0].aggregated = vec![
        upload(1_700_000_000, &["app.1", "app.2"]),
        upload(1_700_000_060, &[]),
        upload(1_700_000_120, &["app.3"]),
    ];
    let lab = Lab::start(node).await;
    fs::write(lab.logs.join("stdout"), "hello").unwrap();
    let path = format!("/ws/v1/node/containers/{ID}/logs");
    let reply = lab.get(&path).await.json();
    let all = reply["containerLogsInfo"].as_array().unwrap();
    assert_eq!(all.len(), 3, "{reply}");
    assert_eq!(all[0]["logAggregationType"], "LOCAL");
    assert_eq!(all[0]["containerLogInfo"]["fileName"], "stdout");
    let aggregated = json!({
        "containerLogInfo": [
            {"fileName": "app.1", "fileSize": "7", "lastModifiedTime": "Tue Nov 14 22:13:20 +0000 2023"},
            {"fileName": "app.2", "fileSize": "7", "lastModifiedTime": "Tue Nov 14 22:13:20 +0000 2023"},
        ],
        "logAggregationType": "AGGREGATED",
        "containerId": ID,
        "nodeId": "node-1.example_8041_1700000000000",
    });
    assert_eq!(all[1], aggregated);
    assert_eq!(all[2]["containerLogInfo"]["fileName"], "app.3");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: application/xml\r\n\r\n"
    );
    let text = lab.send(&request).await.text();
    assert_eq!(text.matches("<containerLogsInfo>").count(), 3, "{text}");
    assert_eq!(text.matches("<containerLogsInfoes>").count(), 1, "{text}");
}

#[tokio::test]
async fn a_log_file_is_framed_as_the_yarn_command_prints_it() {
    let lab = Lab::start(busy_node()).await;
    let path = lab.logs.join("stdout");
    fs::write(&path, "one\ntwo\n").unwrap();
    let time = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(time)
        .unwrap();
    let opening = format!("Container: {ID} on node-1.example:8041");
    let expected = format!(
        "{opening}\nLogAggregationType: LOCAL\n{}\nLogType:stdout\nLogLastModifiedTime:Tue Nov 14 22:13:20 +0000 2023\n\
         LogLength:8\nLogContents:\ntwo\nEnd of LogType:stdout.This log file belongs to a running container ({ID}) and so \
         may not be complete.\n{}\n\n",
        "=".repeat(opening.len()),
        "*".repeat("End of LogType:stdout".len() + 50),
    );
    for path in [
        format!("containers/{ID}/logs/stdout"),
        format!("containerlogs/{ID}/stdout"),
    ] {
        let reply = lab.get(&format!("/ws/v1/node/{path}?size=-4")).await;
        assert_eq!(
            (reply.status, reply.text()),
            (200, expected.clone()),
            "{path}"
        );
        assert_eq!(
            reply.header("content-type"),
            Some("text/plain; charset=utf-8")
        );
    }
    let reply = lab
        .get(&format!(
            "/ws/v1/node/containerlogs/{ID}/stdout?format=octet-stream&size=3"
        ))
        .await;
    assert_eq!(
        reply.header("content-type"),
        Some("application/octet-stream; charset=utf-8")
    );
    assert!(
        reply
            .text()
            .contains("LogContents:\noneEnd of LogType:stdout.")
    );
    fs::write(lab.logs.join("empty"), "").unwrap();
    let reply = lab
        .get(&format!("/ws/v1/node/containers/{ID}/logs/empty"))
        .await;
    assert!(
        reply
            .text()
            .contains("LogLength:0\nLogContents:\nEnd of LogType:empty.")
    );
}

#[tokio::test]
async fn bad_parameters_of_a_log_file_are_refused() {
    let lab = Lab::start(busy_node()).await;
    fs::write(lab.logs.join("stdout"), "x").unwrap();
    let log = format!("/ws/v1/node/containers/{ID}/logs/stdout");
    let reply = lab.get(&format!("{log}?format=html")).await;
    assert_eq!(reply.status, 400);
    let reply = lab.get(&format!("{log}?size=1e9")).await;
    assert_eq!(
        (reply.status, &reply.json()["RemoteException"]["exception"]),
        (400, &json!("NumberFormatException"))
    );
    let reply = lab.get("/ws/v1/node/containers/x/logs/stdout").await;
    assert_eq!(reply.status, 400);
    let reply = lab
        .get(&format!("/ws/v1/node/containers/{ID}/logs/stderr"))
        .await;
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (
            404,
            "java.lang.Exception: Cannot find this log on the local disk."
        )
    );
}

#[tokio::test]
async fn logs_of_a_container_without_a_process_are_not_shown() {
    let mut node = busy_node();
    node.containers[0].state = ContainerState::Queued {
        place: sched::QueuePlace::fifo(1),
    };
    let lab = Lab::start(node).await;
    fs::write(lab.logs.join("stdout"), "x").unwrap();
    let reply = lab
        .get(&format!("/ws/v1/node/containers/{ID}/logs/stdout"))
        .await;
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (
            404,
            "java.lang.Exception: Container is not yet running. Current state is SCHEDULED"
        )
    );
    let files = &lab.get("/ws/v1/node/containers").await.json()["containers"]["container"][0];
    assert_eq!(files.get("containerLogFiles"), None);
}

#[tokio::test]
async fn logs_outlive_their_container_as_long_as_the_application_is_known() {
    let mut node = busy_node();
    node.containers.clear();
    let lab = Lab::start(node).await;
    fs::write(lab.logs.join("stdout"), "x").unwrap();
    let reply = lab
        .get(&format!("/ws/v1/node/containers/{ID}/logs/stdout"))
        .await;
    assert_eq!(reply.status, 200);
    assert!(!reply.text().contains("running container"));
}

#[tokio::test]
async fn no_path_leads_out_of_a_log_directory() {
    let lab = Lab::start(busy_node()).await;
    fs::write(lab.logs.parent().unwrap().join("secret"), "not for you").unwrap();
    symlink("../secret", lab.logs.join("link")).unwrap();
    for name in [
        "..%2fsecret",
        "..%2Fsecret",
        "%2e%2e%2fsecret",
        "..%252fsecret",
        "../secret",
        "%2e%2e/secret",
        "x%00/../secret",
        "secret%00",
        "..",
        "%2e%2e",
        "link",
    ] {
        for base in [
            format!("/ws/v1/node/containers/{ID}/logs"),
            format!("/ws/v1/node/containerlogs/{ID}"),
            format!("/node/containerlogs/{ID}/alice"),
        ] {
            let reply = lab.get(&format!("{base}/{name}")).await;
            assert!(
                matches!(reply.status, 400 | 404),
                "{base}/{name}: {}",
                reply.status
            );
            assert!(!reply.text().contains("not for you"), "{base}/{name}");
        }
    }
}

#[tokio::test]
async fn a_log_page_shows_the_end_unless_asked_otherwise() {
    let lab = Lab::start(busy_node()).await;
    fs::write(
        lab.logs.join("stdout"),
        format!("begin{}end", "-".repeat(5000)),
    )
    .unwrap();
    let page = format!("/node/containerlogs/{ID}/alice/stdout");
    let tail = lab.get(&format!("{page}/?start=-4096")).await;
    assert!(
        tail.text().contains("Showing 4096 bytes of 5008 total."),
        "{}",
        tail.text()
    );
    assert!(tail.text().contains("-end</pre>") && !tail.text().contains("begin"));
    assert_eq!(lab.get(&page).await.text(), tail.text());
    let all = lab.get(&format!("{page}?start=0")).await.text();
    assert!(
        all.contains("<pre>\nbegin-") && all.contains("-end</pre>") && !all.contains("Showing")
    );
    let middle = lab.get(&format!("{page}?start=2&end=-5000")).await.text();
    assert!(middle.contains("<pre>\ngin---</pre>"), "{middle}");
    for query in ["start=6000", "start=3&end=2"] {
        let reply = lab.get(&format!("{page}?{query}")).await;
        assert_eq!(reply.status, 200, "{query}");
        let text = reply.text();
        assert!(text.contains("Invalid start and end values"), "{text}");
    }
    for query in ["start=x", "end=99999999999999999999"] {
        assert_eq!(
            lab.get(&format!("{page}?{query}")).await.status,
            400,
            "{query}"
        );
    }
}

#[tokio::test]
async fn any_part_of_an_empty_log_is_an_empty_page() {
    let lab = Lab::start(busy_node()).await;
    fs::write(lab.logs.join("stdout"), "").unwrap();
    for query in ["start=0&end=4096", "start=10&end=20", "start=-4096&end=-1"] {
        let page = format!("/node/containerlogs/{ID}/alice/stdout?{query}");
        let reply = lab.get(&page).await;
        assert_eq!(reply.status, 200, "{query}");
        assert!(reply.text().contains("<pre>\n</pre>"), "{}", reply.text());
    }
}

#[tokio::test]
async fn a_huge_sparse_log_is_not_read_as_a_whole() {
    let lab = Lab::start(busy_node()).await;
    let file = fs::File::create(lab.logs.join("stdout")).unwrap();
    // A tebibyte: reading it all would take many minutes.
    file.set_len(1 << 40).unwrap();
    let page = format!("/node/containerlogs/{ID}/alice/stdout/?start=-10");
    let page = timeout(Duration::from_secs(60), lab.get(&page))
        .await
        .unwrap();
    let shown = format!("Showing 10 bytes of {} total.", 1_u64 << 40);
    assert!(page.text().contains(&shown), "{}", page.text());
    let rest = format!("/ws/v1/node/containerlogs/{ID}/stdout?size=-10");
    let rest = timeout(Duration::from_secs(60), lab.get(&rest))
        .await
        .unwrap();
    assert!(rest.text().contains("LogLength:1099511627776\n"));
    assert!(rest.body.len() < 1000, "{}", rest.body.len());
}

#[tokio::test]
async fn a_log_longer_than_a_chunk_arrives_whole_and_in_order() {
    let lab = Lab::start(busy_node()).await;
    let lines: String = (0..30_000).map(|n| format!("{n}\n")).collect();
    fs::write(lab.logs.join("stdout"), &lines).unwrap();
    let reply = lab
        .get(&format!("/ws/v1/node/containerlogs/{ID}/stdout"))
        .await
        .text();
    let (_, contents) = reply.split_once("LogContents:\n").unwrap();
    let (contents, _) = contents.split_once("End of LogType:").unwrap();
    assert_eq!(contents, lines);
}

#[tokio::test]
async fn an_unknown_application_leads_to_the_log_server() {
    let options = WebOptions {
        log_aggregation_enabled: true,
        log_server_url: Some("http://history:19888/jobhistory/logs".to_owned()),
        log_server_web_service_url: Some("http://history:8188/ws/v1".to_owned()),
        ..WebOptions::default()
    };
    let lab = Lab::start_with(node(), options).await;
    let page = lab
        .get(&format!(
            "/node/containerlogs/{ID}/alice/stdout?start=-4096"
        ))
        .await;
    assert_eq!(page.status, 307);
    assert_eq!(
        page.header("location").unwrap(),
        format!(
            "http://history:19888/jobhistory/logs/node-1.example:8041/{ID}/{ID}/alice/stdout?start=-4096"
        )
    );
    for path in ["logs", "logs/stdout"] {
        let rest = lab
            .get(&format!("/ws/v1/node/containers/{ID}/{path}"))
            .await;
        assert_eq!(rest.status, 307);
        assert_eq!(
            rest.header("location").unwrap(),
            format!("http://history:8188/ws/v1/containers/{ID}/{path}?redirected_from_node=true")
        );
    }
}

#[tokio::test]
async fn without_a_log_server_an_unknown_application_is_not_found() {
    let options = WebOptions {
        log_aggregation_enabled: true,
        ..WebOptions::default()
    };
    let lab = Lab::start_with(node(), options).await;
    let page = lab.get(&format!("/node/containerlogs/{ID}/alice")).await;
    assert_eq!(page.status, 404);
    assert!(page.text().contains("Log Server url may not be configured"));
}
