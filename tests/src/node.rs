//! A node of either kind behind the same operations: the test chooses which.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::java::Vm;
use crate::lab::{Lab, NodeSite};
use crate::network::NodeNetwork;
use crate::node_logs::ApplicationLogs;
use crate::process::Process;
use crate::rm::ResourceManager;
use crate::{agent, http, java_nm, wait};

/// Deadline for a JVM's start and registration, on a machine that is busy building.
const REGISTER_DEADLINE: Duration = Duration::from_secs(90);

/// The program that is the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeKind {
    /// Hadoop's own NodeManager, on a JVM that starts quickly.
    Java,
    /// Hadoop's own NodeManager on a JVM as in a cluster, for measurements.
    MeasuredJava,
    /// The agent, at this path.
    Agent(PathBuf),
}

/// A node's process, registered or on its way.
#[derive(Debug)]
pub struct Node {
    /// Configuration and files of the node.
    pub site: NodeSite,
    /// Process of the node; killed on drop.
    pub process: Process,
}

impl Node {
    /// Starts a node and does not wait for its registration.
    ///
    /// # Panics
    /// When the node cannot be started.
    #[must_use]
    pub fn start(lab: &Lab, kind: &NodeKind, name: &str) -> Self {
        Self::start_at(lab.node_site(name), kind)
    }

    /// Starts a node with the test's own configuration and does not wait for its registration.
    ///
    /// # Panics
    /// When the node cannot be started.
    #[must_use]
    pub fn start_at(site: NodeSite, kind: &NodeKind) -> Self {
        let mut command = command(kind, &site);
        let process = Process::start(&site.name, &mut command, &site.log_folder);
        Self { site, process }
    }

    /// Starts a node in a network of its own and waits until the ResourceManager shows it as
    /// RUNNING.
    ///
    /// # Panics
    /// When that takes too long or the node ends.
    #[must_use]
    pub fn start_registered_in(
        network: &NodeNetwork,
        lab: &Lab,
        kind: &NodeKind,
        name: &str,
        rm: &ResourceManager,
    ) -> Self {
        let site = lab.node_site_in(name, &network.host);
        let mut command = network.enter(&command(kind, &site));
        let process = Process::start(name, &mut command, &site.log_folder);
        let mut node = Self { site, process };
        node.wait_state(rm, "RUNNING", REGISTER_DEADLINE);
        node
    }

    /// Starts a node and waits until the ResourceManager shows it as RUNNING.
    ///
    /// # Panics
    /// When that takes too long or the node ends.
    #[must_use]
    pub fn start_registered(lab: &Lab, kind: &NodeKind, name: &str, rm: &ResourceManager) -> Self {
        let mut node = Self::start(lab, kind, name);
        node.wait_state(rm, "RUNNING", REGISTER_DEADLINE);
        node
    }

    /// Starts the node again, whose process has ended.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start_again(&mut self, kind: &NodeKind) {
        let mut command = command(kind, &self.site);
        self.process = Process::start(&self.site.name, &mut command, &self.site.log_folder);
    }

    /// Returns the node's id at the ResourceManager.
    #[must_use]
    pub fn id(&self) -> String {
        format!(
            "{}:{}",
            self.site.host, self.site.ports.container_management
        )
    }

    /// Returns the node as the ResourceManager's REST shows it (`/ws/v1/cluster/nodes`).
    ///
    /// # Errors
    /// When no answer comes or the node is not in it.
    pub fn at_rm(&self, rm: &ResourceManager) -> Result<Value, String> {
        let nodes = rm.nodes()?;
        let found = nodes.iter().find(|node| node["id"] == self.id().as_str());
        found
            .cloned()
            .ok_or_else(|| format!("{} is not among {} nodes", self.id(), nodes.len()))
    }

    /// Waits until the ResourceManager shows the node in `state`.
    ///
    /// # Panics
    /// When that takes too long, or when the node ends although RUNNING is awaited.
    #[track_caller]
    pub fn wait_state(&mut self, rm: &ResourceManager, state: &str, deadline: Duration) {
        wait::until(format!("{} {state}", self.site.name), deadline, || {
            if state == "RUNNING" {
                assert!(
                    self.process.exit().is_none(),
                    "{} ended: {:?}",
                    self.site.name,
                    self.process.exit()
                );
            }
            let node = self.at_rm(rm)?;
            wait::check(node["state"] == state, node.to_string())
        });
    }

    /// Gets a path of the node's own REST or pages.
    ///
    /// # Errors
    /// When no answer comes.
    pub fn get(&self, path: &str) -> Result<http::Answer, String> {
        http::get(&format!("{}{path}", self.url()))
    }

    /// Returns the value of one of the node's series (`/metrics`); 0 when it does not exist.
    ///
    /// # Errors
    /// When no answer comes.
    pub fn metric(&self, series: &str) -> Result<f64, String> {
        let text = self.get("/metrics")?.body;
        let line = text.lines().find_map(|line| line.strip_prefix(series));
        let value = line.map_or("0", str::trim);
        value.parse().map_err(|_| format!("{series} is {value}"))
    }

    fn url(&self) -> String {
        format!("http://{}:{}", self.site.host, self.site.ports.web)
    }

    /// Returns the containers that the node's own REST shows (`/ws/v1/node/containers`); no
    /// container is an empty list.
    ///
    /// # Errors
    /// When no answer comes.
    pub fn containers(&self) -> Result<Vec<Value>, String> {
        let url = format!("{}/ws/v1/node/containers", self.url());
        let mut answer = http::get_json(&url)?;
        match answer["containers"]["container"].take() {
            Value::Array(list) => Ok(list),
            Value::Null => Ok(Vec::new()),
            one @ Value::Object(_) => Ok(vec![one]),
            other @ (Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                Err(format!("{url} answered {other}"))
            }
        }
    }

    /// Returns the logs of an application on this node.
    #[must_use]
    pub fn logs(&self, application_id: &str) -> ApplicationLogs {
        ApplicationLogs::new(&self.site.log_dir(), application_id)
    }
}

fn command(kind: &NodeKind, site: &NodeSite) -> Command {
    match kind {
        NodeKind::Java => java_nm::command(Vm::QuickStart, site),
        NodeKind::MeasuredJava => java_nm::command(Vm::Default, site),
        NodeKind::Agent(program) => agent::command(program, site),
    }
}
