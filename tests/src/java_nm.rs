//! Hadoop's own NodeManager: the reference that shows whether a test is right.

use std::process::Command;

use crate::java::{self, Vm};
use crate::lab::NodeSite;

/// Returns a command that runs Hadoop's NodeManager for a site on this kind of JVM.
///
/// # Panics
/// When there is no Java or no Hadoop.
#[must_use]
pub fn command(vm: Vm, site: &NodeSite) -> Command {
    let mut command = java::command_on(
        vm,
        &site.conf(),
        "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
        512,
    );
    site.set_environment(&mut command);
    if vm == Vm::Default {
        // Meant for the node's ApplicationMasters, but every JVM reads it.
        command.env_remove("JAVA_TOOL_OPTIONS");
    }
    command
}
