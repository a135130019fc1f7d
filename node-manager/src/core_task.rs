//! Task that owns the [`Core`]: runs jobs from other tasks one after the other, handles events of
//! workers, ticks the core at its deadlines, and performs its effects. Other tasks hold a
//! [`Handle`].
//!
//! Back-pressure: jobs wait in a bounded channel ([`JOBS_MAX`]). While it is full, callers wait;
//! RPC calls fill it, whose number the servers bound, and a call that waits too long fails with the
//! time-out of its client, which tries again. Workers have bounded channels of their own
//! ([`crate::worker_channels`]), so that neither side can fill the other's. This task waits for
//! nothing but its inbox, so both are always drained.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};

use amrm_proxy::AmrmProxy;
use amrm_proxy::attempts::Activity;
use localize::SetNumber;
use node_core::{Asker, Core, Effect, Wait, WorkerEvent};
use node_view::operator::{ApplicationExplanation, Explanation};
use node_view::snapshot::{NodeNumbers, NodeSnapshot};
use node_view::usage::Uses;
use node_web::overview::{MASTERS_LISTED_MAX, Overview};
use node_web::source::{Changes, NodeSource, RoleHistories};
use records::{ApplicationId, ContainerId, ContainerName, Now};
use state_store::{Commits, NotStored, Urgency};
use tokio::sync::{mpsc, oneshot, watch};
use wire::exception::RemoteException;
use wire::proto::hadoop_yarn::LocalizationStatusProto;

use crate::clock::Clock;
use crate::worker_channels::WorkerEvents;

/// Capacity of the job queue; a sender waits while it is full, which slows callers down and loses
/// nothing.
pub const JOBS_MAX: usize = 1024;

/// Error of a job whose task has ended, since the agent is stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agent is stopping")]
pub struct Stopped;

/// Performer of what the core orders. No method waits.
pub trait Perform: Send {
    /// Performs one effect, and returns an event for the core if the result is known at once.
    fn perform(&mut self, effect: Effect) -> Option<WorkerEvent>;

    /// Answers what has become of the resources of containers, after all effects so far.
    fn answer_localization(&mut self, query: LocalizationQuery);
}

/// Answers to `getLocalizationStatuses`, in order.
pub type LocalizationAnswers = Vec<Result<Vec<LocalizationStatusProto>, RemoteException>>;

/// A `getLocalizationStatuses` call after the core's checks.
#[derive(Debug)]
pub struct LocalizationQuery {
    /// Containers to report on, with the last of their sets of resources, or their refusals, in the
    /// order of the call.
    pub checked: Vec<Result<(ContainerId, SetNumber), RemoteException>>,
    /// Receiver of the answers.
    pub reply: oneshot::Sender<LocalizationAnswers>,
}

type Job = Box<dyn FnOnce(&mut Owner, Now) + Send>;

/// The core and the means to perform its effects.
struct Owner {
    core: Core,
    performer: Box<dyn Perform>,
    clock: Clock,
    /// Callers that wait until no container lives.
    waiting_for_ends: Vec<oneshot::Sender<()>>,
}

impl Owner {
    /// Performs effects until there are none. Ends, because only refused orders are answered at
    /// once, and each brings its container closer to its end.
    fn settle(&mut self, now: Now) {
        loop {
            let effects = self.core.take_effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                if matches!(effect, Effect::AllEnded) {
                    for caller in self.waiting_for_ends.drain(..) {
                        // The caller may have stopped waiting.
                        let _gone = caller.send(());
                    }
                } else if let Some(event) = self.performer.perform(effect) {
                    self.core.handle(event, now, self.clock.now_us());
                }
            }
        }
    }

    fn handle(&mut self, event: WorkerEvent) {
        let now = self.clock.now();
        self.core.handle(event, now, self.clock.now_us());
        self.settle(now);
    }

    fn tick(&mut self) {
        let now = self.clock.now();
        self.core.tick(now);
        self.settle(now);
    }
}

/// Access to the core from other tasks. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    jobs: mpsc::Sender<Job>,
    /// Revision of the core's overview.
    changes: watch::Receiver<u64>,
    /// Use of containers as measured last.
    uses: watch::Receiver<Arc<Uses>>,
    proxy: Option<Arc<AmrmProxy>>,
    /// Commits of the records for the next agent; `None`: there are none.
    commits: Option<Commits>,
}

impl Handle {
    /// Returns the same handle, whose owners can wait for records.
    #[must_use]
    pub fn with_commits(self, commits: Option<Commits>) -> Self {
        Self { commits, ..self }
    }

    /// Returns whether records are kept for the next agent.
    #[must_use]
    pub fn keeps_records(&self) -> bool {
        self.commits.is_some()
    }

    /// Waits until the records of all that has happened so far are committed, so that it may be
    /// told.
    ///
    /// # Errors
    /// [`NotStored`]: a restart would not know some of it.
    pub async fn committed(&self) -> Result<(), NotStored> {
        let Some(commits) = &self.commits else {
            return Ok(());
        };
        let (tell, told) = oneshot::channel();
        commits.when_settled(Urgency::Now, move |outcome| {
            // Who waited may have gone.
            let _gone = tell.send(outcome);
        });
        told.await.unwrap_or(Err(NotStored))
    }

    /// Returns the same handle, whose overview includes the attempts of the AMRMProxy.
    #[must_use]
    pub fn with_proxy(self, proxy: Option<Arc<AmrmProxy>>) -> Self {
        Self { proxy, ..self }
    }

    /// Returns the use of containers as measured last.
    pub(crate) fn uses(&self) -> Arc<Uses> {
        Arc::clone(&self.uses.borrow())
    }

    /// Returns the AMRMProxy; `None` if this node has none.
    pub(crate) const fn proxy(&self) -> Option<&Arc<AmrmProxy>> {
        self.proxy.as_ref()
    }

    /// Runs `work` on the core, performs the effects, and returns the result.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Core, Now) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        self.ask(|reply, owner, now| {
            let result = work(&mut owner.core, now);
            owner.settle(now);
            // The caller may have gone away; the work has been done all the same.
            let _gone = reply.send(result);
        })
        .await
    }

    /// Runs `work` on the core, performs the effects, and returns when the containers have ended
    /// that it waits for.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn run_until_ended(
        &self,
        work: impl FnOnce(&mut Core, Now) -> Wait + Send + 'static,
    ) -> Result<(), Stopped> {
        self.ask(|reply, owner, now| match work(&mut owner.core, now) {
            Wait::ForEnds => {
                owner.waiting_for_ends.push(reply);
                owner.settle(now);
            }
            Wait::Over => {
                owner.settle(now);
                let _gone = reply.send(());
            }
        })
        .await
    }

    /// Answers `getLocalizationStatuses`: the core checks the call, the performer knows the answer.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn localization_statuses(
        &self,
        asker: Asker,
        ids: Vec<ContainerId>,
    ) -> Result<LocalizationAnswers, Stopped> {
        self.ask(move |reply, owner, now| {
            let checked = owner.core.localization_sets(asker, ids, now);
            let query = LocalizationQuery { checked, reply };
            owner.performer.answer_localization(query);
        })
        .await
    }

    /// Queues a job and waits until the reply is used.
    async fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(oneshot::Sender<T>, &mut Owner, Now) + Send + 'static,
    ) -> Result<T, Stopped> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |owner, now| job(reply, owner, now));
        self.jobs.send(job).await.map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }

    /// Returns a handle that does not keep the core alive.
    #[must_use]
    pub fn downgrade(&self) -> WeakHandle {
        WeakHandle {
            jobs: self.jobs.downgrade(),
            changes: self.changes.clone(),
            uses: self.uses.clone(),
            proxy: self.proxy.as_ref().map(Arc::downgrade),
            commits: self.commits.clone(),
        }
    }
}

impl NodeSource for Handle {
    async fn snapshot(&self) -> Option<Arc<NodeSnapshot>> {
        let mut snapshot = self.run(|core, _| core.snapshot()).await.ok()?;
        snapshot.uses = self.uses();
        Some(Arc::new(snapshot))
    }

    async fn numbers(&self) -> Option<NodeNumbers> {
        self.run(|core, _| core.numbers()).await.ok()
    }

    async fn overview(&self) -> Option<Overview> {
        let (now, node) = self.run(|core, now| (now, core.overview())).await.ok()?;
        let proxy = self.proxy.as_ref();
        Some(Overview {
            now,
            node,
            uses: self.uses(),
            masters: proxy.map(|proxy| proxy.attempts(MASTERS_LISTED_MAX)),
        })
    }

    async fn role_histories(&self) -> Option<RoleHistories> {
        let now = self.run(|_, now| now).await.ok()?;
        let views = self.proxy.as_ref().map(|proxy| proxy.role_histories());
        Some(RoleHistories::new(now, views.unwrap_or_default()))
    }

    async fn explanation(&self, id: ContainerName) -> Option<Explanation> {
        Handle::explanation(self, id).await.ok().flatten()
    }

    async fn application_explanation(
        &self,
        id: ApplicationId,
        last: usize,
    ) -> Option<ApplicationExplanation> {
        let found = Handle::application_explanation(self, id, last).await;
        found.ok().flatten()
    }

    fn changes(&self) -> Changes {
        let proxy = self.proxy.as_ref();
        let masters = proxy.map(|proxy| Activity::watch(&proxy.activity()));
        Changes::new(self.changes.clone(), masters).with_uses(self.uses.clone())
    }
}

/// Handle that does not keep the core alive: the core ends when every [`Handle`] is gone.
#[derive(Clone)]
pub struct WeakHandle {
    jobs: mpsc::WeakSender<Job>,
    changes: watch::Receiver<u64>,
    uses: watch::Receiver<Arc<Uses>>,
    proxy: Option<Weak<AmrmProxy>>,
    commits: Option<Commits>,
}

impl WeakHandle {
    /// Returns a handle, as long as there is another.
    #[must_use]
    pub fn upgrade(&self) -> Option<Handle> {
        Some(Handle {
            jobs: self.jobs.upgrade()?,
            changes: self.changes.clone(),
            uses: self.uses.clone(),
            proxy: self.proxy.as_ref().and_then(Weak::upgrade),
            commits: self.commits.clone(),
        })
    }
}

/// Receiving ends, for [`run`].
pub struct Inbox {
    jobs: mpsc::Receiver<Job>,
    changes: watch::Sender<u64>,
    uses: watch::Sender<Arc<Uses>>,
}

impl Inbox {
    /// Returns the place where the use of containers is shown, for whoever measures it.
    #[must_use]
    pub fn uses(&self) -> watch::Sender<Arc<Uses>> {
        self.uses.clone()
    }
}

/// Creates a handle and its inbox.
#[must_use]
pub fn channel() -> (Handle, Inbox) {
    let (sender, jobs) = mpsc::channel(JOBS_MAX);
    let (changes, changed) = watch::channel(0);
    let (uses, used) = watch::channel(Arc::default());
    let handle = Handle {
        jobs: sender,
        changes: changed,
        uses: used,
        proxy: None,
        commits: None,
    };
    let inbox = Inbox {
        jobs,
        changes,
        uses,
    };
    (handle, inbox)
}

/// Runs until every [`Handle`] is gone. What workers have reported by then is still handled, and
/// what is due is done: the second half of their work is the core's order.
pub async fn run(
    core: Core,
    performer: Box<dyn Perform>,
    mut inbox: Inbox,
    mut workers: WorkerEvents,
    clock: Clock,
) {
    let mut owner = Owner {
        core,
        performer,
        clock,
        waiting_for_ends: Vec::new(),
    };
    // Performs what a core that goes on where another has ended wants done at once.
    owner.settle(clock.now());
    loop {
        let deadline = owner.core.next_deadline();
        let wake = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(clock.instant_of(at)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            job = inbox.jobs.recv() => match job {
                Some(job) => job(&mut owner, clock.now()),
                None => break,
            },
            event = workers.next() => owner.handle(event),
            () = wake => owner.tick(),
        }
        let revision = owner.core.live_revision();
        let replace = |last: &mut u64| std::mem::replace(last, revision) != revision;
        inbox.changes.send_if_modified(replace);
    }
    while let Some(event) = workers.take() {
        owner.handle(event);
    }
    owner.tick();
}
