//! The thread that reads `/proc` for all watch tasks: one scan serves every request that came
//! before it began.
//!
//! A thread, because reading another process's environment may wait for that process's memory lock.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use records::ContainerId;
use threads::ThreadOwner;
use tokio::sync::{mpsc, oneshot};

use super::leader::SharedExits;
use super::process_tree::{
    AdoptedChildren, Process, ProcessTable, adopted, adopts_orphans, container_of, shares_session,
};
use super::registry::Registry;

/// Maximum number of requests that wait for the scan under way. Each container has at most one
/// open; when the channel is full, further requests wait one scan longer.
const REQUESTS_MAX: usize = 1_024;

/// Extent of a search for a container's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Every process of the container. Reads all of `/proc`.
    Everything,
    /// Processes left over after the leader's end. Where the agent adopts orphans, each of them has
    /// an ancestor among the agent's adopted children; without such children nothing else is read.
    LeftOvers,
}

enum Request {
    Members(Question),
    /// Only what every scan does on the way: reap adopted orphans that have ended.
    Reap,
}

struct Question {
    id: ContainerId,
    leader: i32,
    scope: Scope,
    answer: oneshot::Sender<Vec<Process>>,
}

/// A handle to the scan thread.
#[derive(Clone)]
pub(super) struct Scanner {
    _thread: Arc<ThreadOwner>,
    requests: mpsc::Sender<Request>,
    children: Arc<AdoptedChildren>,
    exits: Option<SharedExits>,
}

impl Scanner {
    /// Starts the thread; it ends when the last handle is dropped.
    ///
    /// `exits` names the keepers that processes of earlier agents' containers may have fallen to.
    pub(super) fn start(registry: Arc<Registry>, exits: Option<SharedExits>) -> io::Result<Self> {
        let (requests, asked) = mpsc::channel(REQUESTS_MAX);
        let agent = i32::try_from(std::process::id()).map_err(io::Error::other)?;
        let mut scan = Scan {
            agent,
            registry,
            known: HashMap::new(),
            exits: exits.clone(),
        };
        let thread = ThreadOwner::shared("process-scan", move || scan.serve(asked))?;
        let children = Arc::new(AdoptedChildren::of(agent));
        Ok(Self {
            _thread: thread,
            requests,
            children,
            exits,
        })
    }

    /// The living processes of a container without its leader. Empty when the scanner has gone.
    pub(super) async fn members(&self, id: ContainerId, leader: i32, scope: Scope) -> Vec<Process> {
        // Most containers leave nothing behind: one small read here saves two thread switches.
        let has_keepers = || {
            let exits = self.exits.as_ref();
            exits.is_some_and(|exits| !exits.keepers().is_empty())
        };
        if scope == Scope::LeftOvers
            && adopts_orphans()
            && self.children.is_empty()
            && !has_keepers()
        {
            return Vec::new();
        }
        let (answer, answered) = oneshot::channel();
        let question = Question {
            id,
            leader,
            scope,
            answer,
        };
        if self
            .requests
            .send(Request::Members(question))
            .await
            .is_err()
        {
            return Vec::new();
        }
        answered.await.unwrap_or_default()
    }

    /// Reaps adopted orphans that have ended, soon.
    pub(super) async fn reap(&self) {
        if self.children.is_empty() {
            return;
        }
        if self.requests.send(Request::Reap).await.is_err() {
            tracing::debug!("the scanner has gone");
        }
    }
}

struct Scan {
    agent: i32,
    registry: Arc<Registry>,
    /// Containers of living orphans, so that an environment is read once. Only orphans of the last
    /// scan are kept.
    known: HashMap<(i32, u64), ContainerId>,
    exits: Option<SharedExits>,
}

impl Scan {
    fn serve(&mut self, mut asked: mpsc::Receiver<Request>) {
        let mut questions = Vec::new();
        while let Some(first) = asked.blocking_recv() {
            let mut next = Some(first);
            // Not more than fit the channel, so that those who ask all the time do not hold up
            // those who asked.
            while let Some(request) = next
                && questions.len() < REQUESTS_MAX
            {
                match request {
                    Request::Members(question) => questions.push(question),
                    Request::Reap => {}
                }
                next = asked.try_recv().ok();
            }
            self.answer(&mut questions);
        }
    }

    fn answer(&mut self, questions: &mut Vec<Question>) {
        let adopts = adopts_orphans();
        if adopts && let Some(orphans) = self.adopted_orphans() {
            let exits = self.exits.as_ref();
            let has_keepers = exits.is_some_and(|exits| !exits.keepers().is_empty());
            let has_left_overs = |question: &Question| {
                orphans
                    .iter()
                    .any(|(orphan, of)| is_orphan_of(question, orphan, *of))
            };
            for question in questions.extract_if(.., |question| {
                question.scope == Scope::LeftOvers && !has_keepers && !has_left_overs(question)
            }) {
                // Who no longer waits does not need the answer.
                drop(question.answer.send(Vec::new()));
            }
        }
        if questions.is_empty() {
            return;
        }
        match ProcessTable::read() {
            Ok(table) => self.answer_from(&table, adopts, questions),
            Err(error) => {
                tracing::error!(%error, "cannot read /proc, so left-over processes are not found");
                questions.clear();
            }
        }
    }

    fn answer_from(&mut self, table: &ProcessTable, adopts: bool, questions: &mut Vec<Question>) {
        // Asked again after the table was read: what lost its parent meanwhile would otherwise be
        // in neither.
        let adopted = if adopts { self.adopted_orphans() } else { None };
        let registry = Arc::clone(&self.registry);
        let is_no_leader = |orphan: &Process| !registry.is_leader(orphan.pid);
        let mut orphans = adopted.unwrap_or_else(|| {
            let orphans = table.orphans(self.agent, adopts);
            self.attribute(orphans.filter(is_no_leader))
        });
        // What containers of earlier agents have left behind.
        let keepers = self.exits.as_ref().map(SharedExits::keepers);
        for keeper in keepers.unwrap_or_default() {
            let children = table.children_of(keeper);
            orphans.extend(attributed(children.filter(is_no_leader)));
        }
        for question in questions.drain(..) {
            let own: Vec<_> = orphans
                .iter()
                .filter(|(orphan, of)| is_orphan_of(&question, orphan, *of))
                .map(|(orphan, _)| *orphan)
                .collect();
            let members = table.members(question.leader, &own, self.agent);
            drop(question.answer.send(members));
        }
    }

    /// The agent's adopted children with the containers they name; the dead ones are reaped.
    /// `None`: the kernel does not list children, so only a full scan can tell.
    fn adopted_orphans(&mut self) -> Option<Vec<(Process, Option<ContainerId>)>> {
        let registry = Arc::clone(&self.registry);
        match adopted(self.agent, |pid| registry.is_leader(pid)) {
            Ok(orphans) => Some(self.attribute(orphans.into_iter())),
            Err(error) => {
                tracing::debug!(%error, "cannot list the agent's children");
                None
            }
        }
    }

    fn attribute(
        &mut self,
        orphans: impl Iterator<Item = Process>,
    ) -> Vec<(Process, Option<ContainerId>)> {
        let before = std::mem::take(&mut self.known);
        orphans
            .filter(|orphan| !orphan.is_zombie)
            .map(|orphan| {
                let identity = (orphan.pid, orphan.start_time);
                let container = before
                    .get(&identity)
                    .copied()
                    .or_else(|| container_of(&orphan));
                if let Some(container) = container {
                    self.known.insert(identity, container);
                }
                (orphan, container)
            })
            .collect()
    }
}

/// Living orphans with the containers that they name.
fn attributed(
    orphans: impl Iterator<Item = Process>,
) -> impl Iterator<Item = (Process, Option<ContainerId>)> {
    let alive = orphans.filter(|orphan| !orphan.is_zombie);
    alive.map(|orphan| (orphan, container_of(&orphan)))
}

fn is_orphan_of(question: &Question, orphan: &Process, of: Option<ContainerId>) -> bool {
    shares_session(orphan, question.leader) || of == Some(question.id.as_named())
}
