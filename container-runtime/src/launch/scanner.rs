//! The thread that reads `/proc` for all watch tasks: one scan serves every request that came
//! before it began.
//!
//! A thread, because reading another process's environment may wait for that process's memory lock.

use std::collections::HashMap;
use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use records::{ContainerId, ContainerName};
use threads::ThreadOwner;
use tokio::sync::{mpsc, oneshot};

use super::leader::SharedExits;
use super::process::{open_process, signal_process};
use super::process_tree::{
    AdoptedChildren, Name, Process, ProcessTable, adopted, adopts_orphans, children_list, name_of,
    names_of, shares_session,
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
    /// The same, and each orphan is killed when it is seen. One that forks and ends at once would
    /// be gone before anybody who is told of it could signal it.
    Doomed,
}

/// Processes that a look has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Processes of the container, without its leader.
    pub(super) members: Vec<Process>,
    /// What may have been missed.
    pub(super) sight: Sight,
}

/// What a look at a container's processes may have missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// Nothing.
    Certain,
    /// An orphan ended before it was known whose it was. It may have been the container's, and may
    /// have started another.
    Unclear,
    /// An orphan ended in this way, and one that named the container was seen in the same look.
    Passing,
}

impl Found {
    /// Returns what a look finds that sees nothing.
    pub(super) fn nothing() -> Self {
        Self {
            members: Vec::new(),
            sight: Sight::Certain,
        }
    }
}

/// Maximum time for which orphans are killed as they are seen, in one go.
const HUNT: Duration = Duration::from_millis(20);
/// Number of looks in a row that find no new orphan, after which the hunt ends.
const QUIET_LOOKS: usize = 2;

enum Request {
    Members(Question),
    /// Only what every scan does on the way: reap adopted orphans that have ended.
    Reap,
}

struct Question {
    id: ContainerId,
    leader: i32,
    scope: Scope,
    answer: oneshot::Sender<Found>,
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
    pub(super) async fn members(&self, id: ContainerId, leader: i32, scope: Scope) -> Found {
        // Most containers leave nothing behind: one small read here saves two thread switches.
        let has_keepers = || {
            let exits = self.exits.as_ref();
            exits.is_some_and(|exits| !exits.keepers().is_empty())
        };
        if scope != Scope::Everything
            && adopts_orphans()
            && self.children.is_empty()
            && !has_keepers()
        {
            return Found::nothing();
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
            return Found::nothing();
        }
        answered.await.unwrap_or_else(|_gone| Found::nothing())
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
        self.hunt(questions, adopts);
        if adopts && let Some(orphans) = self.adopted_orphans() {
            let exits = self.exits.as_ref();
            let has_keepers = exits.is_some_and(|exits| !exits.keepers().is_empty());
            let has_left_overs = |question: &Question| {
                let mut orphans = orphans.known.iter();
                orphans.any(|(orphan, of)| is_orphan_of(question, orphan, *of))
            };
            for question in questions.extract_if(.., |question| {
                question.scope != Scope::Everything && !has_keepers && !has_left_overs(question)
            }) {
                let found = Found {
                    members: Vec::new(),
                    sight: self.sight_of(question.id, orphans.are_all),
                };
                // Who no longer waits does not need the answer.
                drop(question.answer.send(found));
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
        let Orphans {
            known: mut orphans,
            are_all,
        } = adopted.unwrap_or_else(|| {
            let orphans = table.orphans(self.agent, adopts);
            let known = self.attribute(orphans.filter(is_no_leader)).known;
            // Each look takes so long that a second one tells nothing more.
            Orphans {
                known,
                are_all: true,
            }
        });
        // What containers of earlier agents have left behind.
        let keepers = self.exits.as_ref().map(SharedExits::keepers);
        for keeper in keepers.unwrap_or_default() {
            let children = table.children_of(keeper);
            let children = self.attribute(children.filter(is_no_leader));
            orphans.extend(children.known);
        }
        for question in questions.drain(..) {
            let own: Vec<_> = orphans
                .iter()
                .filter(|(orphan, of)| is_orphan_of(&question, orphan, *of))
                .map(|(orphan, _)| *orphan)
                .collect();
            let found = Found {
                members: table.members(question.leader, &own, self.agent),
                sight: self.sight_of(question.id, are_all),
            };
            drop(question.answer.send(found));
        }
    }

    /// Returns what the scan under way may have missed of a container.
    fn sight_of(&self, id: ContainerId, are_all: bool) -> Sight {
        let name = Name::Container(id.name());
        let mut seen = self.known.values();
        match are_all {
            true => Sight::Certain,
            false if seen.any(|known| known.scan == self.number && known.name == name) => {
                Sight::Passing
            }
            false => Sight::Unclear,
        }
    }

    /// Kills orphans of doomed containers as they are seen, until no new one is, within bounds.
    fn hunt(&mut self, questions: &[Question], adopts: bool) {
        let is_doomed = |question: &&Question| question.scope == Scope::Doomed;
        let doomed: Vec<&Question> = questions.iter().filter(is_doomed).collect();
        if doomed.is_empty() {
            return;
        }
        let keepers = self.exits.as_ref().map(SharedExits::keepers);
        let mut parents = keepers.unwrap_or_default();
        parents.extend(adopts.then_some(self.agent));
        let deadline = Instant::now() + HUNT;
        let (mut killed, mut quiet) = (HashSet::new(), 0);
        while quiet < QUIET_LOOKS && Instant::now() < deadline {
            let before = killed.len();
            let mut is_clear = true;
            for parent in &parents {
                is_clear &= self.kill_orphans(*parent, &doomed, &mut killed);
            }
            let is_quiet = is_clear && killed.len() == before;
            quiet = if is_quiet { quiet + 1 } else { 0 };
        }
    }

    /// Kills the children of a process that are orphans of these containers, the youngest first:
    /// they have lived shortest. Adds them to `killed`. Returns whether none was about to end
    /// before its name was known.
    fn kill_orphans(
        &mut self,
        parent: i32,
        doomed: &[&Question],
        killed: &mut HashSet<(i32, u64)>,
    ) -> bool {
        let mut is_clear = true;
        for pid in children_list(parent).unwrap_or_default().into_iter().rev() {
            // Before anything is asked of it, so that the handle is on the process that answers:
            // nobody else reaps orphans, and what a keeper reaps was not new when it was listed.
            let Ok(handle) = open_process(pid) else {
                continue;
            };
            let orphan = Process::read(pid).filter(|now| !now.has_ended && now.parent == parent);
            let Some(orphan) = orphan.filter(|now| !self.registry.is_leader(now.pid)) else {
                continue;
            };
            let of = match self.meet(&orphan) {
                Name::Container(id) => Some(id),
                Name::None | Name::NotYet => None,
            };
            let is_doomed = |question: &&Question| is_orphan_of(question, &orphan, of);
            if !doomed.iter().any(is_doomed) {
                is_clear &= of.is_some() || runs(&orphan);
            } else if signal_process(handle.as_fd(), libc::SIGKILL) {
                killed.insert(identity(&orphan));
            }
        }
        is_clear
    }

    /// The agent's adopted children with the containers they name; the dead ones are reaped.
    /// `None`: the kernel does not list children, so only a full scan can tell.
    fn adopted_orphans(&mut self) -> Option<Orphans> {
        let registry = Arc::clone(&self.registry);
        let listed = adopted(
            self.agent,
            |pid| registry.is_leader(pid),
            |orphan| {
                // One that named nothing in an earlier scan is asked once, when all are listed.
                let known = self.known.get(&identity(orphan));
                if known.is_none_or(|known| matches!(known.name, Name::Container(_))) {
                    self.meet(orphan);
                }
            },
        );
        match listed {
            Ok(found) => {
                let attributed = self.attribute(found.alive.into_iter());
                let are_all = attributed.are_all && found.is_settled;
                Some(Orphans {
                    are_all,
                    ..attributed
                })
            }
            Err(error) => {
                tracing::debug!(%error, "cannot list the agent's children");
                None
            }
        }
    }

    /// Returns the name of an orphan, and notes that of a container at once: an orphan that forks
    /// and ends may be gone when all have been listed. One that named nothing in an earlier scan
    /// may have executed a program since, and is asked again.
    fn meet(&mut self, orphan: &Process) -> Name {
        let (key, scan) = (identity(orphan), self.number);
        if let Some(known) = self.known.get_mut(&key)
            && matches!(known.name, Name::Container(_))
        {
            known.scan = scan;
            return known.name;
        }
        let name = name_of(orphan);
        if matches!(name, Name::Container(_)) {
            self.known.insert(key, Known { name, scan });
        }
        name
    }

    /// The living of these orphans with the containers that they name.
    fn attribute(&mut self, orphans: impl Iterator<Item = Process>) -> Orphans {
        let (found, new): (Vec<_>, Vec<_>) = orphans
            .filter(|orphan| !orphan.has_ended)
            .partition(|orphan| self.known.contains_key(&identity(orphan)));
        let names = found.iter().map(|orphan| self.meet(orphan));
        let names: Vec<Name> = names.chain(names_of(&new)).collect();
        let named = found.into_iter().chain(new).zip(names);
        let mut are_all = true;
        let known = named.map(|(orphan, name)| {
            let scan = self.number;
            self.known.insert(identity(&orphan), Known { name, scan });
            match name {
                Name::Container(id) => (orphan, Some(id)),
                Name::None | Name::NotYet => {
                    // Perhaps it had no environment any more when it was asked.
                    are_all &= runs(&orphan);
                    (orphan, None)
                }
            }
        });
        let known = known.collect();
        Orphans { known, are_all }
    }
}

/// Living orphans with the containers that they name.
struct Orphans {
    known: Vec<(Process, Option<ContainerName>)>,
    /// No other ended before its name was read.
    are_all: bool,
}

/// Returns whether a process runs still, and is not about to end.
fn runs(process: &Process) -> bool {
    let now = Process::read(process.pid);
    now.is_some_and(|now| identity(&now) == identity(process) && !now.has_ended && !now.is_ending)
}

/// A process id alone may be another process's by now.
fn identity(process: &Process) -> (i32, u64) {
    (process.pid, process.start_time)
}

fn is_orphan_of(question: &Question, orphan: &Process, of: Option<ContainerName>) -> bool {
    shares_session(orphan, question.leader) || of == Some(question.id.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::testing::container_id;

    #[test]
    fn what_is_gone_counts_for_the_container_that_it_named() {
        let own = container_id();
        let other = ContainerId {
            id: own.id + 1,
            ..own
        };
        let mut scan = Scan {
            agent: 1,
            registry: Arc::default(),
            known: HashMap::new(),
            number: 7,
            exits: None,
        };
        let known = |id: ContainerId, scan| Known {
            name: Name::Container(id.name()),
            scan,
        };
        scan.known.insert((100, 1), known(own, 7));
        scan.known.insert((101, 1), known(other, 6));
        assert_eq!(scan.sight_of(own, true), Sight::Certain);
        assert_eq!(scan.sight_of(own, false), Sight::Passing);
        // That of another scan, which has been answered, does not.
        assert_eq!(scan.sight_of(other, false), Sight::Unclear);
    }
}
