//! Peers and ports, tried on demand.

use super::*;

#[test]
fn peers_and_ports_are_tried_on_demand_and_each_failure_is_named() {
    let pairs = [
        ("yarn.resourcemanager.ha.enabled", "true"),
        ("yarn.resourcemanager.ha.rm-ids", "a,b"),
        ("yarn.resourcemanager.hostname.a", "one"),
        ("yarn.resourcemanager.hostname.b", "two"),
        ("yarn.nodemanager.address", "0.0.0.0:8041"),
    ];
    let mut machine = Pretend {
        refused: vec!["one:8031"],
        ..Pretend::default()
    };
    // One that stands by does not listen.
    let report = examined(&pairs, &machine, true);
    assert_eq!(report.outcome(false), Outcome::Sound, "{report:?}");
    machine.refused.extend(["two:8031", "0.0.0.0:8041"]);
    machine.file_system_broken = true;
    assert_eq!(
        examined(&pairs, &machine, false).outcome(false),
        Outcome::Sound
    );
    let problems = examined(&pairs, &machine, true)
        .findings
        .problems
        .join("\n");
    for part in [
        "resource-tracker.address: one:8031: ",
        "resource-tracker.address: two:8031: ",
        "yarn.nodemanager.address: 0.0.0.0:8041: ",
        "taken by java (process 17)",
        "fs.defaultFS: file:",
    ] {
        assert!(problems.contains(part), "{part} in {problems}");
    }
}

#[test]
fn this_machine_says_who_has_a_port_and_who_does_not_listen() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let address = HostPort::new("127.0.0.1", port);
    ThisMachine.connects(&address).unwrap();
    let error = ThisMachine.may_listen(&address).unwrap_err().to_string();
    let own = format!("(process {})", std::process::id());
    assert!(error.contains(&own), "{error}");
    let config = loaded(&[RM]).config.unwrap();
    assert!(ThisMachine.file_system(&config).is_ok());
}

#[test]
fn what_is_known_of_the_nodes_identity_is_told() {
    let machine = Pretend {
        identity: vec![
            (
                false,
                IdentityFinding::Note("this node is nm/host@R".to_owned()),
            ),
            (
                true,
                IdentityFinding::Problem("the KDC is silent".to_owned()),
            ),
        ],
        ..Pretend::default()
    };
    let pairs = [("yarn.resourcemanager.hostname", "rm")];
    let report = examined(&pairs, &machine, false);
    assert_eq!(report.outcome(false), Outcome::Sound, "{report:?}");
    assert!(report.findings.notes.join("\n").contains("nm/host@R"));
    let report = examined(&pairs, &machine, true);
    assert_eq!(report.outcome(false), Outcome::Wrong);
    assert_eq!(report.findings.problems, ["the KDC is silent"]);
}
