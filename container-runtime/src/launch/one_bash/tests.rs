//! Tests of the decision, with the launch contexts that real ApplicationMasters send.

use std::path::Path;

use super::*;
use crate::launch::context::LaunchConfig;
use crate::launch::environment::container_environment;
use crate::launch::script::launch_command;
use crate::launch::testing;

const AGENT: [(&str, &str); 5] = [
    ("JAVA_HOME", "/usr/lib/jvm/java-17"),
    ("HADOOP_COMMON_HOME", "/opt/hadoop"),
    ("HADOOP_CONF_DIR", "/etc/hadoop/conf"),
    ("PATH", "/agent/bin"),
    ("LANG", "C.UTF-8"),
];

fn config() -> LaunchConfig {
    let mut config = testing::config();
    for (name, value) in AGENT {
        config.agent_environment.insert(name.into(), value.into());
        config.env_whitelist.push(name.to_owned());
    }
    config
}

fn decide(variables: &[(&str, &str)], command: &str) -> Option<Bash> {
    let mut plan = testing::plan(Path::new("/w"));
    for (name, value) in variables {
        plan.environment
            .insert((*name).to_owned(), (*value).to_owned());
    }
    plan.commands = vec![command.to_owned()];
    let config = config();
    let environment = container_environment(&config, &plan).unwrap();
    let command = launch_command(&config, &plan).unwrap();
    let defaults = BashDefaults::with_path("/bash/bin");
    one_bash(&defaults, &environment, "/w/log", &command)
}

fn value(bash: &Bash, name: &str) -> Option<String> {
    let entries = bash.environment.iter().map(|entry| entry.to_str().unwrap());
    let values = entries.filter_map(|entry| entry.strip_prefix(name)?.strip_prefix('='));
    values.map(str::to_owned).next()
}

/// Runs a command's text through the decision; `None`: the script runs.
fn command_of(command: &str) -> Option<String> {
    let bash = decide(&[("A", "a")], command)?;
    Some(bash.arguments[1].to_str().unwrap().to_owned())
}

fn value_of(text: &str) -> Option<String> {
    value(&decide(&[("A", "a"), ("X", text)], "true")?, "X")
}

#[test]
fn names_of_bash_are_found_by_their_order() {
    assert!(SHELL_VARIABLES.is_sorted());
    assert!(SHELL_VARIABLES.into_iter().all(belongs_to_shell));
    assert!(!belongs_to_shell("A") && !belongs_to_shell("LINE") && !belongs_to_shell("a"));
}

#[test]
fn mapreduce_tasks_take_one_bash() {
    let bash = decide(
        &[
            (
                "CLASSPATH",
                "{{PWD}}<CPS>{{HADOOP_CONF_DIR}}<CPS>{{HADOOP_COMMON_HOME}}/share/hadoop/common/*<CPS>job.jar/*",
            ),
            ("HADOOP_CLIENT_OPTS", ""),
            ("HADOOP_ROOT_LOGGER", "INFO,console"),
            (
                "LD_LIBRARY_PATH",
                "{{PWD}}<CPS>{{HADOOP_COMMON_HOME}}/lib/native",
            ),
            ("MALLOC_ARENA_MAX", "4"),
            ("SHELL", "/bin/bash"),
            ("STDERR_LOGFILE_ENV", "<LOG_DIR>/stderr"),
        ],
        "$JAVA_HOME/bin/java -Djava.net.preferIPv4Stack=true -Xmx820m \
         -Djava.io.tmpdir=$PWD/tmp -Dyarn.app.container.log.dir=<LOG_DIR> \
         org.apache.hadoop.mapred.YarnChild 10.0.0.1 4000 attempt_1_0001_m_000000_0 2 \
         1><LOG_DIR>/stdout 2><LOG_DIR>/stderr ",
    )
    .unwrap();
    assert_eq!(
        bash.arguments[1].to_str().unwrap(),
        "/usr/lib/jvm/java-17/bin/java -Djava.net.preferIPv4Stack=true -Xmx820m \
         -Djava.io.tmpdir=/w/work/tmp -Dyarn.app.container.log.dir=/w/log \
         org.apache.hadoop.mapred.YarnChild 10.0.0.1 4000 attempt_1_0001_m_000000_0 2 \
         1>/w/log/stdout 2>/w/log/stderr "
    );
    assert_eq!(
        value(&bash, "CLASSPATH").unwrap(),
        "/w/work:/etc/hadoop/conf:/opt/hadoop/share/hadoop/common/*:job.jar/*"
    );
    assert_eq!(value(&bash, "PATH").unwrap(), "/bash/bin");
    assert_eq!(
        value(&bash, "PRELAUNCH_OUT").unwrap(),
        "/w/log/prelaunch.out"
    );
    assert_eq!(value(&bash, "SHLVL").unwrap(), "0");
    let own_pid = &bash.environment[bash.pid_entry.unwrap()];
    assert_eq!(own_pid.as_c_str(), c"JVM_PID=");
}

#[test]
fn spark_executors_take_one_bash() {
    let bash = decide(
        &[
            ("CLASSPATH", "{{PWD}}<CPS>{{PWD}}/__spark_conf__<CPS>{{PWD}}/__spark_libs__/*<CPS>$HADOOP_CONF_DIR<CPS>/x/*"),
            ("SPARK_USER", "alice"),
            ("SPARK_YARN_STAGING_DIR", "hdfs://nn/user/alice/.sparkStaging/application_1_0001"),
        ],
        "{{JAVA_HOME}}/bin/java -server -Xmx1024m '-Dspark.ui.port=0' '-Dq=it'\\''s \\$5 \\\"x\\\"' \
         -XX:OnOutOfMemoryError='kill %p' org.apache.spark.executor.YarnCoarseGrainedExecutorBackend \
         --driver-url spark://CoarseGrainedScheduler@h:1 1><LOG_DIR>/stdout 2><LOG_DIR>/stderr",
    )
    .unwrap();
    assert_eq!(
        bash.arguments[1].to_str().unwrap(),
        "/usr/lib/jvm/java-17/bin/java -server -Xmx1024m '-Dspark.ui.port=0' '-Dq=it'\\''s $5 \"x\"' \
         -XX:OnOutOfMemoryError='kill %p' org.apache.spark.executor.YarnCoarseGrainedExecutorBackend \
         --driver-url spark://CoarseGrainedScheduler@h:1 1>/w/log/stdout 2>/w/log/stderr"
    );
}

#[test]
fn tez_and_distributed_shell_take_one_bash() {
    for command in [
        "$JAVA_HOME/bin/java -Dtez.root.logger=INFO,CLA org.apache.tez.runtime.task.TezChild h 1 \
         container_1 application_1 1 1><LOG_DIR>/stdout 2><LOG_DIR>/stderr  ",
        "{{JAVA_HOME}}/bin/java -Xmx100m org.apache.hadoop.yarn.applications.distributedshell.\
         ApplicationMaster --container_memory 10 1><LOG_DIR>/AppMaster.stdout \
         2><LOG_DIR>/AppMaster.stderr ",
        "sleep 10 1><LOG_DIR>/stdout 2><LOG_DIR>/stderr ",
        "/bin/bash ExecScript.sh 'a b' 1><LOG_DIR>/stdout 2><LOG_DIR>/stderr ",
    ] {
        assert!(command_of(command).is_some(), "{command}");
    }
}

#[test]
fn text_between_double_quotes_becomes_what_bash_makes_of_it() {
    for (text, expected) in [
        ("", ""),
        ("$A${A}$A.$UNSET.", "aaa.."),
        (r#"\$A \"q\" \\ \` \n \'"#, r#"$A "q" \ ` \n \'"#),
        ("two\nthree", "two\nthree"),
        (
            "~ * ? [a] {b,c} ; & | > < ( ) # ! 'q'",
            "~ * ? [a] {b,c} ; & | > < ( ) # ! 'q'",
        ),
        ("$PATH:/x", "/bash/bin:/x"),
        ("$PRELAUNCH_ERR", "/w/log/prelaunch.err"),
    ] {
        assert_eq!(value_of(text).as_deref(), Some(expected), "{text}");
        assert_eq!(command_of(text).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn what_only_bash_knows_is_left_to_the_script() {
    for text in [
        "\"",
        "`date`",
        "$(date)",
        "$((1))",
        "${A:-b}",
        "${#A}",
        "${!A}",
        "${A",
        "${}",
        "${A[0]}",
        "$",
        "$ A",
        "x$$",
        "$1",
        "$?",
        "$'x'",
        "\\",
        "$A\\\nx",
        "é",
        "\r",
        "\u{1}",
        "\u{7f}",
        "$JVM_PID",
        "$SHELL",
        "$SHLVL",
        "$RANDOM",
        "$BASH_VERSION",
        "$HOSTNAME",
        "$UID",
        "$_",
    ] {
        assert_eq!(value_of(text), None, "{text:?}");
        assert_eq!(command_of(text), None, "{text:?}");
    }
}

#[test]
fn variables_of_bash_are_left_to_the_script() {
    for name in [
        "BASH_ENV",
        "BASH_FUNC_f%%",
        "EUID",
        "IFS",
        "LC_ALL",
        "LD_PRELOAD",
        "OLDPWD",
        "PS4",
        "SHELLOPTS",
        "SHLVL",
        "_",
        "a.b",
    ] {
        assert!(decide(&[(name, "x")], "true").is_none(), "{name}");
    }
    for name in [
        "HOME",
        "LANG",
        "LD_LIBRARY_PATH",
        "PATH",
        "SHELL",
        "TZ",
        "USER",
    ] {
        assert!(decide(&[(name, "x")], "true").is_some(), "{name}");
    }
}

#[test]
fn all_variables_that_bash_has_by_itself_are_known() {
    let mut bash = std::process::Command::new("/bin/bash");
    let output = bash
        .args(["-c", "compgen -v"])
        .env_clear()
        .output()
        .unwrap();
    let names = String::from_utf8(output.stdout).unwrap();
    let names: Vec<_> = names
        .lines()
        .filter(|name| !belongs_to_shell(name))
        .collect();
    assert_eq!(names, ["PATH", "PWD", LOGIN_SHELL]);
}

#[test]
fn entry_point_mode_is_left_to_the_script() {
    let mode = ("YARN_CONTAINER_RUNTIME_DOCKER_RUN_OVERRIDE_DISABLE", "true");
    assert!(decide(&[mode], "true").is_none());
}

#[test]
fn a_second_variable_with_the_pid_is_left_to_the_script() {
    assert!(decide(&[("MY_PID", "$$")], "true").is_none());
}

#[test]
fn what_the_kernel_might_refuse_is_left_to_the_script() {
    let most = "x".repeat(BYTES_MAX);
    assert!(command_of(&most).is_none() && value_of(&most).is_none());
    assert!(command_of(&most[BYTES_MAX / 2..]).is_some());
    let many: Vec<_> = (0..=VARIABLES_MAX).map(|n| format!("V{n}")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), "")).collect();
    assert!(decide(&many, "true").is_none());
    assert!(decide(&many[..VARIABLES_MAX / 2], "true").is_some());
}

#[test]
fn the_order_is_that_of_bashs_table() {
    let bash = decide(&[], "true").unwrap();
    let name_of = |entry: &CString| entry.to_str().unwrap().split('=').next().map(str::to_owned);
    let names: Vec<_> = bash.environment.iter().filter_map(name_of).collect();
    // Measured: `/bin/bash SCRIPT` with such exports, bash 5.2.
    let expected = [
        "PWD",
        "HOME",
        "LANG",
        "USER",
        "SHLVL",
        "PATH",
        "PRELAUNCH_ERR",
    ];
    let found: Vec<_> = names
        .iter()
        .filter(|name| expected.contains(&name.as_str()))
        .collect();
    assert_eq!(found, expected);
}
