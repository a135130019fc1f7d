//! The name that a node registers with, on machines of many names, beside Hadoop's NodeManager:
//! include lists, labels and the hosts of data are compared with it.

#![expect(clippy::unwrap_used, reason = "helpers of tests: they fail with it")]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use test_support::scripted::ScriptedRm;
use tests::names::HostNames;
use tests::node::NodeKind;
use tests::node_process::NodeProcess;
use tests::{java, require};

/// A machine and its node's configuration.
struct Machine {
    name: &'static str,
    hosts: &'static str,
    /// Host in `yarn.nodemanager.address`.
    address: &'static str,
    /// `yarn.nodemanager.bind-host`; empty: unset.
    bind_host: &'static str,
}

const fn machine(
    name: &'static str,
    hosts: &'static str,
    address: &'static str,
    bind_host: &'static str,
) -> Machine {
    Machine {
        name,
        hosts,
        address,
        bind_host,
    }
}

const ANY: &str = "0.0.0.0";

/// Every shape of the hosts file and of the configured address. Addresses to listen on are those of
/// the loopback device, which has all of 127.0.0.0/8.
const MACHINES: [Machine; 19] = [
    // Debian's installer, with a domain and without.
    machine(
        "debian",
        "127.0.0.1 localhost\n127.0.1.1 debian.site debian\n",
        ANY,
        "",
    ),
    machine("plain", "127.0.0.1 localhost\n127.0.1.1 plain\n", ANY, ""),
    machine(
        "lan",
        "127.0.0.1 localhost\n10.99.0.7 lan.site lan\n",
        ANY,
        "",
    ),
    machine(
        "short",
        "127.0.0.1 localhost\n10.99.0.7 short short.site\n",
        ANY,
        "",
    ),
    machine(
        "upper",
        "127.0.0.1 localhost\n10.99.0.7 UPPER.Site upper\n",
        ANY,
        "",
    ),
    machine(
        "CAPITAL",
        "127.0.0.1 localhost\n10.99.0.7 capital.site capital\n",
        ANY,
        "",
    ),
    machine(
        "with.domain",
        "127.0.0.1 localhost\n10.99.0.7 with.domain with\n",
        ANY,
        "",
    ),
    // On the loopback line, first and last.
    machine("first", "127.0.0.1 first.site first localhost\n", ANY, ""),
    machine("last", "127.0.0.1 localhost last\n", ANY, ""),
    // On two lines: two addresses of a name, two names of an address.
    machine(
        "twice",
        "127.0.1.1 twice.local twice\n10.99.0.7 twice.site twice\n",
        ANY,
        "",
    ),
    machine(
        "names",
        "10.99.0.7 other.site other\n10.99.0.7 names.site names\n",
        ANY,
        "",
    ),
    machine("nobody", "127.0.0.1 localhost\n", ANY, ""),
    // With IPv6 beside IPv4, and alone.
    machine(
        "both",
        "::1 localhost\nfd00::7 six.site both\n10.99.0.7 four.site both\n",
        ANY,
        "",
    ),
    machine(
        "six",
        "127.0.0.1 localhost\n::1 localhost\nfd00::7 six.site six\n",
        ANY,
        "",
    ),
    // Configured: a name, an alias, an address with and without a name.
    machine("c1", "127.0.9.1 c1.site c1\n", "c1", ""),
    machine("c2", "127.0.9.2 c2.site c2 alias\n", "ALIAS", ""),
    machine("c3", "127.0.9.3 c3.site c3\n", "127.0.9.3", ""),
    machine("c4", "127.0.0.1 localhost\n", "127.0.9.4", ""),
    // Known by another address than it listens on.
    machine(
        "bound",
        "127.0.0.1 localhost\n10.99.0.7 bound.site bound\n",
        "bound",
        "127.0.0.1",
    ),
];

/// Returns the name that the node of a machine registers with.
fn registered(kind: &NodeKind, machine: &Machine, folder: &Path) -> String {
    let names = HostNames::new(folder, machine.name, machine.hosts);
    let rm = ScriptedRm::start();
    let _node = NodeProcess::start_named(kind, &rm, &names, |site| {
        site.set("yarn.nodemanager.address", format!("{}:0", machine.address));
        // Not every machine has a name for it.
        for other in ["localizer.address", "webapp.address"] {
            site.set(format!("yarn.nodemanager.{other}"), "127.0.0.1:0");
        }
        if !machine.bind_host.is_empty() {
            site.set("yarn.nodemanager.bind-host", machine.bind_host);
        }
    });
    rm.wait_registered().host
}

/// Returns the names by Hadoop's own methods, in a process that goes from machine to machine.
fn names_of_java(folder: &Path) -> Vec<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("java/NodeName.java");
    let jar = java::jar_of_source(&source, folder);
    let mut command = java::command_with_jar(folder, &jar, "NodeName", 128);
    // It asks anew for each machine.
    command.env(
        "JAVA_TOOL_OPTIONS",
        "-Dsun.net.inetaddr.ttl=0 -Dsun.net.inetaddr.negative.ttl=0 \
         --add-opens=java.base/java.net=ALL-UNNAMED",
    );
    let names = HostNames::new(folder, "java", "127.0.0.1 localhost\n");
    let mut command: Command = names.enter(&command);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    let mut machines = child.stdin.take().unwrap();
    for machine in &MACHINES {
        let hosts = folder.join(machine.name);
        fs::write(&hosts, machine.hosts).unwrap();
        let (name, address, bind_host) = (machine.name, machine.address, machine.bind_host);
        writeln!(
            machines,
            "{}\t{name}\t{address}:0\t{bind_host}",
            hosts.display()
        )
        .unwrap();
    }
    drop(machines);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    let printed = String::from_utf8(output.stdout).unwrap();
    printed.lines().map(str::to_owned).collect()
}

#[test]
fn a_node_has_the_name_that_hadoop_gives_it_on_every_machine() {
    require!(jdk, hadoop, name_namespaces);
    let folder = tempfile::tempdir().unwrap();
    let of_java = names_of_java(folder.path());
    assert_eq!(of_java.len(), MACHINES.len(), "{of_java:?}");
    let kind = NodeKind::Agent(crate::AGENT.into());
    let mut differ = Vec::new();
    for (machine, expected) in MACHINES.iter().zip(of_java) {
        let found = registered(&kind, machine, folder.path());
        if found != expected {
            let Machine { name, hosts, .. } = machine;
            differ.push(format!("{name}: {found}, Hadoop {expected}; {hosts:?}"));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[test]
fn hadoops_own_node_registers_as_ours_on_a_debian_machine() {
    require!(java, hadoop, name_namespaces);
    let folder = tempfile::tempdir().unwrap();
    let debian = &MACHINES[0];
    for kind in [NodeKind::Java, NodeKind::Agent(crate::AGENT.into())] {
        let name = registered(&kind, debian, folder.path());
        assert_eq!(name, "debian.site", "{kind:?}");
    }
}
