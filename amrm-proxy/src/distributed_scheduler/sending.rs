//! Containers on their way to the ResourceManager: allocated, signed and added to the request.

use bytes::Bytes;
use sched::HostPreferences;

use super::DistributedScheduler;
use super::containers::{ContainerWriter, Terms};
use super::looking::{Effect, LookFirst};
use super::persisted::NEXT_ID;
use crate::call::Request;
use crate::interceptor::{Action, Actions, Context};
use crate::node_keys::NodeTokenKeys;
use crate::rm_forwarder::AllocatedContainers;

impl DistributedScheduler {
    /// Allocates containers and adds them to the request, unless looks come first.
    pub(super) fn allocate(
        &mut self,
        request_id: i32,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Actions<'_, Effect>,
    ) -> Vec<Bytes> {
        let is_sent_again = self.unanswered == Some(request_id);
        if is_sent_again && self.allocator.unconfirmed().is_empty() {
            // The ResourceManager may have executed the call already, and ignores new content in a
            // repetition.
            return Vec::new();
        }
        if self.keys(context).is_none() {
            return Vec::new();
        }
        let preferences = request.notes.take::<HostPreferences>();
        self.allocator
            .set_preferences(preferences.unwrap_or_default());
        match self.look_first(context, actions) {
            LookFirst::NotUsed => {
                self.allocator.allocate(context.now.mono);
            }
            LookFirst::Placed => {}
            LookFirst::Ordered => return Vec::new(),
        }
        self.send(request, context, actions.chain)
    }

    /// Returns the keys that sign containers. An unregistered node cannot sign, and a node
    /// registered with another ResourceManager than the one that gave the grant must not.
    fn keys<'a>(&self, context: &Context<'a>) -> Option<&'a NodeTokenKeys> {
        self.signing.usable(context.keys, context.now.mono)
    }

    /// Adds the containers that the ResourceManager has not confirmed to the request, and returns
    /// them encoded.
    pub(super) fn send(
        &mut self,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) -> Vec<Bytes> {
        let token_life_ms = self.allocator.grant().map(|grant| grant.token_life_ms);
        let (Some(keys), Some(token_life_ms)) = (self.keys(context), token_life_ms) else {
            return Vec::new();
        };
        let given = self.allocator.unconfirmed();
        let ids = given.iter().map(|given| given.container.container_id.id);
        let Some(lowest) = ids.min() else {
            return Vec::new();
        };
        let mut writer = ContainerWriter::new(
            keys,
            Terms {
                user: context.user,
                now: context.now.wall,
                token_life_ms,
            },
        );
        let containers: Vec<Bytes> = given.iter().map(|given| writer.encode(given)).collect();
        if let Some(record) = self.id_floor.note_used(lowest) {
            actions.push(Action::Persist(NEXT_ID, Some(record)));
        }
        self.unsaved.asks = true;
        request.notes.put(AllocatedContainers(containers.clone()));
        containers
    }
}
