//! The interceptors of one attempt in their order, without the forwarder to the ResourceManager.

use records::{ApplicationAttemptId, Now};
use wire::exception::RemoteException;

use crate::call::{AmMethod, Outcome, Request, Response};
use crate::interceptor::{Action, Context};
use crate::link::Link;
use crate::store::{AttemptParts, Part};

/// Interceptors of one attempt, the one nearest to the AM first.
#[derive(Debug, Default)]
pub struct Chain {
    links: Vec<Box<dyn Link>>,
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
    pub fn new(links: Vec<Box<dyn Link>>) -> Self {
        Self { links }
    }

    /// Gathers news of the performers before a request of this method. Returns whether there are
    /// some, for [`tell`](Self::tell).
    pub async fn listen(&mut self, method: AmMethod) -> bool {
        let mut is_news = false;
        for link in &mut self.links {
            if let Some(listening) = link.listen(method) {
                listening.await;
                is_news = true;
            }
        }
        is_news
    }

    /// Passes the gathered news to the interceptors.
    pub fn tell(&mut self, context: &Context<'_>, actions: &mut Vec<Action>) {
        for link in &mut self.links {
            link.tell(context, actions);
        }
    }

    /// Shows the request to every interceptor, until one refuses it.
    pub fn inbound(
        &mut self,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) -> Inbound {
        let mut delay_ms = 0_u64;
        for (passed, link) in self.links.iter_mut().enumerate() {
            match link.on_request(request, context, actions) {
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
            passed: self.links.len(),
            result: Ok(delay_ms),
        }
    }

    /// Gathers the answers to what interceptors have asked their performers for a request that all
    /// of them let pass. Returns whether there are some, for [`answer`](Self::answer).
    pub async fn await_answers(&mut self) -> bool {
        let mut is_answered = false;
        for link in &mut self.links {
            if let Some(arriving) = link.await_answers() {
                arriving.await;
                is_answered = true;
            }
        }
        is_answered
    }

    /// Passes the gathered answers to the interceptors, before the request goes to the
    /// ResourceManager.
    pub fn answer(
        &mut self,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) {
        for link in &mut self.links {
            link.on_answers(request, context, actions);
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
        for link in self.links.iter_mut().take(passed).rev() {
            link.on_response(method, outcome, context, actions);
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
        for link in self.links.iter_mut().rev() {
            link.on_reregistered(grant, request, context, actions);
        }
    }

    /// Returns the parts that the interceptors store.
    pub fn parts(&self) -> impl Iterator<Item = Part> {
        self.links.iter().flat_map(|link| link.parts()).copied()
    }

    /// Restores the interceptors from records of before a restart. Each gets its own parts only.
    pub fn restore(&mut self, attempt: ApplicationAttemptId, parts: &AttemptParts, now: Now) {
        for link in &mut self.links {
            link.restore(attempt, parts, now);
        }
    }
}
