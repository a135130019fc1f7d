//! A link of a chain: an interceptor with its performer, whatever the types of their effects and
//! events.

use std::convert::Infallible;
use std::fmt;

use records::{ApplicationAttemptId, Now};
use wire::exception::RemoteException;
use wire::rpc::BoxFuture;

use crate::call::{AmMethod, Outcome, Request, Response};
use crate::interceptor::{Action, Actions, Context, Interceptor, NoPerformer, Pass, Performer};
use crate::store::{AttemptParts, Part};

/// Own effects of a hook for which the memory is kept from call to call.
const EFFECTS_KEPT: usize = 16;

/// Makes a link of an interceptor and the performer of its own effects.
#[must_use]
pub fn link<I, P>(interceptor: I, performer: P) -> Box<dyn Link>
where
    I: Interceptor + 'static,
    P: Performer<I> + 'static,
{
    Box::new(Linked {
        interceptor,
        performer,
        effects: Vec::new(),
        events: Vec::new(),
        answers: Vec::new(),
    })
}

/// Makes a link of an interceptor without effects of its own.
#[must_use]
pub fn pure<I: Interceptor<Effect = Infallible> + 'static>(interceptor: I) -> Box<dyn Link> {
    link(interceptor, NoPerformer)
}

/// A link of a chain. The methods have the names and the meaning of [`Interceptor`]'s; own effects
/// are performed when a hook ends.
pub trait Link: Send + fmt::Debug {
    /// Gathers news of the performer before a request of this method; `None` if there are none.
    fn listen(&mut self, method: AmMethod) -> Option<BoxFuture<'_, ()>>;

    /// Passes the gathered news to the interceptor.
    fn tell(&mut self, context: &Context<'_>, actions: &mut Vec<Action>);

    /// See [`Interceptor::on_request`].
    ///
    /// # Errors
    /// The interceptor's refusal.
    fn on_request(
        &mut self,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) -> Result<Pass, RemoteException>;

    /// Gathers the performer's answers to effects of this request; `None` if there are none.
    fn await_answers(&mut self) -> Option<BoxFuture<'_, ()>>;

    /// Passes the gathered answers to the interceptor, each by [`Interceptor::on_answer`].
    fn on_answers(
        &mut self,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    );

    /// See [`Interceptor::on_response`].
    fn on_response(
        &mut self,
        method: AmMethod,
        outcome: &mut Outcome,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    );

    /// See [`Interceptor::on_reregistered`].
    fn on_reregistered(
        &mut self,
        grant: Option<&Response>,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    );

    /// Parts that the interceptor stores.
    fn parts(&self) -> &'static [Part];

    /// Restores the interceptor's own parts among these.
    fn restore(&mut self, attempt: ApplicationAttemptId, parts: &AttemptParts, now: Now);
}

#[derive(Debug)]
struct Linked<I: Interceptor, P> {
    interceptor: I,
    performer: P,
    effects: Vec<I::Effect>,
    events: Vec<I::Event>,
    answers: Vec<I::Event>,
}

impl<I: Interceptor, P: Performer<I>> Linked<I, P> {
    /// Runs a hook, then performs the interceptor's own effects.
    fn run<T>(
        &mut self,
        chain: &mut Vec<Action>,
        hook: impl FnOnce(&mut I, &mut Actions<'_, I::Effect>) -> T,
    ) -> T {
        let own = &mut self.effects;
        let result = hook(&mut self.interceptor, &mut Actions { chain, own });
        for effect in self.effects.drain(..) {
            self.performer.perform(effect);
        }
        self.effects.shrink_to(EFFECTS_KEPT);
        result
    }
}

impl<I: Interceptor, P: Performer<I>> Link for Linked<I, P> {
    fn listen(&mut self, method: AmMethod) -> Option<BoxFuture<'_, ()>> {
        let (gathered, arriving) = (&mut self.events, self.performer.events(method));
        // News that an abandoned call gathered are still to be told.
        if arriving.is_none() && gathered.is_empty() {
            return None;
        }
        Some(Box::pin(async move {
            if let Some(arriving) = arriving {
                gathered.extend(arriving.await);
            }
        }))
    }

    fn tell(&mut self, context: &Context<'_>, actions: &mut Vec<Action>) {
        for event in std::mem::take(&mut self.events) {
            self.run(actions, |interceptor, actions| {
                interceptor.on_event(event, context, actions);
            });
        }
    }

    fn on_request(
        &mut self,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) -> Result<Pass, RemoteException> {
        // Those of a request that the AM abandoned.
        self.answers.clear();
        self.run(actions, |interceptor, actions| {
            interceptor.on_request(request, context, actions)
        })
    }

    fn await_answers(&mut self) -> Option<BoxFuture<'_, ()>> {
        let (gathered, arriving) = (&mut self.answers, self.performer.answers()?);
        Some(Box::pin(async { gathered.extend(arriving.await) }))
    }

    fn on_answers(
        &mut self,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) {
        for answer in std::mem::take(&mut self.answers) {
            self.run(actions, |interceptor, actions| {
                interceptor.on_answer(answer, request, context, actions);
            });
        }
    }

    fn on_response(
        &mut self,
        method: AmMethod,
        outcome: &mut Outcome,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) {
        self.run(actions, |interceptor, actions| {
            interceptor.on_response(method, outcome, context, actions);
        });
    }

    fn on_reregistered(
        &mut self,
        grant: Option<&Response>,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) {
        self.run(actions, |interceptor, actions| {
            interceptor.on_reregistered(grant, request, context, actions);
        });
    }

    fn parts(&self) -> &'static [Part] {
        I::PARTS
    }

    fn restore(&mut self, attempt: ApplicationAttemptId, parts: &AttemptParts, now: Now) {
        for part in I::PARTS {
            if let Some(value) = parts.get(part.key()) {
                self.run(&mut Vec::new(), |interceptor, actions| {
                    interceptor.restore(attempt, *part, value, now, actions.own);
                });
            }
        }
    }
}
