//! What services must learn: applications and containers that run, and a queue for each service.
//! Pure: calls in, events out, in order.
//!
//! A service gets the next event only while few are unanswered, so what a slow one has not taken
//! waits here, and the others go on. A host that begins anew learns what runs by then, and of the
//! applications whose end it may have missed; what began and ended while it was away it never
//! learns of.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use records::{ApplicationId, ContainerId};

use crate::error::DataRefused;

/// Services of one host at most.
pub const SERVICES_MAX: usize = 32;

/// Events of a service that are unanswered, at most: 1,024 of all services together.
const UNDER_WAY_MAX: usize = 1_024 / SERVICES_MAX;

/// Events that wait for a service, at most.
const WAITING_MAX: usize = 16_384;

/// Longest data of an application for a service, in bytes.
const DATA_BYTES_MAX: usize = 1 << 20;

/// Data that is kept of all applications, in bytes.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// A container as services see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerFacts {
    /// Id of the container.
    pub id: ContainerId,
    /// User of the application.
    pub user: Arc<str>,
    /// Memory in mebibytes.
    pub memory_mb: u64,
    /// Virtual cores.
    pub vcores: u32,
    /// Whether it is an ApplicationMaster's.
    pub is_master: bool,
}

/// Event that a service learns of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    ApplicationBegins {
        id: ApplicationId,
        user: Arc<str>,
        data: Arc<[u8]>,
    },
    ApplicationEnds(ApplicationId),
    ContainerBegins(Arc<ContainerFacts>),
    ContainerEnds(Arc<ContainerFacts>),
}

/// Events of one service.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Event>,
    under_way: VecDeque<Event>,
    /// Sequence of the first event under way.
    sequence: u64,
    runs: bool,
}

/// An application that has brought data.
#[derive(Debug)]
struct Application {
    user: Arc<str>,
    /// Last data by the index of the service.
    data: BTreeMap<usize, Arc<[u8]>>,
}

/// Events that services must learn of.
#[derive(Debug)]
pub(crate) struct Model {
    queues: Vec<Queue>,
    applications: BTreeMap<ApplicationId, Application>,
    containers: BTreeMap<ContainerId, Arc<ContainerFacts>>,
    kept_bytes: usize,
    /// Service that is asked first for the next event.
    turn: usize,
    /// A service whose queue is full.
    lagging: Option<usize>,
}

impl Model {
    /// Returns the model of so many services, none of which runs.
    pub(crate) fn new(services: usize) -> Self {
        Self {
            queues: (0..services).map(|_| Queue::default()).collect(),
            applications: BTreeMap::new(),
            containers: BTreeMap::new(),
            kept_bytes: 0,
            turn: 0,
            lagging: None,
        }
    }

    /// Takes what a container brings for a service.
    ///
    /// # Errors
    /// The data is longer than what is kept; the service does not learn of it.
    pub(crate) fn application_begins(
        &mut self,
        service: usize,
        id: ApplicationId,
        user: &Arc<str>,
        data: &[u8],
    ) -> Result<(), DataRefused> {
        if data.len() > DATA_BYTES_MAX {
            return Err(DataRefused::Long(data.len(), DATA_BYTES_MAX));
        }
        let known = self.applications.get(&id);
        let before = known.and_then(|known| known.data.get(&service)).cloned();
        let freed = before.as_ref().map_or(0, |data| data.len());
        let kept = self.kept_bytes - freed + data.len();
        if kept > KEPT_BYTES_MAX {
            return Err(DataRefused::Full(KEPT_BYTES_MAX));
        }
        // Every container of an application brings the same.
        let same = before.filter(|before| before[..] == *data);
        let data = same.unwrap_or_else(|| data.into());
        let application = self.applications.entry(id).or_insert_with(|| Application {
            user: Arc::clone(user),
            data: BTreeMap::new(),
        });
        application.data.insert(service, Arc::clone(&data));
        self.kept_bytes = kept;
        let user = Arc::clone(&application.user);
        self.push(service, Event::ApplicationBegins { id, user, data });
        Ok(())
    }

    /// Takes the end of an application, of which every service learns, also one that never saw it.
    pub(crate) fn application_ends(&mut self, id: ApplicationId) {
        let ended = self.applications.remove(&id);
        let data = ended.iter().flat_map(|ended| ended.data.values());
        self.kept_bytes -= data.map(|data| data.len()).sum::<usize>();
        self.push_all(&Event::ApplicationEnds(id));
    }

    /// Takes the beginning of a container.
    pub(crate) fn container_begins(&mut self, facts: ContainerFacts) {
        let facts = Arc::new(facts);
        self.containers.insert(facts.id, Arc::clone(&facts));
        self.push_all(&Event::ContainerBegins(facts));
    }

    /// Takes the end of a container.
    pub(crate) fn container_ends(&mut self, facts: ContainerFacts) {
        self.containers.remove(&facts.id);
        self.push_all(&Event::ContainerEnds(Arc::new(facts)));
    }

    fn push_all(&mut self, event: &Event) {
        for service in 0..self.queues.len() {
            self.push(service, event.clone());
        }
    }

    fn push(&mut self, service: usize, event: Event) {
        let Some(queue) = self.queues.get_mut(service) else {
            return;
        };
        // What runs is told again when the service begins.
        if !queue.runs && !matches!(event, Event::ApplicationEnds(_)) {
            return;
        }
        if queue.waiting.len() >= WAITING_MAX {
            if queue.runs {
                self.lagging = Some(service);
                return;
            }
            queue.waiting.pop_front();
        }
        queue.waiting.push_back(event);
    }

    /// Begins anew with a host in which no service runs.
    pub(crate) fn host_ended(&mut self) {
        self.lagging = None;
        for queue in &mut self.queues {
            queue.runs = false;
            let under_way = std::mem::take(&mut queue.under_way);
            let left = under_way.into_iter().chain(queue.waiting.drain(..));
            let ends = left.filter(|event| matches!(event, Event::ApplicationEnds(_)));
            queue.waiting = ends.collect();
            queue.sequence = 0;
        }
    }

    /// Lets all services of a host run: each learns of the containers and applications of now.
    pub(crate) fn host_runs(&mut self) {
        for (service, queue) in self.queues.iter_mut().enumerate() {
            queue.runs = true;
            let containers = self.containers.values();
            let containers = containers.map(|facts| Event::ContainerBegins(Arc::clone(facts)));
            let data = self.applications.iter();
            let data = data.filter_map(|(id, application)| {
                Some(Event::ApplicationBegins {
                    id: *id,
                    user: Arc::clone(&application.user),
                    data: Arc::clone(application.data.get(&service)?),
                })
            });
            // An application that ended cannot be among those that run: its end comes first.
            queue.waiting.extend(containers.chain(data));
        }
    }

    /// Returns the next event for a service that may get one: its index, its sequence and itself.
    pub(crate) fn next(&mut self) -> Option<(usize, u64, Event)> {
        let count = self.queues.len();
        for offset in 0..count {
            let service = (self.turn + offset) % count;
            let queue = &mut self.queues[service];
            if !queue.runs || queue.under_way.len() >= UNDER_WAY_MAX {
                continue;
            }
            let Some(event) = queue.waiting.pop_front() else {
                continue;
            };
            let sequence = queue.sequence + queue.under_way.len() as u64;
            queue.under_way.push_back(event.clone());
            self.turn = (service + 1) % count;
            return Some((service, sequence, event));
        }
        None
    }

    /// Takes a service's answer to its oldest event. Returns whether it is one.
    #[must_use]
    pub(crate) fn done(&mut self, service: usize, sequence: u64) -> bool {
        let Some(queue) = self.queues.get_mut(service) else {
            return false;
        };
        let is_next = queue.sequence == sequence && queue.under_way.pop_front().is_some();
        queue.sequence += u64::from(is_next);
        is_next
    }

    /// Returns a service that does not take its events any more.
    pub(crate) const fn lagging(&self) -> Option<usize> {
        self.lagging
    }
}

#[cfg(test)]
mod tests;
