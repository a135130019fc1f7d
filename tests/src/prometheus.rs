//! A real Prometheus that scrapes the ports of a test, and its tool.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tempfile::TempDir;

use crate::http;
use crate::ports::Port;
use crate::process::Process;
use crate::wait;

/// Name of the server in Debian's package `prometheus`.
pub const PROMETHEUS: &str = "prometheus";
/// Name of the tool in Debian's package `prometheus`.
pub const PROMTOOL: &str = "promtool";

/// Deadline for the server to answer, on a machine that is busy building.
const START_DEADLINE: Duration = Duration::from_secs(90);

/// Interval of scrapes: short, so that a test sees rates soon.
const SCRAPE_INTERVAL: &str = "250ms";

/// A server on a port of its own; dropping it removes its data.
#[derive(Debug)]
pub struct Prometheus {
    _process: Process,
    url: String,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts a server that scrapes `/metrics` of these ports as the job `nm-agent` and evaluates
    /// these rules.
    ///
    /// # Panics
    /// When the server does not come up.
    #[must_use]
    pub fn start(ports: &[u16], rules: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("no folder: {error}"));
        let mut targets = String::new();
        for port in ports {
            write!(targets, "'127.0.0.1:{port}', ").expect("a string takes any text");
        }
        let config = format!(
            "global: {{scrape_interval: {SCRAPE_INTERVAL}, scrape_timeout: {SCRAPE_INTERVAL}, evaluation_interval: 1s}}\n\
             rule_files: ['{}']\n\
             scrape_configs: [{{job_name: nm-agent, static_configs: [{{targets: [{targets}]}}]}}]\n",
            rules.display()
        );
        let file = folder.path().join("prometheus.yml");
        fs::write(&file, config)
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
        let port = Port::reserve().release();
        let mut command = Command::new(PROMETHEUS);
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ));
        let mut prometheus = Self {
            _process: Process::start("prometheus", &mut command, folder.path()),
            url: format!("http://127.0.0.1:{port}"),
            _folder: folder,
        };
        prometheus.wait_ready();
        prometheus
    }

    fn wait_ready(&mut self) {
        let url = format!("{}/-/ready", self.url);
        wait::until("Prometheus", START_DEADLINE, || match http::get(&url) {
            Ok(answer) if answer.status == 200 => Ok(()),
            Ok(answer) => Err(format!("status {}", answer.status)),
            Err(error) => {
                let exit = self._process.exit();
                assert!(exit.is_none(), "Prometheus ended with {exit:?}");
                Err(error)
            }
        });
    }

    /// Returns the result of an instant query: one entry for each series.
    ///
    /// # Errors
    /// When the server refuses the query or does not answer.
    pub fn query(&self, expression: &str) -> Result<Vec<Value>, String> {
        self.ask("query", expression, "")
    }

    /// Returns the result of a query at 121 moments of equal distance, the last of which is now:
    /// one entry for each series.
    ///
    /// A server counts the moments from the first one, so the length is cut to whole milliseconds
    /// of distance. Otherwise the last moment is before now, and what an instant query has just
    /// seen may be missing.
    ///
    /// # Errors
    /// When the server refuses the query or does not answer.
    pub fn query_range(&self, expression: &str, length: Duration) -> Result<Vec<Value>, String> {
        const STEPS: u128 = 120;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let end_ms = now.map_err(|error| error.to_string())?.as_millis();
        let step_ms = (length.as_millis() / STEPS).max(1);
        let begin_ms = end_ms.saturating_sub(STEPS * step_ms);
        let in_s = |ms: u128| format!("{}.{:03}", ms / 1000, ms % 1000);
        let range = format!(
            "&start={}&end={}&step={}",
            in_s(begin_ms),
            in_s(end_ms),
            in_s(step_ms)
        );
        self.ask("query_range", expression, &range)
    }

    fn ask(&self, kind: &str, expression: &str, more: &str) -> Result<Vec<Value>, String> {
        let mut url = format!("{}/api/v1/{kind}?query=", self.url);
        for byte in expression.bytes() {
            write!(url, "%{byte:02X}").expect("a string takes any text");
        }
        url += more;
        let answer = http::get(&url)?;
        let answer = http::parse(&url, &answer.body)?;
        if answer["status"] != "success" {
            return Err(format!("{expression}: {answer}"));
        }
        let result = answer["data"]["result"].as_array().cloned();
        Ok(result.unwrap_or_default())
    }

    /// Returns names and states of all alerts that the rules derive from the data.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn alerts(&self) -> Result<Value, String> {
        http::get_json(&format!("{}/api/v1/alerts", self.url))
    }
}

/// Runs the tool with this standard input; returns its output.
///
/// # Errors
/// With the tool's output, when it reports a problem.
///
/// # Panics
/// When the tool does not run.
pub fn promtool(arguments: &[&str], folder: &Path, input: &str) -> Result<String, String> {
    let mut child = Command::new(PROMTOOL)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {PROMTOOL}: {error}"));
    let mut pipe = child.stdin.take().expect("its input is a pipe");
    // The tool reads all of its input before it writes, or none.
    drop(pipe.write_all(input.as_bytes()));
    drop(pipe);
    let output = child
        .wait_with_output()
        .unwrap_or_else(|error| panic!("cannot wait for {PROMTOOL}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok(text)
    } else {
        Err(text)
    }
}
