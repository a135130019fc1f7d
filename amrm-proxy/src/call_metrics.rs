//! Counts and times every call. Stands nearest to the AM, so that it sees every outcome as the AM does.

use crate::interceptor::{Action, AmMethod, Context, Interceptor, Outcome};
use crate::observe::{CallResult, Observation};

/// See the module. It keeps nothing itself.
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
