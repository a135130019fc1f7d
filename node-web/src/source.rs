//! Where readers get snapshots and overviews of the node from. No I/O, no decisions.

use std::future::Future;
use std::sync::Arc;

use amrm_proxy::role_history::view::RoleHistoryView;
use node_view::operator::{ApplicationExplanation, Explanation};
use node_view::snapshot::{NodeNumbers, NodeSnapshot};
use node_view::usage::Uses;
use records::{ApplicationId, ContainerName, Now};
use tokio::sync::watch;

use crate::overview::Overview;

/// Source of snapshots of the node.
pub trait NodeSource: Send + Sync + 'static {
    /// Takes a snapshot now; `None` once the agent is stopping.
    fn snapshot(&self) -> impl Future<Output = Option<Arc<NodeSnapshot>>> + Send;

    /// Returns the numbers of the moment, without a walk over the containers; `None` once the agent
    /// is stopping.
    fn numbers(&self) -> impl Future<Output = Option<NodeNumbers>> + Send;

    /// Takes an overview for people who watch the node: less of it, and its recent decisions.
    fn overview(&self) -> impl Future<Output = Option<Overview>> + Send;

    /// Returns the role histories of services whose AMs call through this node; `None` once the
    /// agent is stopping.
    fn role_histories(&self) -> impl Future<Output = Option<RoleHistories>> + Send;

    /// Returns the story of a container; `None`: it is not known, or the agent is stopping.
    fn explanation(&self, _id: ContainerName) -> impl Future<Output = Option<Explanation>> + Send {
        async { None }
    }

    /// Returns the story of an application's containers, with at most `last` steps; `None`: none is
    /// known, or the agent is stopping.
    fn application_explanation(
        &self,
        _id: ApplicationId,
        _last: usize,
    ) -> impl Future<Output = Option<ApplicationExplanation>> + Send {
        async { None }
    }

    /// Returns the changes after which [`Self::overview`] may differ. To be dropped when there are
    /// no readers: then a change costs nothing.
    fn changes(&self) -> Changes;
}

/// Role histories at one moment.
#[derive(Clone, Debug, Default)]
pub struct RoleHistories {
    /// Time of the reading. Deadlines in the views are times of its monotonic clock.
    pub now: Now,
    /// Views of the services, in the order of user, service and attempt. Empty without an
    /// AMRMProxy.
    pub services: Vec<Arc<RoleHistoryView>>,
}

impl RoleHistories {
    /// Orders the views.
    #[must_use]
    pub fn new(now: Now, mut services: Vec<Arc<RoleHistoryView>>) -> Self {
        services.sort_unstable_by(|a, b| {
            let (a_key, b_key) = ((&a.user, &a.service), (&b.user, &b.service));
            a_key.cmp(&b_key).then(a.attempt.cmp(&b.attempt))
        });
        Self { now, services }
    }
}

/// Changes of an overview, from when this value was made.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The core's revision. Its sender is gone when nothing will change any more.
    node: watch::Receiver<u64>,
    /// Calls that pass the AMRMProxy, if there is one.
    masters: Option<watch::Receiver<()>>,
    /// Use of containers, if it is measured.
    uses: Option<watch::Receiver<Arc<Uses>>>,
}

impl Changes {
    /// Joins the changes of the node and those of the calls that pass its AMRMProxy.
    #[must_use]
    pub fn new(mut node: watch::Receiver<u64>, masters: Option<watch::Receiver<()>>) -> Self {
        node.mark_unchanged();
        Self {
            node,
            masters,
            uses: None,
        }
    }

    /// Joins the changes of the use of containers.
    #[must_use]
    pub fn with_uses(self, mut uses: watch::Receiver<Arc<Uses>>) -> Self {
        uses.mark_unchanged();
        Self {
            uses: Some(uses),
            ..self
        }
    }

    /// Waits for a change since the last call; `None` when nothing will change any more.
    pub async fn next(&mut self) -> Option<()> {
        let Self {
            node,
            masters,
            uses,
        } = self;
        tokio::select! {
            changed = node.changed() => changed.ok(),
            () = change_of(masters.as_mut()) => Some(()),
            () = change_of(uses.as_mut()) => Some(()),
        }
    }
}

/// Waits for a change of what may end before the node; then only the node is left to wait for.
async fn change_of<T>(beside: Option<&mut watch::Receiver<T>>) {
    if let Some(beside) = beside
        && beside.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}
