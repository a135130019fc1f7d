//! Who may use the node's protocols: `hadoop-policy.xml`.

use service_authorization::{MachineList, ProtocolPolicy};
use wire::protocol::{application_master, container_management};

use super::*;

const ON: (&str, &str) = ("hadoop.security.authorization", "true");
const PROXY: (&str, &str) = ("amrmproxy.enabled", "true");
const CONTAINERS: &str = "security.containermanagement.protocol";
const MASTERS: &str = "security.applicationmaster-nodemanager.applicationmaster.protocol";
const DEFAULT: &str = "security.service.authorization.default";

/// Loads a `core-site.xml` with authorization, and a policy's file of this content.
fn with_policy(name: &str, policy: &str, variable: Option<&str>) -> Loaded {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("core-site.xml"), xml(&[ON])).unwrap();
    fs::write(folder.path().join("yarn-site.xml"), xml(&[])).unwrap();
    fs::write(folder.path().join(name), policy).unwrap();
    let mut environment = environment();
    if let Some(variable) = variable {
        environment.insert("HADOOP_POLICYFILE".to_owned(), variable.to_owned());
    }
    Loaded::read(&[folder.path().to_owned()], &environment)
}

/// Warnings about policies.
fn told(pairs: &[(&str, &str)]) -> Vec<String> {
    let mut told = warnings(pairs);
    told.retain(|warning| warning.contains(": security."));
    told
}

fn policies(loaded: Loaded) -> Policies {
    let config = loaded.config.unwrap_or_else(|told| panic!("{told}"));
    config.policies.expect("authorization is on")
}

fn policy_of(pairs: &[(&str, &str)], protocol: &str) -> ProtocolPolicy {
    let pairs = [&[ON], pairs].concat();
    policies(loaded(&pairs)).remove(protocol).unwrap()
}

#[test]
fn everybody_may_where_nothing_is_set() {
    assert_eq!(config(&[]).policies, None);
    for protocol in [container_management::PROTOCOL, application_master::PROTOCOL] {
        assert_eq!(policy_of(&[], protocol), ProtocolPolicy::default());
    }
    assert!(told(&[ON, PROXY]).is_empty());
}

#[test]
fn each_protocol_has_its_lists_and_those_of_all_otherwise() {
    let (own, of_all) = (format!("{CONTAINERS}.hosts"), format!("{DEFAULT}.hosts"));
    let (blocked, acl) = (
        format!("{DEFAULT}.hosts.blocked"),
        format!("{MASTERS}.acl.blocked"),
    );
    let pairs = [
        (own.as_str(), "10.1.0.0/16"),
        (of_all.as_str(), "10.0.0.0/8"),
        (blocked.as_str(), "10.1.0.1"),
        (acl.as_str(), "mallory"),
    ];
    let machines = |text: &str| MachineList::parse(text).unwrap();
    let containers = policy_of(&pairs, container_management::PROTOCOL);
    assert_eq!(containers.hosts, machines("10.1.0.0/16"));
    assert_eq!(containers.blocked_hosts, machines("10.1.0.1"));
    assert!(containers.blocked_users.is_nobody());
    let masters = policy_of(&pairs, application_master::PROTOCOL);
    assert_eq!(masters.hosts, machines("10.0.0.0/8"));
    assert!(!masters.blocked_users.is_nobody());
}

#[test]
fn the_policys_file_counts_only_with_authorization() {
    let acl = format!("{CONTAINERS}.acl");
    let policy = xml(&[(acl.as_str(), "alice")]);
    for (name, variable, counts) in [
        ("hadoop-policy.xml", None, true),
        ("hadoop-policy.xml", Some(""), true),
        ("other-policy.xml", Some("other-policy.xml"), true),
        ("other-policy.xml", None, false),
    ] {
        let read = policies(with_policy(name, &policy, variable));
        let is_open = read[container_management::PROTOCOL].users.is_everybody();
        assert_eq!(!is_open, counts, "{name} {variable:?}");
    }
    let told = with_policy("hadoop-policy.xml", "<configuration>", None).config;
    let told = told.expect_err("the file is cut").to_string();
    assert!(told.contains("hadoop-policy.xml"), "{told}");
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("yarn-site.xml"), xml(&[])).unwrap();
    fs::write(folder.path().join("hadoop-policy.xml"), "<configuration>").unwrap();
    let off = Loaded::read(&[folder.path().to_owned()], &environment());
    assert_eq!(off.config.unwrap().policies, None);
}

#[test]
fn what_is_no_range_of_addresses_is_a_problem_where_it_counts() {
    for (service, list) in [
        (CONTAINERS, "hosts"),
        (MASTERS, "hosts.blocked"),
        (DEFAULT, "hosts"),
    ] {
        let wrong = (format!("{service}.{list}"), "10.1.0.0/33");
        let wrong = (wrong.0.as_str(), wrong.1);
        let told = problems(&[ON, wrong]);
        assert!(
            told.len() == 1 && told[0].contains(wrong.0) && told[0].contains("is no range"),
            "{told:?}"
        );
        config(&[wrong]);
    }
}

#[test]
fn lists_of_users_are_warned_of_since_callers_are_attempts() {
    let told_of = |service: &str, list: &str, value: &str, more: &[(&str, &str)]| {
        let name = format!("{service}.{list}");
        let told = told(&[&[ON, (name.as_str(), value)], more].concat());
        let names_it = told.iter().all(|told| told.contains(&name));
        assert!(names_it, "{told:?}");
        told
    };
    for service in [CONTAINERS, DEFAULT] {
        for value in ["alice,yarn hadoop", " ", ","] {
            let told = told_of(service, "acl", value, &[PROXY]);
            let all = "keeps all of them out";
            assert!(told.len() == 1 && told[0].contains(all), "{told:?}");
        }
        let told_of_all = told_of(service, "acl.blocked", "*", &[PROXY]);
        assert!(told_of_all.len() == 1 && told_of_all[0].contains("keeps all callers out"));
        let told_of_user = told_of(service, "acl.blocked", "mallory", &[PROXY]);
        assert!(told_of_user.len() == 1 && told_of_user[0].contains("blocks none of them"));
        assert!(told_of(service, "acl", "*", &[PROXY]).is_empty());
    }
    assert_eq!(told_of(MASTERS, "acl", "alice", &[PROXY]).len(), 1);
    assert!(told_of(MASTERS, "acl", "alice", &[]).is_empty());
}
