//! The part of the report on the user that containers would run as.

use node_manager::config::{Config, ContainerExecutor, SHARED_USER, UsersConfig};
use users::{RunAs, Users};

use super::{Findings, Machine};

const CLASS: &str = "yarn.nodemanager.container-executor.class";

/// Adds the user that containers would run as, and what keeps them from it.
pub(super) fn probe(config: &Config, machine: &dyn Machine, findings: &mut Findings) {
    let ContainerExecutor::Users(users) = &config.launch.executor else {
        findings.warnings.push(SHARED_USER.to_owned());
        return;
    };
    findings.notes.push(explained(users));
    let obstacles = machine.user_obstacles();
    let problems = obstacles
        .iter()
        .map(|obstacle| format!("{CLASS}: {obstacle}"));
    findings.problems.extend(problems);
    match Users::new(users.rules.clone(), users.group.as_deref()) {
        Err(unknown) => findings.problems.push(format!("{CLASS}: {unknown}")),
        Ok(accounts) => {
            if let RunAs::One(name) = &users.rules.run_as
                && let Err(refused) = accounts.check(name)
            {
                let property =
                    "yarn.nodemanager.linux-container-executor.nonsecure-mode.local-user";
                findings.problems.push(format!("{property}: {refused}"));
            }
        }
    }
    for folder in config.dirs.local_dirs.iter().chain(&config.dirs.log_dirs) {
        if let Some(closed) = machine.closed_to_users(folder) {
            findings.warnings.push(format!(
                "{}: users that containers run as cannot pass through {}; give others the right \
                 to execute it",
                folder.display(),
                closed.display()
            ));
        }
    }
}

fn explained(users: &UsersConfig) -> String {
    let UsersConfig { rules, group } = users;
    let who = match &rules.run_as {
        RunAs::One(name) => format!("as {name}, whoever submits them"),
        RunAs::Submitter => "as the users who submit them".to_owned(),
    };
    let listed = |names: &[String]| match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    let uid_min = rules.uid_min;
    let (allowed, banned) = (listed(&rules.system_users), listed(&rules.banned));
    let group = group.as_deref().unwrap_or("the agent's own");
    format!(
        "containers run {who}; user ids from {uid_min}, below it: {allowed}; banned: root, {banned}; \
         group of their folders: {group}"
    )
}
