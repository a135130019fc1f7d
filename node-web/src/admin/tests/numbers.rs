//! Metrics, Hadoop's metrics, and health.

use super::*;

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
    for query in ["?qry=java.lang:type=Memory", "?qry=java.lang:*"] {
        assert_eq!(
            lab.get(&format!("/jmx{query}")).await.json(),
            json!({"beans": []}),
            "{query}"
        );
    }
    let one = lab
        .get(&format!("/jmx?get={bean}::ContainersRunning"))
        .await
        .json();
    assert_eq!(
        one,
        json!({"beans": [{"name": bean, "modelerType": "NodeManagerMetrics", "ContainersRunning": 1}]})
    );
    assert_eq!(
        lab.get(&format!("/jmx?get={bean}::Nothing")).await.status,
        404
    );
    assert_eq!(lab.get("/jmx?get=nothing").await.status, 400);
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
