//! The interceptors of one attempt in their order, without the one that speaks to the ResourceManager.

use records::{ApplicationAttemptId, Now};
use wire::exception::RemoteException;

use crate::interceptor::{
    Action, AmMethod, Context, Gauges, Interceptor, Outcome, Request, Response,
};
use crate::store::Part;

/// Interceptors, the one nearest to the AM first.
#[derive(Debug, Default)]
pub struct Chain {
    interceptors: Vec<Box<dyn Interceptor>>,
}

/// How far a call came.
#[derive(Debug)]
pub struct Inbound {
    /// The interceptors that let it pass: those see its outcome.
    pub passed: usize,
    /// How long to hold it back in all, or why it goes no further.
    pub result: Result<u64, RemoteException>,
}

impl Chain {
    /// A chain of these, the one nearest to the AM first.
    #[must_use]
    pub fn new(interceptors: Vec<Box<dyn Interceptor>>) -> Self {
        Self { interceptors }
    }

    /// Shows the request to every interceptor, until one refuses it.
    pub fn inbound(
        &mut self,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) -> Inbound {
        let mut delay_ms = 0_u64;
        for (passed, interceptor) in self.interceptors.iter_mut().enumerate() {
            match interceptor.on_request(request, context, actions) {
                Ok(pass) => delay_ms = delay_ms.saturating_add(pass.delay_ms),
                Err(refusal) => {
                    return Inbound {
                        passed,
                        result: Err(refusal),
                    };
                }
            }
        }
        Inbound {
            passed: self.interceptors.len(),
            result: Ok(delay_ms),
        }
    }

    /// Shows the outcome to the first `passed` interceptors, the one nearest to the ResourceManager first.
    pub fn outbound(
        &mut self,
        passed: usize,
        method: AmMethod,
        outcome: &mut Outcome,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) {
        for interceptor in self.interceptors.iter_mut().take(passed).rev() {
            interceptor.on_response(method, outcome, context, actions);
        }
    }

    /// Tells every interceptor that the attempt was registered again for this request, the one nearest to the
    /// ResourceManager first.
    pub fn rejoined(
        &mut self,
        grant: Option<&Response>,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) {
        for interceptor in self.interceptors.iter_mut().rev() {
            interceptor.on_rejoin(grant, request, context, actions);
        }
    }

    /// Gives every interceptor what was kept over a restart.
    pub fn restore(&mut self, attempt: ApplicationAttemptId, part: Part, value: &[u8], now: Now) {
        for interceptor in &mut self.interceptors {
            interceptor.restore(attempt, part, value, now);
        }
    }

    /// What the interceptors say of themselves.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        self.interceptors
            .iter()
            .map(|interceptor| interceptor.gauges())
            .fold(Gauges::default(), Gauges::and)
    }
}
