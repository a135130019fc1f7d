//! Performer of an attempt's distributed scheduler: publishes its numbers, and looks at nodes.

use std::sync::Arc;

use sched::{KnownNode, KnownNodes};
use wire::rpc::BoxFuture;

use super::NodeLooks;
use crate::attempts::PublishedNumbers;
use crate::call::AmMethod;
use crate::distributed_scheduler::{DistributedScheduler, Effect, News};
use crate::interceptor::Performer;

/// Looks of one attempt.
#[derive(Debug)]
pub(crate) struct AttemptLooks {
    numbers: Arc<PublishedNumbers>,
    /// `None` unless containers are placed by looks.
    looks: Option<NodeLooks>,
    /// Nodes that the scheduler knows; compared by address.
    told: Option<Arc<KnownNodes>>,
    /// Whether looks were answered when it was told.
    answers_looks: bool,
    /// Nodes to look at for the current call.
    ordered: Option<Vec<KnownNode>>,
}

impl AttemptLooks {
    pub(crate) fn new(numbers: Arc<PublishedNumbers>, looks: Option<NodeLooks>) -> Self {
        Self {
            numbers,
            looks,
            told: None,
            answers_looks: false,
            ordered: None,
        }
    }
}

impl Performer<DistributedScheduler> for AttemptLooks {
    fn perform(&mut self, effect: Effect) {
        let Some(looks) = &self.looks else {
            if let Effect::Publish(gauges) = effect {
                self.numbers.change(|numbers| numbers.gauges = gauges);
            }
            return;
        };
        let shared = &looks.0;
        let now = || (shared.clock)().mono;
        match effect {
            Effect::Publish(gauges) => self.numbers.change(|numbers| numbers.gauges = gauges),
            Effect::Look(nodes) => self.ordered = Some(nodes),
            Effect::WantNodes { cluster } => looks.want_nodes(cluster),
            Effect::Listed(nodes) => shared.directory().listed(&nodes, now()),
            Effect::Gone(nodes) => shared.directory().gone(&nodes),
            Effect::ResourceManager { epoch } => shared.directory().resource_manager(epoch),
        }
    }

    /// The nodes that are known, when they have changed.
    fn events(&mut self, method: AmMethod) -> Option<BoxFuture<'_, Vec<News>>> {
        // Looks of a call that the AM abandoned.
        self.ordered = None;
        let NodeLooks(shared) = self.looks.as_ref()?;
        if method != AmMethod::Allocate {
            return None;
        }
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
        Some(Box::pin(std::future::ready(vec![News::Nodes(view)])))
    }

    fn answers(&mut self) -> Option<BoxFuture<'_, Vec<News>>> {
        let nodes = self.ordered.take()?;
        let looks = self.looks.as_ref()?;
        Some(Box::pin(async move {
            vec![News::Looked(looks.look(nodes).await)]
        }))
    }
}
