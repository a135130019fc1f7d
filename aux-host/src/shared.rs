//! State that callers, the reader of answers and the supervisor share.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::HostFault;
use crate::message::Answer;
use crate::model::Model;
use crate::start::ended;

/// Answers that the start of services has not read, at most: more are no host's.
const ANSWERS_MAX: usize = 256;

/// How a host's socket was closed.
#[derive(Debug)]
pub(crate) enum Closed {
    /// The host is gone.
    Gone,
    /// The host sent what is no answer.
    Garbage(String),
}

/// State that callers, the reader of answers and the supervisor share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) changed: Condvar,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) model: Model,
    /// Number of the life; what an earlier one says does not count.
    pub(crate) life: u64,
    pub(crate) answers: VecDeque<Answer>,
    pub(crate) closed: Option<Closed>,
    pub(crate) metrics: Vec<(String, f64)>,
    /// Whether metrics were asked for and have not come.
    pub(crate) awaits_metrics: bool,
    pub(crate) stops: bool,
}

impl Shared {
    pub(crate) fn new(services: usize) -> Self {
        Self {
            state: Mutex::new(State {
                model: Model::new(services),
                life: 0,
                answers: VecDeque::new(),
                closed: None,
                metrics: Vec::new(),
                awaits_metrics: false,
                stops: false,
            }),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        limit: Duration,
    ) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, limit);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Begins a life, and returns its number.
    pub(crate) fn begin_life(&self) -> u64 {
        let mut state = self.state();
        state.model.host_ended();
        state.life += 1;
        state.answers.clear();
        (state.closed, state.awaits_metrics) = (None, false);
        state.life
    }

    /// Takes an answer. Returns whether more are wanted of this life.
    pub(crate) fn take(&self, life: u64, answer: Answer) -> bool {
        let mut state = self.state();
        if state.life != life || state.closed.is_some() {
            return false;
        }
        if let Answer::Done(service, sequence) = answer {
            if !state.model.done(service, sequence) {
                let text = format!("an answer to no event: {service}, {sequence}");
                state.closed = Some(Closed::Garbage(text));
            }
        } else if let Answer::Metrics(series) = answer {
            state.metrics = series;
            state.awaits_metrics = false;
        } else if state.answers.len() < ANSWERS_MAX {
            state.answers.push_back(answer);
        } else {
            let text = format!("{ANSWERS_MAX} answers that nobody asked for");
            state.closed = Some(Closed::Garbage(text));
        }
        self.changed.notify_all();
        state.closed.is_none()
    }

    /// Takes the end of a life's answers.
    pub(crate) fn closed(&self, life: u64, closed: Closed) {
        let mut state = self.state();
        if state.life == life && state.closed.is_none() {
            state.closed = Some(closed);
            self.changed.notify_all();
        }
    }

    /// Waits for the next answer while this service starts.
    pub(crate) fn answer(
        &self,
        within: Duration,
        during: Option<&String>,
    ) -> Result<Answer, HostFault> {
        let deadline = Instant::now() + within;
        let mut state = self.state();
        loop {
            if let Some(answer) = state.answers.pop_front() {
                return Ok(answer);
            }
            if let Some(closed) = state.closed.take() {
                return Err(fault(closed, during));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(HostFault::NoAnswer {
                    within,
                    during: during.cloned(),
                });
            }
            state = self.wait(state, left);
        }
    }

    /// Waits until the agent stops, or so long. Returns whether it stops.
    pub(crate) fn wait_for_stop(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut state = self.state();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if state.stops || left.is_zero() {
                return state.stops;
            }
            state = self.wait(state, left);
        }
    }
}

/// Returns the fault of a closed socket, while this service was starting.
pub(crate) fn fault(closed: Closed, during: Option<&String>) -> HostFault {
    match closed {
        Closed::Gone => ended(during),
        Closed::Garbage(text) => HostFault::Garbage(text),
    }
}
