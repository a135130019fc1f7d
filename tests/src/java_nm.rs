//! The Java NodeManager: the reference that the tests themselves are right.

use std::process::Command;

use crate::java;
use crate::lab::NodeSite;

/// A command that runs the Java NodeManager of a site.
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
