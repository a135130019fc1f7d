//! Changes of running containers: another launch context, a restart, the way back, and more
//! resources.

use std::fs;
use std::path::Path;

use records::ContainerId;
use test_support::LaunchContext;
use test_support::scripted::Refusal;
use tests::{require, wait};
use wire::proto::hadoop_yarn::{
    ContainerStatusProto, ContainerSubStateProto, LocalResourceTypeProto,
    ReInitializeContainerRequestProto, ResourceLocalizationRequestProto,
};
use wire::protocol::container_management::{
    CommitLastReInitialization, Localize, ReInitializeContainer, RestartContainer,
    RollbackLastReInitialization,
};

use super::audit::{lines_after_end, lines_of};
use super::localization::localization_statuses;
use super::twins::{DEADLINE, Twin, Twins, once, text_of_end, text_of_refusal};

/// Command of containers that run until they are ended, with a line in a file for each run.
const FIRST: &str = "echo first >> runs; exec sleep 600";

/// Command of the launch context that replaces it.
const SECOND: &str = "echo second >> runs; exec sleep 600";

/// A call about one running container.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Localize,
    ReInitialize,
    Restart,
    RollBack,
    Commit,
}

const OPERATIONS: [Operation; 5] = [
    Operation::Localize,
    Operation::ReInitialize,
    Operation::Restart,
    Operation::RollBack,
    Operation::Commit,
];

#[test]
fn running_containers_are_changed_as_by_hadoop() {
    require!(java, hadoop);
    let mut twins = Twins::start(|site| {
        site.set("yarn.nodemanager.container-monitor.interval-ms", 100)
            // A container that ignores SIGTERM waits for its test.
            .set(
                "yarn.nodemanager.sleep-delay-before-sigkill.ms",
                DEADLINE.as_millis(),
            );
    });
    refusals(&mut twins);
    ways_of_a_change(&mut twins);
    failures(&mut twins);
    resources(&mut twins);
}

fn refusals(twins: &mut Twins) {
    for operation in OPERATIONS {
        twins.compare(&format!("{operation:?} of an unknown container"), |twin| {
            let id = twin.am.attempt().container(99);
            format!("{}\n{}", refusal(twin, operation, id), lines_of(twin, id))
        });
        twins.compare(
            &format!("{operation:?} of another application's container"),
            |twin| {
                let mut id = twin.am.attempt().container(2);
                id.attempt.application_id.id += 1;
                refusal(twin, operation, id)
            },
        );
    }
    twins.each(|twin| {
        let id = twin.start_number(2, LaunchContext::command("true"));
        twin.rm.wait_completed(id);
        twin.start_sleeping(&twin.allocation(3).opportunistic());
        twin.start_sleeping(&twin.allocation(4));
    });
    for operation in OPERATIONS {
        twins.compare(&format!("{operation:?} of an ended container"), |twin| {
            refusal(twin, operation, twin.am.attempt().container(2))
        });
        twins.compare(
            &format!("{operation:?} of an opportunistic container"),
            |twin| refusal(twin, operation, twin.am.attempt().container(3)),
        );
    }
    for operation in [Operation::RollBack, Operation::Commit] {
        twins.compare(&format!("{operation:?} of nothing"), |twin| {
            refusal(twin, operation, twin.am.attempt().container(4))
        });
    }
    twins.each(|twin| {
        for number in [3, 4] {
            let _ = end(twin, twin.am.attempt().container(number));
        }
    });
}

fn ways_of_a_change(twins: &mut Twins) {
    twins.compare("a re-initialization that is committed at once", |twin| {
        let id = start(twin, 10);
        reinitialize(twin, id, LaunchContext::command(SECOND), true).unwrap();
        wait_runs(twin, id, "first\nsecond\n");
        let after = refusal(twin, Operation::RollBack, id);
        format!("{}\n{after}\n{}", look(twin, id), end(twin, id))
    });
    twins.compare("a re-initialization that is committed later", |twin| {
        let id = start(twin, 11);
        reinitialize(twin, id, LaunchContext::command(SECOND), false).unwrap();
        wait_runs(twin, id, "first\nsecond\n");
        operate(twin, Operation::Commit, id).unwrap();
        let after = refusal(twin, Operation::Commit, id);
        format!("{}\n{after}\n{}", look(twin, id), end(twin, id))
    });
    twins.compare("a re-initialization that is rolled back", |twin| {
        let id = start(twin, 12);
        reinitialize(twin, id, LaunchContext::command(SECOND), false).unwrap();
        wait_runs(twin, id, "first\nsecond\n");
        operate(twin, Operation::RollBack, id).unwrap();
        wait_runs(twin, id, "first\nsecond\nfirst\n");
        let after = refusal(twin, Operation::RollBack, id);
        format!("{}\n{after}\n{}", look(twin, id), end(twin, id))
    });
    twins.compare("a restart", |twin| {
        let id = start(twin, 13);
        operate(twin, Operation::Restart, id).unwrap();
        wait_runs(twin, id, "first\nfirst\n");
        format!("{}\n{}", look(twin, id), end(twin, id))
    });
    twins.compare("while the process is being ended", |twin| {
        let gate = twin.gate("stubborn");
        let command = format!(
            "trap '' TERM; echo first >> runs; {}",
            gate.then("kill -9 \\$\\$")
        );
        let id = twin.start_number(14, LaunchContext::command(&command));
        wait_runs(twin, id, "first\n");
        reinitialize(twin, id, LaunchContext::command(SECOND), true).unwrap();
        // A Java node answers before it acts.
        let _ = wait_diagnostics(twin, id, "will be Re-initialized");
        let seen = look(twin, id);
        let refused = OPERATIONS.map(|operation| refusal(twin, operation, id));
        gate.open();
        wait_runs(twin, id, "first\nsecond\n");
        let after = look(twin, id);
        let refused = refused.join("\n");
        format!("{seen}\n{refused}\n{after}\n{}", end(twin, id))
    });
}

fn failures(twins: &mut Twins) {
    twins.compare("a re-initialization with a missing file", |twin| {
        let id = start(twin, 20);
        let missing = twin.node.folder().join("missing");
        let file = LocalResourceTypeProto::File;
        let context = LaunchContext::command(SECOND).resource("link", &missing, file, 1);
        reinitialize(twin, id, context, true).unwrap();
        let status = wait_diagnostics(twin, id, "aborting re-initialization");
        format!("{}\n{}", status.diagnostics(), end(twin, id))
    });
    twins.compare("a failure before the commit", |twin| {
        let id = start(twin, 21);
        let failing = LaunchContext::command("echo second >> runs; exit 9");
        reinitialize(twin, id, failing, false).unwrap();
        wait_runs(twin, id, "first\nsecond\nfirst\n");
        let after = refusal(twin, Operation::RollBack, id);
        let text = format!("{}\n{after}\n{}", look(twin, id), end(twin, id));
        // A Java node begins no line after it.
        text.replace("Rolled-Back.\n", "Rolled-Back.")
            .replace("Rolled-Back.\\n", "Rolled-Back.")
    });
    twins.compare("a failure after the commit", |twin| {
        let id = start(twin, 22);
        let failing = LaunchContext::command("echo second >> runs; exit 9");
        reinitialize(twin, id, failing, true).unwrap();
        let end = once(&text_of_end(&twin.rm.wait_completed(id)));
        format!("{end}\n{}", lines_after_end(twin, id))
    });
}

fn resources(twins: &mut Twins) {
    twins.compare("more resources", |twin| {
        let id = start(twin, 30);
        let context = LaunchContext::default().file("more", &twin.file("more", "x"));
        localize(twin, id, context).unwrap();
        twin.wait_work_file(id, "more");
        let statuses = localization_statuses(twin, 30);
        format!("{statuses}\n{}\n{}", look(twin, id), end(twin, id))
    });
    twins.compare("a further resource that is missing", |twin| {
        let id = start(twin, 31);
        let missing = twin.node.folder().join("missing");
        let file = LocalResourceTypeProto::File;
        let context = LaunchContext::default().resource("link", &missing, file, 1);
        localize(twin, id, context).unwrap();
        let status = wait_diagnostics(twin, id, "missing");
        let statuses = localization_statuses(twin, 31);
        format!("{}\n{statuses}\n{}", status.diagnostics(), end(twin, id))
    });
    twins.compare("links of both launch contexts", |twin| {
        let (one, two) = (twin.file("one", "1"), twin.file("two", "2"));
        // A link of both contexts is lost on a Java node.
        let context = LaunchContext::command(FIRST).file("kept", &one);
        let id = twin.start_number(32, context);
        wait_runs(twin, id, "first\n");
        let context = LaunchContext::command(SECOND).file("new", &two);
        reinitialize(twin, id, context, true).unwrap();
        wait_runs(twin, id, "first\nsecond\n");
        let folder = twin.work_folder(id);
        let linked = ["kept", "new"].map(|name| content(&folder.join(name)));
        let statuses = localization_statuses(twin, 32);
        format!("{linked:?}\n{statuses}\n{}", end(twin, id))
    });
    twins.compare(
        "the states of resources of several launch contexts",
        |twin| {
            let (one, two) = (twin.file("one", "1"), twin.file("two", "2"));
            let context = LaunchContext::command(FIRST).file("both", &one);
            let id = twin.start_number(33, context);
            wait_runs(twin, id, "first\n");
            let context = LaunchContext::command(SECOND)
                .file("both", &two)
                .file("new", &one);
            reinitialize(twin, id, context, false).unwrap();
            wait_runs(twin, id, "first\nsecond\n");
            let changed = localization_statuses(twin, 33);
            operate(twin, Operation::RollBack, id).unwrap();
            wait_runs(twin, id, "first\nsecond\nfirst\n");
            let rolled_back = localization_statuses(twin, 33);
            let missing = twin.node.folder().join("missing");
            let file = LocalResourceTypeProto::File;
            let context = LaunchContext::command(SECOND)
                .file("new", &one)
                .resource("missing", &missing, file, 1);
            reinitialize(twin, id, context, true).unwrap();
            let _ = wait_diagnostics(twin, id, "aborting re-initialization");
            let failed = localization_statuses(twin, 33);
            format!("{changed}\n{rolled_back}\n{failed}\n{}", end(twin, id))
        },
    );
}

/// Starts a container with the first command, and waits for that.
fn start(twin: &Twin, number: i64) -> ContainerId {
    let id = twin.start_number(number, LaunchContext::command(FIRST));
    wait_runs(twin, id, "first\n");
    id
}

/// Stops a container; returns its end and its lines in the audit log.
fn end(twin: &Twin, id: ContainerId) -> String {
    twin.am.stop(id).unwrap();
    let end = text_of_end(&twin.rm.wait_completed(id));
    format!("{end}\n{}", lines_after_end(twin, id))
}

/// Waits until the container's commands have written these lines, and the node knows that it runs.
fn wait_runs(twin: &Twin, id: ContainerId, lines: &str) {
    let path = twin.work_folder(id).join("runs");
    wait::until(format!("{lines:?} of {id}"), DEADLINE, || {
        let written = content(&path);
        let state = twin.am.status(id).unwrap().container_sub_state();
        let runs = state == ContainerSubStateProto::CssRunning;
        wait::check(written == lines && runs, format!("{state:?}: {written}"))
    });
}

fn content(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Returns the container as its ApplicationMaster and as REST sees it.
fn look(twin: &Twin, id: ContainerId) -> String {
    let mut status = twin.am.status(id).unwrap();
    // A Java node names the machine once it has looked at the process.
    status.container_attributes.clear();
    let (code, rest) = twin.rest(&format!("/containers/{id}"));
    let state = &rest["container"]["state"];
    format!("{status:#?}\n{code} {state}")
}

fn wait_diagnostics(twin: &Twin, id: ContainerId, text: &str) -> ContainerStatusProto {
    wait::until(format!("{text:?} of {id}"), DEADLINE, || {
        let status = twin.am.status(id).unwrap();
        if status.diagnostics().contains(text) {
            Ok(status)
        } else {
            Err(status.diagnostics().to_owned())
        }
    })
}

fn refusal(twin: &Twin, operation: Operation, id: ContainerId) -> String {
    let text = text_of_refusal(operate(twin, operation, id));
    // A Java node adds its stack.
    text.lines().next().unwrap_or_default().to_owned()
}

fn operate(twin: &Twin, operation: Operation, id: ContainerId) -> Result<(), Refusal> {
    let (runtime, client) = (twin.rm.runtime(), twin.am.client());
    let id_proto = id.into();
    match operation {
        Operation::Localize => localize(twin, id, LaunchContext::default()),
        Operation::ReInitialize => reinitialize(twin, id, LaunchContext::command("true"), true),
        Operation::Restart => {
            let call = client.call::<RestartContainer>(&id_proto);
            runtime.block_on(call).map(drop).map_err(Refusal::Call)
        }
        Operation::RollBack => {
            let call = client.call::<RollbackLastReInitialization>(&id_proto);
            runtime.block_on(call).map(drop).map_err(Refusal::Call)
        }
        Operation::Commit => {
            let call = client.call::<CommitLastReInitialization>(&id_proto);
            runtime.block_on(call).map(drop).map_err(Refusal::Call)
        }
    }
}

fn reinitialize(
    twin: &Twin,
    id: ContainerId,
    context: LaunchContext,
    auto_commit: bool,
) -> Result<(), Refusal> {
    let request = ReInitializeContainerRequestProto {
        container_id: Some(id.into()),
        container_launch_context: Some(context.into_proto()),
        auto_commit: Some(auto_commit),
    };
    let call = twin.am.client().call::<ReInitializeContainer>(&request);
    let answer = twin.rm.runtime().block_on(call);
    answer.map(drop).map_err(Refusal::Call)
}

/// Localizes the resources of a launch context for a running container.
fn localize(twin: &Twin, id: ContainerId, context: LaunchContext) -> Result<(), Refusal> {
    let request = ResourceLocalizationRequestProto {
        container_id: Some(id.into()),
        local_resources: context.into_proto().local_resources,
    };
    let call = twin.am.client().call::<Localize>(&request);
    let answer = twin.rm.runtime().block_on(call);
    answer.map(drop).map_err(Refusal::Call)
}
