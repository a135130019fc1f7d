//! The chain of an attempt: the one place that names every interceptor.
//!
//! A new interceptor is a file of its own, with its performer if it has effects of its own, and a
//! line here.

use std::sync::Arc;

use records::{ContainerName, Now};
use sched::{DistributedAllocatorConfig, Placement};

use crate::call_metrics::CallMetrics;
use crate::chain::Chain;
use crate::config::{FileAccess, InterceptorKind, ProxyConfig};
use crate::distributed_scheduler::DistributedScheduler;
use crate::identity::Attempt;
use crate::link::{Link, link, pure};
use crate::looks::{AttemptLooks, Choice, LookSettings, NodeLooks};
use crate::node_updates::NodeUpdates;
use crate::relabel;
use crate::role_history::performer::Histories;
use crate::role_history::view::RoleHistoryView;
use crate::throttle::Throttle;
use crate::token_swap::TokenSwap;

/// Resources that the interceptors of all attempts share.
#[derive(Debug)]
pub(crate) struct Interceptors {
    histories: Option<Histories>,
    node_updates: NodeUpdates,
    /// Choice of nodes for opportunistic containers, and looks at them.
    looks: NodeLooks,
}

impl Interceptors {
    pub(crate) fn new(
        config: &ProxyConfig,
        files: FileAccess,
        node_updates: NodeUpdates,
        looks: NodeLooks,
    ) -> Self {
        let history = config.role_history.as_ref();
        Self {
            histories: history.map(|history| Histories::start(history.clone(), files)),
            node_updates,
            looks,
        }
    }

    /// Makes the interceptors of an attempt in their order from the AM to the ResourceManager. The
    /// exchange of tokens is first in every configuration: no other interceptor sees the
    /// ResourceManager's token.
    pub(crate) fn chain(&self, config: &ProxyConfig, attempt: &Attempt, now: Now) -> Chain {
        let made = |kind: &InterceptorKind| -> Option<Box<dyn Link>> {
            match kind {
                InterceptorKind::CallMetrics => Some(pure(CallMetrics)),
                InterceptorKind::Throttle => Some(pure(Throttle::new(config.throttle))),
                InterceptorKind::Relabel => {
                    relabel::performer::link_of(&config.relabel, attempt, &self.node_updates)
                }
                InterceptorKind::RoleHistory => self.histories.as_ref()?.link(attempt, now),
                InterceptorKind::DistributedScheduler => {
                    let placement = self.looks.placement();
                    let allocator = DistributedAllocatorConfig {
                        placement,
                        ..config.allocator
                    };
                    let looks = self.looks.clone();
                    Some(link(
                        DistributedScheduler::new(attempt.identity.attempt, allocator),
                        AttemptLooks::new(
                            Arc::clone(&attempt.numbers),
                            looks,
                            placement,
                            &attempt.identity,
                        ),
                    ))
                }
                // The interceptor of a federated cluster would be here, in place of the forwarder.
                InterceptorKind::Forwarder => None,
            }
        };
        let mut links = vec![pure(TokenSwap)];
        links.extend(config.pipeline.iter().filter_map(made));
        Chain::new(links)
    }

    /// Sets the limit on waiting containers that the ResourceManager published; `None`: no limit.
    pub(crate) fn set_queue_limit(&self, length: Option<usize>) {
        self.looks.set_queue_limit(length);
    }

    /// Returns how the node of a container was chosen, if that is remembered.
    pub(crate) fn choice_of(&self, container: ContainerName) -> Option<Choice> {
        self.looks.choice_of(container)
    }

    /// Changes how nodes are chosen for opportunistic containers, for all attempts.
    pub(crate) fn change_looks(&self, placement: Placement, settings: LookSettings) {
        self.looks.change(placement, settings);
    }

    /// Returns the role histories of the attempts that keep one, as of each attempt's last call.
    pub(crate) fn role_histories(&self) -> Vec<Arc<RoleHistoryView>> {
        let histories = self.histories.as_ref();
        histories.map(Histories::views).unwrap_or_default()
    }
}
