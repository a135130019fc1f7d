//! Looks at scripted web ports.

use std::sync::Arc;

use records::{EpochMillis, MonoMillis, Now};
use sched::{NodeList, RemoteNode, Sight};
use test_support::HeldPort;
use test_support::ids::node as node_id;
use test_support::scripted::{ScriptedWebPort, WebAnswer};
use tokio::sync::watch;

use super::*;
use crate::store::NoStore;

/// Answer of a node on this host with one place free.
fn one_free(host: &str) -> String {
    format!(
        "{{\"beans\": [{{\"name\": \"Hadoop:service=NodeManager,name=NodeManagerMetrics\", \
         \"tag.Hostname\": \"{host}\", \"ContainersRunning\": 7, \
         \"ContainersOpportunisticQueued\": 0, \"AvailableGB\": 1, \"AvailableVCores\": 1, \
         \"TakesOpportunisticContainers\": 1}}]}}"
    )
}

/// Answers of a Java node of 4 GiB: `/jmx` has the numbers of an idle node, its list what is here.
fn java(path: &str, list: &WebAnswer) -> WebAnswer {
    match path {
        "/ws/v1/node/containers" => list.clone(),
        _ => {
            let numbers = one_free("n1").replace(", \"TakesOpportunisticContainers\": 1", "");
            WebAnswer::Whole(
                200,
                numbers.replace("\"AvailableGB\": 1", "\"AvailableGB\": 4"),
            )
        }
    }
}

/// Returns the loads that answers have told, with the positions of their nodes.
fn seen(looks: &Looks) -> Vec<(usize, Sight)> {
    let answers = looks.answers.iter();
    let seen = answers.filter_map(|(position, answer)| match answer {
        LookAnswer::Seen(sight) => Some((*position, *sight)),
        LookAnswer::Unknown { .. } => None,
    });
    seen.collect()
}

/// Looks whose call waits as long as a busy machine takes, unless `wait_max` says otherwise.
fn looks(wait_max: Duration) -> NodeLooks {
    let settings = LookSettings {
        wait_max,
        queue_length_max: Some(9),
        binds_late: false,
    };
    let parts = LookParts {
        settings,
        ..LookParts::default()
    };
    let clock = || Now {
        mono: MonoMillis(1_000),
        wall: EpochMillis(0),
    };
    let kept = (Arc::new(NoStore) as Arc<_>, None);
    let clock: Arc<ReadClock> = Arc::new(clock);
    let binding = LateBinding::new(None, Arc::clone(&clock));
    NodeLooks::new(parts, Placement::Look, clock, kept, binding)
}

fn patient() -> NodeLooks {
    looks(Duration::from_secs(60))
}

fn at(host: &str, address: impl ToString) -> KnownNode {
    KnownNode::from(RemoteNode {
        node_id: node_id(host),
        http_address: address.to_string(),
        rack: String::new(),
        partition: String::new(),
    })
}

/// Waits until every look has ended, those included for which no call waits.
async fn looks_ended(looks: &NodeLooks) {
    let all = u32::try_from(LOOKS_AT_ONCE_MAX).unwrap();
    let places = tokio::time::timeout(Duration::from_secs(60), looks.0.places.acquire_many(all));
    assert!(places.await.unwrap().is_ok());
}

/// Looks at a node that gives every path this answer; returns whether there is a sight.
async fn is_seen(answer: WebAnswer) -> bool {
    let port = ScriptedWebPort::open(move |_| answer.clone()).await;
    let found = patient().look(vec![at("n1", port.address)]).await;
    assert_eq!(found.asked, 1);
    seen(&found).len() == 1
}

#[tokio::test]
async fn nodes_are_asked_at_once_and_their_connections_are_kept() {
    let answer = |_: &str| WebAnswer::Whole(200, one_free("n1"));
    let ports = [
        ScriptedWebPort::open(answer).await,
        ScriptedWebPort::open(answer).await,
    ];
    let dead = HeldPort::free();
    let nodes = vec![
        at("n1", ports[0].address),
        at("gone", dead.address()),
        at("n2", ports[1].address),
        at("nameless", ""),
    ];
    let looks = patient();
    looks.set_queue_limit(Some(4));
    for round in 1..4 {
        let found = looks.look(nodes.clone()).await;
        let mut positions: Vec<_> = seen(&found).iter().map(|(at, _)| *at).collect();
        positions.sort_unstable();
        assert_eq!((found.asked, positions), (4, vec![0, 2]));
        let (_, sight) = seen(&found)[0];
        assert_eq!((sight.running, sight.seen_at), (7, MonoMillis(1_000)));
        assert_eq!(found.max_queue_length, Some(4));
        for port in &ports {
            assert_eq!((port.connections(), port.requests()), (1, round));
        }
    }
    looks.set_queue_limit(None);
    assert_eq!(looks.max_queue_length(), Some(9), "the node's own limit");
}

#[tokio::test]
async fn a_java_node_has_the_load_of_its_list_of_containers_or_an_unknown_one() {
    let container = "{\"state\": \"RUNNING\", \"totalMemoryNeededMB\": 1024, \
                     \"totalVCoresNeeded\": 1}";
    let list = format!("{{\"containers\": {{\"container\": [{container}]}}}}");
    let long = format!("{list}{}", " ".repeat(256 * 1024));
    for (list, expected) in [
        (WebAnswer::Whole(200, list.clone()), Some((1, 3_072))),
        (WebAnswer::Whole(403, list), None),
        (WebAnswer::Whole(200, long), None),
        (WebAnswer::Endless, None),
    ] {
        let answer = list.clone();
        let port = ScriptedWebPort::open(move |path| java(path, &answer)).await;
        let looks = patient();
        let node = at("n1", port.address);
        let listed = NodeList::from(vec![node.node().clone()]);
        looks.0.directory().listed(&listed, MonoMillis(1_000));
        for _ in 0..3 {
            let found = looks.look(vec![node.clone()]).await;
            let load = seen(&found).first().map(|(_, sight)| *sight);
            let load = load.map(|sight| (sight.running, sight.free.memory_mb));
            assert_eq!(load, expected, "{list:?}");
            assert_eq!(found.answers.len(), 1, "{list:?}");
        }
        // It has answered, so that it is not left out.
        let known = looks.0.directory().view(MonoMillis(1_000)).nodes.clone();
        assert_eq!(known.iter().count(), 1, "{list:?}");
    }
}

#[tokio::test]
async fn a_connection_that_its_node_has_closed_is_replaced() {
    let port = ScriptedWebPort::open(|_| WebAnswer::ThenClose(200, one_free("n1"))).await;
    let looks = patient();
    for round in 1..4 {
        let found = looks.look(vec![at("n1", port.address)]).await;
        assert_eq!(seen(&found).len(), 1);
        assert_eq!(port.connections(), round);
    }
}

#[tokio::test]
async fn endless_strange_and_refusing_answers_are_no_sights() {
    assert!(is_seen(WebAnswer::Whole(200, one_free("n1"))).await);
    let long = format!("{}{}", one_free("n1"), " ".repeat(64 * 1024));
    for answer in [
        WebAnswer::Endless,
        WebAnswer::Long(1 << 30),
        WebAnswer::Whole(200, long),
        WebAnswer::Whole(200, String::new()),
        WebAnswer::Whole(401, one_free("n1")),
        WebAnswer::Whole(503, one_free("n1")),
    ] {
        assert!(!is_seen(answer.clone()).await, "{answer:?}");
    }
}

#[tokio::test]
async fn a_redirection_is_not_followed() {
    let other = ScriptedWebPort::open(|_| WebAnswer::Whole(200, one_free("n1"))).await;
    let url = format!("http://{}/jmx", other.address);
    assert!(!is_seen(WebAnswer::Redirect(url)).await);
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn a_node_that_answers_with_the_numbers_of_another_has_no_sight() {
    let port = ScriptedWebPort::open(|_| WebAnswer::Whole(200, one_free("n2"))).await;
    let looks = patient();
    let nodes = vec![at("n1", port.address)];
    assert_eq!(seen(&looks.look(nodes.clone()).await).len(), 1);
    // Its name is strange as soon as another node has it.
    let other = at("n2", port.address).node().clone();
    let list = NodeList::from(vec![other]);
    looks.0.directory().listed(&list, MonoMillis(1_000));
    assert_eq!(seen(&looks.look(nodes).await).len(), 0);
}

#[tokio::test]
async fn a_node_that_answers_slowly_holds_no_call_and_its_looks_end() {
    let port = ScriptedWebPort::open(|_| WebAnswer::Begun(one_free("n1"))).await;
    let looks = looks(Duration::from_millis(20));
    let node = at("n1", port.address);
    let list = NodeList::from(vec![node.node().clone(), at("n2", "").node().clone()]);
    looks.0.directory().listed(&list, MonoMillis(1_000));
    let found = looks.look(vec![node]).await;
    assert_eq!((found.asked, seen(&found).len()), (1, 0));
    let left: Vec<_> = {
        let view = looks.0.directory().view(MonoMillis(1_000)).nodes.clone();
        view.iter()
            .map(|known| known.node().node_id.clone())
            .collect()
    };
    assert_eq!(left, [node_id("n2")], "it is left out for a while");
    // The look ends by itself, and gives its place back.
    looks_ended(&looks).await;
}

#[tokio::test]
async fn silent_nodes_hold_no_call_and_further_looks_have_no_place() {
    let port = ScriptedWebPort::open(|_| WebAnswer::Silence).await;
    let looks = looks(Duration::from_millis(20));
    let nodes = vec![at("n1", port.address); LOOKS_AT_ONCE_MAX + 10];
    let found = looks.look(nodes.clone()).await;
    assert_eq!((found.asked, seen(&found).len()), (LOOKS_AT_ONCE_MAX, 0));
    let places = looks.0.places.available_permits();
    assert!(places <= LOOKS_AT_ONCE_MAX, "{places}");
    assert!(!looks.0.directory().view(MonoMillis(1_000)).answers_looks);
}

#[tokio::test]
async fn a_node_that_answers_later_than_calls_wait_is_there_though_nobody_knows_its_load() {
    let (allow, allowed) = watch::channel(false);
    let port =
        ScriptedWebPort::open(move |_| WebAnswer::Once(allowed.clone(), 200, one_free("n1"))).await;
    let looks = looks(Duration::from_millis(20));
    let node = at("n1", port.address);
    let list = NodeList::from(vec![node.node().clone(), at("n2", "").node().clone()]);
    looks.0.directory().listed(&list, MonoMillis(1_000));
    // Again where a busy machine takes longer than a look may.
    let mut tries = 1..100;
    while !looks.0.directory().speaks(&node_id("n1")) {
        assert!(tries.next().is_some(), "it never speaks");
        allow.send_replace(false);
        let found = looks.look(vec![node.clone()]).await;
        assert_eq!((found.answers, found.late), (vec![], vec![]));
        allow.send_replace(true);
        looks_ended(&looks).await;
    }
    allow.send_replace(false);
    let found = looks.look(vec![node]).await;
    assert_eq!((found.answers, found.late), (vec![], vec![0]));
}
