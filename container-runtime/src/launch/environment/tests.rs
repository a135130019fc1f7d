//! Tests of the environment, with the values that Hadoop gives.

use proptest::prelude::*;

use super::*;
use crate::launch::testing;

fn map(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn names(variables: &[Variable]) -> Vec<&str> {
    variables.iter().map(|(name, _)| name.as_str()).collect()
}

fn environment_of(variables: &[(&str, &str)], config: &LaunchConfig) -> ContainerEnvironment {
    let mut plan = testing::plan(Path::new("/w"));
    plan.environment = map(variables);
    container_environment(config, &plan).unwrap()
}

fn value<'a>(variables: &'a [Variable], name: &str) -> &'a str {
    let found = variables.iter().find(|(other, _)| other == name);
    &found.unwrap_or_else(|| panic!("{name} is not set")).1
}

#[test]
fn a_variable_comes_after_those_it_mentions() {
    let ordered = order_by_dependencies(map(&[
        ("A", "$B:${C:-x}"),
        ("B", "$C"),
        ("C", "c"),
        ("D", "d"),
    ]));
    assert_eq!(names(&ordered), ["C", "B", "A", "D"]);
}

#[test]
fn variables_in_a_circle_are_all_kept() {
    let ordered =
        order_by_dependencies(map(&[("A", "$B"), ("B", "$C"), ("C", "$A$D"), ("D", "$D")]));
    assert_eq!(names(&ordered), ["D", "C", "B", "A"]);
}

#[test]
fn a_long_chain_of_variables_does_not_overflow_the_stack() {
    let chain: BTreeMap<_, _> = (0..100_000)
        .map(|n| (format!("V{n:06}"), format!("$V{:06}", n + 1)))
        .collect();
    let ordered = order_by_dependencies(chain);
    assert_eq!(ordered.first().unwrap().0, "V099999");
    assert_eq!(ordered.len(), 100_000);
}

#[test]
fn only_what_bash_expands_is_a_dependency() {
    for (value, expected) in [
        ("$A/${B}/${#C}/${D:-$E}", vec!["E", "D", "C", "B", "A"]),
        (r"\$A \\$B", vec!["B"]),
        ("it's $A", vec!["A"]),
        (r#""'$A'"$B"#, vec!["B"]),
        ("$$ $1 ${ $ é$", vec![]),
        ("$é", vec![]),
        ("\\", vec![]),
    ] {
        assert_eq!(dependencies(value), expected, "{value}");
    }
}

#[test]
fn the_agents_variables_enter_only_through_the_whitelist() {
    let mut config = testing::config();
    config.agent_environment = map(&[
        ("JAVA_HOME", "/jdk"),
        ("LANG", "C"),
        ("AWS_SECRET", "hunter2"),
    ]);
    config.env_whitelist.push("JAVA_HOME".to_owned());
    let environment = environment_of(&[("LANG", "de_DE")], &config);
    assert_eq!(
        environment.whitelisted,
        [("JAVA_HOME".to_owned(), "/jdk".to_owned())]
    );
    let started_with = environment.process_environment().unwrap();
    let shown = format!("{started_with:?}");
    assert!(
        !shown.contains("hunter2") && !shown.contains("/jdk"),
        "{shown}"
    );
}

#[test]
fn the_node_variables_win_over_the_containers() {
    let environment = environment_of(
        &[("USER", "root"), ("LOG_DIRS", "/etc")],
        &testing::config(),
    );
    assert_eq!(value(&environment.node, "USER"), "alice");
    assert_eq!(value(&environment.node, "LOG_DIRS"), "/w/log");
    assert_eq!(value(&environment.node, "LOCAL_USER_DIRS"), "/w/user/");
    assert!(environment.others.is_empty(), "{:?}", environment.others);
}

#[test]
fn entry_point_mode_suppresses_the_node_variables() {
    let environment = environment_of(
        &[
            (OVERRIDE_DISABLE, "TRUE"),
            ("WORK_DIR", "x"),
            ("USER", "bob"),
        ],
        &testing::config(),
    );
    assert_eq!(names(&environment.node), ["HADOOP_TOKEN_FILE_LOCATION"]);
    assert_eq!(names(&environment.others), ["USER", OVERRIDE_DISABLE]);
}

#[test]
fn admin_variables_are_resolved_and_appended() {
    let mut config = testing::config();
    config.admin_env = map(&[
        ("MALLOC_ARENA_MAX", "$MALLOC_ARENA_MAX"),
        ("OPTS", "-a$FROM_CONTAINER-$FROM_AGENT-$NOWHERE-$"),
    ]);
    config.agent_environment = map(&[("MALLOC_ARENA_MAX", "4"), ("FROM_AGENT", "n")]);
    let environment = environment_of(&[("FROM_CONTAINER", "c"), ("OPTS", "-x")], &config);
    assert_eq!(value(&environment.others, "MALLOC_ARENA_MAX"), "4");
    assert_eq!(value(&environment.others, "OPTS"), "-x:-ac-n--$");
}

#[test]
fn the_forced_path_comes_first() {
    let mut config = testing::config();
    config.force_path = "/opt/safe".to_owned();
    let environment = environment_of(&[("PATH", "/mine")], &config);
    assert_eq!(value(&environment.others, "PATH"), "/opt/safe:/mine");
    let environment = environment_of(&[], &config);
    assert_eq!(value(&environment.others, "PATH"), "/opt/safe:$PATH");
}

#[test]
fn names_that_bash_cannot_export_go_through_the_process_environment() {
    let environment = environment_of(
        &[("a.b", "$1"), ("1X", "2"), ("UID", "7"), ("OK", "3")],
        &testing::config(),
    );
    assert_eq!(names(&environment.others), ["OK"]);
    let started_with = environment.process_environment().unwrap();
    for expected in [c"a.b=$1", c"1X=2", c"UID=7", c"OK=3"] {
        assert!(started_with.iter().any(|v| v.as_c_str() == expected));
    }
}

#[test]
fn values_that_bash_would_change_are_left_to_the_script() {
    let environment = environment_of(&[("PATH", "$PATH:/x"), ("A", "a b'c")], &testing::config());
    let started_with = environment.process_environment().unwrap();
    assert!(started_with.iter().any(|v| v.as_c_str() == c"A=a b'c"));
    let shown = format!("{started_with:?}");
    assert!(
        !shown.contains("\"PATH=") && !shown.contains("JVM_PID"),
        "{shown}"
    );
}

#[test]
fn variables_that_the_kernel_cannot_pass_are_refused() {
    for (name, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0y")] {
        let mut plan = testing::plan(Path::new("/w"));
        plan.environment = map(&[(name, value)]);
        let result = container_environment(&testing::config(), &plan);
        assert!(result.is_err(), "{name:?}={value:?}");
    }
}

#[test]
fn service_metadata_is_base64() {
    let mut plan = testing::plan(Path::new("/w"));
    plan.service_metadata
        .insert("mapreduce_shuffle".to_owned(), vec![0, 0, 52, 250]);
    plan.service_metadata.insert("a b".to_owned(), vec![]);
    let environment = container_environment(&testing::config(), &plan).unwrap();
    let name = "NM_AUX_SERVICE_mapreduce_shuffle";
    assert_eq!(value(&environment.node, name), "AAA0+g==");
    assert!(!names(&environment.node).contains(&"NM_AUX_SERVICE_a b"));
}

proptest! {
    #[test]
    fn any_values_are_ordered_without_loss(values in proptest::collection::btree_map("[A-E]", "[$A-F{}#'\"\\\\é]{0,8}", 0..6)) {
        let mut ordered = order_by_dependencies(values.clone());
        ordered.sort();
        prop_assert_eq!(ordered, values.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn code_that_bash_runs_before_the_script_makes_links_is_seen() {
    let runs_code = |name, value| environment_of(&[(name, value)], &testing::config()).runs_code();
    assert!(runs_code("BASH_ENV", "setup.sh"));
    assert!(runs_code("NOW", "`date`") && runs_code("not.exportable", "$(date)"));
    assert!(!runs_code("CLASSPATH", "$PWD:${PWD}/*"));
}
