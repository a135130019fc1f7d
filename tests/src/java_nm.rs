//! Hadoop's own NodeManager: the reference that shows whether a test is right.

use std::process::Command;

use crate::java;
use crate::lab::NodeSite;

/// Returns a command that runs Hadoop's NodeManager for a site.
///
/// # Panics
/// When there is no Java or no Hadoop.
#[must_use]
pub fn command(site: &NodeSite) -> Command {
    let mut command = java::command(
        &site.conf(),
        "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
        512,
    );
    crate::node::set_environment(&mut command, site);
    command
}
