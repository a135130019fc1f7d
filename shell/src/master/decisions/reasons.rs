//! Reasons of failed tasks, for people. Pure.

/// Returns the reason for which a command failed.
pub(super) fn reason_of(exit_status: i32, diagnostics: &str) -> String {
    let last = last_line(diagnostics);
    match exit_status {
        0.. => match last_of_stderr(diagnostics) {
            "" => format!("exit status {exit_status}"),
            said => format!("exit status {exit_status}: {said}"),
        },
        _ if last.is_empty() => format!("Hadoop's status {exit_status}"),
        _ => format!("Hadoop's status {exit_status}: {last}"),
    }
}

/// Returns the last line that the command wrote to standard error, as far as the node quotes it
/// (Hadoop: `ContainerLaunch.handleContainerExitWithFailure`).
fn last_of_stderr(diagnostics: &str) -> &str {
    let quoted = diagnostics.rsplit_once("bytes of stderr :");
    quoted.map_or("", |(_, quoted)| last_line(quoted))
}

/// Returns the last line that is not blank.
pub(super) fn last_line(diagnostics: &str) -> &str {
    let mut lines = diagnostics.lines().map(str::trim);
    lines.rfind(|line| !line.is_empty()).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_failed_is_quoted() {
        let diagnostics = "Exit code: 3\nLast 4096 bytes of stderr :\none\ntwo\n\n";
        assert_eq!(reason_of(3, diagnostics), "exit status 3: two");
        assert_eq!(reason_of(3, "Exit code: 3\n"), "exit status 3");
        assert_eq!(
            reason_of(3, "Last 4096 bytes of stderr :\n"),
            "exit status 3"
        );
    }

    #[test]
    fn the_nodes_reason_is_told_with_its_last_line() {
        assert_eq!(reason_of(-104, "a\nb\n"), "Hadoop's status -104: b");
        assert_eq!(reason_of(-1000, ""), "Hadoop's status -1000");
    }
}
