//! Changes of a container's size and execution type.
//!
//! Left out, since the agent differs on purpose: a token that is not valid, with which the call to
//! a Java node fails by a `NullPointerException`.

use records::ContainerId;
use test_support::{Allocation, LaunchContext};
use tests::{require, wait};
use wire::proto::hadoop_yarn::ContainerSubStateProto;

use super::audit::lines_after_end;
use super::twins::{DEADLINE, Twin, Twins, text_of_end, text_of_refusal};

#[test]
fn containers_are_resized_and_promoted_as_by_hadoop() {
    require!(java, hadoop);
    let mut twins = Twins::start(|site| {
        site.set("yarn.nodemanager.container-monitor.interval-ms", 100);
    });
    sizes(&mut twins);
    types(&mut twins);
    refusals(&mut twins);
}

fn sizes(twins: &mut Twins) {
    twins.compare("more memory", |twin| {
        let allocation = twin.allocation(2);
        let id = twin.start_sleeping(&allocation);
        let larger = version(allocation, 1).memory_mb(256);
        let answer = text_of_update(twin, &larger);
        format!("{answer}\n{}\n{}", reported(twin, id), end(twin, id))
    });
    twins.compare("less memory", |twin| {
        let allocation = twin.allocation(3).memory_mb(256);
        let id = twin.start_sleeping(&allocation);
        let smaller = version(allocation, 1).memory_mb(128);
        let answer = text_of_update(twin, &smaller);
        format!("{answer}\n{}", end(twin, id))
    });
    twins.compare("another size and type at once", |twin| {
        let allocation = twin.allocation(4).opportunistic();
        let id = twin.start_sleeping(&allocation);
        let mut changed = version(allocation, 1).memory_mb(256);
        changed.execution_type = records::ExecutionType::Guaranteed;
        let answer = text_of_update(twin, &changed);
        format!("{answer}\n{}", end(twin, id))
    });
}

fn types(twins: &mut Twins) {
    twins.compare("a promotion", |twin| {
        let allocation = twin.allocation(10).opportunistic();
        let id = twin.start_sleeping(&allocation);
        let promoted = version(
            Allocation {
                id,
                ..twin.allocation(10)
            },
            1,
        );
        let answer = text_of_update(twin, &promoted);
        format!("{answer}\n{}", end(twin, id))
    });
    twins.compare("a demotion", |twin| {
        let allocation = twin.allocation(11);
        let id = twin.start_sleeping(&allocation);
        let demoted = version(allocation, 1).opportunistic();
        let answer = text_of_update(twin, &demoted);
        format!("{answer}\n{}", end(twin, id))
    });
    twins.compare("a promotion while queued", |twin| {
        let full = twin.start_sleeping(&twin.allocation(12).memory_mb(1024));
        let queued = twin.allocation(13).opportunistic();
        let context = LaunchContext::command("exec sleep 600");
        let id = twin.am.try_start(&queued, context).unwrap();
        twin.rm
            .wait_sub_state(id, ContainerSubStateProto::CssScheduled);
        let answer = text_of_update(twin, &version(twin.allocation(13), 1));
        let status = twin.am.status(id).unwrap();
        let end_of_full = end(twin, full);
        twin.rm
            .wait_sub_state(id, ContainerSubStateProto::CssRunning);
        twin.am.stop(id).unwrap();
        twin.rm.wait_completed(id);
        format!("{answer}\n{status:#?}\n{end_of_full}")
    });
}

fn refusals(twins: &mut Twins) {
    twins.compare("an update of an unknown container", |twin| {
        text_of_refusal(twin.am.update(&version(twin.allocation(99), 1)))
    });
    twins.compare("an update of a container that ended", |twin| {
        let id = twin.start_number(20, LaunchContext::command("true"));
        twin.rm.wait_completed(id);
        text_of_refusal(
            twin.am
                .update(&version(twin.allocation(20), 1).memory_mb(256)),
        )
    });
}

fn version(allocation: Allocation, version: i32) -> Allocation {
    Allocation {
        version,
        ..allocation
    }
}

/// Asks for an update; if it is accepted, returns once the container's status shows it. Hadoop's
/// node answers before it has changed the container.
fn text_of_update(twin: &Twin, to: &Allocation) -> String {
    let text = text_of_refusal(twin.am.update(to));
    if text == "accepted" {
        wait::until("the update in a status", DEADLINE, || {
            let status = twin.am.status(to.id).unwrap();
            let memory_mb = status.capability.as_ref().and_then(|size| size.memory);
            let has_size = memory_mb == i64::try_from(to.resource.memory_mb).ok();
            let has_type = status.execution_type() == to.execution_type.into();
            if has_size && has_type {
                Ok(())
            } else {
                Err(format!("{status:?}"))
            }
        });
    }
    text
}

/// Returns what a heartbeat says of a container that has grown.
fn reported(twin: &Twin, id: ContainerId) -> String {
    wait::until("the increase in a heartbeat", DEADLINE, || {
        let container_id = Some(id.into());
        twin.rm.with(|tracker| {
            let heartbeats = tracker.heartbeats.iter();
            let mut increased = heartbeats.flat_map(|status| &status.increased_containers);
            let found = increased.find(|container| container.id == container_id);
            found
                .map(|container| format!("{container:#?}"))
                .ok_or("none yet")
        })
    })
}

/// Stops a container; returns its status before, its end and its lines in the audit log.
fn end(twin: &Twin, id: ContainerId) -> String {
    let status = wait::until("a status with the host", DEADLINE, || {
        let status = twin.am.status(id).unwrap();
        let is_named = !status.container_attributes.is_empty();
        if is_named { Ok(status) } else { Err("without") }
    });
    let (_, rest) = twin.rest(&format!("/containers/{id}"));
    let needs = (
        &rest["container"]["totalMemoryNeededMB"],
        &rest["container"]["executionType"],
    );
    twin.am.stop(id).unwrap();
    let end = text_of_end(&twin.rm.wait_completed(id));
    format!(
        "{status:#?}\n{needs:?}\n{end}\n{}",
        lines_after_end(twin, id)
    )
}
