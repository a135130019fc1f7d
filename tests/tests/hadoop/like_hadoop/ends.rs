//! Ends of containers: exit status, diagnostics and files of the log folder.

use test_support::LaunchContext;
use tests::require;

use super::retries::retries;
use super::twins::{Twin, Twins, names_in, once, text_of_end};

#[test]
fn ends_are_told_in_hadoops_words() {
    require!(java, hadoop);
    let mut twins = Twins::start(|site| {
        site.set("yarn.nodemanager.container-retry-minimum-interval-ms", 100);
    });
    exits(&mut twins);
    retries(&mut twins);
    kills(&mut twins);
    files(&mut twins);
}

fn exits(twins: &mut Twins) {
    let commands = [
        (2, "success", "true"),
        (3, "an exit code", "exit 7"),
        (
            4,
            "both error files",
            "echo one > <LOG_DIR>/stderr; echo two >&2; exit 3",
        ),
        (5, "an unknown command", "no-such-command"),
        (6, "its own SIGKILL", "kill -9 \\$\\$"),
        (7, "its own SIGTERM", "kill -15 \\$\\$"),
        (8, "exit code 143", "exit 143"),
        (9, "exit code 255", "exit 255"),
    ];
    for (number, scenario, command) in commands {
        twins.compare(scenario, |twin| {
            once(&twin.end_of(number, LaunchContext::command(command)))
        });
    }
    twins.compare("no command", |twin| {
        twin.end_of(10, LaunchContext::default())
    });
    twins.compare("an empty command", |twin| {
        twin.end_of(11, LaunchContext::command(""))
    });
}

fn kills(twins: &mut Twins) {
    twins.compare("stopped by its ApplicationMaster", |twin| {
        let id = twin.start_sleeping(&twin.allocation(20));
        twin.am.stop(id).unwrap();
        text_of_end(&twin.rm.wait_completed(id))
    });
    twins.compare("killed by the ResourceManager", |twin| {
        let id = twin.start_sleeping(&twin.allocation(21));
        twin.rm.order_kill(id);
        text_of_end(&twin.rm.wait_completed(id))
    });
}

fn files(twins: &mut Twins) {
    for number in [2, 3, 10] {
        twins.compare("names of log files", |twin| {
            names_in(&twin.log_folder(twin.am.attempt().container(number)))
        });
    }
    for name in ["prelaunch.out", "prelaunch.err"] {
        twins.compare(name, |twin| log_file(twin, name));
    }
    twins.compare("launch_container.sh", |twin| {
        let script = log_file(twin, "launch_container.sh");
        let lines = script.lines().filter(|line| !differs_on_purpose(line));
        lines.collect::<Vec<_>>().join("\n")
    });
}

fn log_file(twin: &Twin, name: &str) -> String {
    let folder = twin.log_folder(twin.am.attempt().container(2));
    std::fs::read_to_string(folder.join(name)).unwrap_or_default()
}

/// Returns whether a line of the script is one of Hadoop's that copy the script and list the work
/// folder, which the agent does without a process; or tells ports and times, or a variable that
/// only the harness sets.
fn differs_on_purpose(line: &str) -> bool {
    let starts = [
        "# Creating copy of launch script",
        "# Determining directory contents",
        "cp ",
        "chmod ",
        "echo \"ls -l:\"",
        "ls -l ",
        "echo \"find -L",
        "find -L ",
        "echo \"broken symlinks",
        "export NM_PORT=",
        "export NM_HTTP_PORT=",
        "export LOCALIZATION_COUNTERS=",
        "export JAVA_TOOL_OPTIONS=",
    ];
    starts.iter().any(|start| line.starts_with(start))
}
