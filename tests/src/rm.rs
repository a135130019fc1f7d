//! The ResourceManager's process: start, kill, restart over the same state, and its REST.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::lab::Lab;
use crate::process::Process;
use crate::{http, java, wait};

const MAIN_CLASS: &str = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager";

/// Heap of Hadoop's ResourceManager: its own figure for a small cluster is far above a test's need.
const HEAP_MB: u32 = 512;

/// Deadline for a JVM's start, on a machine that is busy building.
const START_DEADLINE: Duration = Duration::from_secs(120);

/// The program that is the ResourceManager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RmKind {
    /// Hadoop's own ResourceManager.
    Hadoop,
    /// `nm-agent rm`, from the agent's program at this path.
    Mini(PathBuf),
}

impl RmKind {
    /// Base name of the log files.
    const fn name(&self) -> &'static str {
        match self {
            Self::Hadoop => "rm",
            Self::Mini(_) => "mini-rm",
        }
    }

    fn command(&self, conf: &Path) -> Command {
        match self {
            Self::Hadoop => java::command(conf, MAIN_CLASS, HEAP_MB),
            Self::Mini(program) => {
                let mut command = Command::new(program);
                command.arg("rm").arg("--conf").arg(conf);
                command
            }
        }
    }
}

/// A ResourceManager that runs, or was killed and can be restarted.
#[derive(Debug)]
pub struct ResourceManager {
    kind: RmKind,
    /// Base name of the log files.
    name: String,
    conf: PathBuf,
    process: Option<Process>,
    url: String,
}

impl ResourceManager {
    /// Starts a ResourceManager and waits until it reports STARTED.
    ///
    /// # Panics
    /// When that takes too long or the process ends.
    #[must_use]
    pub fn start(lab: &Lab, kind: &RmKind) -> Self {
        let mut rm = Self::absent(lab, kind);
        rm.start_again(lab);
        rm
    }

    /// Returns a ResourceManager that is not started yet.
    #[must_use]
    pub fn absent(lab: &Lab, kind: &RmKind) -> Self {
        Self {
            kind: kind.clone(),
            name: kind.name().to_owned(),
            conf: lab.conf(),
            process: None,
            url: format!("http://localhost:{}", lab.rm_ports().web),
        }
    }

    /// Starts Hadoop's ResourceManager with this configuration, whose pages are at this port, and
    /// does not wait for it. `name` names its log files.
    pub(crate) fn spawn(lab: &Lab, name: &str, conf: PathBuf, web: u16) -> Self {
        let mut rm = Self {
            kind: RmKind::Hadoop,
            name: name.to_owned(),
            conf,
            process: None,
            url: format!("http://localhost:{web}"),
        };
        rm.spawn_again(lab);
        rm
    }

    /// Starts it, and does not wait for it.
    pub(crate) fn spawn_again(&mut self, lab: &Lab) {
        let mut command = self.kind.command(&self.conf);
        command.envs(lab.environment()).current_dir(lab.folder());
        let process = Process::start(&self.name, &mut command, &lab.log_folder());
        self.process = Some(process);
    }

    /// Starts it after [`ResourceManager::kill`], over its state store, and waits until it reports
    /// STARTED.
    ///
    /// # Panics
    /// When that takes too long or the process ends.
    pub fn start_again(&mut self, lab: &Lab) {
        self.spawn_again(lab);
        self.wait_info("state", "STARTED");
    }

    /// Waits until `/ws/v1/cluster/info` has this value, after a start.
    ///
    /// # Panics
    /// When that takes too long or the process ends.
    pub(crate) fn wait_info(&mut self, field: &str, value: &str) {
        let mut process = self.process.take();
        wait::until(
            format!("the ResourceManager {value}"),
            START_DEADLINE,
            || {
                let exit = process.as_mut().and_then(Process::exit);
                assert!(exit.is_none(), "the ResourceManager ended: {exit:?}");
                let info = self.cluster_info()?;
                wait::check(info[field] == value, info.to_string())
            },
        );
        self.process = process;
    }

    /// Kills the process with SIGKILL.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Returns its log so far; empty while it is not running.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.as_ref().map(Process::log).unwrap_or_default()
    }

    /// Returns `/ws/v1/cluster/info`.
    ///
    /// # Errors
    /// When no answer comes.
    pub fn cluster_info(&self) -> Result<Value, String> {
        Ok(self.get("info")?["clusterInfo"].take())
    }

    /// Returns every node in any state (`/ws/v1/cluster/nodes`).
    ///
    /// # Errors
    /// When no answer comes.
    pub fn nodes(&self) -> Result<Vec<Value>, String> {
        // Without the states only running nodes are listed.
        let states = "NEW,RUNNING,UNHEALTHY,DECOMMISSIONED,LOST,REBOOTED,DECOMMISSIONING,SHUTDOWN";
        Ok(list(
            self.get(&format!("nodes?states={states}"))?["nodes"]["node"].take(),
        ))
    }

    /// Returns an application (`/ws/v1/cluster/apps/{id}`).
    ///
    /// # Errors
    /// When no answer comes.
    pub fn application(&self, application_id: &str) -> Result<Value, String> {
        Ok(self.get(&format!("apps/{application_id}"))?["app"].take())
    }

    /// Returns the attempts of an application, oldest first.
    ///
    /// # Errors
    /// When no answer comes.
    pub fn attempts(&self, application_id: &str) -> Result<Vec<Value>, String> {
        let mut answer = self.get(&format!("apps/{application_id}/appattempts"))?;
        Ok(list(answer["appAttempts"]["appAttempt"].take()))
    }

    /// Returns the containers of an attempt that have not finished.
    ///
    /// # Errors
    /// When no answer comes.
    pub fn containers(&self, application_id: &str, attempt_id: &str) -> Result<Vec<Value>, String> {
        let mut answer = self.get(&format!(
            "apps/{application_id}/appattempts/{attempt_id}/containers"
        ))?;
        Ok(list(answer["container"].take()))
    }

    /// Waits until an application is in `state`.
    ///
    /// # Panics
    /// When that takes too long.
    #[track_caller]
    pub fn wait_application(&self, application_id: &str, state: &str, deadline: Duration) -> Value {
        wait::until(format!("{application_id} {state}"), deadline, || {
            let application = self.application(application_id)?;
            if application["state"] == state {
                Ok(application)
            } else {
                Err(application.to_string())
            }
        })
    }

    /// Kills an application through its REST call.
    ///
    /// # Panics
    /// When the ResourceManager refuses.
    pub fn kill_application(&self, lab: &Lab, application_id: &str) {
        let user = lab.user();
        let url = format!(
            "{}/ws/v1/cluster/apps/{application_id}/state?user.name={user}",
            self.url
        );
        let answer =
            http::put(&url, &json!({"state": "KILLED"})).unwrap_or_else(|error| panic!("{error}"));
        assert!(
            answer.status == 202 || answer.status == 200,
            "{url} answered {}: {}",
            answer.status,
            answer.body
        );
    }

    /// Gets a path of a running application's own web server through the ResourceManager, as JSON.
    ///
    /// # Errors
    /// When no answer comes.
    pub fn proxied(&self, application_id: &str, path: &str) -> Result<Value, String> {
        http::get_json(&format!("{}/proxy/{application_id}/{path}", self.url))
    }

    fn get(&self, path: &str) -> Result<Value, String> {
        http::get_json(&format!("{}/ws/v1/cluster/{path}", self.url))
    }
}

/// Returns the elements of a list in Hadoop's REST, which leaves an empty list out and sometimes
/// shows a list of one as its element.
fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values,
        Value::Null => Vec::new(),
        one @ (Value::Object(_) | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            vec![one]
        }
    }
}
