//! Who may use the node's protocols, as `hadoop-policy.xml` says, and as it says after a reload.

use std::fs;

use tests::conf::Properties;

use super::{code, err, out};
use crate::shell::cluster::Cluster;

const ACL: &str = "security.containermanagement.protocol.acl";
const HOSTS: &str = "security.containermanagement.protocol.hosts.blocked";
const PROTOCOL: &str = "org.apache.hadoop.yarn.api.ContainerManagementProtocolPB";

fn write_policy(cluster: &Cluster, name: &str, value: &str) {
    let mut policy = Properties::default();
    policy.set(name, value);
    let path = cluster.node_conf(0).join("hadoop-policy.xml");
    fs::write(path, policy.to_xml()).expect("the folder is the test's own");
}

/// Has the node read its configuration again; expects that a property is in effect.
fn reload(cluster: &Cluster, property: &str) {
    let reloaded = cluster.operate(0, "reload", &[]);
    assert_eq!(code(&reloaded), Some(0), "{}", err(&reloaded));
    let expected = format!("in effect  {property}, from ");
    assert!(out(&reloaded).contains(&expected), "{}", out(&reloaded));
}

#[test]
fn a_policy_keeps_callers_out_and_lets_them_in_after_a_reload() {
    let cluster = Cluster::start_with(1, |site| {
        site.set("hadoop.security.authorization", true);
    });
    let runs = || cluster.shell_to_end(&["--", "true"]).0;
    assert_eq!(runs(), Some(0));

    write_policy(&cluster, ACL, "alice");
    reload(&cluster, ACL);
    assert_ne!(runs(), Some(0));
    let log = cluster.node_log(0);
    let refused = format!(
        " (auth:TOKEN) is not authorized for protocol interface {PROTOCOL}: denied by configured ACL"
    );
    assert!(log.contains(&refused), "{log}");
    assert!(log.contains("keeps all of them out"), "{log}");

    write_policy(&cluster, HOSTS, "localhost");
    reload(&cluster, HOSTS);
    assert_ne!(runs(), Some(0));
    let log = cluster.node_log(0);
    let refused = format!("Host 127.0.0.1 is not authorized for protocol interface {PROTOCOL}");
    assert!(log.contains(&refused), "{log}");

    write_policy(&cluster, HOSTS, "192.0.2.0/24");
    reload(&cluster, HOSTS);
    assert_eq!(runs(), Some(0));
}
