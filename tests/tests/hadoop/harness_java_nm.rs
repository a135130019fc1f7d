//! The harness with Hadoop's own NodeManager as the node: when this fails, the harness is wrong,
//! not the agent.

use std::time::Duration;

use tests::conf::Options;
use tests::distributed_shell::{self, ContainerType, Job};
use tests::lab::Lab;
use tests::node::{Node, NodeKind};
use tests::require;
use tests::rm::{ResourceManager, RmKind};

const JOB_DEADLINE: Duration = Duration::from_secs(180);

#[test]
fn a_java_node_runs_guaranteed_and_opportunistic_containers() {
    require!(java, hadoop);
    // Capacity for both jobs at once: otherwise the guaranteed one preempts opportunistic
    // containers.
    let options = Options {
        node_memory_mb: 6144,
        ..Options::default()
    };
    let lab = Lab::new(&RmKind::Hadoop, options);
    let rm = ResourceManager::start(&lab, &RmKind::Hadoop);
    let node = Node::start_registered(&lab, &NodeKind::Java, "node", &rm);
    let job = Job {
        command: "sleep 1",
        containers: 10,
        memory_mb: 256,
        container_type: ContainerType::Guaranteed,
    };
    let mut guaranteed = distributed_shell::start(&lab, "guaranteed", &job);
    let mut opportunistic = distributed_shell::start(
        &lab,
        "opportunistic",
        &Job {
            container_type: ContainerType::Opportunistic,
            ..job
        },
    );
    for shell in [&mut guaranteed, &mut opportunistic] {
        let id = shell.application_id();
        shell.assert_succeeds(JOB_DEADLINE);
        node.logs(&id).assert_succeeded(10);
    }
}
