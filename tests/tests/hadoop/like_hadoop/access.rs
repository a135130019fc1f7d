//! Who may see what with `yarn.acl.enable`.

use test_support::{LaunchContext, current_user};
use tests::require;
use wire::proto::hadoop_yarn::{
    ApplicationAccessTypeProto, ApplicationAclMapProto, ContainerLaunchContextProto,
};

use super::rest::rest;
use super::twins::{Twin, Twins};

/// Paths that show what an application's owner may hide. A name in angle brackets stands for an id.
const PATHS: [&str; 6] = [
    "/containers/<id>",
    "/containers",
    "/apps",
    "/containers/<id>/logs",
    "/containers/<id>/logs/stdout",
    "/containerlogs/<id>/stdout?size=2",
];

/// Returns a context of this command whose application may be seen by these users and groups.
fn visible_to(command: &str, list: &str) -> LaunchContext {
    let mut context: ContainerLaunchContextProto = LaunchContext::command(command).into_proto();
    context.application_ac_ls.push(ApplicationAclMapProto {
        access_type: Some(ApplicationAccessTypeProto::AppaccessViewApp.into()),
        acl: Some(list.to_owned()),
    });
    context.into()
}

#[test]
fn access_is_hadoops() {
    require!(java, hadoop);
    let mut twins = Twins::start(|site| {
        site.set("yarn.acl.enable", true)
            .set("yarn.admin.acl", "operator  daemon");
    });
    twins.each(|twin| {
        let command = twin.gate("running").then("true");
        let command = format!("echo out > <LOG_DIR>/stdout; touch written; {command}");
        let allocation = twin.allocation(2);
        let context = visible_to(&command, "bob,  carol  audio");
        let id = twin.am.try_start(&allocation, context).unwrap();
        twin.wait_work_file(id, "written");
    });
    // The system has `daemon` in the administrators' group of its name, and `bin` in another. What
    // stands behind the first blank of the list is groups, so that `carol` is none of the users.
    let owner = current_user();
    let users = [
        "", &owner, "bob", "carol", "eve", "operator", "daemon", "bin",
    ];
    for user in users {
        for path in PATHS {
            twins.compare(&format!("{user} {path}"), |twin| seen_by(twin, user, path));
        }
    }
    twins.each(|twin| twin.gate("running").open());
}

/// Returns what a user sees at a path. Hadoop refuses with 500 or, where its exception is wrapped,
/// with 503, upon which clients try again; the agent with 403.
fn seen_by(twin: &Twin, user: &str, path: &str) -> String {
    let id = twin.am.attempt().container(2).to_string();
    let mut path = path.replace("<id>", &id);
    if !user.is_empty() {
        path.push(if path.contains('?') { '&' } else { '?' });
        path += &format!("user.name={user}");
    }
    let answer = rest(twin, &path);
    let (status, body) = answer.split_once('\n').unwrap();
    match body.split_once("User [") {
        Some((_, why)) if ["403", "500", "503"].contains(&status) => {
            format!("refused: User [{}", why.lines().next().unwrap())
        }
        _ => answer,
    }
}
