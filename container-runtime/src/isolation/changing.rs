//! The thread that changes limits of running containers and of their classes, and moves containers between these. What it
//! writes may take as long as pressing memory back does, so it holds no lock meanwhile that a kill or a freeze needs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cgroup::{Cgroup, CgroupError, Limits};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use records::{ContainerId, ExecutionType};
use sched::ContainerSpec;

use super::rules::MIB;
use super::shared::Shared;
use super::table::{Groups, held_bytes};

/// Between two times that the limits of the classes are brought up to date. With hundreds of containers starting and ending
/// in a second, one write does for several of them, and no memory to speak of is used in so short a time.
const CLASSES_INTERVAL: Duration = Duration::from_millis(10);
/// Between two looks at what promoted and demoted containers have left in their former class.
const FORMER_INTERVAL: Duration = Duration::from_secs(5);
/// Processes moved before it is looked whether the container is to be killed or frozen: a few milliseconds' worth.
const MOVED_AT_ONCE: usize = 64;
/// Rounds of moving, after which what forks faster than it is moved has to stand still for it.
const FREE_ROUNDS: usize = 64;
/// Rounds altogether: more processes than one can have.
const ROUNDS_MAX: usize = 1_024;

/// What is ordered. A changed limit is ordered again only when the last order was carried out.
#[derive(Debug)]
pub(super) enum Change {
    /// The sums over the classes have changed.
    Classes,
    /// A container's size or type has changed.
    Container(ContainerId),
}

pub(super) struct Changer {
    shared: Arc<Shared>,
    /// When the limits of the classes are to be brought up to date.
    classes_at: Option<Instant>,
    /// Not before this.
    classes_next: Instant,
    /// Containers that have a former cgroup, and what was known to be counted there, in bytes.
    moved: BTreeMap<ContainerId, u64>,
    /// When it is looked at those.
    former_at: Instant,
}

impl Changer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let now = Instant::now();
        Self {
            shared,
            classes_at: None,
            classes_next: now,
            moved: BTreeMap::new(),
            former_at: now,
        }
    }

    /// Until nobody can order any more.
    pub(super) fn serve(mut self, changes: &Receiver<Change>) {
        loop {
            let former_at = (!self.moved.is_empty()).then_some(self.former_at);
            let received = match [self.classes_at, former_at].into_iter().flatten().min() {
                Some(at) => changes.recv_deadline(at),
                None => changes.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match received {
                Ok(Change::Classes) => self.classes_at = Some(self.classes_next),
                Ok(Change::Container(id)) => self.change(id),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.do_what_is_due(Instant::now());
        }
    }

    fn do_what_is_due(&mut self, now: Instant) {
        if !self.moved.is_empty() && self.former_at <= now {
            self.look_at_former();
            self.former_at = Instant::now() + FORMER_INTERVAL;
        }
        if self.classes_at.is_some_and(|at| at <= now) {
            self.classes_at = None;
            self.shared.classes_due.begin();
            self.shared.apply_classes();
            self.classes_next = Instant::now() + CLASSES_INTERVAL;
        }
    }

    pub(super) fn change(&mut self, id: ContainerId) {
        self.shared.table.update_begins(id);
        let asked = self.shared.with_groups(id, |spec, groups| {
            let (class, group) = groups.current.clone()?;
            Some((*spec, class, group))
        });
        // One that is only being launched is made as it is asked for now.
        let Some(Some((spec, class, group))) = asked else {
            return;
        };
        let changed = if class == spec.execution_type {
            group.apply(&self.shared.rules.container(&spec))
        } else {
            self.shared.change_class(&spec, &group)
        };
        if let Err(error) = changed {
            self.say(id, &error, "limits cannot be changed");
        }
        self.settle(id);
    }

    /// A container that ends takes its files with it.
    fn say(&self, id: ContainerId, error: &CgroupError, what: &str) {
        let lives = self.shared.with_groups(id, |_, groups| !groups.ending);
        let error = crate::error_chain(error);
        if lives == Some(true) {
            tracing::error!(container = %id, error, "{what}");
        } else {
            tracing::debug!(container = %id, error, "{what}: it is ending");
        }
    }

    /// Counts a container where it is now, with what it left behind.
    fn settle(&mut self, id: ContainerId) {
        let found = self.shared.with_groups(id, |spec, groups| {
            let (class, _) = groups.current.as_ref()?;
            Some((*spec, *class, groups.former.clone()))
        });
        let Some(Some((spec, class, former))) = found else {
            self.moved.remove(&id);
            return;
        };
        let held = match &former {
            Some(group) => held_bytes(group).unwrap_or(0),
            None => 0,
        };
        if let Some(group) = &former {
            if self.shared.rules.config.memory
                && let Err(error) = group.apply(&protection(class, held))
            {
                self.say(id, &error, "what it left behind is not protected");
            }
            if self.moved.is_empty() {
                self.former_at = Instant::now() + FORMER_INTERVAL;
            }
            self.moved.insert(id, held);
        }
        let share = self.shared.rules.share(&spec, class, held);
        self.shared.table.count(id, share);
        self.classes_at = Some(self.classes_next);
    }

    /// What was left in a former class may have been freed, and who could not be moved may have to be moved still.
    pub(super) fn look_at_former(&mut self) {
        let known: Vec<_> = self.moved.iter().map(|(id, held)| (*id, *held)).collect();
        for (id, known) in known {
            let former = self
                .shared
                .with_groups(id, |_, groups| groups.former.clone());
            let Some(Some(former)) = former else {
                self.moved.remove(&id);
                continue;
            };
            let mut changed = false;
            if former.is_populated().unwrap_or(false) {
                changed = true;
                if let Err(error) = self.shared.move_processes(id) {
                    let error = crate::error_chain(&error);
                    tracing::debug!(container = %id, error, "it still cannot be moved");
                }
            }
            let held = held_bytes(&former).unwrap_or(0);
            if changed || held.abs_diff(known) >= MIB {
                self.settle(id);
            }
        }
    }
}

/// What is counted in a class that a container has left is its own if it is promised its memory now. Else it is nobody's.
fn protection(class: ExecutionType, held: u64) -> Limits {
    Limits {
        memory_low: Some(match class {
            ExecutionType::Guaranteed => held,
            ExecutionType::Opportunistic => 0,
        }),
        ..Limits::default()
    }
}

impl Shared {
    /// Moves a promoted or demoted container to its class.
    fn change_class(&self, spec: &ContainerSpec, from: &Cgroup) -> Result<(), CgroupError> {
        let to = self.parent(spec.execution_type).create(from.name())?;
        let limited = to.apply(&self.rules.container(spec));
        let entered = limited.and_then(|()| {
            let entered = self.with_groups(spec.id, |_, groups| {
                enter_class(groups, spec.execution_type, &to)
            });
            entered.unwrap_or(Ok(false))
        });
        if matches!(entered, Ok(true)) {
            return self.move_processes(spec.id);
        }
        // It stays where it is, or ends there. Fine if somebody else has removed it.
        if let Err(error) = to.remove() {
            tracing::debug!(container = %spec.id, error = crate::error_chain(&error), "a cgroup is not removed");
        }
        entered.map(|_entered| ())
    }

    /// Moves all that is in a container's former cgroup to the current one. It may be killed, frozen and thawed meanwhile.
    fn move_processes(&self, id: ContainerId) -> Result<(), CgroupError> {
        let mut moved = Ok(0);
        for round in 0..ROUNDS_MAX {
            let in_round = self.with_groups(id, |_, groups| move_some(groups, round));
            // None left, or they end where they are.
            let Some(in_round) = in_round else { break };
            moved = in_round;
            if matches!(moved, Ok(0) | Err(_)) {
                break;
            }
        }
        let thawed = self.with_groups(id, |_, groups| match &groups.former {
            Some(from) if !groups.ending => told(from, groups.frozen),
            Some(_) | None => Ok(()),
        });
        match moved? {
            0 => thawed.unwrap_or(Ok(())),
            _ => Err(CgroupError::Timeout {
                operation: "be moved",
                name: id.to_string(),
                waited: Duration::ZERO,
            }),
        }
    }
}

/// From now on both cgroups are killed, frozen and removed with the container. `false`: it ends where it is.
fn enter_class(
    groups: &mut Groups,
    class: ExecutionType,
    to: &Cgroup,
) -> Result<bool, CgroupError> {
    if groups.ending {
        return Ok(false);
    }
    // It may have been here before, with another order.
    told(to, groups.frozen)?;
    let Some((_, from)) = groups.current.take() else {
        return Ok(false);
    };
    groups.current = Some((class, to.clone()));
    groups.former = Some(from);
    Ok(true)
}

/// Tells a cgroup to stand still or to go on. Where nothing can freeze, all go on anyway.
fn told(group: &Cgroup, frozen: bool) -> Result<(), CgroupError> {
    match group.set_frozen(frozen) {
        Err(CgroupError::Unsupported { .. }) if !frozen => Ok(()),
        told => told,
    }
}

fn move_some(groups: &Groups, round: usize) -> Result<usize, CgroupError> {
    let (false, Some((_, to)), Some(from)) = (groups.ending, &groups.current, &groups.former)
    else {
        return Ok(0);
    };
    if round == FREE_ROUNDS
        && let Err(error) = from.set_frozen(true)
    {
        tracing::debug!(
            error = crate::error_chain(&error),
            "what forks while it is moved is not stopped"
        );
    }
    to.move_from(from, MOVED_AT_ONCE)
}
