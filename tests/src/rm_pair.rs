//! Two of Hadoop's ResourceManagers over one state store, of which one is active: high availability
//! without ZooKeeper. An operator, here the test, makes the other one active.

use crate::conf::RmPorts;
use crate::java;
use crate::lab::{self, Lab};
use crate::rm::ResourceManager;

/// Ids of both (`yarn.resourcemanager.ha.rm-ids`).
pub const IDS: [&str; 2] = ["rm1", "rm2"];

/// Class of `yarn rmadmin`.
const ADMIN_CLASS: &str = "org.apache.hadoop.yarn.client.cli.RMAdminCLI";

/// Starts both, and makes the first active. The lab needs a state store. Clients, and nodes whose
/// configuration is written later, know both.
///
/// # Panics
/// When one does not start.
#[must_use]
pub fn start(lab: &mut Lab) -> [ResourceManager; 2] {
    let ports = [lab.rm_ports(), lab::reserve_rm_ports()];
    let prefix = "yarn.resourcemanager.ha";
    lab.set(&format!("{prefix}.enabled"), true);
    lab.set(&format!("{prefix}.automatic-failover.enabled"), false);
    lab.set(&format!("{prefix}.rm-ids"), IDS.join(","));
    lab.set("yarn.resourcemanager.cluster-id", "pair");
    for (id, ports) in IDS.iter().zip(ports) {
        set_addresses(lab, id, ports);
    }
    let mut pair = [0, 1].map(|number| {
        let id = IDS[number];
        let conf = lab.rm_conf(&format!("conf-{id}"), ("yarn.resourcemanager.ha.id", id));
        ResourceManager::spawn(lab, id, conf, ports[number].web)
    });
    for rm in &mut pair {
        rm.wait_info("haState", "STANDBY");
    }
    activate(lab, IDS[0], &mut pair[0]);
    pair
}

/// Starts a ResourceManager again that was killed, and waits until it is the standby.
///
/// # Panics
/// When it does not start.
pub fn start_standby(lab: &Lab, rm: &mut ResourceManager) {
    rm.spawn_again(lab);
    rm.wait_info("haState", "STANDBY");
}

fn set_addresses(lab: &mut Lab, id: &str, ports: RmPorts) {
    for (service, port) in [
        ("scheduler.", ports.scheduler),
        ("resource-tracker.", ports.tracker),
        ("", ports.client),
        ("admin.", ports.admin),
        ("webapp.", ports.web),
    ] {
        let name = format!("yarn.resourcemanager.{service}address.{id}");
        lab.set(&name, format!("localhost:{port}"));
    }
}

/// Makes a ResourceManager active, whether the other one answers or not, and waits until it is.
///
/// # Panics
/// When it refuses.
pub fn activate(lab: &Lab, id: &str, rm: &mut ResourceManager) {
    let mut command = java::command(&lab.conf(), ADMIN_CLASS, 128);
    command.args(["-transitionToActive", "--forceactive", id]);
    let output = command.output().expect("a required Java runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    rm.wait_info("haState", "ACTIVE");
}
