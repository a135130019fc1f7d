//! The chain of an attempt: the one place that names every interceptor.
//!
//! A new interceptor is a file of its own, with its performer if it has effects of its own, and a
//! line here.

use std::sync::Arc;

use records::Now;
use sched::Placement;

use crate::call_metrics::CallMetrics;
use crate::chain::Chain;
use crate::config::{FileAccess, InterceptorKind, ProxyConfig};
use crate::distributed_scheduler::DistributedScheduler;
use crate::identity::Attempt;
use crate::link::{Link, link, pure};
use crate::looks::{AttemptLooks, NodeLooks};
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
    /// Looks at nodes; `None` unless they decide where containers go.
    looks: Option<NodeLooks>,
}

impl Interceptors {
    pub(crate) fn new(
        config: &ProxyConfig,
        files: FileAccess,
        node_updates: NodeUpdates,
        looks: impl FnOnce() -> NodeLooks,
    ) -> Self {
        let history = config.role_history.as_ref();
        Self {
            histories: history.map(|history| Histories::start(history.clone(), files)),
            node_updates,
            looks: (config.allocator.placement == Placement::Look).then(looks),
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
                InterceptorKind::DistributedScheduler => Some(link(
                    DistributedScheduler::new(attempt.identity.attempt, config.allocator),
                    AttemptLooks::new(Arc::clone(&attempt.numbers), self.looks.clone()),
                )),
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
        if let Some(looks) = &self.looks {
            looks.set_queue_limit(length);
        }
    }

    /// Returns the role histories of the attempts that keep one, as of each attempt's last call.
    pub(crate) fn role_histories(&self) -> Vec<Arc<RoleHistoryView>> {
        let histories = self.histories.as_ref();
        histories.map(Histories::views).unwrap_or_default()
    }
}
