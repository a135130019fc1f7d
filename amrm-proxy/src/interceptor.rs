//! The interceptor trait: hooks on a call's way to the ResourceManager and on its answer's way
//! back.
//!
//! Hooks are pure. They read and edit the message, get the time as a value and keep state for one
//! attempt. For effects outside they fill [`Actions`]. No hook waits or performs anything, so each
//! can be tested with plain values. Source:
//! `org.apache.hadoop.yarn.server.nodemanager.amrmproxy.RequestInterceptor`.
//!
//! Three effects are the chain's, the same for all interceptors: [`Action`]. Everything else that
//! an interceptor does outside is an effect of its own type, which its own [`Performer`] performs:
//! files, messages to other nodes, what readers see. Neither the chain nor the pipeline knows of
//! it.

use std::convert::Infallible;
use std::fmt;

use records::{ApplicationAttemptId, Now};
use wire::exception::RemoteException;
use wire::rpc::BoxFuture;
use wire::token::Token;

use crate::call::{AmMethod, Outcome, Request, Response, Timing};
use crate::node_keys::NodeTokenKeys;
use crate::observe::Observation;
use crate::store::Part;

/// Facts about the call and the node that every hook gets.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Attempt whose AM makes the call.
    pub attempt: ApplicationAttemptId,
    /// User who submitted the application.
    pub user: &'a str,
    /// Time at which the request arrived; on the way back, time at which the answer arrived.
    pub now: Now,
    /// Keys that this node signs tokens with; `None` while the node is not registered.
    pub keys: Option<&'a NodeTokenKeys>,
    /// Time taken so far; set only on the way back.
    pub timing: Timing,
    /// AMRMToken to hand to the AM, set when there is a newer one than the AM has shown.
    pub renewed_token: Option<&'a Token>,
}

/// An effect that every interceptor may request. The pipeline performs actions in order, before the
/// AM gets its answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Use this AMRMToken towards the ResourceManager, which repeats a renewed token until it is
    /// used.
    UseRmToken(Token),
    /// Store this part of the attempt's state for a restart; `None` removes it from the store.
    Persist(Part, Option<Vec<u8>>),
    /// Count or record this observation.
    Observe(Observation),
}

/// Effects that the hooks of one interceptor request.
#[derive(Debug)]
pub struct Actions<'a, E> {
    /// Effects of the chain.
    pub chain: &'a mut Vec<Action>,
    /// Effects of the interceptor's own. Its performer performs them in order, when the hook ends.
    pub own: &'a mut Vec<E>,
}

/// Permission for a call to go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Milliseconds to delay the call first; 0 for none.
    pub delay_ms: u64,
}

/// Interceptor of one attempt. Calls of an attempt arrive one at a time.
pub trait Interceptor: Send + fmt::Debug {
    /// Effect that its [`Performer`] performs; `Infallible` for none.
    type Effect: Send + fmt::Debug;
    /// News and answers that its [`Performer`] brings; `Infallible` for none.
    type Event: Send + fmt::Debug;

    /// Parts of the attempt's state that this interceptor stores, in the order in which
    /// [`restore`](Self::restore) gets them. No two interceptors of a chain have the same.
    const PARTS: &'static [Part] = &[];

    /// Handles a request on its way to the ResourceManager.
    ///
    /// # Errors
    /// A refusal: the call goes no further, and interceptors nearer to the AM see the exception as
    /// its outcome.
    fn on_request(
        &mut self,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Actions<'_, Self::Effect>,
    ) -> Result<Pass, RemoteException> {
        let _ = (request, context, actions);
        Ok(Pass::default())
    }

    /// Handles an answer of its performer to effects of [`on_request`](Self::on_request). Every
    /// interceptor has let the request pass, and it goes to the ResourceManager afterwards.
    fn on_answer(
        &mut self,
        answer: Self::Event,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Actions<'_, Self::Effect>,
    ) {
        let _ = (answer, request, context, actions);
    }

    /// Handles the outcome of a request that this interceptor let pass. Not called for a call that
    /// was abandoned, for example because the agent stops.
    fn on_response(
        &mut self,
        method: AmMethod,
        outcome: &mut Outcome,
        context: &Context<'_>,
        actions: &mut Actions<'_, Self::Effect>,
    ) {
        let _ = (method, outcome, context, actions);
    }

    /// Handles a new registration of the attempt, which the ResourceManager had forgotten. `grant`
    /// is the answer to that registration, or `None` if the answer was lost. `request`, which this
    /// interceptor let pass, is the first call after it, and [`on_response`](Self::on_response)
    /// follows with its outcome. The AM notices nothing.
    fn on_reregistered(
        &mut self,
        grant: Option<&Response>,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Actions<'_, Self::Effect>,
    ) {
        let _ = (grant, request, context, actions);
    }

    /// Handles news of its performer, before a request.
    fn on_event(
        &mut self,
        event: Self::Event,
        context: &Context<'_>,
        actions: &mut Actions<'_, Self::Effect>,
    ) {
        let _ = (event, context, actions);
    }

    /// Restores one of [`PARTS`](Self::PARTS), which [`Action::Persist`] stored before a restart.
    /// `own`: effects of its own, as in [`Actions`].
    fn restore(
        &mut self,
        attempt: ApplicationAttemptId,
        part: Part,
        value: &[u8],
        now: Now,
        own: &mut Vec<Self::Effect>,
    ) {
        let _ = (attempt, part, value, now, own);
    }
}

/// Performs the own effects of one attempt's interceptor, and brings it news. Dropped with the
/// attempt's pipeline.
pub trait Performer<I: Interceptor>: Send + fmt::Debug {
    /// Performs an effect. Runs within a call, so it must not block: work that takes time goes to a
    /// thread or a task.
    fn perform(&mut self, effect: I::Effect);

    /// Returns the news since the last call, to wait for before a request of this method; `None`,
    /// which costs nothing, if there are none. A wait for news that are on their way must be
    /// bounded and short: the AM's call waits for it.
    fn events(&mut self, method: AmMethod) -> Option<BoxFuture<'_, Vec<I::Event>>> {
        let _ = method;
        None
    }

    /// Returns the answers to effects of this request, to wait for before it goes on; `None`, which
    /// costs nothing, if nothing was asked. The wait must be bounded and short. It is dropped with
    /// a call that the AM abandons.
    fn answers(&mut self) -> Option<BoxFuture<'_, Vec<I::Event>>> {
        None
    }
}

/// Performer of an interceptor without effects of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPerformer;

impl<I: Interceptor<Effect = Infallible>> Performer<I> for NoPerformer {
    fn perform(&mut self, effect: Infallible) {
        match effect {}
    }
}
