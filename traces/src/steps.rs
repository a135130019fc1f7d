//! From the steps of containers to spans. Pure: the caller says the time.
//!
//! ```text
//! allocate (proxy)   ask of the ApplicationMaster ─► container chosen and handed over
//! container (node)   accepted ──────────────────────────────────────────────► completed
//!   localize             order ─► all there
//!   queue                         joined ─► started
//!   launch                                   begun ─► process
//!   run                                               process ─────────────► completed
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use records::ContainerId;

use crate::span::{ROOT, Span, Value};

/// Containers that are followed at once: more than a node has. Of others only single steps are
/// told.
const FOLLOWED_MAX: usize = 100_000;

/// Observation of a container, made when the step is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The AMRMProxy has handed an opportunistic container to its ApplicationMaster.
    Allocated {
        /// Container that was allocated.
        id: ContainerId,
        /// Time since the container was asked for.
        took: Duration,
    },
    /// The node has accepted the container.
    Accepted(ContainerId),
    /// The container's resources are there, or one is not to be had.
    Localized {
        /// Container whose resources they are.
        id: ContainerId,
        /// Time since the order.
        took: Duration,
        /// Whether a resource is not to be had.
        has_failed: bool,
    },
    /// The container starts, for the first time or again after a pause.
    Started {
        /// Container that starts.
        id: ContainerId,
        /// Time in the queue.
        waited: Duration,
        /// Whether the container was paused.
        is_resumed: bool,
    },
    /// The container has a process.
    Launched {
        /// Container that was launched.
        id: ContainerId,
        /// Time that the launch took.
        took: Duration,
    },
    /// The container is over.
    Completed {
        /// Container that has ended.
        id: ContainerId,
        /// Exit status, as the ResourceManager gets it.
        exit_status: i32,
    },
}

/// Times of a container that is on the node.
#[derive(Clone, Copy, Debug, Default)]
struct Followed {
    accepted_ns: u64,
    launched_ns: Option<u64>,
}

/// Follows the containers of a node.
#[derive(Debug, Default)]
pub(crate) struct Steps(BTreeMap<ContainerId, Followed>);

impl Steps {
    /// Returns the spans that end with this step, at this time.
    pub(crate) fn take(&mut self, step: Step, now_ns: u64) -> Vec<Span> {
        match step {
            Step::Allocated { id, took } => vec![span(id, "allocate", now_ns, took)],
            Step::Accepted(id) => {
                if self.0.len() < FOLLOWED_MAX {
                    let followed = Followed {
                        accepted_ns: now_ns,
                        launched_ns: None,
                    };
                    self.0.insert(id, followed);
                }
                Vec::new()
            }
            Step::Localized {
                id,
                took,
                has_failed,
            } => vec![Span {
                has_failed,
                ..span(id, "localize", now_ns, took)
            }],
            Step::Started {
                id,
                waited,
                is_resumed,
            } => vec![span(
                id,
                if is_resumed { "pause" } else { "queue" },
                now_ns,
                waited,
            )],
            Step::Launched { id, took } => {
                if let Some(followed) = self.0.get_mut(&id) {
                    followed.launched_ns = Some(now_ns);
                }
                vec![span(id, "launch", now_ns, took)]
            }
            Step::Completed { id, exit_status } => self.completed(id, exit_status, now_ns),
        }
    }

    /// Ends a container's trace. There is no span of one that an earlier agent has accepted: only
    /// its end is known.
    fn completed(&mut self, id: ContainerId, exit_status: i32, now_ns: u64) -> Vec<Span> {
        let Some(followed) = self.0.remove(&id) else {
            return Vec::new();
        };
        let ended = |name, begin_ns| Span {
            container: id,
            name,
            begin_ns,
            end_ns: now_ns.max(begin_ns),
            has_failed: exit_status != 0,
            attributes: vec![("process.exit.code", Value::Number(i64::from(exit_status)))],
        };
        let run = followed.launched_ns.map(|begin_ns| ended("run", begin_ns));
        let whole = ended(ROOT, followed.accepted_ns);
        run.into_iter().chain([whole]).collect()
    }
}

/// Returns a step that has ended now.
fn span(container: ContainerId, name: &'static str, now_ns: u64, took: Duration) -> Span {
    let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    Span {
        container,
        name,
        begin_ns: now_ns.saturating_sub(took_ns),
        end_ns: now_ns,
        has_failed: false,
        attributes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use test_support::ids::container;

    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_container_has_one_trace_with_a_span_for_each_step() {
        let id = container(1);
        let mut steps = Steps::default();
        // The proxy of another node.
        let mut proxy = Steps::default();
        let took = Duration::from_secs(1);
        let allocated = Step::Allocated { id, took };
        let mut spans = proxy.take(allocated, 10 * S);
        for (step, now_s) in [
            (Step::Accepted(id), 11),
            (
                Step::Localized {
                    id,
                    took,
                    has_failed: false,
                },
                12,
            ),
            (
                Step::Started {
                    id,
                    waited: 3 * took,
                    is_resumed: false,
                },
                15,
            ),
            (Step::Launched { id, took }, 16),
            (Step::Completed { id, exit_status: 3 }, 20),
        ] {
            spans.extend(steps.take(step, now_s * S));
        }
        let seen: Vec<_> = spans
            .iter()
            .map(|span| {
                (
                    span.name,
                    span.begin_ns / S,
                    span.end_ns / S,
                    span.has_failed,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("allocate", 9, 10, false),
                ("localize", 11, 12, false),
                ("queue", 12, 15, false),
                ("launch", 15, 16, false),
                ("run", 16, 20, true),
                ("container", 11, 20, true),
            ]
        );
        let traces: BTreeSet<_> = spans.iter().map(Span::trace).collect();
        assert_eq!(traces.len(), 1);
        let ids: BTreeSet<_> = spans.iter().map(Span::id).collect();
        assert_eq!(ids.len(), spans.len());
        let (root, children) = spans.split_last().unwrap();
        assert_eq!(root.parent(), None);
        assert!(
            children
                .iter()
                .all(|child| child.parent() == Some(root.id()))
        );
        let other = steps.take(
            Step::Launched {
                id: container(2),
                took,
            },
            S,
        );
        assert_ne!(other[0].trace(), root.trace());
    }

    #[test]
    fn nothing_is_kept_of_a_container_that_has_ended() {
        let id = container(1);
        let mut steps = Steps::default();
        steps.take(Step::Accepted(id), S);
        let completed = Step::Completed { id, exit_status: 0 };
        assert_eq!(
            steps.take(completed.clone(), 2 * S).len(),
            1,
            "it never ran"
        );
        assert!(steps.0.is_empty());
        assert_eq!(steps.take(completed, 3 * S), []);
    }
}
