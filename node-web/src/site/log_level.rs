//! `/logLevel`: levels of the log while the agent runs, as `yarn daemonlog` asks for and sets them
//! (Hadoop: `LogLevel.Servlet`).
//!
//! Loggers are the log's targets, which are the names of crates and their modules. The names of
//! Hadoop's loggers stand for the targets that do the same work here.

use std::fmt;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{HeaderMap, USER_AGENT};
use maud::{DOCTYPE, html};

use super::Site;
use super::answer::{Answer, HTML, answer, text};
use super::body::Body;
use super::fixed::own_log;
use super::target::Target;
use crate::source::NodeSource;

/// Begin of the lines that `yarn daemonlog` prints.
const MARKER: &str = "<!-- OUTPUT -->";

/// Bytes of a logger's name at most.
const NAME_BYTES_MAX: usize = 200;

/// Target of the whole program.
const PROGRAM: &str = "nm_agent";

/// Hadoop's loggers, by the begin of their names, and the targets here. The longest counts.
const HADOOP: [(&str, &str); 11] = [
    ("org.apache.hadoop", PROGRAM),
    ("org.apache.hadoop.ipc", "wire"),
    ("org.apache.hadoop.security", "wire"),
    ("org.apache.hadoop.mapred.ShuffleHandler", "shuffle"),
    (
        "org.apache.hadoop.yarn.server.nodemanager.NMAuditLogger",
        "audit",
    ),
    (
        "org.apache.hadoop.yarn.server.nodemanager.webapp",
        "node_web",
    ),
    (
        "org.apache.hadoop.yarn.server.nodemanager.amrmproxy",
        "amrm_proxy",
    ),
    (
        "org.apache.hadoop.yarn.server.nodemanager.containermanager.localizer",
        "localize",
    ),
    (
        "org.apache.hadoop.yarn.server.nodemanager.containermanager.logaggregation",
        "log_aggregation",
    ),
    (
        "org.apache.hadoop.yarn.server.nodemanager.containermanager.launcher",
        "container_runtime",
    ),
    (
        "org.apache.hadoop.yarn.server.nodemanager.containermanager.monitor",
        "container_runtime",
    ),
];

/// Levels by Hadoop's names and by those of this log. There is no level above `ERROR` but `OFF`,
/// and none below `TRACE`.
const LEVELS: [(&str, &str); 8] = [
    ("OFF", "OFF"),
    ("FATAL", "ERROR"),
    ("ERROR", "ERROR"),
    ("WARN", "WARN"),
    ("INFO", "INFO"),
    ("DEBUG", "DEBUG"),
    ("TRACE", "TRACE"),
    ("ALL", "TRACE"),
];

/// Sets the level of a target, or says why not.
type SetLevel = dyn Fn(&str, &str) -> Result<(), String> + Send + Sync;

/// Levels of the process's log, of which this crate knows only how to ask for them.
#[derive(Clone)]
pub struct LogLevels {
    get: Arc<dyn Fn(&str) -> String + Send + Sync>,
    set: Arc<SetLevel>,
}

impl LogLevels {
    /// Returns the levels behind two functions: one returns the level of a target, such as `INFO`;
    /// the other sets it, or says why not. The empty target means all without a level of their own.
    pub fn new(
        get: impl Fn(&str) -> String + Send + Sync + 'static,
        set: impl Fn(&str, &str) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            get: Arc::new(get),
            set: Arc::new(set),
        }
    }
}

impl fmt::Debug for LogLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogLevels")
    }
}

impl<S: NodeSource> Site<S> {
    /// Answers `/logLevel` for administrators (Hadoop: `HttpServer2.hasAdministratorAccess`).
    pub(super) async fn log_level(
        &self,
        target: &Target,
        name: Option<String>,
        headers: &HeaderMap,
    ) -> Answer {
        let user = name.clone();
        match (
            self.require_administrator(name).await,
            &self.options.log_levels,
        ) {
            (Err(refusal), _) => refusal,
            (Ok(()), None) => own_log(),
            (Ok(()), Some(levels)) => {
                let user = user.as_deref().unwrap_or("anonymous");
                log_level(levels, target, headers, user)
            }
        }
    }
}

/// Answers `/logLevel?log=NAME`, and `/logLevel?log=NAME&level=LEVEL`, which sets the level. `user`
/// is who asks, as far as that is known.
fn log_level(levels: &LogLevels, target: &Target, headers: &HeaderMap, user: &str) -> Answer {
    let name = target.parameter("log").map(str::trim).unwrap_or_default();
    let level = target.parameter("level").map(str::trim);
    if level.is_some() && is_browser(headers) {
        let why = "Levels are not set from a browser, since any page may make it send a request: \
                   use `yarn daemonlog -setlevel` or `curl`.\n";
        return text(StatusCode::FORBIDDEN, why);
    }
    let lines = if name.is_empty() {
        Vec::new()
    } else {
        outcome(levels, name, level, user)
    };
    page(&lines)
}

/// Returns whether a browser sends the request, by the rule of Hadoop's filter against cross-site
/// requests (`RestCsrfPreventionFilter.BROWSER_USER_AGENTS_DEFAULT`).
fn is_browser(headers: &HeaderMap) -> bool {
    let agent = headers
        .get(USER_AGENT)
        .map(|agent| agent.as_bytes())
        .unwrap_or_default();
    agent.starts_with(b"Mozilla") || agent.starts_with(b"Opera")
}

/// Sets the level, if there is one, and returns the lines that tell the outcome: what stands before
/// a value, the value, what stands behind it.
fn outcome(levels: &LogLevels, name: &str, level: Option<&str>, user: &str) -> Vec<[String; 3]> {
    let line = |before: &str, value: &str| [before.to_owned(), value.to_owned(), String::new()];
    let mut lines = vec![line("Submitted Class Name: ", name)];
    let Some(target) = target_of(name) else {
        lines.push(line("Bad Class Name: ", "no logger here has such a name"));
        return lines;
    };
    let shown = if target.is_empty() { "root" } else { &target };
    lines.push(line("Log Class: ", shown));
    if let Some(level) = level {
        lines.push(line("Submitted Level: ", level));
        let known = LEVELS
            .iter()
            .find(|(theirs, _)| theirs.eq_ignore_ascii_case(level));
        match known.map(|(_, ours)| (levels.set)(&target, ours)) {
            None => lines.push(line("Bad Level : ", level)),
            Some(Err(why)) => lines.push(line("Level not set: ", &why)),
            Some(Ok(())) => {
                tracing::warn!(
                    target: "audit",
                    "USER={}\tOPERATION=Set Log Level\tTARGET=LogLevel\tRESULT=SUCCESS\tDESCRIPTION={shown} to {level}",
                    user.escape_default()
                );
                lines.push([
                    format!("Setting Level to {level} ..."),
                    String::new(),
                    String::new(),
                ]);
            }
        }
    }
    lines.push(line("Effective Level: ", &(levels.get)(&target)));
    lines
}

/// Returns the target of a logger, `""` for the root; `None` if it cannot be the name of one.
fn target_of(name: &str) -> Option<String> {
    if name.eq_ignore_ascii_case("root") || name == "org" || name == "org.apache" {
        return Some(String::new());
    }
    let is_below = |begin: &str| {
        let rest = name.strip_prefix(begin);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '$']))
    };
    let of_hadoop = HADOOP.iter().filter(|(begin, _)| is_below(begin));
    if let Some((_, target)) = of_hadoop.max_by_key(|(begin, _)| begin.len()) {
        return Some((*target).to_owned());
    }
    let target = name.replace('.', "::").replace('-', "_");
    let is_name = target.len() <= NAME_BYTES_MAX
        && target
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':');
    is_name.then_some(target)
}

/// Returns a page with these lines, in the form that `yarn daemonlog` reads: each begins with its
/// marker, and what is between angle brackets is left out.
fn page(lines: &[[String; 3]]) -> Answer {
    let lines = lines.iter().map(|[before, value, behind]| {
        let line = html! { (before) @if !value.is_empty() { b { (value) } } (behind) br; };
        format!("{MARKER}{}\n", line.into_string())
    });
    let lines = maud::PreEscaped(lines.collect::<String>());
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; title { "Log Level" } }
            body {
                h1 { "Log Level" }
                hr;
                h3 { "Results" }
                "\n" (lines)
                hr;
                p { "Levels are read with /logLevel?log=NAME and set with /logLevel?log=NAME&level=LEVEL, as `yarn daemonlog` does; browsers only read them." }
            }
        }
    };
    answer(StatusCode::OK, HTML, Body::full(page.into_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hadoops_loggers_mean_the_targets_that_do_their_work() {
        let nm = "org.apache.hadoop.yarn.server.nodemanager";
        for (name, target) in [
            (format!("{nm}.NodeManager"), PROGRAM),
            (format!("{nm}.webappx"), PROGRAM),
            (format!("{nm}.containermanager.localizer.A$B"), "localize"),
            ("org.apache.hadoop.ipc.Server".to_owned(), "wire"),
            ("root".to_owned(), ""),
            ("org.apache".to_owned(), ""),
            (
                "node_manager::core_task".to_owned(),
                "node_manager::core_task",
            ),
            (
                "node-manager.core_task".to_owned(),
                "node_manager::core_task",
            ),
        ] {
            assert_eq!(target_of(&name).as_deref(), Some(target), "{name}");
        }
    }

    #[test]
    fn directives_of_a_filter_are_no_names() {
        for name in ["wire=trace", "a,trace", "[span]", "a b", &"x".repeat(201)] {
            assert_eq!(target_of(name), None, "{name}");
        }
    }
}
