//! Refused calls: the class of the exception and its text.

use test_support::{Allocation, LaunchContext, now_ms};
use tests::{require, wait};
use wire::proto::hadoop_yarn::{ContainerSubStateProto, StringBytesMapProto};

use super::twins::{DEADLINE, Twin, Twins, text_of_end, text_of_refusal};

#[test]
fn refusals_are_hadoops() {
    require!(java, hadoop);
    let mut twins = Twins::start(|site| {
        site.set("yarn.nodemanager.container-monitor.interval-ms", 100);
    });
    starts(&mut twins);
    known_containers(&mut twins);
    opportunistic(&mut twins);
}

fn starts(twins: &mut Twins) {
    let started = |twin: &Twin, allocation: &Allocation| {
        let context = LaunchContext::command("true");
        text_of_refusal(twin.am.try_start(allocation, context))
    };
    twins.compare("a token used twice", |twin| {
        let allocation = twin.allocation(2);
        let first = started(twin, &allocation);
        twin.rm.wait_completed(allocation.id);
        format!("{first}\n{}", started(twin, &allocation))
    });
    twins.compare("an expired token", |twin| {
        let mut allocation = twin.allocation(3);
        allocation.expires_ms = now_ms() - 1000;
        started(twin, &allocation)
    });
    twins.compare("a token of another run of the ResourceManager", |twin| {
        let mut allocation = twin.allocation(4);
        allocation.rm_identifier -= 1;
        started(twin, &allocation)
    });
    twins.compare("a token for another node", |twin| {
        let mut allocation = twin.allocation(5);
        "elsewhere:1".clone_into(&mut allocation.node);
        started(twin, &allocation)
    });
    twins.compare("a container of another application", |twin| {
        let mut allocation = twin.allocation(6);
        allocation.id.attempt.application_id.id += 1;
        started(twin, &allocation)
    });
    twins.compare("a token signed with another key", |twin| {
        let allocation = twin.allocation(7);
        let mut token = twin.am.secrets().container_token(&allocation);
        token.password = vec![0; 20].into();
        let context = LaunchContext::command("true");
        text_of_refusal(twin.am.start_with(token, context))
    });
    twins.compare("a missing auxiliary service", |twin| {
        let mut context = LaunchContext::command("true").into_proto();
        context.service_data.push(StringBytesMapProto {
            key: Some("missing".to_owned()),
            value: None,
        });
        let allocation = twin.allocation(8);
        text_of_refusal(twin.am.try_start(&allocation, context.into()))
    });
    twins.compare("a resource without a type", |twin| {
        let path = twin.file("plain", "x");
        let context = LaunchContext::command("true").file("link", &path);
        let mut context = context.into_proto();
        context.local_resources[0].value.as_mut().unwrap().r#type = None;
        let allocation = twin.allocation(9);
        let text = text_of_refusal(twin.am.try_start(&allocation, context.into()));
        // Hadoop adds the whole resource.
        let (text, _) = text.split_once(" : ").unwrap_or((&text, ""));
        text.to_owned()
    });
    twins.compare("credentials that are none", |twin| {
        let context = LaunchContext::command("true").tokens(b"nonsense"[..].into());
        let text = text_of_refusal(twin.am.try_start(&twin.allocation(10), context));
        // A Java node adds the cause.
        text.lines().next().unwrap_or_default().to_owned()
    });
}

fn known_containers(twins: &mut Twins) {
    twins.compare("the status of an unknown container", |twin| {
        text_of_refusal(twin.am.status(twin.am.attempt().container(99)))
    });
    twins.compare("the status of another application's container", |twin| {
        let mut id = twin.am.attempt().container(2);
        id.attempt.application_id.id += 1;
        text_of_refusal(twin.am.status(id))
    });
    twins.compare("a stop of an unknown container", |twin| {
        text_of_refusal(twin.am.stop(twin.am.attempt().container(99)))
    });
    twins.compare("a stop of another application's container", |twin| {
        let mut id = twin.am.attempt().container(2);
        id.attempt.application_id.id += 1;
        text_of_refusal(twin.am.stop(id))
    });
    twins.compare("the status of a container that ended", |twin| {
        let id = twin.am.attempt().container(2);
        let mut status = twin.am.status(id).unwrap();
        // Too quick for a Java node to name the machine.
        status.container_attributes.clear();
        format!("{status:#?}")
    });
    twins.compare("an update to the same version", |twin| {
        let gate = twin.gate("update");
        let allocation = twin.allocation(20);
        let context = LaunchContext::command(&gate.wait_command());
        let id = twin.am.try_start(&allocation, context).unwrap();
        twin.rm
            .wait_sub_state(id, ContainerSubStateProto::CssRunning);
        // A Java node names the machine once it has looked at the process.
        let status = wait::until("a status with the host", DEADLINE, || {
            let status = twin.am.status(id).unwrap();
            let is_named = !status.container_attributes.is_empty();
            if is_named { Ok(status) } else { Err("without") }
        });
        let refusal = text_of_refusal(twin.am.update(&allocation));
        gate.open();
        twin.rm.wait_completed(id);
        format!("{status:#?}\n{refusal}")
    });
    twins.compare("the status of a forgotten container", |twin| {
        let id = twin.am.attempt().container(2);
        twin.rm.acknowledge(id);
        twin.rm.wait_heartbeats(3);
        text_of_refusal(twin.am.status(id))
    });
}

fn opportunistic(twins: &mut Twins) {
    twins.compare(
        "a queued container killed by its ApplicationMaster",
        |twin| {
            let gate = twin.gate("full");
            let full = twin.allocation(30).memory_mb(1024);
            let context = LaunchContext::command(&gate.wait_command());
            let full = twin.am.try_start(&full, context).unwrap();
            twin.rm
                .wait_sub_state(full, ContainerSubStateProto::CssRunning);
            let queued = twin.allocation(31).opportunistic();
            let context = LaunchContext::command("true");
            let queued = twin.am.try_start(&queued, context).unwrap();
            twin.rm
                .wait_sub_state(queued, ContainerSubStateProto::CssScheduled);
            let status = twin.am.status(queued).unwrap();
            twin.am.stop(queued).unwrap();
            let end = text_of_end(&twin.rm.wait_completed(queued));
            gate.open();
            twin.rm.wait_completed(full);
            format!("{status:#?}\n{end}")
        },
    );
    twins.compare("an opportunistic container gives way", |twin| {
        let victim = twin.allocation(32).opportunistic().memory_mb(1024);
        let victim = twin.start_sleeping(&victim);
        let context = LaunchContext::command("true");
        let guaranteed = twin.am.try_start(&twin.allocation(33), context).unwrap();
        let end = text_of_end(&twin.rm.wait_completed(victim));
        twin.rm.wait_completed(guaranteed);
        end
    });
    twins.compare("a shed container", |twin| {
        let gate = twin.gate("shed");
        let full = twin.allocation(34).memory_mb(1024);
        let context = LaunchContext::command(&gate.wait_command());
        let full = twin.am.try_start(&full, context).unwrap();
        twin.rm
            .wait_sub_state(full, ContainerSubStateProto::CssRunning);
        let shed = twin.allocation(35).opportunistic();
        let shed = twin.am.try_start(&shed, LaunchContext::command("true"));
        let shed = shed.unwrap();
        twin.rm
            .wait_sub_state(shed, ContainerSubStateProto::CssScheduled);
        twin.rm.order_queuing_limit(0);
        let end = text_of_end(&twin.rm.wait_completed(shed));
        gate.open();
        twin.rm.wait_completed(full);
        end
    });
}
