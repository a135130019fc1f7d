//! MapReduce's history server: its process, and its REST about jobs that have ended.

use std::ffi::OsString;
use std::time::Duration;

use serde_json::Value;

use crate::lab::Lab;
use crate::ports::Port;
use crate::process::Process;
use crate::{http, java, wait};

const MAIN_CLASS: &str = "org.apache.hadoop.mapreduce.v2.hs.JobHistoryServer";

const HEAP_MB: u32 = 256;

/// Deadline for a JVM's start, on a machine that is busy building.
const START_DEADLINE: Duration = Duration::from_secs(120);

/// Deadline for a job to move from its ApplicationMaster's folder into the history.
const HISTORY_DEADLINE: Duration = Duration::from_secs(60);

/// Ports of a history server, which the processes that name it in their configuration need first.
#[derive(Debug)]
pub struct Reserved {
    web: u16,
}

/// A running history server. Dropping it kills it.
#[derive(Debug)]
pub struct HistoryServer {
    /// Process of the server.
    pub process: Process,
    url: String,
}

impl HistoryServer {
    /// Chooses ports and names the server in the configuration of clients, and of nodes and the
    /// ResourceManager if they start later.
    #[must_use]
    pub fn reserve(lab: &mut Lab) -> Reserved {
        let ports: [Port; 3] = std::array::from_fn(|_| Port::reserve());
        let [rpc, web, admin] = ports.map(Port::release);
        let at = |port: u16| format!("localhost:{port}");
        lab.set_mapred("mapreduce.jobhistory.address", at(rpc));
        lab.set_mapred("mapreduce.jobhistory.webapp.address", at(web));
        lab.set_mapred("mapreduce.jobhistory.admin.address", at(admin));
        let logs = format!("http://{}/jobhistory/logs", at(web));
        lab.set("yarn.log.server.url", logs);
        Reserved { web }
    }

    /// Starts a server for one client, unless the lab's configuration names one. Nobody waits for
    /// it. Returns it with the arguments by which the client finds it.
    ///
    /// A client that is slow may ask for its job when the ApplicationMaster, which stays for five
    /// seconds after the end, has gone. Then it goes to the history server, and fails without one.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start_beside(lab: &Lab) -> Option<(Process, Vec<OsString>)> {
        if lab.mapred("mapreduce.jobhistory.address").is_some() {
            return None;
        }
        let addresses = ["address", "webapp.address", "admin.address"].map(|name| {
            let port = Port::reserve().release();
            let property = format!("mapreduce.jobhistory.{name}=localhost:{port}");
            [OsString::from("-D"), property.into()]
        });
        let arguments = addresses.concat();
        let mut command = java::command(&lab.conf(), MAIN_CLASS, HEAP_MB);
        command.args(&arguments).current_dir(lab.folder());
        let process = Process::start("history-server", &mut command, &lab.log_folder());
        Some((process, arguments))
    }

    /// Starts the server and waits until it answers. Its files are on the default file system.
    ///
    /// # Panics
    /// When it does not come up.
    #[must_use]
    pub fn start(lab: &Lab, reserved: &Reserved) -> Self {
        let mut command = java::command(&lab.conf(), MAIN_CLASS, HEAP_MB);
        command.envs(lab.environment()).current_dir(lab.folder());
        let mut server = Self {
            process: Process::start("history-server", &mut command, &lab.log_folder()),
            url: format!("http://localhost:{}", reserved.web),
        };
        wait::until("the history server", START_DEADLINE, || {
            let exit = server.process.exit();
            assert!(exit.is_none(), "the history server ended: {exit:?}");
            server.get("/ws/v1/history/info").map(drop)
        });
        server
    }

    /// Returns the URL of its pages, without a path.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Waits until a job is in the history and returns it
    /// (`/ws/v1/history/mapreduce/jobs/{id}`).
    ///
    /// # Panics
    /// At the deadline.
    #[must_use]
    #[track_caller]
    pub fn job(&self, job_id: &str) -> Value {
        wait::until(format!("{job_id} in the history"), HISTORY_DEADLINE, || {
            self.of_job(job_id, "").map(|mut job| job["job"].take())
        })
    }

    /// Returns what is below a job in the history, such as `/jobattempts`.
    ///
    /// # Errors
    /// When no answer comes.
    pub fn of_job(&self, job_id: &str, path: &str) -> Result<Value, String> {
        self.get(&format!("/ws/v1/history/mapreduce/jobs/{job_id}{path}"))
    }

    /// Returns all attempts of a job's tasks, by task and in their order.
    ///
    /// # Panics
    /// When no answer comes.
    #[must_use]
    #[track_caller]
    pub fn attempts(&self, job_id: &str) -> Vec<Value> {
        let of_job = |path: &str| {
            let answer = self.of_job(job_id, path);
            answer.unwrap_or_else(|error| panic!("{error}"))
        };
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let tasks = list(&of_job("/tasks")["tasks"]["task"]);
        let ids = tasks.iter().filter_map(|task| task["id"].as_str());
        let attempts = ids.flat_map(|id| {
            let attempts = of_job(&format!("/tasks/{id}/attempts"));
            list(&attempts["taskAttempts"]["taskAttempt"])
        });
        attempts.collect()
    }

    fn get(&self, path: &str) -> Result<Value, String> {
        http::get_json(&format!("{}{path}", self.url))
    }
}
