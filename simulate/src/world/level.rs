//! What decides in a simulated cluster, as the world's events reach it: nodes, ResourceManager and
//! proxies. Time, processes and ApplicationMasters are the world's at every level.

use records::{ContainerExitStatus, ContainerId, ExecutionType, MonoMillis};

use crate::arm::{Letter, MasterCall, Placed};
use crate::measure::Cost;
use crate::node::News;
use crate::scenario::NodeKind;

/// Answer to a call of a job's master.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    /// Containers that the master gets.
    pub(crate) placed: Vec<Placed>,
    /// Containers of the job that have ended.
    pub(crate) ended: Vec<(ContainerId, ContainerExitStatus)>,
}

/// A level of simulation. Nodes and jobs have numbers; what a node does about its containers goes
/// into `news`, in its order.
pub(crate) trait Level {
    /// Has every node register.
    fn begin(&mut self, now: MonoMillis);

    /// Returns the kind of a node.
    fn kind(&self, node: usize) -> NodeKind;

    /// Returns the opportunistic containers that wait, of each node.
    fn queue_lengths(&self) -> impl Iterator<Item = usize> + Clone;

    /// A start call reaches a node.
    fn start(
        &mut self,
        node: usize,
        id: ContainerId,
        execution_type: ExecutionType,
        now: MonoMillis,
        news: &mut Vec<News>,
    );

    /// The process of a container runs.
    fn launched(&mut self, node: usize, id: ContainerId, now: MonoMillis, news: &mut Vec<News>);

    /// The processes of a container have ended, by themselves or because they were killed.
    fn exit(&mut self, node: usize, id: ContainerId, now: MonoMillis, news: &mut Vec<News>);

    /// A container is frozen. Nothing is asked any more of one that is being killed. Returns
    /// whether it is frozen.
    fn frozen(
        &mut self,
        node: usize,
        id: ContainerId,
        now: MonoMillis,
        news: &mut Vec<News>,
    ) -> bool;

    /// A container runs again.
    fn thawed(&mut self, node: usize, id: ContainerId, now: MonoMillis, news: &mut Vec<News>);

    /// Returns the time at which [`Level::tick`] is due for a node.
    fn next_deadline(&self, node: usize) -> Option<MonoMillis>;

    /// A deadline of a node is due.
    fn tick(&mut self, node: usize, now: MonoMillis, news: &mut Vec<News>);

    /// Returns whether a node has ends to tell that no heartbeat has told.
    fn has_ends(&self, node: usize) -> bool;

    /// A node sends its heartbeat, and follows the answer.
    fn beat(&mut self, node: usize, now: MonoMillis, news: &mut Vec<News>);

    /// The ResourceManager sorts its nodes, if a sort is due.
    fn sort(&mut self, now: MonoMillis);

    /// A job is submitted.
    fn job_arrives(&mut self, job: usize, now: MonoMillis);

    /// Takes the containers of masters that the ResourceManager starts.
    fn masters_placed(&mut self) -> Vec<Placed>;

    /// A job's master calls; its first call registers it before.
    fn call(&mut self, call: &MasterCall) -> Answer;

    /// The next call of its master gives back a container that it has no use for.
    fn release(&mut self, id: ContainerId);

    /// A job's master has learnt of the last end, and finishes.
    fn job_ends(&mut self, job: usize, now: MonoMillis);

    /// Returns the time by which placement delays the answer to a call.
    fn answer_delay_ms(&self) -> u64;

    /// Returns the cost so far, without the nodes' own heartbeats.
    fn cost(&self) -> Cost;

    // Only some levels have failures of nodes, probes and reservations. A scenario that needs them
    // is refused at the others (`scenario/check.rs`), for which these do nothing.

    /// Returns the time after which the answer to a call comes, if not at once: then
    /// [`Level::late_answer`] has the containers.
    fn answers_late_ms(&self) -> Option<u64> {
        None
    }

    /// Returns the containers of the answer to the last call of a job's master.
    fn late_answer(&mut self, _job: usize, _now: MonoMillis) -> Vec<Placed> {
        Vec::new()
    }

    /// Has a node offer the room that it has, after something has changed there.
    fn settle(&mut self, _node: usize, _now: MonoMillis) {}

    /// Takes the messages between proxies and nodes that are to be sent, with the time that each
    /// takes.
    fn take_letters(&mut self) -> (u64, Vec<Letter>) {
        (0, Vec::new())
    }

    /// Has a message arrive. Returns the node that it has reached.
    fn deliver(&mut self, _letter: Letter, _now: MonoMillis) -> Option<usize> {
        None
    }

    /// Returns whether a node runs and answers.
    fn is_up(&self, _node: usize) -> bool {
        true
    }

    /// Ends a node with all that it has. Returns the ends that no heartbeat has told.
    fn fail(&mut self, _node: usize) -> Vec<(ContainerId, ContainerExitStatus)> {
        Vec::new()
    }

    /// A node that has failed runs again, and registers.
    fn returns(&mut self, _node: usize) {}

    /// The ResourceManager takes a node for lost, with all its containers.
    fn is_lost(&mut self, _node: usize) {}

    /// The next answer to the master of a container tells its end.
    fn tell(&mut self, _id: ContainerId, _status: ContainerExitStatus) {}

    /// Gives up the place of a container whose process was never created.
    fn abandon(&mut self, _: usize, _: ContainerId, _: MonoMillis, _: &mut Vec<News>) {}

    /// Kills a container at its master's wish.
    fn kill(&mut self, _: usize, _: ContainerId, _: MonoMillis, _: &mut Vec<News>) {}
}
