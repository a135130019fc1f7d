//! Nodes of a scenario, in kinds that differ in size and speed.

use serde::Deserialize;

use crate::numbers::{float, whole};

/// Nodes of the cluster.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cluster {
    /// Number of nodes of the first kind.
    pub nodes: usize,
    /// Containers that run on each of them at a time.
    pub places: u32,
    /// Speed of each of them: a task takes its length divided by this.
    #[serde(default = "usual")]
    pub speed: f64,
    /// Age in milliseconds that the load may have which each of them tells in answer to a look. 0:
    /// it is that of the moment.
    #[serde(default)]
    pub news_age_ms: u64,
    /// Further kinds of nodes.
    #[serde(default)]
    pub more: Vec<NodeKind>,
    /// ResourceManager that places guaranteed containers beside opportunistic ones, and tells
    /// proxies the least loaded nodes.
    #[serde(default)]
    pub resource_manager: RmKind,
}

/// ResourceManager of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RmKind {
    /// Model of Hadoop's: it places guaranteed containers on a node when that sends its heartbeat,
    /// and tells the least loaded nodes of its last sort.
    #[default]
    Hadoop,
    /// `nm-agent rm`, which ships: it places guaranteed containers with every call where there is
    /// room, and leaves nodes out whose queues have reached the limit since the sort.
    Embedded,
}

/// Nodes of one size and speed.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NodeKind {
    /// Number of nodes.
    pub nodes: usize,
    /// Containers that run on a node at a time.
    pub places: u32,
    /// Speed of a node: a task takes its length divided by this.
    #[serde(default = "usual")]
    pub speed: f64,
    /// Age in milliseconds that the load may have which a node tells in answer to a look. 0: it is
    /// that of the moment.
    #[serde(default)]
    pub news_age_ms: u64,
}

const fn usual() -> f64 {
    1.0
}

fn is_usual(speed: f64) -> bool {
    (speed - usual()).abs() < f64::EPSILON
}

impl NodeKind {
    /// Returns the time that a task of this length takes on a node of the kind.
    pub(crate) fn time_of(&self, task_ms: u64) -> u64 {
        if is_usual(self.speed) {
            task_ms
        } else {
            whole(float(task_ms) / self.speed).max(1)
        }
    }

    /// Returns the places of all nodes of the kind.
    #[must_use]
    pub fn all_places(&self) -> u64 {
        u64::try_from(self.nodes)
            .unwrap_or(u64::MAX)
            .saturating_mul(u64::from(self.places))
    }
}

impl Cluster {
    /// Returns every kind of nodes, the first one first.
    pub fn kinds(&self) -> impl Iterator<Item = NodeKind> {
        let first = NodeKind {
            nodes: self.nodes,
            places: self.places,
            speed: self.speed,
            news_age_ms: self.news_age_ms,
        };
        std::iter::once(first).chain(self.more.iter().copied())
    }

    /// Returns each node by its kind, in the order of their numbers.
    pub fn each_node(&self) -> impl Iterator<Item = NodeKind> {
        self.kinds()
            .flat_map(|kind| std::iter::repeat_n(kind, kind.nodes))
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.kinds()
            .fold(0, |sum, kind| sum.saturating_add(kind.nodes))
    }

    /// Returns the places of all nodes.
    #[must_use]
    pub fn all_places(&self) -> u64 {
        self.kinds()
            .fold(0, |sum, kind| sum.saturating_add(kind.all_places()))
    }

    /// Returns the work in milliseconds that all nodes do in a millisecond.
    #[must_use]
    pub fn capacity(&self) -> f64 {
        let of_kind = |kind: NodeKind| float(kind.all_places()) * kind.speed;
        self.kinds().map(of_kind).sum()
    }

    /// Returns the places of the largest node.
    #[must_use]
    pub fn largest(&self) -> u32 {
        self.kinds().map(|kind| kind.places).max().unwrap_or(0)
    }

    /// Returns what headlines say of the nodes.
    #[must_use]
    pub fn described(&self) -> String {
        let kind = |kind: NodeKind| {
            let speed = if is_usual(kind.speed) {
                String::new()
            } else {
                format!(" at a speed of {}", kind.speed)
            };
            let age = match kind.news_age_ms {
                0 => String::new(),
                age_ms => format!(" with news of up to {age_ms} ms"),
            };
            format!("{} nodes of {} places{speed}{age}", kind.nodes, kind.places)
        };
        let kinds: Vec<String> = self.kinds().map(kind).collect();
        let rm = match self.resource_manager {
            RmKind::Hadoop => "",
            RmKind::Embedded => ", the embedded ResourceManager",
        };
        kinds.join(" and ") + rm
    }
}
