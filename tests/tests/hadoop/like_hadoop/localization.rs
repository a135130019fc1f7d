//! Localization: errors in diagnostics, and `getLocalizationStatuses`.
//!
//! Left out, since the agent differs on purpose: an archive that cannot be unpacked, of which
//! Hadoop shows only Java's stack; unknown containers, of which Hadoop's answer says nothing; and
//! the resource that a container ended for want of, which Hadoop calls pending for ever and the
//! agent failed, with the reason.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use test_support::LaunchContext;
use tests::require;
use wire::proto::hadoop_yarn::{
    ContainerSubStateProto, GetLocalizationStatusesRequestProto, LocalResourceTypeProto,
    LocalResourceVisibilityProto,
};
use wire::protocol::container_management::GetLocalizationStatuses;

use super::twins::{Twin, Twins};

#[test]
fn localization_is_told_in_hadoops_words() {
    require!(java, hadoop);
    let mut twins = Twins::start(|_| {});
    failures(&mut twins);
    statuses(&mut twins);
}

fn failures(twins: &mut Twins) {
    let file = LocalResourceTypeProto::File;
    twins.compare("a missing file", |twin| {
        let path = twin.node.folder().join("missing");
        let context = LaunchContext::command("true").resource("link", &path, file, 1);
        twin.end_of(2, context)
    });
    twins.compare("a changed file", |twin| {
        let path = twin.file("changed", "x");
        let context = LaunchContext::command("true").resource("link", &path, file, 1000);
        twin.end_of(3, context)
    });
    twins.compare("a private file in the public cache", |twin| {
        let path = twin.file("private", "x");
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let context = LaunchContext::command("true").file("link", &path);
        let mut context = context.into_proto();
        let resource = context.local_resources[0].value.as_mut().unwrap();
        resource.set_visibility(LocalResourceVisibilityProto::Public);
        let text = twin.end_of(4, LaunchContext::from(context));
        // Hadoop shows its queue of public downloads first.
        let (_, exception) = text.split_once("java.io.IOException: ").unwrap();
        exception.trim_end().to_owned()
    });
    twins.compare("an unknown file system", |twin| {
        let text = twin.end_of(5, with_scheme(twin, "nosuch"));
        // The agent's note on what it can read.
        let lines = text.lines().filter(|line| !line.starts_with("cannot read"));
        lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
    });
    twins.compare("two bad resources", |twin| {
        let folder = twin.node.folder();
        let context = LaunchContext::command("true")
            .resource("one", &folder.join("missing-1"), file, 1)
            .resource("two", &folder.join("missing-2"), file, 1);
        // Which of the two fails first is a race in both.
        let text = twin.end_of(7, context);
        text.replace("missing-2", "missing-1")
    });
}

fn with_scheme(twin: &Twin, scheme: &str) -> LaunchContext {
    let path = twin.file("plain", "x");
    let mut context = LaunchContext::command("true")
        .file("link", &path)
        .into_proto();
    let resource = context.local_resources[0].value.as_mut().unwrap();
    resource.resource.as_mut().unwrap().scheme = Some(scheme.to_owned());
    LaunchContext::from(context)
}

fn statuses(twins: &mut Twins) {
    twins.compare("resources of a running and of an ended container", |twin| {
        let (one, two) = (twin.file("one", "1"), twin.file("two", "2"));
        let gate = twin.gate("running");
        let context = LaunchContext::command(&gate.wait_command())
            .file("link-1", &one)
            .file("link-2", &two);
        let id = twin.start_number(10, context);
        twin.rm
            .wait_sub_state(id, ContainerSubStateProto::CssRunning);
        let text = localization_statuses(twin, 10);
        gate.open();
        twin.rm.wait_completed(id);
        format!("{text}\n{}", localization_statuses(twin, 10))
    });
}

/// Returns the answer to `getLocalizationStatuses` for one container, resources by name.
pub(super) fn localization_statuses(twin: &Twin, number: i64) -> String {
    let request = GetLocalizationStatusesRequestProto {
        container_id: vec![twin.am.attempt().container(number).into()],
    };
    let call = twin.am.client().call::<GetLocalizationStatuses>(&request);
    let mut answer = twin.rm.runtime().block_on(call).unwrap();
    for container in &mut answer.cntn_localization_statuses {
        container
            .localization_statuses
            .sort_by(|a, b| a.resource_key.cmp(&b.resource_key));
        for status in &mut container.localization_statuses {
            // A Java node adds its stack.
            if let Some(text) = &mut status.diagnostics {
                text.truncate(text.find('\n').unwrap_or(text.len()));
            }
        }
    }
    for failed in &mut answer.failed_requests {
        // Java's stack trace.
        failed.exception.as_mut().unwrap().trace = None;
    }
    format!("{answer:#?}")
}
