//! Pages for people, and the live page with its files.

use std::collections::BTreeSet;

use records::ExecutionType;

use super::*;

/// The one script that the pages of a container and of a log have.
const FOLLOW: &str = "<script src=\"/static/follow.js\" defer></script>";

#[tokio::test]
async fn hostile_texts_are_escaped_on_every_page() {
    let mut node = busy_node();
    node.containers[0].diagnostics = HOSTILE.to_owned();
    node.containers[0].user = HOSTILE.to_owned();
    node.applications[0].user = HOSTILE.to_owned();
    Arc::make_mut(&mut node.about).health.report = HOSTILE.to_owned();
    let lab = Lab::start(node).await;
    fs::write(lab.logs.join("<b>&.log"), HOSTILE).unwrap();
    let app = APP.to_string();
    for path in [
        "/node".to_owned(),
        "/node/allApplications".to_owned(),
        "/node/allContainers".to_owned(),
        format!("/node/application/{app}"),
        format!("/node/container/{ID}"),
        format!("/node/containerlogs/{ID}/%3Cscript%3E%22"),
        format!("/node/containerlogs/{ID}/a/%3Cb%3E&.log"),
    ] {
        let reply = lab.get(&path).await;
        assert_eq!(reply.status, 200, "{path}");
        assert_eq!(
            reply.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        let text = reply.text().replace(FOLLOW, "");
        assert!(
            !text.contains("<script") && !text.contains("<b>"),
            "{path}: {text}"
        );
        assert!(reply.header("content-security-policy").is_some());
    }
    for path in [
        "/node/containerlogs/%3Cscript%3E/a",
        "/node/%3Cscript%3E",
        "/%3Cscript%3E",
    ] {
        let reply = lab.get(path).await;
        assert!(matches!(reply.status, 400 | 404), "{path}");
        assert!(!reply.text().contains("<script"), "{path}");
    }
}

/// Returns the paths of a page's links.
fn links(page: &str) -> Vec<String> {
    let links = page.split("href=\"").skip(1);
    let links = links.filter_map(|rest| rest.split('"').next());
    // The live page and the role histories of this lab name containers of another node.
    let foreign = |link: &str| link == "/" || link.starts_with("/node/roleHistories");
    let own = links.filter(|link| link.starts_with('/') && !foreign(link));
    own.map(|link| link.replace("&amp;", "&")).collect()
}

#[tokio::test]
async fn a_container_whose_id_a_node_counted_down_is_found_by_its_text() {
    let mut node = busy_node();
    let id = APP.attempt(1).container(-1);
    node.containers[0].id = id;
    node.applications[0].containers = vec![id];
    let lab = Lab::start(node).await;
    let logs = lab.logs.with_file_name(id.to_string());
    fs::create_dir(&logs).unwrap();
    fs::write(logs.join("stdout"), "of a node").unwrap();
    let rest = format!("/ws/v1/node/containers/{id}");
    for (path, text) in [
        (format!("/node/container/{id}"), "Link to logs"),
        (format!("/node/containerlogs/{id}/alice"), "stdout"),
        (
            format!("/node/containerlogs/{id}/alice/stdout"),
            "of a node",
        ),
        (rest.clone(), "RUNNING"),
        (format!("{rest}/logs"), "stdout"),
        (
            format!("{rest}/logs/stdout"),
            "belongs to a running container",
        ),
    ] {
        let reply = lab.get(&path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        assert!(reply.text().contains(text), "{path}: {}", reply.text());
    }
}

#[tokio::test]
async fn every_link_leads_to_a_page_and_every_page_is_linked() {
    let mut node = busy_node();
    node.containers[0].execution_type = ExecutionType::Opportunistic;
    let lab = Lab::start(node).await;
    fs::write(lab.logs.join("a b&c.log"), "x".repeat(5000)).unwrap();
    let (mut seen, mut left) = (BTreeSet::new(), vec!["/node".to_owned()]);
    let mut texts = String::new();
    while let Some(path) = left.pop() {
        if seen.insert(path.clone()) {
            let reply = lab.get(&path).await;
            assert_eq!(reply.status, 200, "{path}");
            if reply
                .header("content-type")
                .is_some_and(|it| it.starts_with("text/html"))
            {
                left.extend(links(&reply.text()));
                texts += &reply.text();
            }
        }
    }
    for path in [
        format!("/node/application/{APP}"),
        format!("/node/container/{ID}"),
        format!("/node/containerlogs/{ID}/alice"),
        format!("/node/containerlogs/{ID}/alice/a%20b%26c.log/?start=-4096"),
        format!("/node/containerlogs/{ID}/alice/a%20b%26c.log/?start=0"),
    ] {
        assert!(seen.contains(&path), "{path} in {seen:?}");
    }
    assert!(texts.contains("OPPORTUNISTIC") && texts.contains("RUNNING"));
}

#[tokio::test]
async fn the_live_page_brings_its_own_files_and_allows_nothing_else() {
    let lab = Lab::start(busy_node()).await;
    let page = lab.get("/").await;
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.contains("default-src 'none'") && !policy.contains("unsafe"),
        "{policy}"
    );
    let text = page.text();
    assert!(!text.contains("style=") && !text.contains("<style") && !text.contains("onclick"));
    let files: Vec<&str> = text
        .split("/static/")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert_eq!(files, ["icon.svg", "agent.css", "live.js"]);
    for (name, content_type) in [
        ("icon.svg", "image/svg+xml"),
        ("follow.js", "text/javascript; charset=utf-8"),
        ("agent.css", "text/css; charset=utf-8"),
        ("live.js", "text/javascript; charset=utf-8"),
    ] {
        let file = lab.get(&format!("/static/{name}")).await;
        assert_eq!(
            (file.status, file.header("content-type")),
            (200, Some(content_type))
        );
    }
    for path in [
        "/static/",
        "/static/live.html",
        "/static/x/agent.css",
        "/static",
    ] {
        assert_eq!(lab.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn the_live_picture_is_served_as_json_and_as_events_until_the_server_ends() {
    let lab = Lab::start(busy_node()).await;
    let document = lab.get("/live.json").await.json();
    assert_eq!(document["node"]["id"], "node-1.example:8041");
    let mut stream = lab.connect().await;
    stream
        .write_all(b"GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    // The answer has begun.
    stream.read_exact(&mut [0; 15]).await.unwrap();
    lab.shutdown.cancel();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    timeout(Duration::from_secs(10), lab.served)
        .await
        .unwrap()
        .unwrap();
    let rest = String::from_utf8(rest).unwrap();
    assert!(rest.contains("content-type: text/event-stream"), "{rest}");
    assert!(rest.contains("\ndata: {\"at_epoch_ms\""), "{rest}");
}
