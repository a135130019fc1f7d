//! One role on one node: counters of its containers there, and the time of the last use (Slider:
//! `NodeEntry`).
//!
//! ```text
//!                  assigned          started
//!   ask ──▶ requested ──▶ starting ──────────▶ live ──┐ released: also counted in releasing
//!                            │                  │     │ until the completion arrives
//!                            └──── ended ───────┴─────┘
//! ```
//!
//! Each method is one row of the table of transitions. The caller knows the phase of every
//! container, so no counter can fall below zero; Slider guesses the phase, floors the counters, and
//! loses count of a second container on the node.

use records::EpochMillis;

use crate::container_outcome::ContainerOutcome;
use crate::role::RoleId;

/// Counters of one role on one node. Only `last_used` and whether anything is live survive a save.
///
/// 40 bytes: a cluster of 100,000 nodes with 20 roles has two million of them. Failure counters
/// stop at 65,535, far above any threshold in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEntry {
    last_used: EpochMillis,
    role: RoleId,
    starting: u32,
    live: u32,
    releasing: u32,
    failed: u16,
    failed_recently: u16,
    start_failed: u16,
    preempted: u16,
    requested: bool,
    listed: bool,
}

const _: () = assert!(size_of::<NodeEntry>() == 40);

/// Phase of a container that the application has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Allocated; the start is not confirmed.
    Starting,
    /// Confirmed as running.
    Live,
}

impl NodeEntry {
    /// Creates the entry of a role that never ran on the node.
    pub(crate) const fn new(role: RoleId) -> Self {
        Self {
            last_used: EpochMillis(0),
            role,
            starting: 0,
            live: 0,
            releasing: 0,
            failed: 0,
            failed_recently: 0,
            start_failed: 0,
            preempted: 0,
            requested: false,
            listed: false,
        }
    }

    /// Creates the entry of a role that was last used at this time and may be asked for again.
    pub(crate) const fn restored(role: RoleId, last_used: EpochMillis) -> Self {
        Self {
            last_used,
            listed: true,
            ..Self::new(role)
        }
    }

    /// Returns the role that the counters are for.
    #[must_use]
    pub const fn role(&self) -> RoleId {
        self.role
    }

    /// Returns the time at which the node last became free of the role; 0 for never. Unchanged
    /// while a container runs.
    #[must_use]
    pub const fn last_used(&self) -> EpochMillis {
        self.last_used
    }

    /// Returns whether an ask for this node is outstanding.
    #[must_use]
    pub const fn is_requested(&self) -> bool {
        self.requested
    }

    /// Returns the number of allocated containers whose start is not confirmed.
    #[must_use]
    pub const fn starting(&self) -> u32 {
        self.starting
    }

    /// Returns the number of running containers, with those that are being released.
    #[must_use]
    pub const fn live(&self) -> u32 {
        self.live
    }

    /// Returns the number of containers whose release is submitted and not completed.
    #[must_use]
    pub const fn releasing(&self) -> u32 {
        self.releasing
    }

    /// Returns the number of running containers that can still be released.
    #[must_use]
    pub const fn active(&self) -> u32 {
        self.live.saturating_sub(self.releasing)
    }

    /// Returns the number of failures charged to the node.
    #[must_use]
    pub const fn failed(&self) -> u16 {
        self.failed
    }

    /// Returns the number of failures charged to the node since the last reset.
    #[must_use]
    pub const fn failed_recently(&self) -> u16 {
        self.failed_recently
    }

    /// Returns the number of failed starts and of failures soon after a start.
    #[must_use]
    pub const fn start_failed(&self) -> u16 {
        self.start_failed
    }

    /// Returns the number of containers evicted on the node.
    #[must_use]
    pub const fn preempted(&self) -> u16 {
        self.preempted
    }

    /// Returns whether a container asked for now would be the only one of the role on the node.
    #[must_use]
    pub const fn is_available(&self) -> bool {
        let remaining = self.live.saturating_add(self.starting);
        !self.requested && remaining <= self.releasing
    }

    /// Returns whether at most one container of the role stays on the node, as anti-affinity wants.
    #[must_use]
    pub const fn is_anti_affine(&self) -> bool {
        let remaining = self.live.saturating_add(self.starting);
        remaining.saturating_sub(self.releasing) <= 1
    }

    /// Returns whether the node is on the role's list of nodes that ran it and may be asked for
    /// again. A listed node is available. Its failures and its state decide whether it is chosen.
    #[must_use]
    pub const fn is_listed(&self) -> bool {
        self.listed
    }

    /// Returns whether the node is free of the role and was last used before this time.
    #[must_use]
    pub fn is_unused_since(&self, time: EpochMillis) -> bool {
        self.is_available() && self.last_used < time
    }

    /// Returns whether a save would lose nothing by leaving the entry out.
    pub(crate) const fn is_blank(&self) -> bool {
        self.live == 0 && self.last_used.0 == 0
    }

    /// Counts an ask for this node, which takes it off the list.
    pub(crate) const fn set_requested(&mut self) {
        debug_assert!(!self.requested, "a node is asked for once per role");
        self.requested = true;
        self.listed = false;
    }

    /// Counts the end of the ask for this node.
    pub(crate) const fn clear_requested(&mut self) {
        debug_assert!(self.requested, "the ask was counted when it was made");
        self.requested = false;
    }

    /// Puts the node back on the list at the place of its last use, if it is free.
    pub(crate) const fn list_if_available(&mut self) {
        self.listed = self.is_available();
    }

    /// Takes over a last use from a history that was loaded late, or that names a node twice: the
    /// most recent counts.
    pub(crate) fn merge_last_use(&mut self, last_used: EpochMillis) {
        self.last_used = self.last_used.max(last_used);
        self.list_if_available();
    }

    /// Counts an accepted container.
    pub(crate) fn add(&mut self, phase: Phase) {
        *self.count_mut(phase) += 1;
        self.listed = false;
    }

    /// Counts the confirmed start of a container.
    pub(crate) fn confirm_start(&mut self) {
        self.remove(Phase::Starting);
        self.add(Phase::Live);
    }

    /// Counts a submitted release. `live` stays until the completion arrives.
    pub(crate) fn submit_release(&mut self) {
        self.releasing += 1;
        debug_assert!(self.releasing <= self.live + self.starting);
    }

    /// Counts the completion of a released container.
    pub(crate) fn complete_release(&mut self, phase: Phase, now: EpochMillis) {
        debug_assert!(self.releasing > 0, "the release was counted");
        self.releasing = self.releasing.saturating_sub(1);
        self.remove(phase);
        self.set_free(now);
    }

    /// Counts the end of a container that was not being released. A failed start, or a failure soon
    /// after the start, costs the node its place on the list.
    pub(crate) fn complete(
        &mut self,
        phase: Phase,
        outcome: ContainerOutcome,
        short_lived: bool,
        now: EpochMillis,
    ) {
        self.remove(phase);
        if outcome.is_charged_to_node() {
            self.failed = self.failed.saturating_add(1);
            self.failed_recently = self.failed_recently.saturating_add(1);
        }
        if short_lived && outcome == ContainerOutcome::Failed {
            self.start_failed = self.start_failed.saturating_add(1);
        }
        if outcome == ContainerOutcome::Preempted {
            self.preempted = self.preempted.saturating_add(1);
        }
        if !(short_lived && outcome.is_charged_to_node()) {
            self.set_free(now);
        }
    }

    /// Forgets the recent failures. Lifetime counters stay.
    pub(crate) const fn reset_failed_recently(&mut self) {
        self.failed_recently = 0;
    }

    fn count_mut(&mut self, phase: Phase) -> &mut u32 {
        match phase {
            Phase::Starting => &mut self.starting,
            Phase::Live => &mut self.live,
        }
    }

    fn remove(&mut self, phase: Phase) {
        let count = self.count_mut(phase);
        debug_assert!(*count > 0, "{phase:?} was counted");
        *count = count.saturating_sub(1);
    }

    /// Notes the last use and lists the node, if no container of the role remains.
    const fn set_free(&mut self, now: EpochMillis) {
        if self.is_available() {
            self.last_used = now;
            self.listed = true;
        }
    }
}

#[cfg(test)]
mod tests;
