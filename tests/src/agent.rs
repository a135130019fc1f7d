//! The agent under test, started as an operator starts it: `nm-agent run --conf DIR`.

use std::path::Path;
use std::process::Command;

use crate::lab::NodeSite;

/// Returns a command that runs the agent `program` for a site.
///
/// # Panics
/// When there is no Java, which the containers of the tests need.
#[must_use]
pub fn command(program: &Path, site: &NodeSite) -> Command {
    let mut command = Command::new(program);
    command.arg("run").arg("--conf").arg(site.conf());
    site.set_environment(&mut command);
    command
}
