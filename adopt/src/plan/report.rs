//! A plan in words.

use std::io;

use nix::unistd::{Uid, User};

use super::Plan;
use crate::record::{Adoption, Step};
use crate::scan::{JavaNode, Scan, StartedBy};
use crate::text::{shown, shown_path};

/// Changes that every adoption makes.
const CHANGES: [&str; 5] = [
    "The node keeps its id, its ports and its configuration; nm-agent-site.xml beside yarn-site.xml has what \
     differs, and only the agent reads it.",
    "Caches: the agent has its own in the folder nm-agent below each local folder, and fills them anew. The Java \
     node's stay as they are, and take their room.",
    "Logs of containers lie side by side in the same folders. The agent deletes none that it did not make.",
    "YARN_NODEMANAGER_OPTS and heap sizes have no meaning: there is no JVM.",
    "Hadoop's own scripts start, stop and ask the agent, by a link in shellprofile.d. They start the Java node \
     again once it is removed.",
];

impl Plan {
    /// Writes the plan for people.
    ///
    /// # Errors
    /// When `out` cannot be written to.
    pub fn write_text(&self, out: &mut dyn io::Write) -> io::Result<()> {
        found(&self.scan, out)?;
        let mut changes: Vec<String> = CHANGES.map(str::to_owned).to_vec();
        if let Some(program) = self.adoption.variables.get("NM_AGENT") {
            changes.push(format!(
                "The program is {}: set NM_AGENT to it in hadoop-env.sh, or Hadoop's scripts look for it in /usr/bin at the \
                 next start.",
                shown(program)
            ));
        }
        list("What would change", &changes, out)?;
        list("What jobs here would miss", &self.missing, out)?;
        list("What is not taken over", &self.not_taken_over(), out)?;
        let steps: Vec<_> = Step::ALL
            .into_iter()
            .filter_map(|step| describe(step, &self.adoption))
            .map(|(done, undone)| format!("{done}\n      back: {undone}"))
            .collect();
        list(
            "Steps of --go, and of --back from the last to the first",
            &steps,
            out,
        )?;
        if self.refusals.is_empty() {
            writeln!(out, "Nothing was changed. --go does it.")
        } else {
            let refusals: Vec<_> = self.refusals.iter().map(ToString::to_string).collect();
            list("--go would do nothing", &refusals, out)?;
            writeln!(out, "Nothing was changed.")
        }
    }

    fn not_taken_over(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.scan.containers > 0 {
            all.push(format!(
                "Containers that run: {}. The ResourceManager's ApplicationMasters ask for them again.",
                self.scan.containers
            ));
        }
        if let Some(path) = &self.scan.recovery_state {
            all.push(format!(
                "Recovery state: {} stays, and the Java node goes on from it after --back.",
                shown_path(path)
            ));
        }
        if self.scan.folders.is_known() && self.scan.folders.recovery.is_none() {
            all.push(
                "Recovery state: there is none, so the Java node empties its own caches at each of its \
                 starts, also at --back. --back keeps the logs from it."
                    .to_owned(),
            );
        }
        all
    }
}

fn found(scan: &Scan, out: &mut dyn io::Write) -> io::Result<()> {
    let mut lines = vec![format!("configuration: {}", shown_path(&scan.conf))];
    if scan.nodes.is_empty() {
        lines.push("Java node: does not run".to_owned());
    }
    for node in &scan.nodes {
        lines.push(format!("Java node: {}{}", process(node), started(scan)));
        lines.push(format!("environment: {}", names(node)));
    }
    for node in &scan.others {
        let conf = node.conf.as_deref().map(shown_path).unwrap_or_default();
        lines.push(format!("another Java node: {}, with {conf}", process(node)));
    }
    let folders = &scan.folders;
    for (kind, paths) in [("local", &folders.local_dirs), ("log", &folders.log_dirs)] {
        let paths = paths.iter().map(|path| {
            let owner = std::fs::metadata(path).map_or_else(
                |_| "missing".to_owned(),
                |status| user(std::os::unix::fs::MetadataExt::uid(&status)),
            );
            format!("{kind} folder: {} ({owner})", shown_path(path))
        });
        lines.extend(paths);
    }
    lines.push(match &folders.recovery {
        Some(path) => format!("recovery: on, in {}", shown_path(path)),
        None if folders.is_known() => "recovery: off".to_owned(),
        None => "folders and recovery: unknown, since the configuration cannot be used".to_owned(),
    });
    list("This machine", &lines, out)
}

fn process(node: &JavaNode) -> String {
    format!("process {} of {}", node.process.pid, user(node.user))
}

fn started(scan: &Scan) -> String {
    let Some(start) = &scan.start else {
        return String::new();
    };
    let file = start.pid_file.as_ref();
    let file = file.map_or_else(String::new, |file| {
        format!(", pid file {}", shown_path(&file.path()))
    });
    let by = match &start.by {
        StartedBy::Daemon => "`yarn --daemon start nodemanager`".to_owned(),
        StartedBy::Unit(name) => format!("the unit {name}"),
        StartedBy::Hand => "hand".to_owned(),
    };
    format!(", started by {by}{file}")
}

/// Names only: a value may be a secret.
fn names(node: &JavaNode) -> String {
    let Some(environment) = &node.environment else {
        return "not readable for this user".to_owned();
    };
    let names: Vec<_> = environment.keys().map(|name| shown(name)).collect();
    shown(&names.join(" "))
}

fn user(id: u32) -> String {
    let user = User::from_uid(Uid::from_raw(id)).ok().flatten();
    user.map_or_else(|| format!("user id {id}"), |user| user.name)
}

/// Returns a step and its way back in words; `None`: there is nothing to do.
pub(crate) fn describe(step: Step, adoption: &Adoption) -> Option<(String, String)> {
    let manager = |verb: &str| match &adoption.started_by {
        StartedBy::Unit(name) => format!("systemctl {verb} {name}"),
        StartedBy::Daemon | StartedBy::Hand => format!("yarn --daemon {verb} nodemanager"),
    };
    let conf = shown_path(&adoption.conf);
    Some(match step {
        Step::WriteSite => (
            format!("write {conf}/nm-agent-site.xml"),
            "remove it, unless it was changed".to_owned(),
        ),
        Step::StopJava => {
            adoption.java?;
            let stop = match adoption.started_by {
                StartedBy::Hand => "SIGTERM to the process".to_owned(),
                StartedBy::Daemon | StartedBy::Unit(_) => manager("stop"),
            };
            let keeps = match adoption.emptied_logs.is_empty() {
                true => "",
                false => ", with the logs set aside until it is up",
            };
            (
                format!("stop the Java node: {stop}"),
                format!("start it: {}{keeps}", manager("start")),
            )
        }
        Step::LinkProfile => (
            format!(
                "link {conf}/shellprofile.d/nm-agent.sh to {}",
                shown_path(&adoption.profile)
            ),
            "remove the link".to_owned(),
        ),
        Step::StartAgent => (
            format!(
                "start the agent: {}, and wait until it is registered; if it does not register, go \
                 back",
                manager("start")
            ),
            format!("stop it: {}", manager("stop")),
        ),
    })
}

fn list(title: &str, lines: &[String], out: &mut dyn io::Write) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "{title}:")?;
    for line in lines {
        writeln!(out, "  - {line}")?;
    }
    writeln!(out)
}
