//! Opportunistic containers are frozen for guaranteed ones instead of killed, and lose no work.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use tests::cgroups::Hierarchy;
use tests::cluster::{Cluster, JOB_DEADLINE, PRINT_BEGIN, STATE_DEADLINE};
use tests::conf::Options;
use tests::distributed_shell::ContainerType;
use tests::gate::Gate;
use tests::job_client::JobClient;
use tests::node::NodeKind;
use tests::rm::RmKind;
use tests::skip;
use tests::wait;

use crate::interop::{is_of_application, start_cluster};

with_each_rm!(frozen_containers_go_on_where_they_were_and_their_job_succeeds,);

/// Steps that a running container takes at its gate between two looks of the test, so that a frozen
/// one would be seen to take one: at ten per second that is two seconds.
const STEPS: usize = 20;

/// Containers of the job that is frozen in part.
const OPPORTUNISTIC: usize = 5;

/// Containers whose resources the guaranteed job's ApplicationMaster and two containers need.
const FROZEN: usize = 3;

/// Containers that record each start and each step.
struct Counters(PathBuf);

impl Counters {
    fn new(cluster: &Cluster) -> Self {
        let folder = cluster.lab.folder().join("counters");
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    /// Shell text for a container of DistributedShell. The launch script puts the container's id
    /// in.
    fn command(&self, gate: &Gate) -> String {
        let folder = self.0.display();
        let gate = gate.path().display();
        format!(
            "({PRINT_BEGIN}; echo >> {folder}/$CONTAINER_ID.starts; while [ ! -e {gate} ]; do \
             echo >> {folder}/$CONTAINER_ID.steps; sleep 0.1; done)"
        )
    }

    /// Returns how often each container did `what`.
    fn of(&self, what: &str) -> BTreeMap<String, usize> {
        let entries = fs::read_dir(&self.0).unwrap();
        let files = entries.map(|entry| entry.unwrap().path());
        files
            .filter(|file| file.extension().is_some_and(|extension| extension == what))
            .map(|file| {
                let id = file.file_stem().unwrap().to_str().unwrap().to_owned();
                (id, fs::read(&file).unwrap().len())
            })
            .collect()
    }

    /// Waits until each of these containers has taken [`STEPS`] steps more than in `before`.
    #[track_caller]
    fn wait_progress<'a>(
        &self,
        ids: impl IntoIterator<Item = &'a String>,
        before: &BTreeMap<String, usize>,
    ) {
        for id in ids {
            wait::until(format!("steps of {id}"), STATE_DEADLINE, || {
                let now = self.of("steps")[id];
                wait::check(now >= before[id] + STEPS, now)
            });
        }
    }
}

/// Returns the opportunistic containers of an application that the node's REST shows in this state.
fn in_state(
    cluster: &Cluster,
    application_id: &str,
    state: &str,
) -> Result<BTreeSet<String>, String> {
    let containers = cluster.node.containers()?;
    let ids = containers
        .iter()
        .filter(|container| container["executionType"] == "OPPORTUNISTIC")
        .filter(|container| container["state"] == state)
        .filter_map(|container| container["id"].as_str())
        .filter(|id| is_of_application(id, application_id));
    Ok(ids.map(str::to_owned).collect())
}

#[track_caller]
fn wait_in_state(
    cluster: &Cluster,
    application_id: &str,
    state: &str,
    count: usize,
) -> BTreeSet<String> {
    let what = format!("{count} containers of {application_id} {state}");
    wait::until(what, STATE_DEADLINE, || {
        let found = in_state(cluster, application_id, state)?;
        if found.len() == count {
            Ok(found)
        } else {
            Err(format!("{:?}", cluster.node.containers()?))
        }
    })
}

/// Waits for the end of a job, all of whose containers must have succeeded.
#[track_caller]
fn succeeds(cluster: &Cluster, job: &mut JobClient, application_id: &str, containers: usize) {
    job.assert_succeeds(JOB_DEADLINE);
    let application = cluster.rm.application(application_id).unwrap();
    assert_eq!(application["finalStatus"], "SUCCEEDED", "{application}");
    cluster
        .node
        .logs(application_id)
        .assert_succeeded(containers);
}

fn frozen_containers_go_on_where_they_were_and_their_job_succeeds(rm: &RmKind) {
    tests::require!(cgroups);
    if crate::interop::node_kind() == NodeKind::Java {
        // Hadoop's node freezes with a setuid program that is not among Hadoop's jars.
        skip::skip("freezing", &"Hadoop's node needs its container-executor");
        return;
    }
    // Dropped after the node.
    let hierarchy = Hierarchy::new().unwrap();
    let (property, path) = hierarchy.property();
    let options = Options::default().with(property, path).with(
        "yarn.nodemanager.opportunistic-containers-use-pause-for-preemption",
        true,
    );
    // One slot for the ApplicationMaster and five for opportunistic containers.
    let cluster = start_cluster(rm, 6, options);
    let counters = Counters::new(&cluster);
    let (opportunistic, guaranteed) = (cluster.gate("opportunistic"), cluster.gate("guaranteed"));
    let mut gentle = cluster.submit(
        "opportunistic",
        &counters.command(&opportunistic),
        OPPORTUNISTIC.try_into().unwrap(),
        ContainerType::Opportunistic,
    );
    let gentle_id = gentle.application_id();
    cluster.wait_begun(&gentle_id, OPPORTUNISTIC);

    let command = format!("({PRINT_BEGIN}; {})", guaranteed.wait_command());
    let mut urgent = cluster.submit("guaranteed", &command, 2, ContainerType::Guaranteed);
    let urgent_id = urgent.application_id();
    cluster.wait_begun(&urgent_id, 2);
    let frozen = wait_in_state(&cluster, &gentle_id, "PAUSED", FROZEN);
    let running = wait_in_state(&cluster, &gentle_id, "RUNNING", OPPORTUNISTIC - FROZEN);
    let before = counters.of("steps");
    counters.wait_progress(&running, &before);
    let after = counters.of("steps");
    for id in &frozen {
        assert_eq!(after[id], before[id], "{id} went on although it is frozen");
    }
    let still = in_state(&cluster, &gentle_id, "PAUSED").unwrap();
    assert_eq!(still, frozen);

    guaranteed.open();
    succeeds(&cluster, &mut urgent, &urgent_id, 2);
    let _ = wait_in_state(&cluster, &gentle_id, "RUNNING", OPPORTUNISTIC);
    counters.wait_progress(&frozen, &after);
    opportunistic.open();
    succeeds(&cluster, &mut gentle, &gentle_id, OPPORTUNISTIC);
    let starts = counters.of("starts");
    assert_eq!(starts.len(), OPPORTUNISTIC, "{starts:?}");
    assert!(starts.values().all(|count| *count == 1), "{starts:?}");
    assert!(frozen.iter().all(|id| starts.contains_key(id)));
}
