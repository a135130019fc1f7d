//! Arms of a scenario: policies with their settings.

use std::fmt;

use sched::{LoadComparator, QueueOrder};
use serde::Deserialize;

/// Kind of code that runs under the name of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// Code that ships.
    Ships,
    /// A model of other people's code.
    Model,
    /// A scheduler that knows what nobody can know, as a bound for all others.
    Bound,
}

impl fmt::Display for Nature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ships => "ships",
            Self::Model => "model",
            Self::Bound => "bound",
        })
    }
}

/// Policy of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Opportunistic containers, placed by the proxies of the nodes: the better of two nodes of
    /// the ResourceManager's lists.
    Spread,
    /// Opportunistic containers, placed by the proxies in the order of the list, as Hadoop does.
    ListOrder,
    /// Opportunistic containers, placed by the ResourceManager on the least loaded nodes. The
    /// embedded ResourceManager's allocator, which goes around the list in a ring where Hadoop
    /// draws for each container.
    Central,
    /// Model: opportunistic containers, placed by Hadoop's ResourceManager: each on a node of the
    /// list drawn at random; nodes at the limit of the queues are not left out.
    HadoopCentral,
    /// Model: opportunistic containers, placed by Hadoop's proxies: the list in its order, one
    /// container on a node with each call.
    HadoopDistributed,
    /// Model: opportunistic containers on nodes drawn at random.
    Random,
    /// Model: opportunistic containers. A call looks at two nodes drawn at random for each
    /// container that it wants, and uses the least loaded of them.
    Looks,
    /// Opportunistic containers, placed by the proxies of the nodes: a call looks at two nodes
    /// drawn at random for each container that it wants, uses the least loaded of them, and holds
    /// back what they have no room for. Ships as the default: `sched`'s code; every look is
    /// answered.
    Look,
    /// Opportunistic containers, bound late: a proxy reserves at two nodes drawn at random for each
    /// task that waits, and a node with room offers it to the reservation of the job with the least
    /// left. `sched`'s code; no message is lost.
    Reservations,
    /// Model: Sparrow's batch sampling with early binding, on queues without bound.
    SparrowEarly,
    /// Model: Sparrow's batch sampling with late binding and cancelling, on queues without bound.
    SparrowLate,
    /// Model: guaranteed containers, the job that came first is served first.
    GuaranteedFifo,
    /// Model: guaranteed containers, the job with the fewest containers is served first.
    GuaranteedFair,
    /// Model: guaranteed containers, the job with the least work left is served first, as learnt
    /// from its containers that have ended.
    GuaranteedShortest,
    /// Bound: no delays, tasks start where anything is free, the job that came first is served
    /// first.
    OmniscientFifo,
    /// Bound: no delays, tasks start where anything is free, the job with the least work left is
    /// served first.
    OmniscientShortest,
}

impl Policy {
    /// Returns the name of the policy in scenarios and results.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spread => "spread",
            Self::ListOrder => "list-order",
            Self::Central => "central",
            Self::HadoopCentral => "hadoop-central",
            Self::HadoopDistributed => "hadoop-distributed",
            Self::Random => "random",
            Self::Looks => "looks",
            Self::Look => "look",
            Self::Reservations => "reservations",
            Self::SparrowEarly => "sparrow-early",
            Self::SparrowLate => "sparrow-late",
            Self::GuaranteedFifo => "guaranteed-fifo",
            Self::GuaranteedFair => "guaranteed-fair",
            Self::GuaranteedShortest => "guaranteed-shortest",
            Self::OmniscientFifo => "omniscient-fifo",
            Self::OmniscientShortest => "omniscient-shortest",
        }
    }

    /// Returns what runs under the policy's name.
    #[must_use]
    pub const fn nature(self) -> Nature {
        match self {
            Self::Look | Self::Spread | Self::ListOrder | Self::Central => Nature::Ships,
            Self::HadoopCentral
            | Self::HadoopDistributed
            | Self::Random
            | Self::Looks
            | Self::Reservations
            | Self::SparrowEarly
            | Self::SparrowLate
            | Self::GuaranteedFifo
            | Self::GuaranteedFair
            | Self::GuaranteedShortest => Nature::Model,
            Self::OmniscientFifo | Self::OmniscientShortest => Nature::Bound,
        }
    }

    /// Returns whether every container is guaranteed, whatever its task asks for.
    pub(crate) const fn is_guaranteed(self) -> bool {
        matches!(
            self,
            Self::GuaranteedFifo | Self::GuaranteedFair | Self::GuaranteedShortest
        )
    }

    /// Returns whether the nodes are Sparrow's, whose queues have no bound.
    pub(crate) const fn is_sparrow(self) -> bool {
        matches!(self, Self::SparrowEarly | Self::SparrowLate)
    }

    /// Returns whether the policy reads a list of the least loaded nodes.
    const fn reads_list(self) -> bool {
        matches!(
            self,
            Self::Spread
                | Self::ListOrder
                | Self::Central
                | Self::HadoopCentral
                | Self::HadoopDistributed
        )
    }
}

/// Policy with its settings. Those that are left out are Hadoop's defaults, except the length of
/// the queue, which is 0 in Hadoop and would refuse every opportunistic container.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Arm {
    /// Policy.
    pub policy: Policy,
    /// Name in results; empty: made from the policy and its list.
    #[serde(default)]
    pub name: String,
    /// Settings of ResourceManager, nodes and proxies.
    #[serde(flatten)]
    pub settings: Settings,
}

impl Arm {
    /// Returns the number of nodes on the list that the arm reads; 0 if it reads none.
    #[must_use]
    pub const fn list(&self) -> usize {
        if self.policy.reads_list() {
            self.settings.nodes_used
        } else {
            0
        }
    }

    /// Returns the name in results.
    #[must_use]
    pub fn label(&self) -> String {
        if !self.name.is_empty() {
            return self.name.clone();
        }
        let policy = self.policy.as_str();
        if self.policy.reads_list() {
            format!("{policy}, list of {}", self.settings.nodes_used)
        } else {
            policy.to_owned()
        }
    }
}

/// Settings of an arm, by the subject of Hadoop's properties.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Settings {
    /// Nodes on a list of the ResourceManager (`opportunistic-container-allocation.nodes-used`).
    pub nodes_used: usize,
    /// Opportunistic containers that may wait on a node
    /// (`opportunistic-containers-max-queue-length`).
    pub queue_length: usize,
    /// Order of the opportunistic containers that wait on a node (`agent.queue.order`).
    pub queue_order: Order,
    /// Expected runs that a container may wait for others that came later
    /// (`agent.queue.bound-factor`).
    pub queue_bound_factor: u32,
    /// Whether containers tell how long they run: the mean length of their job's tasks, as if known
    /// from earlier runs (`NM_AGENT_EXPECTED_RUN_MS`).
    pub hints: bool,
    /// Jobs, in percent, whose hints are half or twice as long as what they stand for.
    pub hints_wrong_percent: u32,
    /// Time between two sorts at the ResourceManager (`sorting-nodes-interval-ms`).
    pub sorting_interval_ms: u64,
    /// Order of the list (`load-comparator`).
    pub comparator: Comparator,
    /// Standard deviations above the mean that a queue may reach (`queue-limit-stdev`).
    pub limit_stdev: f32,
    /// Least published limit (`min-queue-length`, or `min-queue-wait-time-ms`).
    pub limit_min: Option<i32>,
    /// Greatest published limit (`max-queue-length`, or `max-queue-wait-time-ms`).
    pub limit_max: Option<i32>,
    /// Duration of the looks of a call, and age of what they showed when its containers reach their
    /// nodes. For `look`; for `reservations` the time for which the answer to a call waits for
    /// offers.
    pub look_ms: u64,
    /// Time that a message between a proxy and a node takes. For `reservations`.
    pub message_ms: u64,
    /// Whether containers without room on the nodes looked at wait for the next call. For `look`.
    pub holds_back: bool,
    /// Whether what nodes with a `news-age-ms` answer is taken for their load of the moment. For
    /// `look`; what ships does not.
    pub uses_old_news: bool,
    /// Whether a node freezes a running container that makes room for a guaranteed one, and does
    /// not kill it (`opportunistic-containers-use-pause-for-preemption`).
    pub pause: bool,
    /// Longest time that a container stays frozen before it is killed (`agent.pause.max-ms`).
    pub pause_max_s: u64,
    /// Memory that frozen containers may hold beside running ones, as a percentage of what the node
    /// offers (`agent.pause.memory-ceiling-mb`). Each holds its whole size.
    pub pause_memory_percent: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            nodes_used: 10,
            queue_length: 15,
            queue_order: Order::default(),
            queue_bound_factor: sched::QUEUE_BOUND_FACTOR_DEFAULT,
            hints: false,
            hints_wrong_percent: 0,
            sorting_interval_ms: 1_000,
            comparator: Comparator::default(),
            limit_stdev: 1.0,
            limit_min: None,
            limit_max: None,
            look_ms: 3,
            message_ms: 1,
            holds_back: true,
            uses_old_news: false,
            pause: false,
            pause_max_s: sched::PAUSE_MAX_MS_DEFAULT / 1_000,
            pause_memory_percent: 25,
        }
    }
}

/// Order of a node's queue ([`QueueOrder`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// First in, first out.
    #[default]
    Fifo,
    /// The shortest expected run first.
    Shortest,
    /// The attempt with the least left on the node first.
    LeastLeft,
}

impl From<Order> for QueueOrder {
    fn from(order: Order) -> Self {
        match order {
            Order::Fifo => Self::Fifo,
            Order::Shortest => Self::Shortest,
            Order::LeastLeft => Self::LeastLeft,
        }
    }
}

impl Order {
    /// Returns the order of a name (`agent.queue.order`).
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Fifo, Self::Shortest, Self::LeastLeft];
        let named = |order: &Self| QueueOrder::from(*order).as_str() == name;
        all.into_iter().find(named)
    }
}

/// Criterion by which the ResourceManager orders nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Comparator {
    /// Fewer waiting containers first.
    #[default]
    QueueLength,
    /// Fewer waiting containers first, then more that is free.
    QueueLengthThenResources,
    /// Shorter estimated wait first.
    QueueWaitTime,
}

impl From<Comparator> for LoadComparator {
    fn from(comparator: Comparator) -> Self {
        match comparator {
            Comparator::QueueLength => Self::QueueLength,
            Comparator::QueueLengthThenResources => Self::QueueLengthThenResources,
            Comparator::QueueWaitTime => Self::QueueWaitTime,
        }
    }
}

impl From<LoadComparator> for Comparator {
    fn from(comparator: LoadComparator) -> Self {
        match comparator {
            LoadComparator::QueueLength => Self::QueueLength,
            LoadComparator::QueueLengthThenResources => Self::QueueLengthThenResources,
            LoadComparator::QueueWaitTime => Self::QueueWaitTime,
        }
    }
}
