//! `yarn logs`, Hadoop's reader of aggregated logs: its unmodified client, run to its end.

use std::time::Duration;

use crate::lab::Lab;
use crate::rm::ResourceManager;
use crate::{java, wait};

/// Class of `yarn logs`.
const LOGS_CLI: &str = "org.apache.hadoop.yarn.client.cli.LogsCLI";

/// Deadline for the uploads of an application that has ended, on a machine that is busy building.
const UPLOAD_DEADLINE: Duration = Duration::from_secs(90);

/// Runs `yarn logs` and returns what it prints.
///
/// # Panics
/// When it fails.
#[must_use]
#[track_caller]
pub fn yarn_logs(lab: &Lab, arguments: &[&str]) -> String {
    let mut command = java::command(&lab.conf(), LOGS_CLI, 256);
    let output = command.envs(lab.environment()).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("yarn logs does not run: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Waits until the ResourceManager has heard that all logs of an application are uploaded.
///
/// # Panics
/// At the deadline.
#[track_caller]
pub fn wait_aggregated(rm: &ResourceManager, application_id: &str) {
    wait::until("log aggregation at the RM", UPLOAD_DEADLINE, || {
        let application = rm.application(application_id)?;
        wait::check(
            application["logAggregationStatus"] == "SUCCEEDED",
            application.to_string(),
        )
    });
}

/// Returns the contents of the logs of this name in what `yarn logs` printed.
#[must_use]
pub fn contents<'a>(printed: &'a str, name: &str) -> Vec<&'a str> {
    // The line at the end of a log has the same text after `End of `.
    let begin = format!("\nLogType:{name}\n");
    let logs = printed.split(begin.as_str()).skip(1);
    let content = |log: &'a str| {
        let (_, content) = log.split_once("LogContents:\n")?;
        let (content, _) = content.split_once(&format!("\nEnd of LogType:{name}"))?;
        Some(content)
    };
    logs.filter_map(content).collect()
}
