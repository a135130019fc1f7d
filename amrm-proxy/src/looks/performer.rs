//! Performer of an attempt's distributed scheduler: publishes its numbers, and looks at nodes.

use std::sync::Arc;

use sched::{KnownNode, KnownNodes, Placement};
use wire::rpc::BoxFuture;

use super::NodeLooks;
use crate::attempts::PublishedNumbers;
use crate::call::AmMethod;
use crate::distributed_scheduler::{DistributedScheduler, Effect, News};
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
    /// Nodes to look at for the current call.
    ordered: Option<Vec<KnownNode>>,
}

impl AttemptLooks {
    /// `placement`: choice of nodes with which the scheduler begins.
    pub(crate) fn new(
        numbers: Arc<PublishedNumbers>,
        looks: NodeLooks,
        placement: Placement,
    ) -> Self {
        Self {
            numbers,
            looks,
            placement,
            told: None,
            answers_looks: false,
            ordered: None,
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
            Effect::WantNodes { cluster } => looks.want_nodes(cluster),
            Effect::Listed(nodes) => shared.directory().listed(&nodes, now()),
            Effect::Chose(choices) => lock(&shared.choices).remember(choices),
            Effect::Gone(nodes) => shared.directory().gone(&nodes),
            Effect::ResourceManager { epoch } => looks.note_resource_manager(epoch),
        }
    }

    /// Another choice of nodes, and the nodes that are known, when they have changed.
    fn events(&mut self, method: AmMethod) -> Option<BoxFuture<'_, Vec<News>>> {
        // Looks of a call that the AM abandoned.
        self.ordered = None;
        let placement = self.looks.placement();
        if placement != self.placement {
            self.placement = placement;
            // With what is known as the scheduler has begun.
            self.told = None;
            let news = [News::Placement(placement)].into_iter();
            let news = news.chain(self.nodes(method)).collect();
            return Some(Box::pin(std::future::ready(news)));
        }
        let news = vec![self.nodes(method)?];
        Some(Box::pin(std::future::ready(news)))
    }

    fn answers(&mut self) -> Option<BoxFuture<'_, Vec<News>>> {
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
        let view = {
            let mut directory = shared.directory();
            let view = directory.view(now);
            let told = self.told.as_ref();
            let is_same = told.is_some_and(|told| Arc::ptr_eq(told, &view.nodes));
            if is_same && view.answers_looks == self.answers_looks {
                return None;
            }
            view.clone()
        };
        self.told = Some(Arc::clone(&view.nodes));
        self.answers_looks = view.answers_looks;
        Some(News::Nodes(view))
    }
}
