//! Launch contexts that take more memory than a container needs, in an agent with little.

use std::fs;

use records::{ContainerId, ExecutionType, Resource};
use test_support::LaunchContext;
use test_support::scripted::Refusal;
use tests::scripted_cluster::ScriptedCluster;
use wire::exception::HadoopException;
use wire::proto::hadoop_yarn::GetLocalizationStatusesRequestProto;
use wire::protocol::container_management::GetLocalizationStatuses;

use crate::bad_input::limits::{Limited, limited_with};

/// Containers that are started behind one that takes the whole node.
const STARTS: usize = 60;

/// Memory of the node for containers, in MiB.
const NODE_MB: u64 = 1024;

/// Links to one file: what a very large job would want.
const LINKS: usize = 15_000;

fn limited() -> Limited {
    let length = "yarn.nodemanager.opportunistic-containers-max-queue-length";
    limited_with(|properties| {
        properties.set(length, 2 * STARTS);
    })
}

/// Starts a guaranteed container that takes the whole node until it is stopped.
fn fill(cluster: &ScriptedCluster) -> ContainerId {
    let mut whole = cluster.am.allocate();
    whole.resource = Resource::new(NODE_MB, 1);
    cluster.am.start(&whole, "exec sleep 6000")
}

fn queue(cluster: &ScriptedCluster, context: LaunchContext) -> Result<ContainerId, Refusal> {
    let mut opportunistic = cluster.am.allocate();
    opportunistic.execution_type = ExecutionType::Opportunistic;
    cluster.am.try_start(&opportunistic, context)
}

#[test]
fn large_contexts_of_queued_containers_take_a_share_of_the_memory_and_no_more() {
    let limited = limited();
    let cluster = &limited.cluster;
    let filling = fill(cluster);
    let large = LaunchContext::command("true").env("LARGE", &"x".repeat(7 << 20));
    let outcomes = (0..STARTS).map(|_| queue(cluster, large.clone()));
    let (mut queued, mut refused) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome {
            Ok(id) => queued.push(id),
            Err(refusal) => refused.push(refusal),
        }
    }
    assert_eq!(queued.len(), 9, "half of 128 MiB");
    for refusal in refused {
        let Refusal::Container(exception) = &refusal else {
            panic!("{refusal}");
        };
        assert!(exception.is(HadoopException::NmNotYetReady), "{refusal}");
        assert!(exception.message.contains("try again later"), "{refusal}");
    }
    let enormous = LaunchContext::command("true").env("LARGE", &"x".repeat(9 << 20));
    let refusal = queue(cluster, enormous).unwrap_err();
    assert!(
        refusal.to_string().contains("at most 8388608 are allowed"),
        "{refusal}"
    );
    // Small ones still fit.
    let small = queue(cluster, LaunchContext::command("true")).unwrap();
    for id in queued {
        cluster.am.stop(id).unwrap();
    }
    cluster.am.stop(filling).unwrap();
    assert_eq!(cluster.rm.wait_completed(small).exit_status, 0);
    cluster.assert_serves();
    queue(cluster, large).unwrap();
}

#[test]
fn a_container_with_many_links_that_is_named_ten_thousand_times_is_answered_once() {
    let limited = limited();
    let cluster = &limited.cluster;
    let file = cluster.node.folder().join("file");
    fs::write(&file, "x").unwrap();
    fill(cluster);
    let mut context = LaunchContext::command("true");
    for link in 0..LINKS {
        context = context.file(&format!("link-{link}"), &file);
    }
    let id = queue(cluster, context).unwrap();
    let request = GetLocalizationStatusesRequestProto {
        container_id: vec![id.into(); 10_000],
    };
    let call = cluster
        .am
        .client()
        .call::<GetLocalizationStatuses>(&request);
    let answer = cluster.rm.runtime().block_on(call).unwrap();
    let told = &answer.cntn_localization_statuses;
    assert_eq!((told.len(), answer.failed_requests.len()), (1, 0));
    assert_eq!(told[0].localization_statuses.len(), LINKS);
    cluster.am.stop(id).unwrap();
    cluster.rm.wait_completed(id);
}
