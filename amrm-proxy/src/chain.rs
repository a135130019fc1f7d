//! The interceptors of one attempt in their order, without the forwarder to the ResourceManager.

use records::{ApplicationAttemptId, Now};
use wire::exception::RemoteException;

use crate::interceptor::{
    Action, AmMethod, Context, Gauges, Interceptor, Outcome, Request, Response,
};
use crate::role_history::files::HistoryNews;
use crate::store::Part;

/// Interceptors of one attempt, the one nearest to the AM first.
#[derive(Debug, Default)]
pub struct Chain {
    interceptors: Vec<Box<dyn Interceptor>>,
}

/// Result of taking a request through the chain.
#[derive(Debug)]
pub struct Inbound {
    /// Number of interceptors that let the request pass. Only those see its outcome.
    pub passed: usize,
    /// Milliseconds to delay the call, summed over all interceptors, or the exception that refuses
    /// it.
    pub result: Result<u64, RemoteException>,
}

impl Chain {
    /// Makes a chain of these interceptors, the one nearest to the AM first.
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

    /// Shows the outcome to the first `passed` interceptors, starting at the ResourceManager's end.
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

    /// Notifies every interceptor that the attempt was registered again for this request, starting
    /// at the ResourceManager's end.
    pub fn reregistered(
        &mut self,
        grant: Option<&Response>,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) {
        for interceptor in self.interceptors.iter_mut().rev() {
            interceptor.on_reregistered(grant, request, context, actions);
        }
    }

    /// Passes news about the role history's files to every interceptor.
    pub fn history_news(
        &mut self,
        news: &HistoryNews,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) {
        for interceptor in &mut self.interceptors {
            interceptor.on_history(news, context, actions);
        }
    }

    /// Passes a record from before the restart to every interceptor; each reads the parts it wrote.
    pub fn restore(&mut self, attempt: ApplicationAttemptId, part: Part, value: &[u8], now: Now) {
        for interceptor in &mut self.interceptors {
            interceptor.restore(attempt, part, value, now);
        }
    }

    /// Returns the gauges of all interceptors, added up.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        self.interceptors
            .iter()
            .map(|interceptor| interceptor.gauges())
            .fold(Gauges::default(), Gauges::and)
    }
}
