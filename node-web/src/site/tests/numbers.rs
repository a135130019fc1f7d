//! Metrics, Hadoop's metrics, and health.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::site::conf::ShownProperty;

#[tokio::test]
async fn metrics_are_exposed_with_gauges_of_the_moment() {
    let lab = Lab::start(busy_node()).await;
    let reply = lab.get("/metrics").await;
    assert_eq!(
        reply.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    assert!(reply.text().contains("\nnm_agent_registered 1\n"));
    assert!(reply.text().contains("\nnm_agent_containers_known 1\n"));
}

#[tokio::test]
async fn jmx_answers_like_hadoops_servlet() {
    let lab = Lab::start(busy_node()).await;
    let bean = "Hadoop:service=NodeManager,name=NodeManagerMetrics";
    for query in [
        "",
        "?qry=Hadoop:service=NodeManager,name=NodeManagerMetrics",
        "?qry=Hadoop:service=NodeManager,*",
        "?qry=Hadoop:*",
        "?qry=*:*",
        "?qry=",
        "?qry=*:service=NodeManager,name=NodeManagerMetrics",
    ] {
        let beans = lab.get(&format!("/jmx{query}")).await.json();
        assert_eq!(beans["beans"][0]["name"], bean, "{query}");
        assert_eq!(beans["beans"][0]["ContainersLaunched"], 1, "{query}");
    }
    let jvm = "/jmx?qry=Hadoop:service=NodeManager,name=JvmMetrics";
    let jvm = lab.get(jvm).await.json();
    assert_eq!(
        jvm["beans"][0]["tag.Hostname"],
        busy_node().about.node_id.host
    );
    assert!(jvm["beans"][0]["MemNonHeapUsedM"].as_f64().unwrap() > 1.0);
    let rpc = lab
        .get("/jmx?qry=Hadoop:service=NodeManager,name=RpcActivity*")
        .await
        .json();
    assert_eq!(rpc["beans"][0]["RpcProcessingTimeNumOps"], 0);
    let heap = lab.get("/jmx?qry=java.lang:type=Memory").await.json();
    assert_eq!(heap, json!({"beans": []}));
    let process = lab.get("/jmx?qry=java.lang:*").await.json();
    assert_eq!(process["beans"].as_array().unwrap().len(), 3);
    let name = "get=java.lang:type=Runtime::VmName";
    assert_eq!(
        lab.get(&format!("/jmx?{name}")).await.json()["beans"][0]["VmName"],
        "nm-agent"
    );
    let one = lab
        .get(&format!("/jmx?get={bean}::ContainersRunning"))
        .await
        .json();
    assert_eq!(
        one,
        json!({"beans": [{"name": bean, "modelerType": "NodeManagerMetrics", "ContainersRunning": 1}]})
    );
    let reply = lab.get(&format!("/jmx?get={bean}::Nothing")).await;
    let missing = json!({"beans": [{
        "name": bean,
        "modelerType": "NodeManagerMetrics",
        "result": "ERROR",
        "message": "No attribute with name Nothing was found.",
    }]});
    assert_eq!((reply.status, reply.json()), (404, missing));
    let reply = lab.get("/jmx?get=Hadoop:name=Nothing::Nothing").await;
    assert_eq!((reply.status, reply.json()), (200, json!({"beans": []})));
    assert_eq!(lab.get("/jmx?get=nothing").await.status, 400);
}

/// Node whose snapshot is never taken again, while a container more waits at each look.
struct Filling {
    snapshot: Arc<NodeSnapshot>,
    waiting: AtomicU32,
}

impl NodeSource for Filling {
    async fn snapshot(&self) -> Option<Arc<NodeSnapshot>> {
        Some(Arc::clone(&self.snapshot))
    }

    async fn numbers(&self) -> Option<NodeNumbers> {
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut numbers = self.snapshot.numbers.clone();
        numbers.opportunistic.queued_opport_containers = waiting;
        numbers.opportunistic.running_opport_containers = waiting * 10;
        Some(numbers)
    }

    async fn overview(&self) -> Option<Overview> {
        None
    }

    async fn role_histories(&self) -> Option<RoleHistories> {
        None
    }

    fn changes(&self) -> Changes {
        Changes::new(watch::Sender::new(0).subscribe(), None)
    }
}

#[tokio::test]
async fn jmx_tells_the_opportunistic_containers_of_the_moment() {
    let source = Filling {
        snapshot: Arc::new(node()),
        waiting: AtomicU32::new(1),
    };
    let root = tempfile::tempdir().unwrap();
    let logs = root.path().to_owned();
    let lab = Lab::serve(source, WebOptions::default(), logs, root).await;
    for looks in 1..4 {
        let query = "qry=Hadoop:service=NodeManager,name=NodeManagerMetrics";
        let beans = lab.get(&format!("/jmx?{query}")).await.json();
        let bean = &beans["beans"][0];
        assert_eq!(bean["ContainersOpportunisticQueued"], looks);
        assert_eq!(bean["RunningOpportunisticContainers"], looks * 10);
    }
}

#[tokio::test]
async fn the_configuration_is_shown_in_both_forms() {
    let property = |name: &str, value: Option<&str>, is_final| ShownProperty {
        name: name.to_owned(),
        value: value.map(str::to_owned),
        is_final,
        source: "yarn-site.xml".to_owned(),
    };
    let options = WebOptions {
        properties: Arc::new([
            property("a", Some("<1>"), true),
            property("b.secret", None, false),
        ]),
        ..WebOptions::default()
    };
    let lab = Lab::start_with(busy_node(), options).await;
    let all = lab.get("/conf").await;
    assert_eq!(all.header("content-type"), Some("text/xml; charset=utf-8"));
    let first = "<property><name>a</name><value>&lt;1&gt;</value><final>true</final>\
                 <source>yarn-site.xml</source></property>\n<property><name>b.secret</name>\
                 <value>******</value>";
    assert!(all.text().contains(first), "{}", all.text());
    let one = lab.get("/conf?name=a").await.text();
    assert!(
        one.contains("<name>a</name>") && !one.contains("b.secret"),
        "{one}"
    );
    let json = async |path| {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nConnection: close\r\n\r\n"
        );
        lab.send(&request).await.json()
    };
    let a = json!({"key": "a", "value": "<1>", "isFinal": true, "resource": "yarn-site.xml"});
    assert_eq!(json("/conf?name=a").await, json!({"property": a}));
    let all = json("/conf").await;
    assert_eq!(all["properties"][0], a);
    assert_eq!(all["properties"][1]["value"], "<redacted>");
    assert_eq!(lab.get("/conf?name=c").await.status, 404);
}

#[tokio::test]
async fn the_process_shows_its_threads_and_says_where_its_log_is() {
    let lab = Lab::start(busy_node()).await;
    let dump = lab.get("/stacks").await.text();
    assert!(dump.contains(" active threads\nThread "), "{dump}");
    for path in [
        "/logs",
        "/logs/",
        "/logs/nm.log",
        "/logLevel?log=x&level=DEBUG",
    ] {
        let reply = lab.get(path).await;
        assert_eq!(reply.status, 404, "{path}");
        assert!(reply.text().contains("NM_AGENT_LOG"), "{path}");
    }
}

#[tokio::test]
async fn prom_has_hadoops_names_and_labels() {
    let lab = Lab::start(busy_node()).await;
    let text = lab.get("/prom").await.text();
    let line = "\nnode_manager_metrics_allocated_v_cores{context=\"yarn\",hostname=\"node-1.example\"} 2\n";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("# TYPE node_manager_metrics_containers_killed counter\n"));
}

#[tokio::test]
async fn health_is_bad_while_unregistered_or_unhealthy() {
    let reply = Lab::start(busy_node()).await.get("/health").await;
    assert_eq!((reply.status, reply.text().as_str()), (200, "ok\n"));
    let mut node = busy_node();
    node.rm = RmContact::Registering;
    assert_eq!(Lab::start(node).await.get("/health").await.status, 503);
    let mut node = busy_node();
    Arc::make_mut(&mut node.about).health.healthy = false;
    Arc::make_mut(&mut node.about).health.report = "1/1 local-dirs are bad".to_owned();
    let reply = Lab::start(node).await.get("/health").await;
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (503, "unhealthy: 1/1 local-dirs are bad\n")
    );
}
