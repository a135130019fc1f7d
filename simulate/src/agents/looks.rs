//! Looks of a proxy at nodes: what the shipped performer asks of web pages, the nodes tell here.

use std::sync::{Arc, Mutex, PoisonError};

use amrm_proxy::call::AmMethod;
use amrm_proxy::distributed_scheduler::{DistributedScheduler, Effect, News};
use amrm_proxy::interceptor::Performer;
use amrm_proxy::looks::{KnownView, Looks};
use sched::{KnownNode, KnownNodes};
use wire::rpc::BoxFuture;

/// Messages between a performer and the nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Board(Arc<Mutex<Contents>>);

#[derive(Debug, Default)]
struct Contents {
    ordered: Option<Vec<KnownNode>>,
    answer: Option<Looks>,
}

impl Board {
    fn with<T>(&self, act: impl FnOnce(&mut Contents) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the nodes that the current call looks at.
    pub(super) fn take_ordered(&self) -> Option<Vec<KnownNode>> {
        self.with(|contents| contents.ordered.take())
    }

    /// Puts down what they answer.
    pub(super) fn answer(&self, looks: Looks) {
        self.with(|contents| contents.answer = Some(looks));
    }
}

/// Performer of an attempt's distributed scheduler.
#[derive(Debug)]
pub(super) struct Looker {
    board: Board,
    /// Nodes that the scheduler has not been told.
    untold: Option<Arc<KnownNodes>>,
}

impl Looker {
    /// `known`: nodes to look at; `None`: the looker asks no node.
    pub(super) const fn new(board: Board, known: Option<Arc<KnownNodes>>) -> Self {
        Self {
            board,
            untold: known,
        }
    }
}

impl Performer<DistributedScheduler> for Looker {
    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Look(nodes) => self.board.with(|contents| contents.ordered = Some(nodes)),
            // The view says that nothing is bound late. Nobody reads gauges or choices, and all
            // nodes are known from the begin.
            Effect::Publish(_)
            | Effect::Chose(_)
            | Effect::WantNodes { .. }
            | Effect::Listed(_)
            | Effect::Gone(_)
            | Effect::Bind { .. }
            | Effect::Unbound(_)
            | Effect::ResourceManager { .. } => {}
        }
    }

    fn events(&mut self, method: AmMethod) -> Option<BoxFuture<'_, Vec<News>>> {
        if method != AmMethod::Allocate {
            return None;
        }
        let nodes = self.untold.take()?;
        let view = KnownView {
            binds_late: false,
            nodes,
            answers_looks: true,
        };
        Some(Box::pin(std::future::ready(vec![News::Nodes(view)])))
    }

    fn answers(&mut self) -> Option<BoxFuture<'_, Vec<News>>> {
        let looks = self.board.with(|contents| contents.answer.take())?;
        Some(Box::pin(std::future::ready(vec![News::Looked(looks)])))
    }
}
