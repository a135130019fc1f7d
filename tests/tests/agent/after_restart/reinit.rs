//! Re-initializations before the agent was killed are what the next one goes on from.

use std::fs;
use std::path::Path;

use records::ContainerId;
use test_support::LaunchContext;
use tests::scripted_cluster::ScriptedCluster;
use tests::wait;
use wire::proto::hadoop_yarn::ReInitializeContainerRequestProto;
use wire::protocol::container_management::{ReInitializeContainer, RollbackLastReInitialization};

use super::{DEADLINE, restart, script, start};

#[test]
fn a_reinitialized_container_is_rolled_back_by_the_next_agent() {
    let mut cluster = start(|_| {});
    let runs = cluster.node.folder().join("runs");
    let context = |cluster: &ScriptedCluster, name: &str| {
        let file = cluster.node.folder().join(name);
        fs::write(&file, format!("{name} file")).unwrap();
        let text = format!(
            "echo {name}: $(cat link) $(ls -d {name}-link) >> '{}'; exec sleep 6000",
            runs.display()
        );
        let context = LaunchContext::command(&script(cluster, &format!("{name}.sh"), &text));
        let own_link = format!("{name}-link");
        context.file("link", &file).file(&own_link, &file)
    };
    let allocation = cluster.am.allocate();
    let first = context(&cluster, "first");
    let id = cluster.am.try_start(&allocation, first).unwrap();
    let first = "first: first file first-link\n";
    wait_content(&runs, first);
    reinitialize(&cluster, id, context(&cluster, "second"), false);
    let second = "second: second file second-link\n";
    wait_content(&runs, &format!("{first}{second}"));

    restart(&mut cluster, |_| {});
    let call = cluster.am.client();
    let id_proto = id.into();
    let call = call.call::<RollbackLastReInitialization>(&id_proto);
    cluster.rm.runtime().block_on(call).unwrap();
    wait_content(&runs, &format!("{first}{second}{first}"));
}

#[test]
fn a_process_that_was_being_replaced_is_replaced_by_the_next_agent() {
    let mut cluster = start(|site| {
        let until_killed = "yarn.nodemanager.sleep-delay-before-sigkill.ms";
        site.set(until_killed, DEADLINE.as_millis() * 10);
    });
    let runs = cluster.node.folder().join("runs");
    let gate = cluster.gate("gate");
    let run = |name: &str, then: &str| {
        let text = format!("echo {name} >> '{}'\n{then}\n", runs.display());
        script(&cluster, &format!("{name}.sh"), &text)
    };
    let stubborn = run("first", &format!("trap '' TERM\n{}", gate.wait_command()));
    let second = run("second", "exit 5");
    let allocation = cluster.am.allocate();
    let first = LaunchContext::command(&stubborn);
    let id = cluster.am.try_start(&allocation, first).unwrap();
    wait_content(&runs, "first\n");
    reinitialize(&cluster, id, LaunchContext::command(&second), true);

    restart(&mut cluster, |_| gate.open());
    let completed = cluster.rm.wait_completed(id);
    assert_eq!(completed.exit_status, 5, "{completed:?}");
    assert_eq!(fs::read_to_string(&runs).unwrap(), "first\nsecond\n");
}

fn reinitialize(
    cluster: &ScriptedCluster,
    id: ContainerId,
    context: LaunchContext,
    auto_commit: bool,
) {
    let request = ReInitializeContainerRequestProto {
        container_id: Some(id.into()),
        container_launch_context: Some(context.into_proto()),
        auto_commit: Some(auto_commit),
    };
    let call = cluster.am.client().call::<ReInitializeContainer>(&request);
    cluster.rm.runtime().block_on(call).unwrap();
}

fn wait_content(path: &Path, expected: &str) {
    wait::until(format!("{expected:?}"), DEADLINE, || {
        let content = fs::read_to_string(path).unwrap_or_default();
        wait::check(content == expected, content)
    });
}
