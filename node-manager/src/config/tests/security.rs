//! Protections that the agent lacks: refused, or accepted by name.

use super::*;
use node_core::Runtimes;
use wire::protection::Protection;

const ACCEPT: &str = "agent.accept-unsafe";

/// Settings that can be accepted, with a part of what the message says.
const REFUSED: [(&str, &str, &str); 5] = [
    (
        "hadoop.http.authentication.type",
        "org.example.Handler",
        "without authentication",
    ),
    (
        "hadoop.security.saslproperties.resolver.class",
        "org.apache.hadoop.security.IngressPortBasedResolver",
        "neither signed nor encrypted",
    ),
    (
        "yarn.nodemanager.runtime.linux.sandbox-mode",
        "permissive",
        "without a sandbox",
    ),
    (
        "yarn.nodemanager.runtime.linux.sandbox-mode",
        "enforcing",
        "without a sandbox",
    ),
    (
        "yarn.intermediate-data-encryption.enable",
        "true",
        "encrypts no data",
    ),
];

const LINUX: (&str, &str) = ("container-executor.class", "LinuxContainerExecutor");

#[test]
fn a_runtime_that_the_node_lacks_is_refused_or_accepted_where_containers_would_run_without() {
    for (name, value) in [
        ("yarn.nodemanager.runtime.linux.type", "docker"),
        ("yarn.nodemanager.runtime.linux.allowed-runtimes", "docker"),
    ] {
        let told = problems(&[LINUX, (name, value)]);
        let accepting = format!("add {name} to yarn.nodemanager.agent.accept-unsafe");
        assert!(
            told.len() == 1 && told[0].contains(&accepting),
            "{name}: {told:?}"
        );
        let told = warnings(&[LINUX, (name, value), (ACCEPT, name)]);
        assert!(
            told.len() == 1 && told[0].contains("run as plain processes"),
            "{name}: {told:?}"
        );
        // Hadoop's other executor has no runtimes.
        let told = warnings(&[(name, value)]);
        assert!(
            told.len() == 1 && told[0].contains("as in Hadoop"),
            "{name}: {told:?}"
        );
        config(&[(name, value)]);
    }
}

#[test]
fn containers_may_ask_for_runtimes_only_where_hadoop_lets_them() {
    assert_eq!(config(&[]).launch.runtimes, Runtimes::Ignored);
    assert_eq!(config(&[LINUX]).launch.runtimes, Runtimes::PlainOnly);
    let own_user = (ACCEPT, "yarn.nodemanager.container-executor.class");
    let runtimes = config(&[LINUX, own_user]).launch.runtimes;
    assert_eq!(runtimes, Runtimes::PlainOnly);
    let told = warnings(&[LINUX, ("runtime.linux.allowed-runtimes", "default,docker")]);
    assert!(
        told.len() == 1 && told[0].contains("that ask for another fail"),
        "{told:?}"
    );
}

#[test]
fn a_missing_protection_is_refused_with_the_property_that_accepts_it() {
    for (name, value, part) in REFUSED {
        let told = problems(&[(name, value)]);
        assert_eq!(told.len(), 1, "{told:?}");
        let accepting = format!("add {name} to yarn.nodemanager.agent.accept-unsafe");
        assert!(
            told[0].contains(part) && told[0].contains(&accepting),
            "{told:?}"
        );
    }
}

#[test]
fn a_missing_protection_that_is_accepted_by_name_is_warned_of() {
    for (name, value, part) in REFUSED {
        let told = warnings(&[(name, value), (ACCEPT, name)]);
        assert!(
            told.len() == 1 && told[0].contains(part),
            "{name}: {told:?}"
        );
        config(&[(name, value), (ACCEPT, name)]);
    }
}

#[test]
fn each_missing_protection_is_accepted_for_itself() {
    let pages = ("hadoop.http.authentication.type", "org.example.Handler");
    let sandbox = ("yarn.nodemanager.runtime.linux.sandbox-mode", "enforcing");
    let told = problems(&[pages, sandbox, (ACCEPT, pages.0)]);
    assert!(told.len() == 1 && told[0].contains(sandbox.0), "{told:?}");
    let both = format!("{}, {}", pages.0, sandbox.0);
    config(&[pages, sandbox, (ACCEPT, &both)]);
}

#[test]
fn a_name_that_cannot_be_accepted_is_a_problem() {
    for name in [
        "yarn.acl.enable",
        "hadoop.rpc.protection",
        "hadoop.security.authentication",
        "*",
    ] {
        let told = problems(&[(ACCEPT, name)]);
        assert!(
            told.len() == 1 && told[0].contains(&format!("{name} is none of")),
            "{told:?}"
        );
    }
}

#[test]
fn a_protection_that_the_agent_has_by_now_may_still_be_listed() {
    for name in [
        "hadoop.security.authorization",
        "yarn.nodemanager.webapp.rest-csrf.enabled",
    ] {
        let listed = [(ACCEPT, name)];
        let told = warnings(&listed);
        assert!(
            told.len() == 1 && told[0].contains("need not be listed any more"),
            "{told:?}"
        );
        config(&listed);
    }
}

#[test]
fn settings_without_a_protection_are_not_refused() {
    for (name, value) in [
        ("container-executor.class", "DefaultContainerExecutor"),
        ("yarn.acl.enable", "false"),
        ("hadoop.security.authentication", "SIMPLE"),
        ("hadoop.security.authorization", "false"),
        ("hadoop.security.authorization", "true"),
        ("hadoop.http.authentication.type", "simple"),
        ("hadoop.http.authentication.type", "anonymous"),
        ("hadoop.rpc.protection", "privacy,authentication"),
        ("hadoop.rpc.protection", "privacy"),
        ("runtime.linux.sandbox-mode", "disabled"),
        ("runtime.linux.type", "default"),
        (
            "hadoop.security.saslproperties.resolver.class",
            "org.apache.hadoop.security.SaslPropertiesResolver",
        ),
    ] {
        let told = warnings(&[(name, value)]);
        assert!(told.is_empty(), "{name}: {told:?}");
        config(&[(name, value)]);
    }
}

#[test]
fn lists_of_access_that_protect_less_than_they_seem_to_are_warned_of() {
    const ANONYMOUS: &str = "hadoop.http.authentication.simple.anonymous.allowed";
    const MAPPING: &str = "hadoop.security.group.mapping";
    let acl = ("yarn.acl.enable", "true");
    let told = warnings(&[acl]);
    assert!(told.len() == 1 && told[0].contains(ANONYMOUS), "{told:?}");
    assert!(warnings(&[acl, (ANONYMOUS, "false")]).is_empty());
    let ldap = "org.apache.hadoop.security.LdapGroupsMapping";
    let told = warnings(&[acl, (ANONYMOUS, "false"), (MAPPING, ldap)]);
    assert!(told.len() == 1 && told[0].contains(MAPPING), "{told:?}");
    assert!(warnings(&[(MAPPING, ldap)]).is_empty());
    // Groups stand behind the first blank.
    let web = config(&[acl, ("yarn.admin.acl", " ops")]).web;
    assert!(web.acl_enabled && web.admin_acl == " ops" && web.anonymous_allowed);
}

#[test]
fn levels_of_protection_keep_their_order_for_the_ports_and_the_proxys_calls() {
    let config = config(&[
        ("hadoop.rpc.protection", "Privacy, integrity"),
        ("amrmproxy.enabled", "true"),
    ]);
    let levels = [Protection::Privacy, Protection::Integrity];
    assert_eq!(config.protections, levels.into_iter().collect());
    assert_eq!(config.amrm_proxy.proxy.rm.protections, config.protections);
}
