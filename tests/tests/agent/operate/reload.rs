//! The configuration read again by an agent that runs, and SIGHUP.

use std::fs;
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;
use tests::process::{Process, let_children_hang_up};
use tests::wait;

use super::{code, err, json, out};
use crate::AGENT;
use crate::shell::cluster::{Cluster, DEADLINE};

const QUEUE: &str = "yarn.nodemanager.opportunistic-containers-max-queue-length";
const NODE: &str = "yarn.nodemanager.address";
const LEVEL: &str = "yarn.nodemanager.agent.log.level";
const RECOVERY: &str = "yarn.nodemanager.recovery";

#[test]
fn a_reload_applies_what_it_can_and_names_what_waits_for_the_next_start() {
    let mut cluster = Cluster::start(1);
    let nothing = cluster.operate(0, "reload", &[]);
    assert_eq!(code(&nothing), Some(0), "{}", err(&nothing));
    assert_eq!(out(&nothing), "The configuration has not changed.\n");

    let mut address = String::new();
    cluster.change_site(0, |site| {
        address = site.get(NODE).unwrap_or_default().to_owned();
        site.set(QUEUE, 4).set(NODE, "localhost:1");
    });
    let changed = cluster.operate(0, "reload", &[]);
    let refused = format!(
        "refused    {NODE}, from {address} to localhost:1: takes effect at the next start\n"
    );
    let expected = format!("in effect  {QUEUE}, from 20 to 4\n{refused}");
    assert_eq!((code(&changed), out(&changed)), (Some(6), expected));
    let status = json(&cluster, "status", &[]);
    assert_eq!(status["queue_capacity"], 4, "{status}");
    assert_eq!(status["node_id"], address.as_str(), "{status}");
    let log = cluster.node_log(0);
    let line = format!("{NODE} changed: takes effect at the next start");
    assert!(log.contains(&line), "{log}");

    let again = cluster.operate(0, "reload", &[]);
    assert_eq!((code(&again), out(&again)), (Some(6), refused));
    cluster.change_site(0, |site| {
        site.set(NODE, address);
    });
    assert_eq!(code(&cluster.operate(0, "reload", &[])), Some(0));
}

#[test]
fn files_that_cannot_be_used_change_nothing() {
    let mut cluster = Cluster::start(1);
    cluster.change_site(0, |site| {
        site.set(QUEUE, 4);
    });
    let site = cluster.node_conf(0).join("yarn-site.xml");
    let text = fs::read_to_string(&site).expect("the test has written it");
    let cut = text.len() - "</configuration>".len();
    let wrong = text.replace(">4<", ">four<");
    let broken = [
        (Some(&text[..cut]), "yarn-site.xml"),
        (Some(wrong.as_str()), QUEUE),
        (None, "no folder of the configuration has a yarn-site.xml"),
    ];
    for (content, reason) in broken {
        match content {
            Some(content) => fs::write(&site, content),
            None => fs::remove_file(&site),
        }
        .expect("the folder is the test's own");
        let socket = cluster.folder().join("node0/admin.sock");
        let socket = ["--socket", socket.to_str().expect("the path is text")];
        let refused = cluster.operate(0, "reload", &socket);
        assert_eq!(code(&refused), Some(2), "{}", out(&refused));
        assert!(err(&refused).contains(reason), "{}", err(&refused));
        let status = cluster.operate(0, "status", &[&socket[..], &["--json"]].concat());
        assert!(
            out(&status).contains("\"queue_capacity\": 20"),
            "{}",
            out(&status)
        );
        let log = cluster.node_log(0);
        assert!(log.contains("the configuration stays as it is"), "{log}");
    }
    fs::write(&site, text).expect("the folder is the test's own");
    assert_eq!(code(&cluster.operate(0, "reload", &[])), Some(0));
    assert_eq!(json(&cluster, "status", &[])["queue_capacity"], 4);
}

/// Reads notifications until one begins with `begin`, and returns them.
#[track_caller]
fn told(manager: &UnixDatagram, begin: &str) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    while !told.last().is_some_and(|last| last.starts_with(begin)) {
        let mut text = [0; 4096];
        let length = manager
            .recv(&mut text)
            .unwrap_or_else(|error| panic!("no {begin} after {told:?}: {error}"));
        told.push(String::from_utf8_lossy(&text[..length]).into_owned());
    }
    told
}

/// Has a node of its own, with or without recovery, read its configuration again by SIGHUP.
#[track_caller]
fn rereads_on_hang_up(recovery: bool) {
    let_children_hang_up();
    let mut cluster = Cluster::start(0);
    let socket = cluster.folder().join("manager");
    let manager = UnixDatagram::bind(&socket).expect("the folder is the test's own");
    manager
        .set_read_timeout(Some(DEADLINE))
        .expect("the time is not zero");
    let dir = cluster.folder().join("recovery");
    let change = |site: &mut tests::conf::Properties| {
        site.set(format!("{RECOVERY}.enabled"), recovery)
            .set(format!("{RECOVERY}.dir"), dir.display());
    };
    cluster.add_node(change, &[("NOTIFY_SOCKET", &socket)]);
    cluster.wait_nodes(1);
    told(&manager, "READY=1");
    assert!(!cluster.node_log(0).contains("DEBUG"));

    cluster.change_site(0, |site| {
        site.set(QUEUE, 4).set(LEVEL, "debug");
    });
    cluster.node_process(0).signal(Signal::SIGHUP);
    told(&manager, "RELOADING=1\nMONOTONIC_USEC=");
    let until_ready = told(&manager, "READY=1");
    let status = "STATUS=configuration read again: 2 changed";
    assert!(
        until_ready.iter().any(|text| text == status),
        "{until_ready:?}"
    );
    let status = json(&cluster, "status", &[]);
    assert_eq!(status["queue_capacity"], 4);
    // A connection without a word is worth a line on this level only.
    let address = status["node_id"].as_str().unwrap_or_default();
    drop(TcpStream::connect(address).expect("the node listens"));
    cluster.node_process(0).wait_log(" DEBUG ", DEADLINE);
    let log = cluster.node_log(0);
    let line = format!("{QUEUE} changed from 20 to 4: in effect");
    assert!(log.contains(&line), "{log}");
}

#[test]
fn a_hang_up_signal_has_the_configuration_read_again_and_the_service_manager_told() {
    rereads_on_hang_up(false);
}

#[test]
fn a_hang_up_signal_reaches_an_agent_below_its_keeper() {
    rereads_on_hang_up(true);
}

/// Starts a node in a terminal, which goes away when the agent runs; the agent's log.
#[track_caller]
fn loses_its_terminal(recovery: bool) -> String {
    let_children_hang_up();
    let cluster = Cluster::start(0);
    let (_, mut site) = cluster.node_site(0);
    let dir = cluster.folder().join("recovery");
    site.set(format!("{RECOVERY}.enabled"), recovery)
        .set(format!("{RECOVERY}.dir"), dir.display());
    let core_site = tests::conf::core_site(cluster.folder(), "nobody");
    let conf = cluster.node_conf(0);
    tests::conf::write(&conf, &core_site, &site);
    let log = cluster.folder().join("log");
    // Another session than this process's, so that nothing else ends it if it does not stop.
    let agent = format!(
        "exec timeout --foreground -s KILL 120 {AGENT} run --conf {} 2> {}",
        conf.display(),
        log.display()
    );
    let mut command = Command::new("script");
    command.args(["-q", "-f", "-e", "-c", &agent, "/dev/null"]);
    let mut terminal = Process::start("terminal", &mut command, cluster.folder());
    let read = |log: &Path| fs::read_to_string(log).unwrap_or_default();
    cluster.wait_nodes(1);
    terminal.kill();
    wait::until("the end of the agent", DEADLINE, || {
        let text = read(&log);
        wait::check(text.contains(" stopped"), text.clone())
    });
    read(&log)
}

#[test]
fn an_agent_whose_terminal_is_gone_stops_in_order() {
    let log = loses_its_terminal(false);
    assert!(log.contains("SIGHUP: stopping"), "{log}");
    let below = loses_its_terminal(true);
    assert!(below.contains("SIGTERM: stopping"), "{below}");
}
