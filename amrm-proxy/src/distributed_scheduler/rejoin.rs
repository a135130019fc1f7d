//! What a new ResourceManager changes for opportunistic containers.
//!
//! It knows of those that run, because their nodes tell it, and of no others. It passes over containers on nodes that it does
//! not know, which right after a restart are all, and a node that has registered with it refuses tokens that name the
//! ResourceManager before. So containers that the AM has not got are taken back: they are asked for again, get new ids,
//! and nodes that the new ResourceManager offers. None are given out before this node has registered with it too.

use records::MonoMillis;
use sched::DistributedAllocation;

use super::{DistributedScheduler, NodeTokenKeys, Underway};
use crate::interceptor::{Context, Request};

/// How long a node may take to register with a new ResourceManager, in milliseconds: tries come seconds apart. After that
/// its registration is believed to be the right one.
const REGISTRATION_MAX_MS: u64 = 60_000;

/// Which ResourceManager this node signs for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SigningKeys {
    /// In the keys when a call was answered last.
    rm_identifier: Option<i64>,
    /// The ResourceManager that is no more, and until when its identifier is waited to go.
    gone: Option<(i64, MonoMillis)>,
}

impl SigningKeys {
    /// A call was answered while the node had these keys.
    pub(super) fn answered(&mut self, keys: Option<&NodeTokenKeys>) {
        self.rm_identifier = keys.map(|keys| keys.rm_identifier).or(self.rm_identifier);
    }

    /// There is a new ResourceManager.
    fn renew(&mut self, now: MonoMillis) {
        let gone = self
            .rm_identifier
            .map(|gone| (gone, now + REGISTRATION_MAX_MS));
        self.gone = gone;
    }

    /// The keys, if they are for the ResourceManager that there is.
    pub(super) fn usable<'a>(
        &mut self,
        keys: Option<&'a NodeTokenKeys>,
        now: MonoMillis,
    ) -> Option<&'a NodeTokenKeys> {
        let keys = keys?;
        match self.gone {
            Some((gone, until)) if keys.rm_identifier == gone && now < until => None,
            Some(_) | None => {
                self.gone = None;
                Some(keys)
            }
        }
    }
}

impl DistributedScheduler {
    /// The AM has registered by itself: it states everything anew, and numbers its calls from the beginning.
    pub(super) fn registered(&mut self, context: &Context<'_>) {
        self.begin_again(Vec::new(), context);
        self.unanswered = None;
        self.last = None;
    }

    /// The attempt was registered again for this call, which goes without containers.
    pub(super) fn rejoined(&mut self, request: &mut Request, context: &Context<'_>) {
        request.allocated.clear();
        let request_id = match self.underway.take() {
            Some(Underway::Next { request_id, .. }) => Some(request_id),
            Some(Underway::Repeat) => self.last.as_ref().map(|last| last.request_id),
            None => None,
        };
        // The AM has the last answer unless it repeats that one's call.
        let repeated = self
            .last
            .take_if(|last| request_id == Some(last.request_id));
        let unheard = repeated.map_or_else(Vec::new, |last| last.given);
        for given in &unheard {
            self.live.remove(&given.container.container_id.id);
        }
        self.unanswered = request_id;
        self.underway = request_id.map(|request_id| Underway::Next {
            request_id,
            containers: Vec::new(),
        });
        self.begin_again(unheard, context);
    }

    fn begin_again(&mut self, unheard: Vec<DistributedAllocation>, context: &Context<'_>) {
        self.dirty.asks |= !unheard.is_empty() || !self.allocator.unconfirmed().is_empty();
        if let Err(error) = self.allocator.ask_again_for(unheard) {
            tracing::warn!(attempt = %context.attempt, %error, "containers of a ResourceManager that is no more cannot be asked for again");
        }
        self.nm_tokens.forget();
        self.signing.renew(context.now.mono);
    }
}
