//! Counts and times every call. Is the interceptor nearest to the AM, so that it sees outcomes as
//! the AM does.

use std::convert::Infallible;

use crate::call::{AmMethod, Outcome};
use crate::interceptor::{Action, Actions, Context, Interceptor};
use crate::observe::{CallResult, Observation};

/// Interceptor that observes every outcome. Keeps no state.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallMetrics;

impl Interceptor for CallMetrics {
    type Effect = Infallible;
    type Event = Infallible;

    fn on_response(
        &mut self,
        method: AmMethod,
        outcome: &mut Outcome,
        context: &Context<'_>,
        actions: &mut Actions<'_, Infallible>,
    ) {
        let result = if outcome.is_ok() {
            CallResult::Answered
        } else {
            CallResult::Refused
        };
        actions.chain.push(Action::Observe(Observation::Call {
            method,
            result,
            timing: context.timing,
        }));
    }
}
