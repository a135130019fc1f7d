//! The reservations at a node, and the choice of the one that gets its room.

use std::collections::{BTreeMap, BTreeSet};

use records::{ApplicationAttemptId, MonoMillis, Resource};

use super::held::HeldRooms;
use super::shares::Shares;
use super::{
    AnswerError, HELD_MAX_MS, OFFER_LIFE_MS, Offer, OfferAnswer, OfferId, RESERVATION_LIFE_MS,
    RESERVATIONS_MAX, RESERVATIONS_OF_ATTEMPT_MAX, RESERVATIONS_OF_USER_MAX, Reservation,
    ReserveError, SizeKey,
};
use crate::look::fitting;
use crate::rests::Rests;
use crate::run_profile::Digest;

/// Longest rest, in milliseconds, of an attempt for which room was held in vain. The first one is
/// as long as room is held.
const REST_MAX_MS: u64 = 300_000;

/// Attempt with the size of its containers.
pub(super) type Key = (ApplicationAttemptId, SizeKey);

#[derive(Clone, Debug)]
struct Entry<P> {
    from: P,
    user: Digest,
    /// Tasks that wait, as told last.
    waiting: u32,
    /// Containers that open offers have room for.
    offered: u32,
    /// Expected run in milliseconds, at least 1.
    expected_ms: u64,
    /// Time at which the reservation came, or at which a task was bound here last.
    since: MonoMillis,
    /// Time of the last news of it.
    told: MonoMillis,
}

impl<P> Entry<P> {
    /// Returns the tasks that a further offer may be for.
    const fn open(&self) -> u32 {
        self.waiting.saturating_sub(self.offered)
    }

    /// Returns what is left of the attempt in milliseconds of run.
    fn left_ms(&self) -> u64 {
        self.expected_ms.saturating_mul(self.waiting.into())
    }
}

/// Reservations at a node. `P` names proxies.
///
/// The node's side of late binding: who gets room is decided here, and nowhere else. The caller
/// says how much room there is that nothing queued takes, and sends the offers. It asks again after
/// each reservation, answer, arrival, end and deadline, until there is no offer.
#[derive(Clone, Debug)]
pub struct ReservationTable<P> {
    /// Expected runs that an attempt may wait here for others with less left.
    bound_factor: u32,
    /// Expected run of containers of which nothing is known, in milliseconds.
    unknown_run_ms: u64,
    entries: BTreeMap<Key, Entry<P>>,
    /// Entries that may get an offer, by what is left and since when they wait.
    by_left: BTreeSet<(u64, MonoMillis, Key)>,
    /// The same by the time from which on they go before others.
    by_due: BTreeSet<(u64, Key)>,
    /// Every entry by the time of the last news.
    by_told: BTreeSet<(MonoMillis, Key)>,
    shares: Shares,
    held: HeldRooms<P>,
    /// Attempts for which room was held in vain.
    rests: Rests<ApplicationAttemptId>,
    last_offer: u64,
}

impl<P: Clone + Ord> ReservationTable<P> {
    /// Creates the table of a node. An attempt gets the next room once it has waited for
    /// `bound_factor` times its expected run (`yarn.nodemanager.agent.queue.bound-factor`).
    #[must_use]
    pub const fn new(bound_factor: u32) -> Self {
        Self {
            bound_factor,
            unknown_run_ms: 1,
            entries: BTreeMap::new(),
            by_left: BTreeSet::new(),
            by_due: BTreeSet::new(),
            by_told: BTreeSet::new(),
            shares: Shares::new(),
            held: HeldRooms::new(),
            rests: Rests::new(HELD_MAX_MS, REST_MAX_MS, RESERVATIONS_MAX),
            last_offer: 0,
        }
    }

    /// Sets the milliseconds that containers of which nothing is known are expected to run: the
    /// mean of this node. Counts for what is told from now on.
    pub const fn set_unknown_run_ms(&mut self, unknown_run_ms: u64) {
        self.unknown_run_ms = unknown_run_ms;
    }

    /// Sets the number of expected runs after which an attempt gets the next room, for those that
    /// wait as well.
    pub fn set_bound_factor(&mut self, bound_factor: u32) {
        if self.bound_factor == bound_factor {
            return;
        }
        let all: Vec<Key> = self.entries.keys().copied().collect();
        let all: Vec<_> = all
            .into_iter()
            .filter_map(|key| Some((key, self.remove(key)?)))
            .collect();
        self.bound_factor = bound_factor;
        for (key, entry) in all {
            self.insert(key, entry);
        }
    }

    /// Takes a reservation, or news of one. One that was there keeps the time since when it waits.
    ///
    /// # Errors
    /// The size is none, or the reservation would be one too many. Nothing has changed then, but
    /// that what is over has expired and what is given back is free. On a full node the user with
    /// the most reservations loses one to a user who has fewer.
    pub fn reserve(
        &mut self,
        from: P,
        reservation: &Reservation,
        now: MonoMillis,
    ) -> Result<(), ReserveError> {
        let Reservation { attempt, user, .. } = *reservation;
        let size = reservation.size;
        if size.memory_mb == 0 || size.vcores == 0 {
            return Err(ReserveError::NoSize(size));
        }
        self.expire(now);
        let key = (attempt, size.into());
        for _ in 0..reservation.given_back {
            if !self.held.release(attempt, key.1) {
                break;
            }
        }
        let before = self.remove(key);
        if reservation.waiting == 0 {
            return Ok(());
        }
        if before.is_none() {
            self.make_place(attempt, user)?;
        }
        let (since, offered) = before.map_or((now, 0), |entry| (entry.since, entry.offered));
        let entry = Entry {
            from,
            user,
            waiting: reservation.waiting,
            offered,
            expected_ms: reservation.run.expected_ms(self.unknown_run_ms),
            since,
            told: now,
        };
        self.insert(key, entry);
        Ok(())
    }

    /// Sees to it that there is a place for one more.
    fn make_place(
        &mut self,
        attempt: ApplicationAttemptId,
        user: Digest,
    ) -> Result<(), ReserveError> {
        if self.of_attempt(attempt).count() >= RESERVATIONS_OF_ATTEMPT_MAX {
            return Err(ReserveError::AttemptFull);
        }
        if self.shares.count(&user) >= RESERVATIONS_OF_USER_MAX {
            return Err(ReserveError::UserFull);
        }
        if self.entries.len() >= RESERVATIONS_MAX {
            let loser = self.shares.gives_way(&user);
            self.remove(loser.ok_or(ReserveError::NodeFull)?);
        }
        Ok(())
    }

    fn of_attempt(&self, attempt: ApplicationAttemptId) -> impl Iterator<Item = Key> + '_ {
        let size = |memory_mb, vcores| SizeKey { memory_mb, vcores };
        let range = (attempt, size(0, 0))..=(attempt, size(u64::MAX, u32::MAX));
        self.entries.range(range).map(|(key, _)| *key)
    }

    /// Offers room. `room`: what no container takes, running or queued. What is offered or held
    /// already is subtracted here. `None`: there is no room, or nobody for it.
    ///
    /// A reservation that has waited beyond its bound goes first, for one container; else the one
    /// whose attempt has the least left, for as many as there is room for.
    pub fn offer(&mut self, room: Resource, now: MonoMillis) -> Option<Offer<P>> {
        self.expire(now);
        let free = room.saturating_sub(self.held.total());
        if free.memory_mb == 0 || free.vcores == 0 {
            return None;
        }
        let fits = |key: &Key| key.1.size().fits_in(free) && !self.rests.has(&key.0, now);
        let due = self
            .by_due
            .iter()
            .take_while(|(due_ms, _)| *due_ms <= now.0);
        let due = due.map(|(_, key)| *key).find(fits);
        let (key, most) = match due {
            Some(key) => (key, 1),
            None => {
                let mut by_left = self.by_left.iter().map(|(.., key)| *key);
                (by_left.find(fits)?, u32::MAX)
            }
        };
        let mut entry = self.remove(key)?;
        let size = key.1.size();
        let rooms = fitting(size, free).min(entry.open()).min(most);
        entry.offered += rooms;
        self.last_offer += 1;
        let offer = Offer {
            id: OfferId(self.last_offer),
            to: entry.from.clone(),
            attempt: key.0,
            size,
            rooms,
        };
        self.insert(key, entry);
        let to = (offer.to.clone(), offer.attempt);
        let until = MonoMillis(now.0.saturating_add(OFFER_LIFE_MS));
        self.held.insert(offer.id, to, (key.1, rooms), until);
        Some(offer)
    }

    /// Takes the answer to an offer. Room to which tasks are bound is held for them, up to
    /// [`HELD_MAX_MS`]; the rest is free.
    ///
    /// # Errors
    /// The offer is not open, or was made to another proxy. Nothing has changed then, but that what
    /// is over has expired.
    pub fn answered(
        &mut self,
        from: &P,
        id: OfferId,
        answer: OfferAnswer,
        now: MonoMillis,
    ) -> Result<(), AnswerError> {
        self.expire(now);
        let open = self.held.open(id).ok_or(AnswerError::NotOpen(id))?;
        if open.to != *from {
            return Err(AnswerError::NotYours(id));
        }
        let (key, offered) = ((open.attempt, open.size), open.rooms);
        let bound = answer.bound.min(offered);
        let until = now.0.saturating_add(answer.within_ms.min(HELD_MAX_MS));
        self.held.bind(id, bound, MonoMillis(until));
        if let Some(mut entry) = self.remove(key)
            && answer.waiting > 0
        {
            entry.offered = entry.offered.saturating_sub(offered);
            entry.waiting = answer.waiting;
            entry.expected_ms = answer.run.expected_ms(self.unknown_run_ms);
            entry.told = now;
            if bound > 0 {
                entry.since = now;
            }
            self.insert(key, entry);
        }
        Ok(())
    }

    /// Notes that a container of an attempt has come, for which room may be held: from now on it
    /// counts as what the node has. Returns whether room was held.
    pub fn arrived(&mut self, attempt: ApplicationAttemptId, size: Resource) -> bool {
        // A rest goes on, so that nobody buys room with one container of many.
        self.rests.worked(&attempt);
        self.held.release(attempt, size.into())
    }

    /// Forgets an attempt that has ended.
    pub fn forget(&mut self, attempt: ApplicationAttemptId) {
        let keys: Vec<Key> = self.of_attempt(attempt).collect();
        for key in keys {
            self.remove(key);
        }
        self.held.forget(attempt);
        self.rests.forget(&attempt);
    }

    /// Removes what is over: reservations without news, offers without an answer with their
    /// reservations, and room whose containers have not come. An attempt for which room was held in
    /// vain gets no offers for a while.
    pub fn expire(&mut self, now: MonoMillis) {
        for held in self.held.expire(now) {
            if held.is_bound {
                self.rests.begin(held.attempt, now);
            } else {
                self.remove((held.attempt, held.size));
            }
        }
        while let Some((told, key)) = self.by_told.first().copied()
            && now.since(told) >= RESERVATION_LIFE_MS
        {
            self.remove(key);
        }
    }

    /// Returns the time at which room may become free because something is over. Reservations are
    /// no reason: nothing follows from the end of one.
    #[must_use]
    pub fn next_deadline(&self) -> Option<MonoMillis> {
        self.held.next_deadline()
    }

    /// Returns the room that is offered or held.
    #[must_use]
    pub const fn held(&self) -> Resource {
        self.held.total()
    }

    /// Returns the number of reservations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is no reservation.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn due_ms(&self, entry: &Entry<P>) -> u64 {
        let bound_ms = entry.expected_ms.saturating_mul(self.bound_factor.into());
        entry.since.0.saturating_add(bound_ms)
    }

    fn insert(&mut self, key: Key, entry: Entry<P>) {
        if entry.open() > 0 {
            self.by_left.insert((entry.left_ms(), entry.since, key));
            self.by_due.insert((self.due_ms(&entry), key));
        }
        self.by_told.insert((entry.told, key));
        self.shares.insert(entry.user, entry.left_ms(), key);
        self.entries.insert(key, entry);
    }

    fn remove(&mut self, key: Key) -> Option<Entry<P>> {
        let entry = self.entries.remove(&key)?;
        self.by_left.remove(&(entry.left_ms(), entry.since, key));
        self.by_due.remove(&(self.due_ms(&entry), key));
        self.by_told.remove(&(entry.told, key));
        self.shares.remove(entry.user, entry.left_ms(), key);
        Some(entry)
    }
}
