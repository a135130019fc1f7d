//! Looks at the nodes that may get opportunistic containers, for all attempts of this node
//! (`placement` = `look`).
//!
//! ```text
//!  attempt's scheduler ── Effect ──▶ AttemptLooks ──▶ Directory      which nodes there are
//!        ▲                               │  └───────▶ cluster_nodes  the ResourceManager tells all
//!        └────────── News ◀──────────────┘
//!                                        └──────────▶ Connections    GET /jmx of each node, and of
//!                                                                     a Java node its containers
//! ```
//!
//! No news is used without its age. Our nodes tell their load of the moment in `/jmx`. What a Java
//! node tells there may be 10 s old, so it is asked for its list of containers as well; one that
//! does not give the list has answered, but its load is unknown.
//!
//! A call waits for its looks for a bounded time, 20 ms by default, all together. A node that has
//! not answered by then has failed, though its connection may be there for the next look. A node
//! that fails is left out for a while, a short one if its answer comes in the end; where none
//! answers, looks end for a while, and containers are placed by the attempts' own counts at once.

mod choices;
mod cluster_nodes;
mod connections;
pub mod container_list;
mod directory;
pub mod jmx;
mod news;
mod performer;
mod stored;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use rand::RngExt as _;
use records::{ContainerName, NodeId, error_chain};
use sched::{KnownNode, LookAnswer, Placement, RemoteNode};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout_at};
use wire::failover::Endpoints;

use self::choices::Choices;
pub use self::choices::{CallLooks, Choice};
use self::connections::{Connections, KEPT_FOR};
use self::directory::{Change, Directory, Outcome};
use self::jmx::Told;
pub use self::news::{Bound, KnownView, Looks};
pub(crate) use self::performer::AttemptLooks;
use crate::binding::LateBinding;
use crate::node_lists::lock;
use crate::pipeline::ReadClock;
use crate::store::Store;

/// Longest time for a look's connection and answer. The call that made it has gone on long before;
/// a connection that comes late is there for the next look.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// Longest wait for looks that can be configured.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Most looks at once, those that are late included. With the connections that are kept, 512 are
/// open at most.
const LOOKS_AT_ONCE_MAX: usize = 256;

/// What this node knows for looks at others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LookParts {
    /// `host:port` of each ResourceManager's service for clients. Without any, the directory has
    /// the nodes of the ResourceManager's lists.
    pub rm_clients: Vec<String>,
    /// User as which this node asks the ResourceManager.
    pub user: String,
    /// Settings at the start.
    pub settings: LookSettings,
}

/// Settings of looks, which may change while the node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookSettings {
    /// Opportunistic containers that may wait on a node by this node's own configuration; nodes of
    /// a cluster are configured alike. `None`: no limit.
    pub queue_length_max: Option<usize>,
    /// Longest time that a call of an AM waits for its looks, all together. At most 30 s count.
    pub wait_max: Duration,
    /// Whether containers are bound late, by reservations, where nodes take them.
    pub binds_late: bool,
}

impl Default for LookSettings {
    /// Returns the settings of a node that waits for 20 ms.
    fn default() -> Self {
        Self {
            queue_length_max: None,
            wait_max: Duration::from_millis(20),
            binds_late: false,
        }
    }
}

impl LookSettings {
    fn bounded(self) -> Self {
        Self {
            wait_max: self.wait_max.min(WAIT_MAX),
            ..self
        }
    }
}

/// Looks of a node. Clones share everything.
#[derive(Clone)]
pub(crate) struct NodeLooks(Arc<Shared>);

struct Shared {
    directory: Mutex<Directory>,
    connections: Connections,
    places: Arc<Semaphore>,
    endpoints: Option<Arc<Endpoints>>,
    user: String,
    placement: Mutex<Placement>,
    settings: Mutex<LookSettings>,
    choices: Mutex<Choices>,
    /// Limit that the ResourceManager published last; `u64::MAX` for none.
    queue_limit: AtomicU64,
    /// Whether a task closes unused connections.
    is_sweeping: AtomicBool,
    clock: Arc<ReadClock>,
    store: Arc<dyn Store>,
    binding: LateBinding,
}

impl fmt::Debug for NodeLooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NodeLooks").field(&self.settings()).finish()
    }
}

/// Returns a random number from 0 to `bound`.
fn draw(bound: u64) -> u64 {
    rand::rng().random_range(0..=bound)
}

impl NodeLooks {
    /// `found`: what this node knew of the cluster's nodes before a restart of the agent.
    pub(crate) fn new(
        parts: LookParts,
        placement: Placement,
        clock: Arc<ReadClock>,
        (store, found): (Arc<dyn Store>, Option<Vec<u8>>),
        binding: LateBinding,
    ) -> Self {
        let LookParts {
            rm_clients: rms,
            user,
            settings,
        } = parts;
        let directory = found.map(|found| stored::decode(&found, clock()));
        let directory = match directory {
            Some(Ok(directory)) => directory,
            Some(Err(error)) => {
                tracing::info!(%error, "the stored nodes of the cluster are not used");
                Directory::default()
            }
            None => Directory::default(),
        };
        Self(Arc::new(Shared {
            directory: Mutex::new(directory),
            connections: Connections::default(),
            places: Arc::new(Semaphore::new(LOOKS_AT_ONCE_MAX)),
            endpoints: (!rms.is_empty()).then(|| Arc::new(Endpoints::new(rms))),
            user,
            placement: Mutex::new(placement),
            settings: Mutex::new(settings.bounded()),
            choices: Mutex::default(),
            queue_limit: AtomicU64::new(u64::MAX),
            is_sweeping: AtomicBool::new(false),
            clock,
            store,
            binding,
        }))
    }

    /// Sets the limit on waiting containers that the ResourceManager published; `None`: no limit.
    pub(crate) fn set_queue_limit(&self, length: Option<usize>) {
        let length = length.and_then(|length| u64::try_from(length).ok());
        let length = length.unwrap_or(u64::MAX);
        self.0.queue_limit.store(length, Ordering::Relaxed);
    }

    fn settings(&self) -> LookSettings {
        self.0.settings()
    }

    /// Returns the present choice of nodes.
    pub(crate) fn placement(&self) -> Placement {
        *lock(&self.0.placement)
    }

    /// Changes the choice of nodes and the settings. Schedulers hear of another choice before their
    /// next call.
    pub(crate) fn change(&self, placement: Placement, settings: LookSettings) {
        *lock(&self.0.placement) = placement;
        *lock(&self.0.settings) = settings.bounded();
    }

    /// Returns how the node of a container was chosen, if that is remembered.
    pub(crate) fn choice_of(&self, container: ContainerName) -> Option<Choice> {
        lock(&self.0.choices).of(container).cloned()
    }

    /// Returns the most containers that may wait on a node; `None`: no limit.
    fn max_queue_length(&self) -> Option<usize> {
        let published = self.0.queue_limit.load(Ordering::Relaxed);
        let published = usize::try_from(published).unwrap_or(usize::MAX);
        let own = self.settings().queue_length_max.unwrap_or(usize::MAX);
        Some(published.min(own)).filter(|limit| *limit < usize::MAX)
    }

    /// Asks the ResourceManager for all nodes, if that is due. Does not wait.
    fn want_nodes(&self, cluster: Option<u64>) {
        let Some(endpoints) = &self.0.endpoints else {
            return;
        };
        let now = (self.0.clock)().mono;
        if !self.0.directory().wanted(cluster, now, draw) {
            return;
        }
        let (looks, endpoints) = (self.clone(), Arc::clone(endpoints));
        tokio::spawn(async move {
            let user = looks.0.user.clone();
            let answer = cluster_nodes::ask(endpoints, user).await;
            let now = (looks.0.clock)();
            let mut directory = looks.0.directory();
            match answer {
                Ok(answer) => {
                    let nodes = answer.nodes.len();
                    tracing::debug!(nodes, bytes = answer.bytes, "the cluster's nodes are known");
                    let bytes = u64::try_from(answer.bytes).unwrap_or(u64::MAX);
                    if directory.answered(answer.nodes, bytes, now.mono, draw) {
                        looks
                            .0
                            .store
                            .put_nodes(Some(stored::encode(&directory, now)));
                    }
                }
                Err(error) => {
                    let is_first = directory.failed(now.mono, draw);
                    drop(directory);
                    if is_first {
                        tracing::warn!(
                            error = error_chain(&error),
                            "the ResourceManager does not tell this node the cluster's nodes; \
                             opportunistic containers go to those of its lists"
                        );
                    }
                }
            }
        });
    }

    /// Notes the epoch of the ResourceManager.
    fn note_resource_manager(&self, epoch: Option<i64>) {
        // Stored in the order of what is known.
        let mut directory = self.0.directory();
        if directory.resource_manager(epoch) {
            self.0.store.put_nodes(None);
        }
    }

    /// Looks at nodes, all at once. Returns what they answer in time.
    async fn look(&self, nodes: Vec<KnownNode>) -> Looks {
        let began = Instant::now();
        let mut answers = self.start(&nodes);
        let mut looks = Looks {
            answers: Vec::with_capacity(nodes.len()),
            late: Vec::new(),
            asked: answers.asked.len(),
            max_queue_length: self.max_queue_length(),
            took: Duration::ZERO,
        };
        let deadline = began + self.settings().wait_max;
        let mut outcomes: BTreeMap<usize, Outcome> = BTreeMap::new();
        outcomes.extend(
            answers
                .asked
                .iter()
                .map(|position| (*position, Outcome::Late)),
        );
        while let Ok(Some((position, answer))) = timeout_at(deadline, answers.arriving.recv()).await
        {
            let outcome = answer.map_or(Outcome::Failed, |_| Outcome::Answered);
            outcomes.insert(position, outcome);
            looks.answers.extend(answer.map(|load| (position, load)));
        }
        looks.took = began.elapsed();
        looks.late = self.late(&nodes, &outcomes);
        self.note(&nodes, &outcomes);
        looks
    }

    /// Returns the positions of nodes that have not answered in time, but speak.
    fn late(&self, nodes: &[KnownNode], outcomes: &BTreeMap<usize, Outcome>) -> Vec<usize> {
        let late = outcomes
            .iter()
            .filter(|(_, outcome)| **outcome == Outcome::Late);
        let directory = self.0.directory();
        let late = late.filter(|(at, _)| directory.speaks(&nodes[**at].node().node_id));
        late.map(|(at, _)| *at).collect()
    }

    /// Starts the looks for which there are places. Those that are late go on.
    fn start(&self, nodes: &[KnownNode]) -> Answers {
        let (sender, arriving) = mpsc::channel(nodes.len().max(1));
        let mut asked = Vec::with_capacity(nodes.len());
        for (position, known) in nodes.iter().enumerate() {
            let Ok(place) = Arc::clone(&self.0.places).try_acquire_owned() else {
                break;
            };
            asked.push(position);
            let (looks, known, sender) = (self.clone(), known.clone(), sender.clone());
            tokio::spawn(async move {
                let answer = looks.0.look_at(&known).await;
                let is_answered = answer.is_some();
                if sender.try_send((position, answer)).is_err() {
                    let now = (looks.0.clock)().mono;
                    let node = &known.node().node_id;
                    looks.0.directory().ended_late(node, is_answered, now);
                }
                drop(place);
            });
        }
        self.sweep_later();
        Answers { asked, arriving }
    }

    /// Notes who has answered, for the next looks.
    fn note(&self, nodes: &[KnownNode], outcomes: &BTreeMap<usize, Outcome>) {
        let results = outcomes.iter();
        let results = results.map(|(at, outcome)| (&nodes[*at].node().node_id, *outcome));
        let now = (self.0.clock)().mono;
        let change = self.0.directory().looked(results, now);
        match change {
            Some(Change::Blind) => tracing::warn!(
                "no node answers at its web port (/jmx), so opportunistic containers are placed \
                 without looking; yarn.nodemanager.agent.amrmproxy.placement may be spread as well"
            ),
            Some(Change::Sees) => tracing::info!("nodes answer looks again"),
            None => {}
        }
    }

    /// Closes connections that are not used any more, by a task that ends with the last of them.
    fn sweep_later(&self) {
        if self.0.is_sweeping.swap(true, Ordering::Relaxed) {
            return;
        }
        let shared = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            loop {
                sleep(KEPT_FOR / 2).await;
                let Some(shared) = Weak::upgrade(&shared) else {
                    return;
                };
                // Set first: a look from here on starts the next task.
                shared.is_sweeping.store(false, Ordering::Relaxed);
                if shared.connections.close_unused() == 0
                    || shared.is_sweeping.swap(true, Ordering::Relaxed)
                {
                    return;
                }
            }
        });
    }
}

/// Answers to looks that were started.
struct Answers {
    /// Positions of the nodes that are asked.
    asked: Vec<usize>,
    /// Loads with the positions of their nodes; `None` for a failure.
    arriving: mpsc::Receiver<(usize, Option<LookAnswer>)>,
}

impl Shared {
    fn directory(&self) -> MutexGuard<'_, Directory> {
        lock(&self.directory)
    }

    fn settings(&self) -> LookSettings {
        *lock(&self.settings)
    }

    /// Asks a node for its load; `None` if it does not answer.
    async fn look_at(&self, known: &KnownNode) -> Option<LookAnswer> {
        let node = known.node();
        let deadline = Instant::now() + ANSWER_MAX.max(self.settings().wait_max);
        let load = timeout_at(deadline, self.load_of(node, deadline)).await;
        let load = load.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        let load = load.inspect_err(|error| {
            tracing::debug!(node = %node.node_id, error, "a node does not answer a look");
        });
        load.ok()
    }

    async fn load_of(&self, node: &RemoteNode, deadline: Instant) -> Result<LookAnswer, String> {
        let address = &node.http_address;
        let get = |question| self.connections.get(address, question, deadline);
        let capability = self.directory().capability(&node.node_id);
        let asked_at = || (self.clock)().mono;
        let seen_at = asked_at();
        let answer = get(jmx::QUESTION).await;
        let answer = answer.map_err(|error| error_chain(&error))?;
        let is_other = |name: &str| self.is_other_host(name, &node.node_id);
        let told = jmx::read_numbers(&answer, seen_at, is_other);
        let offers = match told.map_err(|error| error_chain(&error))? {
            Told::Load(sight) => {
                let bounded = capability.map_or(sight, |offered| jmx::within(sight, offered));
                return Ok(LookAnswer::Seen(bounded));
            }
            Told::Offers(offers) => capability.unwrap_or(offers),
        };
        let seen_at = asked_at();
        let sight = match get(container_list::QUESTION).await {
            Ok(answer) => container_list::read_list(&answer, offers, seen_at)
                .map_err(|error| error_chain(&error)),
            Err(error) => Err(error_chain(&error)),
        };
        Ok(sight.map_or_else(
            |error| {
                tracing::debug!(node = %node.node_id, error, "a node does not list its containers");
                LookAnswer::Unknown { free: offers }
            },
            LookAnswer::Seen,
        ))
    }

    fn is_other_host(&self, name: &str, node: &NodeId) -> bool {
        self.directory().is_other_host(name, node)
    }
}
