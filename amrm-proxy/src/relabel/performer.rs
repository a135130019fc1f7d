//! Link of the rules in an attempt's chain: promotions go to the containers' nodes.

use super::{Effect, Relabel};
use crate::config::RelabelRule;
use crate::identity::Attempt;
use crate::interceptor::Performer;
use crate::link::{Link, link};
use crate::node_updates::{NodeUpdates, Order};

/// Performer of one attempt's rules.
#[derive(Debug)]
struct Promoter {
    attempt: Attempt,
    updates: NodeUpdates,
}

/// Makes the link of an attempt, or `None` if no rule applies to it.
pub(crate) fn link_of(
    rules: &[RelabelRule],
    attempt: &Attempt,
    updates: &NodeUpdates,
) -> Option<Box<dyn Link>> {
    let relabel = Relabel::new(rules, &attempt.identity.user, &attempt.identity.tags)?;
    let promoter = Promoter {
        attempt: attempt.clone(),
        updates: updates.clone(),
    };
    Some(link(relabel, promoter))
}

impl Performer<Relabel> for Promoter {
    fn perform(&mut self, effect: Effect) {
        let identity = &self.attempt.identity;
        match effect {
            Effect::UpdateContainers(update) => self.updates.order(Order {
                attempt: identity.attempt,
                user: identity.user.clone(),
                update,
                ended: self.attempt.ended.clone(),
            }),
            Effect::WithdrawUpdates(ids) => self.updates.withdraw(identity.attempt, &ids),
        }
    }
}
