//! Lines of the audit log, which sites search for.

use std::time::Duration;

use records::ContainerId;
use test_support::LaunchContext;
use tests::{require, wait};
use wire::proto::hadoop_yarn::{LocalResourceTypeProto, SignalContainerCommandProto};

use super::twins::{Twin, Twins};

#[test]
fn audit_lines_are_hadoops() {
    require!(java, hadoop);
    let mut twins = Twins::start(|_| {});
    twins.compare("a container that succeeds", |twin| {
        let id = twin.start_number(2, LaunchContext::command("true"));
        lines_after_end(twin, id)
    });
    twins.compare("a container that fails", |twin| {
        let id = twin.start_number(3, LaunchContext::command("exit 3"));
        lines_after_end(twin, id)
    });
    twins.compare("a container that its ApplicationMaster stops", |twin| {
        let id = twin.start_sleeping(&twin.allocation(4));
        twin.am.stop(id).unwrap();
        lines_after_end(twin, id)
    });
    twins.compare("a container that the ResourceManager kills", |twin| {
        let id = twin.start_sleeping(&twin.allocation(5));
        twin.rm.order_kill(id);
        lines_after_end(twin, id)
    });
    twins.compare("a container whose files cannot be fetched", |twin| {
        let path = twin.node.folder().join("missing");
        let kind = LocalResourceTypeProto::File;
        let context = LaunchContext::command("true").resource("link", &path, kind, 1);
        let id = twin.start_number(6, context);
        lines_after_end(twin, id)
    });
    twins.compare("a stop of a container that is unknown", |twin| {
        let id = twin.am.attempt().container(99);
        assert!(twin.am.stop(id).is_err());
        lines_of(twin, id)
    });
    twins.compare("a container that is signalled", |twin| {
        let id = twin.start_sleeping(&twin.allocation(7));
        let command = SignalContainerCommandProto::ForcefulShutdown;
        twin.am.signal(id, command).unwrap();
        lines_after_end(twin, id)
    });
}

/// Waits for the end of a container and its line, and returns the container's lines.
pub(super) fn lines_after_end(twin: &Twin, id: ContainerId) -> String {
    twin.rm.wait_completed(id);
    wait::until("the line of an end", Duration::from_secs(30), || {
        let lines = lines_of(twin, id);
        wait::check(lines.contains("Container Finished"), lines)
    })
}

/// Returns the lines of the audit log with this container's id, from the user on.
pub(super) fn lines_of(twin: &Twin, id: ContainerId) -> String {
    let log = twin.node.process.log();
    let id = id.to_string();
    let lines = log.lines().filter(|line| line.ends_with(&id));
    let lines = lines.filter_map(|line| Some(&line[line.find("USER=")?..]));
    lines.collect::<Vec<_>>().join("\n")
}
