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
    AdoptedChildren, Name, Process, ProcessTable, adopted, adopts_orphans, name_of, names_of,
    shares_session,
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
            number: 0,
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

struct Known {
    name: Name,
    /// Last scan that found the orphan.
    scan: u64,
}

struct Scan {
    agent: i32,
    registry: Arc<Registry>,
    /// Names of living orphans, so that an environment is read once and waited for once.
    known: HashMap<(i32, u64), Known>,
    /// Number of the current scan.
    number: u64,
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
            self.number += 1;
            self.answer(&mut questions);
            self.known.retain(|_, known| known.scan == self.number);
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
            let children = self.attribute(children.filter(is_no_leader));
            orphans.extend(children);
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

    /// The living of these orphans with the containers that they name.
    fn attribute(
        &mut self,
        orphans: impl Iterator<Item = Process>,
    ) -> Vec<(Process, Option<ContainerId>)> {
        let (found, new): (Vec<_>, Vec<_>) = orphans
            .filter(|orphan| !orphan.is_zombie)
            .partition(|orphan| self.known.contains_key(&identity(orphan)));
        let names = found.iter().map(|orphan| self.name_again(orphan));
        let names: Vec<Name> = names.chain(names_of(&new)).collect();
        let named = found.into_iter().chain(new).zip(names);
        named
            .map(|(orphan, name)| {
                let scan = self.number;
                self.known.insert(identity(&orphan), Known { name, scan });
                match name {
                    Name::Container(id) => (orphan, Some(id)),
                    Name::None | Name::NotYet => (orphan, None),
                }
            })
            .collect()
    }

    /// Returns the name of an orphan of an earlier scan. One that named nothing may have executed a
    /// program since.
    fn name_again(&self, orphan: &Process) -> Name {
        match self.known.get(&identity(orphan)) {
            Some(known) if matches!(known.name, Name::Container(_)) => known.name,
            _ => name_of(orphan),
        }
    }
}

/// A process id alone may be another process's by now.
fn identity(process: &Process) -> (i32, u64) {
    (process.pid, process.start_time)
}

fn is_orphan_of(question: &Question, orphan: &Process, of: Option<ContainerId>) -> bool {
    shares_session(orphan, question.leader) || of == Some(question.id.as_named())
}
