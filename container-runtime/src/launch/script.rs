//! The text of `launch_container.sh`.
//!
//! Pure. Line for line what Hadoop's `ContainerExecutor.writeLaunchEnv` writes with its
//! `UnixShellScriptBuilder`, with these differences:
//! - The lines that copy the script and list the work directory into the log directory are missing,
//!   though announced in `prelaunch.out`. They cost seven forks before each command;
//!   [`super::debug_info`] writes the same files off the way to the first instruction.
//! - `mkdir -p` is written once for each directory, and quoted when bash would split or expand the
//!   name.
//! - `ln` and `mkdir` run only where the agent has not made the link or directory itself, as it
//!   does for most; see [`super::links`]. Each is a process.
//! - Names that bash cannot export have no line; see [`super::environment`].
//!
//! Values and commands stand between double quotes **without any escaping**: clients count on bash
//! expanding `$JAVA_HOME`, `$PWD/*`, back-quotes and redirections in them. The script runs with the
//! container's own rights, so what a client makes bash do there it could do in its command as well.

use std::collections::BTreeSet;

use super::context::{LaunchConfig, LaunchPlan, PlanError};
use super::environment::{ContainerEnvironment, text};
use super::links::ResolvedLink;
use super::markers::expand;

/// File of the script's own output, in the log directory.
pub(super) const PRELAUNCH_OUT: &str = "prelaunch.out";
/// File of the script's own errors, in the log directory.
pub(super) const PRELAUNCH_ERR: &str = "prelaunch.err";

/// Lines of the script's output.
const SETTING_VARIABLES: &str = "Setting up env variables";
const LINKING_RESOURCES: &str = "Setting up job resources";
const COPYING_DEBUG_INFO: &str = "Copying debugging information";
const LAUNCHING: &str = "Launching container";

/// Writes the script. The first `made` of the links are in the work directory already.
pub(super) fn launch_script(
    config: &LaunchConfig,
    plan: &LaunchPlan,
    environment: &ContainerEnvironment,
    links: &[ResolvedLink],
    made: usize,
    command: &str,
) -> Result<String, PlanError> {
    let log_dir = text(plan.dirs.log_dir.path())?;
    let mut script = String::with_capacity(4_096 + command.len());
    let out = &mut script;
    line(out, ["#!/bin/bash\n\nset -o pipefail -e"]);
    line(
        out,
        ["export PRELAUNCH_OUT=\"", log_dir, "/", PRELAUNCH_OUT, "\""],
    );
    line(out, ["exec >\"${PRELAUNCH_OUT}\""]);
    line(
        out,
        ["export PRELAUNCH_ERR=\"", log_dir, "/", PRELAUNCH_ERR, "\""],
    );
    line(out, ["exec 2>\"${PRELAUNCH_ERR}\""]);
    line(out, ["echo \"", SETTING_VARIABLES, "\""]);
    for (name, value) in &environment.whitelisted {
        line(out, ["export ", name, "=${", name, ":-\"", value, "\"}"]);
    }
    for (name, value) in environment.node.iter().chain(&environment.others) {
        line(out, ["export ", name, "=\"", value, "\""]);
    }
    line(out, ["echo \"", LINKING_RESOURCES, "\""]);
    write_links(out, links, made)?;
    if config.debug_info {
        line(out, ["echo \"", COPYING_DEBUG_INFO, "\""]);
    }
    line(out, ["echo \"", LAUNCHING, "\""]);
    line(out, ["exec /bin/bash -c \"", command, "\""]);
    Ok(script)
}

fn line<const PARTS: usize>(script: &mut String, parts: [&str; PARTS]) {
    script.extend(parts);
    script.push('\n');
}

/// Returns what the script writes to `prelaunch.out` when each of its lines succeeds.
pub(super) fn announcements(debug_info: bool) -> String {
    let debug_info = debug_info.then_some(COPYING_DEBUG_INFO);
    let lines = [SETTING_VARIABLES, LINKING_RESOURCES].into_iter();
    let lines = lines.chain(debug_info).chain([LAUNCHING]);
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Returns the commands, joined by one space, with markers filled in. Without commands bash runs an
/// empty one and succeeds, as in Hadoop.
pub(super) fn launch_command(
    config: &LaunchConfig,
    plan: &LaunchPlan,
) -> Result<String, PlanError> {
    let log_dir = text(plan.dirs.log_dir.path())?;
    let commands = plan.commands.join(" ");
    let command = expand(&commands, log_dir, config.java_feature_version);
    if command.contains('\0') {
        return Err(PlanError::Command);
    }
    Ok(command)
}

/// Writes a line for each link. Those of links that the agent made do nothing, unless somebody has
/// removed the link since.
fn write_links(script: &mut String, links: &[ResolvedLink], made: usize) -> Result<(), PlanError> {
    let mut folders = BTreeSet::new();
    for (index, resolved) in links.iter().enumerate() {
        let unless = |test: &str, path: &str| {
            let is_made = index < made;
            is_made.then(|| format!("[ {test} \"{path}\" ] || "))
        };
        let (folder, _) = resolved.place();
        if !folder.is_empty() && folders.insert(folder) {
            let unless = unless("-d", folder).unwrap_or_default();
            if is_plain(folder) {
                line(script, [&unless, "mkdir -p ", folder]);
            } else {
                line(script, [&unless, "mkdir -p -- \"", folder, "\""]);
            }
        }
        let (link, target) = (&resolved.link, text(&resolved.target)?);
        let unless = unless("-L", link).unwrap_or_default();
        line(
            script,
            [&unless, "ln -sf -- \"", target, "\" \"", link, "\""],
        );
    }
    Ok(())
}

/// Returns whether bash reads a name as one word that is no option.
fn is_plain(name: &str) -> bool {
    !name.starts_with('-')
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_./+=,@%-".contains(&b))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::launch::context::Link;
    use crate::launch::environment::container_environment;
    use crate::launch::links::resolve_links;
    use crate::launch::testing;

    fn link(link: &str, target: &str) -> Link {
        Link {
            link: link.to_owned(),
            target: PathBuf::from(target),
        }
    }

    fn script_of(config: &LaunchConfig, plan: &LaunchPlan) -> String {
        script_with(config, plan, 0)
    }

    /// The script after the agent has made so many links.
    fn script_with(config: &LaunchConfig, plan: &LaunchPlan, made: usize) -> String {
        let environment = container_environment(config, plan).unwrap();
        let links = resolve_links(&plan.links, |_| {
            Ok::<_, PlanError>(vec!["a.jar".to_owned(), "b c.jar".to_owned()])
        })
        .unwrap();
        let command = launch_command(config, plan).unwrap();
        launch_script(config, plan, &environment, &links, made, &command).unwrap()
    }

    #[test]
    fn the_smallest_script_is_hadoops() {
        let mut plan = testing::plan(Path::new("/w"));
        plan.commands = vec!["sleep".to_owned(), "1".to_owned()];
        let id = plan.container_id;
        let expected = format!(
            r#"#!/bin/bash

set -o pipefail -e
export PRELAUNCH_OUT="/w/log/prelaunch.out"
exec >"${{PRELAUNCH_OUT}}"
export PRELAUNCH_ERR="/w/log/prelaunch.err"
exec 2>"${{PRELAUNCH_ERR}}"
echo "Setting up env variables"
export HADOOP_TOKEN_FILE_LOCATION="/w/work/container_tokens"
export CONTAINER_ID="{id}"
export NM_PORT="8041"
export NM_HOST="node1.example.com"
export NM_HTTP_PORT="8042"
export LOCAL_DIRS="/w/local"
export LOCAL_USER_DIRS="/w/user/"
export LOG_DIRS="/w/log"
export USER="alice"
export LOGNAME="alice"
export HOME="/home/"
export PWD="/w/work"
export LOCALIZATION_COUNTERS="0,0,0,0,0"
export JVM_PID="$$"
echo "Setting up job resources"
echo "Launching container"
exec /bin/bash -c "sleep 1"
"#
        );
        assert_eq!(script_of(&testing::config(), &plan), expected);
    }

    #[test]
    fn a_mapreduce_like_script_is_hadoops() {
        let mut config = testing::config();
        config.java_feature_version = Some(17);
        for (name, value) in [("JAVA_HOME", "/usr/lib/jvm/java-17"), ("SECRET", "x")] {
            config
                .agent_environment
                .insert(name.to_owned(), value.to_owned());
        }
        let mut plan = testing::plan(Path::new("/w"));
        for (name, value) in [
            ("CLASSPATH", "{{PWD}}<CPS>$HADOOP_CONF_DIR<CPS>job.jar/*"),
            ("HADOOP_CONF_DIR", "/etc/hadoop"),
            ("QUOTED", "a \\\"b\\\" `date`"),
            ("bad.name", "kept out"),
        ] {
            plan.environment.insert(name.to_owned(), value.to_owned());
        }
        plan.links = vec![
            link("job.jar", "/cache/10/job.jar"),
            link("jobSubmitDir/job.split", "/cache/11/job.split"),
            link("jobSubmitDir//job.xml", "/cache/12/job.xml"),
            link("my dir/x", "/cache/13/x"),
            link("libs/*", "/cache/14/libs"),
        ];
        plan.service_metadata
            .insert("mapreduce_shuffle".to_owned(), vec![0, 0, 52, 250]);
        plan.commands = vec![
            "$JAVA_HOME/bin/java <ADD_OPENS>".to_owned(),
            "-Dx=\\\"y\\\"".to_owned(),
            "1><LOG_DIR>/stdout 2><LOG_DIR>/stderr ".to_owned(),
        ];
        let script = script_of(&config, &plan);
        let (_, tail) = script
            .split_once("echo \"Setting up env variables\"\n")
            .unwrap();
        let (head, tail) = tail.split_once("export JVM_PID=\"$$\"\n").unwrap();
        assert!(
            head.starts_with(
                "export JAVA_HOME=${JAVA_HOME:-\"/usr/lib/jvm/java-17\"}\nexport HADOOP_TOKEN"
            ),
            "{head}"
        );
        let expected = r#"export NM_AUX_SERVICE_mapreduce_shuffle="AAA0+g=="
export HADOOP_CONF_DIR="/etc/hadoop"
export CLASSPATH="$PWD:$HADOOP_CONF_DIR:job.jar/*"
export QUOTED="a \"b\" `date`"
echo "Setting up job resources"
ln -sf -- "/cache/10/job.jar" "job.jar"
mkdir -p jobSubmitDir
ln -sf -- "/cache/11/job.split" "jobSubmitDir/job.split"
ln -sf -- "/cache/12/job.xml" "jobSubmitDir/job.xml"
mkdir -p -- "my dir"
ln -sf -- "/cache/13/x" "my dir/x"
ln -sf -- "/cache/14/libs/a.jar" "a.jar"
ln -sf -- "/cache/14/libs/b c.jar" "b c.jar"
echo "Launching container"
exec /bin/bash -c "$JAVA_HOME/bin/java --add-opens=java.base/java.lang=ALL-UNNAMED --add-exports=java.base/sun.net.dns=ALL-UNNAMED --add-exports=java.base/sun.net.util=ALL-UNNAMED -Dx=\"y\" 1>/w/log/stdout 2>/w/log/stderr "
"#;
        assert_eq!(tail, expected);
    }

    #[test]
    fn debugging_information_is_announced_where_it_is_written() {
        let mut config = testing::config();
        for debug_info in [false, true] {
            config.debug_info = debug_info;
            let script = script_of(&config, &testing::plan(Path::new("/w")));
            let announced = script.contains("echo \"Copying debugging information\"\n");
            assert_eq!(announced, debug_info);
        }
    }

    #[test]
    fn two_names_for_one_resource_are_both_made() {
        let mut plan = testing::plan(Path::new("/w"));
        plan.commands = vec!["true".to_owned()];
        plan.links = vec![link("a", "/t"), link("b", "/t")];
        let script = script_of(&testing::config(), &plan);
        assert!(script.contains("\"/t\" \"a\"\n") && script.contains("\"/t\" \"b\"\n"));
    }

    #[test]
    fn links_that_the_agent_made_cost_no_process() {
        let mut plan = testing::plan(Path::new("/w"));
        plan.links = vec![link("d/a", "/t"), link("my d/b", "/t"), link("d/c", "/t")];
        let script = script_with(&testing::config(), &plan, 2);
        let (_, lines) = script.split_once("resources\"\n").unwrap();
        let expected = r#"[ -d "d" ] || mkdir -p d
[ -L "d/a" ] || ln -sf -- "/t" "d/a"
[ -d "my d" ] || mkdir -p -- "my d"
[ -L "my d/b" ] || ln -sf -- "/t" "my d/b"
ln -sf -- "/t" "d/c"
"#;
        assert!(lines.starts_with(expected), "{lines}");
    }

    #[test]
    fn commands_that_bash_would_misread_are_refused() {
        let config = testing::config();
        let mut plan = testing::plan(Path::new("/w"));
        assert_eq!(launch_command(&config, &plan), Ok(String::new()));
        plan.commands = vec!["a\0b".to_owned()];
        assert_eq!(launch_command(&config, &plan), Err(PlanError::Command));
    }
}
