//! Lists that are searched and cut, and what the page of a container tells.

use std::time::Instant;

use node_view::usage::{ContainerUse, Uses};
use records::{ExecutionType, Resource};

use super::*;

/// Bytes of HTML that a page may have, whatever the node holds.
const PAGE_BYTES_MAX: usize = 64 * 1024;

/// A node with so many containers of an application, all measured; the last uses most, and every
/// tenth is opportunistic.
fn crowded(count: i64) -> NodeSnapshot {
    let mut node = busy_node();
    node.containers = (1..=count).map(container).collect();
    for each in node.containers.iter_mut().step_by(10) {
        each.execution_type = ExecutionType::Opportunistic;
        // As long as a system takes.
        each.user = "u".repeat(4_000);
    }
    node.applications[0].containers = (1..=count).map(container_id).collect();
    let uses = (1..=count).map(|id| {
        let used = ContainerUse {
            asked: Resource::new(1024, 2),
            memory_bytes: u64::try_from(id).unwrap() << 20,
            ..ContainerUse::default()
        };
        (container_id(id), used)
    });
    node.uses = Uses::new(EpochMillis(1_700_000_009_000), 2_000, uses);
    node
}

#[tokio::test]
async fn ten_thousand_containers_keep_every_page_short_and_quick() {
    let lab = Lab::start(crowded(10_000)).await;
    for path in [
        "/node".to_owned(),
        "/node/allContainers".to_owned(),
        "/node/allContainers?page=167&sort=memory".to_owned(),
        "/node/allContainers?q=nobody&type=OPPORTUNISTIC".to_owned(),
        "/node/allApplications".to_owned(),
        format!("/node/application/{APP}"),
        format!("/node/container/{ID}"),
    ] {
        let begin = Instant::now();
        let reply = lab.get(&path).await;
        println!(
            "{path}: {} bytes in {:?}",
            reply.body.len(),
            begin.elapsed()
        );
        assert_eq!(reply.status, 200, "{path}");
        assert!(
            reply.body.len() < PAGE_BYTES_MAX,
            "{path}: {}",
            reply.body.len()
        );
    }
    let usage = lab.get("/ws/v1/node/agent/usage").await;
    assert_eq!(
        usage.json()["usage"]["container"].as_array().unwrap().len(),
        100
    );
    assert!(usage.body.len() < PAGE_BYTES_MAX, "{}", usage.body.len());
}

/// Returns the numbers of the containers in a list, in its order.
fn numbers(page: &str) -> Vec<u64> {
    let links = page
        .split("<td class=\"id\"><a href=\"/node/container/")
        .skip(1);
    let ids = links.filter_map(|rest| rest.split('"').next()?.rsplit('_').next());
    ids.map(|number| number.parse().unwrap()).collect()
}

#[tokio::test]
async fn a_list_is_searched_filtered_ordered_and_read_page_by_page() {
    let lab = Lab::start(crowded(200)).await;
    let get = async |query: &str| {
        lab.get(&format!("/node/allContainers?{query}"))
            .await
            .text()
    };
    assert_eq!(numbers(&get("").await), (1..=60).collect::<Vec<_>>());
    let last = get("page=4").await;
    assert_eq!(numbers(&last), (181..=200).collect::<Vec<_>>());
    assert!(
        last.contains("181 to 200 of 200") && !last.contains("rel=\"next\""),
        "{last}"
    );
    assert_eq!(get("page=99").await, last);
    assert_eq!(get("page=-1&page=x").await, get("page=1").await);
    assert_eq!(numbers(&get("sort=memory").await)[..2], [200, 199]);
    assert_eq!(numbers(&get("q=_000007").await), [7]);
    let opportunistic = get("type=OPPORTUNISTIC&state=RUNNING&q=uuu").await;
    assert_eq!(numbers(&opportunistic).len(), 20);
    assert!(get("state=DONE").await.contains("No such container."));
    let hostile = get("q=%22%3E%3Cscript%3E&state=%3Cb%3E").await;
    assert!(
        !hostile.contains("<script") && !hostile.contains("<b>"),
        "{hostile}"
    );
    let links = get("type=GUARANTEED&q=000&page=2").await;
    assert!(
        links.contains("?page=1&amp;q=000&amp;type=GUARANTEED\""),
        "{links}"
    );
}

#[tokio::test]
async fn applications_are_searched_and_show_what_they_use() {
    let lab = Lab::start(crowded(3)).await;
    let page = lab
        .get("/node/allApplications?q=alice&state=RUNNING")
        .await
        .text();
    assert!(page.contains(">6 MiB, 0.00 CPUs<"), "{page}");
    let none = lab.get("/node/allApplications?q=bob").await.text();
    assert!(none.contains("No such application."), "{none}");
}

#[tokio::test]
async fn the_page_of_a_container_tells_what_it_used_why_it_waited_and_what_it_printed() {
    let mut node = crowded(1);
    node.containers[0].user = "alice".to_owned();
    let lab = Lab::start(node).await;
    fs::write(lab.logs.join("stderr"), b"cut\x1b[2J\n\xffred <b>\n").unwrap();
    fs::write(lab.logs.join("stdout"), "x".repeat(1 << 20)).unwrap();
    fs::write(lab.logs.join("launch_container.sh"), "secret").unwrap();
    let page = lab.get(&format!("/node/container/{ID}")).await.text();
    for text in [
        "<dt>Memory in use</dt><dd class=\"figure\">1 MiB</dd><dd>of 1,024 MiB asked, at most 0</dd>",
        "<td>running for 1 min 05 s</td>",
        "<td>Queued at place 2, short of 128 MiB</td>",
        "<td>Failed: its password &lt;b&gt;</td>",
        "cut␛[2J\n\u{fffd}red &lt;b&gt;\n</pre>",
        "stdout</a> 1,048,576 bytes",
        "data-follow=\"/node/container/container_1700000000000_0007_01_000001\"",
    ] {
        assert!(page.contains(text), "{text} is not in\n{page}");
    }
    assert!(
        !page.contains("secret") && !page.contains("launch_container"),
        "{page}"
    );
    assert!(page.len() < 16 * 1024, "{}", page.len());
}
