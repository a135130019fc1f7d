//! Effects of a new ResourceManager on opportunistic containers.
//!
//! A new ResourceManager learns of running containers from their nodes, and of no others. It
//! ignores containers on nodes that it does not know, which directly after a restart are all nodes.
//! A node that has registered with it refuses tokens that name its predecessor. So containers that
//! the AM has not received are taken back: they are requested again and get new ids, on nodes that
//! the new ResourceManager offers. Nothing is allocated before this node, too, has registered with
//! the new ResourceManager.

use records::MonoMillis;
use sched::DistributedAllocation;

use super::{CallInProgress, DistributedScheduler};
use crate::call::Request;
use crate::interceptor::Context;
use crate::node_keys::NodeTokenKeys;
use crate::rm_forwarder::AllocatedContainers;

/// Time within which a node registers with a new ResourceManager, in milliseconds; attempts are
/// seconds apart. After it the node's registration is assumed to be the current one.
const REGISTRATION_MAX_MS: u64 = 60_000;

/// State that decides whether this node's keys match the current ResourceManager.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SigningKeys {
    /// ResourceManager identifier in the node's keys at the last answered call.
    rm_identifier: Option<i64>,
    /// Identifier of the previous ResourceManager, whose keys are unusable, and the time until
    /// which that holds.
    previous: Option<(i64, MonoMillis)>,
}

impl SigningKeys {
    /// Notes the keys that the node had when a call was answered.
    pub(super) fn note_answer(&mut self, keys: Option<&NodeTokenKeys>) {
        self.rm_identifier = keys.map(|keys| keys.rm_identifier).or(self.rm_identifier);
    }

    /// Marks the present keys as those of a previous ResourceManager.
    fn expect_new_rm(&mut self, now: MonoMillis) {
        let previous = self.rm_identifier.map(|rm| (rm, now + REGISTRATION_MAX_MS));
        self.previous = previous;
    }

    /// Returns the keys unless they belong to the previous ResourceManager.
    pub(super) fn usable<'a>(
        &self,
        keys: Option<&'a NodeTokenKeys>,
        now: MonoMillis,
    ) -> Option<&'a NodeTokenKeys> {
        let keys = keys?;
        match self.previous {
            Some((previous, until)) if keys.rm_identifier == previous && now < until => None,
            Some(_) | None => Some(keys),
        }
    }
}

impl DistributedScheduler {
    /// Starts afresh after a registration by the AM itself, which states everything anew and
    /// restarts its response ids.
    pub(super) fn on_registered(&mut self, context: &Context<'_>) {
        self.reset_for_new_rm(Vec::new(), context);
        self.unanswered = None;
        self.last = None;
    }

    /// Starts afresh after a registration by this node for `request`, which is sent without
    /// containers.
    pub(super) fn on_new_rm(&mut self, request: &mut Request, context: &Context<'_>) {
        request.notes.take::<AllocatedContainers>();
        let request_id = match self.in_progress.take() {
            Some(CallInProgress::Next { request_id, .. }) => Some(request_id),
            Some(CallInProgress::Repeat) => self.last.as_ref().map(|last| last.request_id),
            None => None,
        };
        // The AM has the last answer unless it repeats that one's call.
        let repeated = self
            .last
            .take_if(|last| request_id == Some(last.request_id));
        let undelivered = repeated.map_or_else(Vec::new, |last| last.given);
        for given in &undelivered {
            self.live.remove(&given.container.container_id.id);
        }
        self.unanswered = request_id;
        self.in_progress = request_id.map(|request_id| CallInProgress::Next {
            request_id,
            containers: Vec::new(),
        });
        self.reset_for_new_rm(undelivered, context);
    }

    fn reset_for_new_rm(&mut self, undelivered: Vec<DistributedAllocation>, context: &Context<'_>) {
        self.unsaved.asks |= !undelivered.is_empty() || !self.allocator.unconfirmed().is_empty();
        if let Err(error) = self.allocator.ask_again_for(undelivered) {
            tracing::warn!(attempt = %context.attempt, %error, "containers of the previous ResourceManager cannot be requested again");
        }
        self.nm_tokens.forget();
        self.signing.expect_new_rm(context.now.mono);
    }
}
