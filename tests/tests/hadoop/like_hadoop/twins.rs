//! Two nodes of the same configuration, the agent and Hadoop's own NodeManager, each between a
//! scripted ResourceManager and a scripted ApplicationMaster of its own.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use records::ContainerId;
use serde_json::Value;
use test_support::scripted::{Completed, Refusal, ScriptedAm, ScriptedRm};
use test_support::{Allocation, LaunchContext, current_user};
use tests::conf::Properties;
use tests::gate::Gate;
use tests::node::NodeKind;
use tests::node_process::NodeProcess;
use tests::{http, wait};

use super::mask::Masks;
use crate::AGENT;

/// Deadline for a container's first command, on a machine that is busy building.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// A node of the two, with its peers. Fields are dropped in this order.
pub(super) struct Twin {
    pub(super) am: ScriptedAm,
    pub(super) node: NodeProcess,
    pub(super) rm: ScriptedRm,
    pub(super) web_port: i32,
}

impl Twin {
    /// Starts a node and waits until it is registered.
    fn start(kind: &NodeKind, change: impl FnOnce(&mut Properties)) -> Self {
        let rm = ScriptedRm::start();
        let node = NodeProcess::start(kind, &rm, change);
        let am = ScriptedAm::connect(&rm, 1);
        let web_port = rm.wait_registrations(1).http_port.unwrap_or_default();
        Self {
            am,
            node,
            rm,
            web_port,
        }
    }

    /// Returns the container with this number as its ResourceManager allocates it: both nodes use
    /// the same ids.
    pub(super) fn allocation(&self, number: i64) -> Allocation {
        Allocation {
            id: self.am.attempt().container(number),
            is_of_node: false,
            ..self.am.allocate()
        }
    }

    /// Starts a guaranteed container of 128 MiB.
    pub(super) fn start_number(&self, number: i64, context: LaunchContext) -> ContainerId {
        let allocation = self.allocation(number);
        self.am
            .try_start(&allocation, context)
            .unwrap_or_else(|refusal| panic!("{} does not start: {refusal}", allocation.id))
    }

    /// Starts a container and returns its end as a text.
    pub(super) fn end_of(&self, number: i64, context: LaunchContext) -> String {
        let id = self.start_number(number, context);
        text_of_end(&self.rm.wait_completed(id))
    }

    /// Starts a container that sleeps, and waits for its process: a Java node says RUNNING before
    /// there is one.
    pub(super) fn start_sleeping(&self, allocation: &Allocation) -> ContainerId {
        let context = LaunchContext::command("touch started; exec sleep 600");
        let id = self
            .am
            .try_start(allocation, context)
            .unwrap_or_else(|refusal| panic!("{} does not start: {refusal}", allocation.id));
        self.wait_work_file(id, "started");
        id
    }

    /// Returns the work folder of a container.
    pub(super) fn work_folder(&self, id: ContainerId) -> PathBuf {
        self.node
            .local_dir()
            .join("usercache")
            .join(current_user())
            .join("appcache")
            .join(id.application_id().to_string())
            .join(id.to_string())
    }

    /// Waits until a container has made this file in its work folder.
    pub(super) fn wait_work_file(&self, id: ContainerId, name: &str) {
        let path = self.work_folder(id).join(name);
        wait::until(format!("{name} of {id}"), DEADLINE, || {
            if path.exists() {
                Ok(())
            } else {
                Err("missing")
            }
        });
    }

    /// Returns a gate for this name in the node's folder.
    pub(super) fn gate(&self, name: &str) -> Gate {
        Gate::at(self.node.folder().join(name))
    }

    /// Returns the path of a new file in the node's folder, for resources.
    pub(super) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.node.folder().join(name);
        fs::write(&path, content)
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        path
    }

    /// Returns the log folder of a container.
    pub(super) fn log_folder(&self, id: ContainerId) -> PathBuf {
        let folder = self.node.log_dir().join(id.application_id().to_string());
        folder.join(id.to_string())
    }

    /// Gets a path of the node's REST resources as status and JSON; any other text is a string.
    pub(super) fn rest(&self, path: &str) -> (u16, Value) {
        let url = format!("http://localhost:{}/ws/v1/node{path}", self.web_port);
        let answer = http::get(&url).unwrap_or_else(|error| panic!("{error}"));
        let json = serde_json::from_str(&answer.body);
        (answer.status, json.unwrap_or(Value::String(answer.body)))
    }

    /// Returns the texts that differ between the two runs and mean the same.
    fn masks(&self) -> Masks {
        let mut masks = Masks::default();
        masks
            .text(&self.node.folder().display().to_string(), "<folder>")
            .text(&self.am.secrets().rm_identifier.to_string(), "<rm>")
            .text(&format!(":{}", self.am.node().port), ":<port>")
            .text(&format!(":{}", self.web_port), ":<web>");
        masks
    }
}

/// Returns exit status and diagnostics.
pub(super) fn text_of_end(completed: &Completed) -> String {
    format!("{}\n{}", completed.exit_status, completed.diagnostics)
}

/// Text of a Java node that looked for the file with a process's pid after it had deleted it.
const CLEANUP_FAILED: &str = "Exception when trying to cleanup container ";

/// Returns diagnostics with one text about the exit code, which Hadoop writes twice without a retry
/// policy, and without [`CLEANUP_FAILED`], which a Java node adds on a busy machine.
pub(crate) fn once(diagnostics: &str) -> String {
    let text = |piece: &str| {
        let text = piece.trim_end_matches('[').split_once(']');
        text.map(|(_time, text)| text.to_owned())
    };
    let mut pieces: Vec<_> = diagnostics.split_inclusive("\n[").collect();
    pieces.retain(|piece| text(piece).is_none_or(|text| !text.starts_with(CLEANUP_FAILED)));
    pieces.dedup_by(|a, b| text(a) == text(b));
    pieces.concat().trim_end_matches('[').to_owned()
}

#[test]
fn a_text_that_hadoop_writes_twice_or_on_busy_machines_only_is_left_out() {
    let busy = format!("0\n[1]one\n\n[2]{CLEANUP_FAILED}c_1: no file\n\tat A\n\n[3]end\n\n");
    assert_eq!(once(&busy), "0\n[1]one\n\n[3]end\n\n");
    let busy = format!("0\n[1]one\n\n[2]{CLEANUP_FAILED}c_1: no file\n\tat A\n\n");
    assert_eq!(once(&busy), "0\n[1]one\n\n");
    let twice = "0\n[1]Exit code: 3\n\n[2]text\n\n[2]text\n\n";
    assert_eq!(once(twice), "0\n[1]Exit code: 3\n\n[2]text\n\n");
}

/// Returns the exception that a node named, or that there was none.
pub(super) fn text_of_refusal<T>(result: Result<T, Refusal>) -> String {
    match result {
        Ok(_) => "accepted".to_owned(),
        Err(refusal) => {
            let exception = refusal.exception();
            format!("{}: {}", exception.class_name, exception.message)
        }
    }
}

/// Returns the names of the files in a folder, sorted, a line each.
pub(super) fn names_in(folder: &Path) -> String {
    let Ok(entries) = fs::read_dir(folder) else {
        return format!("no folder {}", folder.display());
    };
    let mut names: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    names.sort();
    names.join("\n")
}

/// The two nodes, and the scenarios in which they differ.
pub(super) struct Twins {
    java: Twin,
    agent: Twin,
    differences: String,
}

impl Twins {
    /// Starts both nodes with the same change of the configuration.
    pub(super) fn start(change: impl Fn(&mut Properties)) -> Self {
        Self {
            java: Twin::start(&NodeKind::Java, &change),
            agent: Twin::start(&NodeKind::Agent(AGENT.into()), &change),
            differences: String::new(),
        }
    }

    /// Does the same on both nodes without a comparison.
    pub(super) fn each(&self, act: impl Fn(&Twin)) {
        act(&self.java);
        act(&self.agent);
    }

    /// Does the same on both nodes and compares the texts, in which ids, ports, folders and times
    /// are masked.
    pub(super) fn compare(&mut self, scenario: &str, act: impl Fn(&Twin) -> String) {
        let java = self.java.masks().apply(&act(&self.java));
        let agent = self.agent.masks().apply(&act(&self.agent));
        if java != agent {
            let differing = lines_that_differ(&java, &agent);
            write!(self.differences, "==== {scenario}\n{differing}")
                .expect("writing to a string does not fail");
        }
    }
}

impl Drop for Twins {
    /// Reports all scenarios at once: a Java NodeManager takes longer to start than all of them.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(
                self.differences.is_empty(),
                "the agent (+) differs from Hadoop's NodeManager (-):\n{}",
                self.differences
            );
        }
    }
}

/// Returns both texts by line: lines of one text only, after the common start and before the common
/// end, with the line before them.
fn lines_that_differ(java: &str, agent: &str) -> String {
    let (java, agent): (Vec<_>, Vec<_>) = (java.lines().collect(), agent.lines().collect());
    let same_at_start = java.iter().zip(&agent).take_while(|(a, b)| a == b).count();
    let (java_rest, agent_rest) = (&java[same_at_start..], &agent[same_at_start..]);
    let backwards = java_rest.iter().rev().zip(agent_rest.iter().rev());
    let same_at_end = backwards.take_while(|(a, b)| a == b).count();
    let context = java[..same_at_start].iter().rev().take(1);
    let mut text: String = context.map(|line| format!("  {line}\n")).collect();
    for line in &java_rest[..java_rest.len() - same_at_end] {
        text += &format!("- {line}\n");
    }
    for line in &agent_rest[..agent_rest.len() - same_at_end] {
        text += &format!("+ {line}\n");
    }
    text
}
