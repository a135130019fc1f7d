//! Counts and times every call. Is the interceptor nearest to the AM, so that it sees outcomes as
//! the AM does.

use crate::interceptor::{Action, AmMethod, Context, Interceptor, Outcome};
use crate::observe::{CallResult, Observation};

/// Interceptor that observes every outcome. Keeps no state.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallMetrics;

impl Interceptor for CallMetrics {
    fn on_response(
        &mut self,
        method: AmMethod,
        outcome: &mut Outcome,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) {
        let result = if outcome.is_ok() {
            CallResult::Answered
        } else {
            CallResult::Refused
        };
        actions.push(Action::Observe(Observation::Call {
            method,
            result,
            timing: context.timing,
        }));
    }
}
