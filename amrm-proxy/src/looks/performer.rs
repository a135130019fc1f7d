//! Performer of an attempt's distributed scheduler: publishes its numbers, and looks at nodes.

use std::sync::Arc;

use records::ApplicationAttemptId;
use sched::{KnownNode, KnownNodes, Placement};
use tokio::time::Instant;
use wire::rpc::BoxFuture;

use super::{Bound, KnownView, NodeLooks};
use crate::attempts::PublishedNumbers;
use crate::binding::AttemptBinding;
use crate::call::AmMethod;
use crate::distributed_scheduler::{DistributedScheduler, Effect, News};
use crate::identity::AttemptIdentity;
use crate::interceptor::Performer;
use crate::node_lists::lock;

/// Looks of one attempt.
#[derive(Debug)]
pub(crate) struct AttemptLooks {
    numbers: Arc<PublishedNumbers>,
    looks: NodeLooks,
    /// Choice of nodes that the scheduler has.
    placement: Placement,
    /// Nodes that the scheduler knows; compared by address.
    told: Option<Arc<KnownNodes>>,
    /// Whether looks were answered when it was told.
    answers_looks: bool,
    /// Whether containers were bound late when it was told.
    binds_late: bool,
    /// Nodes to look at for the current call.
    ordered: Option<Vec<KnownNode>>,
    attempt: ApplicationAttemptId,
    binding: Arc<AttemptBinding>,
    /// Nodes that take no reservations, of which the scheduler has not been told.
    others: Option<Arc<KnownNodes>>,
    /// Whether the current call waits for what is bound, and whether it has reserved.
    is_binding: Option<bool>,
}

impl Drop for AttemptLooks {
    fn drop(&mut self) {
        self.looks.0.binding.end(self.attempt, &self.binding);
    }
}

impl AttemptLooks {
    /// `placement`: choice of nodes with which the scheduler begins.
    pub(crate) fn new(
        numbers: Arc<PublishedNumbers>,
        looks: NodeLooks,
        placement: Placement,
        identity: &AttemptIdentity,
    ) -> Self {
        let attempt = identity.attempt;
        let binding = looks.0.binding.begin(attempt, &identity.user);
        Self {
            numbers,
            looks,
            placement,
            told: None,
            answers_looks: false,
            binds_late: false,
            ordered: None,
            attempt,
            binding,
            others: None,
            is_binding: None,
        }
    }
}

impl Performer<DistributedScheduler> for AttemptLooks {
    fn perform(&mut self, effect: Effect) {
        let looks = &self.looks;
        let shared = &looks.0;
        let now = || (shared.clock)().mono;
        match effect {
            Effect::Publish(gauges) => self.numbers.change(|numbers| numbers.gauges = gauges),
            Effect::Look(nodes) => self.ordered = Some(nodes),
            Effect::Bind { wishes, run } => {
                let nodes = self.told.clone().unwrap_or_default();
                let wanted = self.binding.wants(&shared.binding, &wishes, run, &nodes);
                self.is_binding = Some(wanted.reserves).filter(|_| !wishes.is_empty());
                self.others = wanted.others.or_else(|| self.others.take());
            }
            Effect::Unbound(left) => self.binding.keep(left),
            Effect::WantNodes { cluster } => looks.want_nodes(cluster),
            Effect::Listed(nodes) => shared.directory().listed(&nodes, now()),
            Effect::Chose(choices) => lock(&shared.choices).remember(choices),
            Effect::Gone(nodes) => {
                self.binding.forget(&nodes);
                shared.directory().gone(&nodes);
            }
            Effect::ResourceManager { epoch } => looks.note_resource_manager(epoch),
        }
    }

    /// Another choice of nodes, and the nodes that are known, when they have changed.
    fn events(&mut self, method: AmMethod) -> Option<BoxFuture<'_, Vec<News>>> {
        // Looks of a call that the AM abandoned.
        self.ordered = None;
        self.is_binding = None;
        let placement = self.looks.placement();
        if placement != self.placement {
            self.placement = placement;
            // With what is known as the scheduler has begun.
            self.told = None;
            let news = [News::Placement(placement)].into_iter();
            let news = news.chain(self.nodes(method)).collect();
            return Some(Box::pin(std::future::ready(news)));
        }
        let others = self.others.take().map(News::Others);
        let news: Vec<News> = self.nodes(method).into_iter().chain(others).collect();
        (!news.is_empty()).then(|| Box::pin(std::future::ready(news)) as BoxFuture<'_, Vec<News>>)
    }

    fn answers(&mut self) -> Option<BoxFuture<'_, Vec<News>>> {
        if let Some(reserved) = self.is_binding.take() {
            let (binding, others) = (Arc::clone(&self.binding), self.ordered.take());
            let looks = &self.looks;
            return Some(Box::pin(async move {
                let began = Instant::now();
                let offers = async {
                    if reserved {
                        binding.first_offers().await;
                    }
                };
                let looking = async { Some(looks.look(others?).await) };
                let ((), looks) = tokio::join!(offers, looking);
                let nodes = binding.take();
                vec![News::Bound(Bound {
                    nodes,
                    looks,
                    reserved,
                    took: began.elapsed(),
                })]
            }));
        }
        let nodes = self.ordered.take()?;
        let looks = &self.looks;
        Some(Box::pin(async move {
            vec![News::Looked(looks.look(nodes).await)]
        }))
    }
}

impl AttemptLooks {
    /// Returns the nodes that are known, if they have changed and looks are made at them.
    fn nodes(&mut self, method: AmMethod) -> Option<News> {
        if method != AmMethod::Allocate || self.placement != Placement::Look {
            return None;
        }
        let shared = &self.looks.0;
        let now = (shared.clock)().mono;
        let binds_late = shared.settings().binds_late;
        let view = {
            let mut directory = shared.directory();
            let view = directory.view(now);
            let told = self.told.as_ref();
            let is_same = told.is_some_and(|told| Arc::ptr_eq(told, &view.nodes));
            let binds_late = binds_late && shared.binding.is_possible(&view.nodes);
            if is_same && view.answers_looks == self.answers_looks && binds_late == self.binds_late
            {
                return None;
            }
            self.binds_late = binds_late;
            KnownView {
                binds_late,
                ..view.clone()
            }
        };
        self.told = Some(Arc::clone(&view.nodes));
        self.answers_looks = view.answers_looks;
        Some(News::Nodes(view))
    }
}
