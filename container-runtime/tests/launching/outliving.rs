//! Notes of processes that outlive their launcher.

use std::sync::{Arc, mpsc};

use container_runtime::launch::{Outlives, Planned, SharedExits, end_leftovers, size_in};
use keeper::{ExitRecords, FoundStart, ProcessIdentity, StartSlots};
use records::{ExecutionType, Resource};
use sched::ContainerSpec;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::*;

/// Size of each container.
const SIZE: Resource = Resource::new(3072, 2);

/// A launcher of containers that outlive it, with a runtime that ends like an agent.
struct Agent {
    node: Node,
    runtime: Runtime,
}

impl Agent {
    fn start(folder: &Path) -> (Self, Vec<FoundStart>) {
        let runtime = Runtime::new().unwrap();
        let (starts, found) = StartSlots::open(folder).unwrap();
        let exits = ExitRecords::read(folder).unwrap();
        let config = LaunchConfig {
            outlives: Some(Outlives {
                exits: SharedExits::new(exits),
                starts: Arc::new(starts),
            }),
            ..config()
        };
        let node = runtime.block_on(async { Node::with(config) });
        (Self { node, runtime }, found)
    }

    fn launch(&mut self, command: &str) -> (ContainerId, i32) {
        self.launch_after(command, |_, _| {})
    }

    /// Launches a container; `work` is done while its plan is waited for.
    fn launch_after(
        &mut self,
        command: &str,
        work: impl FnOnce(&Launcher, ContainerSpec),
    ) -> (ContainerId, i32) {
        let Self { node, runtime } = self;
        let plan = Box::new(node.plan(command));
        let spec = ContainerSpec {
            id: plan.container_id,
            resource: SIZE,
            execution_type: ExecutionType::Guaranteed,
            version: 0,
        };
        let (go_on, gone_on) = mpsc::channel::<()>();
        let make_plan = Box::new(move || {
            gone_on.recv().unwrap();
            Ok(Planned::Ready(plan))
        });
        node.launcher.launch_with(spec, make_plan).unwrap();
        work(&node.launcher, spec);
        go_on.send(()).unwrap();
        (spec.id, runtime.block_on(node.launched()))
    }

    /// Ends without a word to its containers, as if it had been killed.
    fn abandon(self) -> TempDir {
        let Node { root, launcher, .. } = self.node;
        drop(launcher);
        self.runtime.shutdown_timeout(DEADLINE);
        root
    }
}

#[test]
fn the_next_agent_finds_the_processes_whose_ends_were_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let (mut agent, found) = Agent::start(folder.path());
    assert_eq!(found, []);
    let (running, pid) = agent.launch("sleep 1000");
    let (released, released_pid) = agent.launch("exit 0");
    agent.runtime.block_on(agent.node.exited());
    agent.node.launcher.release(released, None);
    let (ended, ended_pid) = agent.launch("exit 3");
    agent.runtime.block_on(agent.node.exited());
    // A record that knows an earlier process only reaches the disk late.
    agent.node.launcher.release(ended, Some(released_pid));
    // Says that it is the one that is over.
    let forged = format!("export CONTAINER_ID={released}; exec sleep 1000");
    let (forger, forger_pid) = agent.launch(&forged);
    let _root = agent.abandon();

    let (slots, found) = StartSlots::open(folder.path()).unwrap();
    assert!(
        found
            .iter()
            .all(|start| size_in(&start.remark) == Some(SIZE))
    );
    let found: Vec<(String, ProcessIdentity)> = found
        .iter()
        .map(|start| (start.name.clone(), start.process(&[]).unwrap()))
        .collect();
    let expected = [(running, pid), (ended, ended_pid), (forger, forger_pid)];
    let mut expected =
        expected.map(|(id, pid)| (id.to_string(), ProcessIdentity::of(pid).unwrap()));
    expected.sort();
    assert_eq!(found, expected);
    drop(slots);
    // All are killed, also those that have ended, and nothing waits longer than they live.
    let leftovers: Vec<ProcessIdentity> =
        expected.into_iter().map(|(_, process)| process).collect();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let gone = end_leftovers(&leftovers);
        timeout(DEADLINE, gone).await.expect("their ends in time");
    });
    let lives = |pid: &i32| {
        let stat = Process::new(*pid).and_then(|process| process.stat());
        stat.is_ok_and(|stat| stat.state != 'Z')
    };
    assert!(!leftovers.iter().any(|leftover| lives(&leftover.pid)));
}

#[test]
fn a_size_that_changes_before_the_process_starts_is_the_one_it_starts_in() {
    let folder = tempfile::tempdir().unwrap();
    let (mut agent, _) = Agent::start(folder.path());
    let changed = Resource::new(1024, 1);
    agent.launch_after("exit 0", |launcher, spec| {
        launcher.change(ContainerSpec {
            resource: changed,
            version: 1,
            ..spec
        });
    });
    agent.runtime.block_on(agent.node.exited());
    let _root = agent.abandon();
    let (_slots, found) = StartSlots::open(folder.path()).unwrap();
    let sizes: Vec<_> = found.iter().map(|start| size_in(&start.remark)).collect();
    assert_eq!(sizes, [Some(changed)]);
}
