//! Link of the role history in an attempt's chain: its files, and its view for readers.

use std::sync::{Arc, Mutex, PoisonError};

use records::Now;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use wire::rpc::BoxFuture;

use super::ServiceHistory;
use super::background::Effect;
use super::files::{HistoryFile, HistoryFiles, HistoryNews};
use super::opt_in::HistoryRule;
use super::view::RoleHistoryView;
use crate::call::AmMethod;
use crate::config::{FileAccess, HistoryConfig};
use crate::identity::Attempt;
use crate::interceptor::Performer;
use crate::link::{Link, link};

/// View published last; `None` before the first.
type View = Option<Arc<RoleHistoryView>>;

/// Role histories of this node's attempts.
#[derive(Debug)]
pub(crate) struct Histories {
    config: HistoryConfig,
    files: HistoryFiles,
    /// Views of the attempts that may go on. Readers wait for no call.
    published: Mutex<Vec<(CancellationToken, watch::Receiver<View>)>>,
}

impl Histories {
    /// Starts the thread that owns the files.
    pub(crate) fn start(config: HistoryConfig, access: FileAccess) -> Self {
        Self {
            files: HistoryFiles::start(config.files.clone(), access),
            config,
            published: Mutex::default(),
        }
    }

    /// Makes the link of an attempt and begins to load its history; `None` if it opts in to none.
    pub(crate) fn link(&self, attempt: &Attempt, now: Now) -> Option<Box<dyn Link>> {
        let identity = &attempt.identity;
        let (id, user) = (identity.attempt, &identity.user);
        let (own, rules) = (identity.role_history.as_ref(), &self.config.rules);
        let opt_in = HistoryRule::choose(own, rules, user, &identity.tags)?;
        let (view, published) = watch::channel(None);
        self.going_on(|all| all.push((attempt.ended.clone(), published)));
        let keeper = HistoryKeeper {
            file: self.files.open(id, user, &opt_in.service),
            view,
        };
        let history = ServiceHistory::new(&self.config, id, user, opt_in, now);
        Some(link(history, keeper))
    }

    /// Returns the views of the attempts that go on, in the order of the attempts.
    pub(crate) fn views(&self) -> Vec<Arc<RoleHistoryView>> {
        let read = |(_, view): &(_, watch::Receiver<View>)| view.borrow().clone();
        let mut views: Vec<_> = self.going_on(|all| all.iter().filter_map(read).collect());
        views.sort_by_key(|view| view.attempt);
        views
    }

    /// Forgets the attempts that have ended, and passes the others on.
    fn going_on<T>(
        &self,
        then: impl FnOnce(&mut Vec<(CancellationToken, watch::Receiver<View>)>) -> T,
    ) -> T {
        // Every change is complete when the lock is released, so a panic elsewhere breaks nothing.
        let published = self.published.lock();
        let mut published = published.unwrap_or_else(PoisonError::into_inner);
        published.retain(|(ended, view)| !ended.is_cancelled() && view.has_changed().is_ok());
        then(&mut published)
    }
}

/// Performer of one attempt's history.
#[derive(Debug)]
struct HistoryKeeper {
    file: HistoryFile,
    view: watch::Sender<View>,
}

impl Performer<ServiceHistory> for HistoryKeeper {
    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Save(snapshot) => self.file.save(*snapshot),
            Effect::Publish(view) => drop(self.view.send_replace(Some(Arc::new(*view)))),
        }
    }

    /// A registration waits for the history for a moment.
    fn events(&mut self, method: AmMethod) -> Option<BoxFuture<'_, Vec<HistoryNews>>> {
        let is_registration = method == AmMethod::Register;
        let may_have = self.file.may_have_news(is_registration);
        may_have.then(|| -> BoxFuture<'_, _> { Box::pin(self.file.news(is_registration)) })
    }
}
