//! The user that containers run as, from properties and from `container-executor.cfg`.

use std::os::unix::fs::PermissionsExt as _;

use ::users::RunAs;

use super::*;

const CLASS: &str = "yarn.nodemanager.container-executor.class";
const LINUX: &str = "org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor";
const GROUP: &str = "yarn.nodemanager.linux-container-executor.group";
const LIMIT: &str = "yarn.nodemanager.linux-container-executor.nonsecure-mode.limit-users";
const PATTERN: &str = "yarn.nodemanager.linux-container-executor.nonsecure-mode.user-pattern";

/// Loads `LinuxContainerExecutor` with these properties beside this `container-executor.cfg`.
fn loaded_with(pairs: &[(&str, &str)], cfg: &str, mode: u32) -> Loaded {
    let folder = TempDir::new().unwrap();
    let pairs: Vec<_> = [(CLASS, LINUX)].iter().chain(pairs).copied().collect();
    fs::write(folder.path().join("yarn-site.xml"), xml(&pairs)).unwrap();
    let path = folder.path().join("container-executor.cfg");
    fs::write(&path, cfg).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    Loaded::read(&[folder.path().to_path_buf()], &environment())
}

#[track_caller]
fn users_of(loaded: Loaded) -> UsersConfig {
    match loaded.config.unwrap().launch.executor {
        ContainerExecutor::Users(users) => users,
        ContainerExecutor::Own => panic!("containers run as the agent's user"),
    }
}

#[track_caller]
fn problem_of(loaded: Loaded) -> String {
    loaded.config.unwrap_err().to_string()
}

#[test]
fn without_the_linux_executor_containers_run_as_the_agents_user() {
    let of = |pairs: &[(&str, &str)]| config(pairs).launch.executor;
    assert_eq!(of(&[]), ContainerExecutor::Own);
    assert_eq!(of(&[(LIMIT, "false")]), ContainerExecutor::Own);
    let accepted = [(CLASS, LINUX), ("agent.accept-unsafe", CLASS)];
    assert_eq!(of(&accepted), ContainerExecutor::Own);
    let told = warnings(&accepted);
    assert!(told.len() == 1 && told[0].contains("own user"), "{told:?}");
}

#[test]
fn the_linux_executor_has_hadoops_defaults_without_a_file() {
    let users = users_of(loaded(&[(CLASS, LINUX)]));
    assert_eq!(users.rules.run_as, RunAs::One("nobody".to_owned()));
    assert_eq!(users.rules.uid_min, 1000);
    assert_eq!(users.rules.banned, ["yarn", "mapred", "hdfs", "bin"]);
    assert!(users.rules.system_users.is_empty() && users.group.is_none());
    let own = users_of(loaded(&[
        (CLASS, "LinuxContainerExecutor"),
        (LIMIT, "false"),
    ]));
    assert_eq!(own.rules.run_as, RunAs::Submitter);
}

#[test]
fn the_helpers_file_changes_the_rules() {
    let cfg = "min.user.id=500\nbanned.users=eve\nallowed.system.users=games\n";
    let users = users_of(loaded_with(&[], &format!("{cfg}{GROUP}=hadoop\n"), 0o400));
    assert_eq!(
        (users.rules.uid_min, users.group),
        (500, Some("hadoop".to_owned()))
    );
    assert_eq!(users.rules.banned, ["eve"]);
    assert_eq!(users.rules.system_users, ["games"]);
}

#[test]
fn a_file_that_others_may_write_or_that_is_wrong_is_a_problem() {
    for mode in [0o620, 0o602] {
        let problem = problem_of(loaded_with(&[], "", mode));
        assert!(problem.contains("nobody else may write"), "{problem}");
    }
    let problem = problem_of(loaded_with(&[], "min.user.id=many", 0o600));
    assert!(
        problem.contains("container-executor.cfg: line 1:"),
        "{problem}"
    );
    let groups = loaded_with(&[(GROUP, "yarn")], &format!("{GROUP}=hadoop"), 0o600);
    let problem = problem_of(groups);
    assert!(problem.contains("yarn here and hadoop in"), "{problem}");
}

#[test]
fn a_pattern_that_cannot_be_compiled_is_a_problem() {
    let told = problems(&[(CLASS, LINUX), (PATTERN, "(")]);
    assert!(
        told.len() == 1 && told[0].contains("regular expression"),
        "{told:?}"
    );
}
