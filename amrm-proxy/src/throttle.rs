//! Delays AMs that call too often and refuses excessive asks. Ordinary AMs are not affected.
//!
//! Calls above the rate are delayed and never refused: an AM is served one call at a time, so a
//! delay alone lowers its rate. A call that costs this node work counts as several: a long request,
//! or a request of an AM with many asks, all of which are examined. Asks beyond what any job needs
//! are refused with Hadoop's exception for invalid asks, before any interceptor stores them.

use std::collections::BTreeMap;
use std::convert::Infallible;

use bytes::Bytes;
use prost::Message;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::{PriorityProto, ResourceRequestProto};

use crate::call::{AmMethod, Outcome, Request};
use crate::config::ThrottleConfig;
use crate::fields::{allocate_request, allocate_response};
use crate::interceptor::{Action, Actions, Context, Interceptor, Pass};
use crate::observe::{Observation, ThrottleReason};

/// Maximum of different asks (priority, allocation request id, size) whose counts are remembered.
/// Further asks are left uncounted instead of refused: the limit on lines per call bounds their
/// cost.
const ASKS_COUNTED_MAX: usize = 100_000;

/// Request length that counts as one more call, in bytes. So many bytes hold some thousand lines of
/// asks, which take a few milliseconds to read. The longest legitimate request, for every host of a
/// large cluster at many priorities, has some 10 MB and is delayed once, for a second.
const BYTES_PER_CALL: usize = 64 * 1024;

/// Number of different outstanding asks that counts as one more call: examining them takes about a
/// millisecond.
const ASKS_PER_CALL: usize = 5_000;

/// Key of an ask: priority, allocation request id, memory, virtual cores.
type AskKey = (i32, i64, i64, i32);

/// Interceptor that limits calls and asks of one attempt: a token bucket for calls and a table of
/// outstanding containers.
#[derive(Debug)]
pub struct Throttle {
    config: ThrottleConfig,
    /// Time at which the bucket of calls will be full again, in microseconds of the agent's clock.
    full_at_us: u64,
    /// Containers requested and not received, as far as this node sees. The AM's own counts replace
    /// these.
    outstanding: BTreeMap<AskKey, u64>,
    total: u64,
}

impl Throttle {
    /// Makes the throttle of an attempt without asks.
    #[must_use]
    pub const fn new(config: ThrottleConfig) -> Self {
        Self {
            config,
            full_at_us: 0,
            outstanding: BTreeMap::new(),
            total: 0,
        }
    }

    /// Returns the number of calls that this request counts as.
    fn weight(&self, request: &Request) -> u64 {
        let by_length = request.message.encoded_len() / BYTES_PER_CALL;
        let by_asks = self.outstanding.len() / ASKS_PER_CALL;
        u64::try_from(1 + by_length + by_asks).unwrap_or(u64::MAX)
    }

    /// Returns the delay of a call of this weight that arrives now, in milliseconds.
    fn delay_ms(&mut self, weight: u64, now_us: u64) -> u64 {
        if self.config.calls_per_second_max == 0 {
            return 0;
        }
        let interval_us = 1_000_000 / u64::from(self.config.calls_per_second_max);
        let burst_us = interval_us * u64::from(self.config.calls_burst);
        self.full_at_us = self.full_at_us.max(now_us) + interval_us * weight;
        let ahead_us = self.full_at_us - now_us;
        ahead_us.saturating_sub(burst_us).div_ceil(1000)
    }

    fn check_asks(&mut self, request: &Request) -> Result<(), (ThrottleReason, RemoteException)> {
        let lines = request.message.count(allocate_request::ASK);
        if lines > self.config.asks_per_call_max {
            let max = self.config.asks_per_call_max;
            let text = format!(
                "Invalid resource request, {lines} asks in one call, at most {max} are allowed"
            );
            return Err((ThrottleReason::AsksPerCall, invalid_ask(text)));
        }
        let totals: Vec<(AskKey, u64)> = request
            .message
            .all(allocate_request::ASK)
            .filter_map(read_total)
            .collect();
        let mut total = self.total;
        // An ask may occur twice in a call, so the sum is computed line by line.
        let mut seen: BTreeMap<AskKey, u64> = BTreeMap::new();
        for (key, count) in totals {
            let before = seen
                .insert(key, count)
                .unwrap_or_else(|| self.outstanding.get(&key).copied().unwrap_or(0));
            total = total.saturating_sub(before).saturating_add(count);
        }
        let max = self.config.containers_outstanding_max;
        if total > max && total > self.total {
            let text = format!(
                "Invalid resource request, {total} containers outstanding, at most {max} are allowed"
            );
            return Err((ThrottleReason::OutstandingContainers, invalid_ask(text)));
        }
        for (key, count) in seen {
            self.set(key, count);
        }
        Ok(())
    }

    fn set(&mut self, key: AskKey, count: u64) {
        let known = self.outstanding.contains_key(&key);
        if !known && (count == 0 || self.outstanding.len() == ASKS_COUNTED_MAX) {
            return;
        }
        let before = if count == 0 {
            self.outstanding.remove(&key)
        } else {
            self.outstanding.insert(key, count)
        };
        self.total = self
            .total
            .saturating_sub(before.unwrap_or(0))
            .saturating_add(count);
    }
}

/// Fields of a `ContainerProto` that identify the answered ask. Other fields are skipped, as an
/// answer may hold thousands of containers.
#[derive(Clone, PartialEq, Message)]
struct Answering {
    #[prost(message, optional, tag = "5")]
    priority: Option<PriorityProto>,
    #[prost(int64, optional, tag = "8", default = "-1")]
    allocation_request_id: Option<i64>,
}

/// Reads key and count of a line for any location, which holds an ask's total. Returns `None` for
/// other lines and for unreadable ones, which the ResourceManager refuses.
fn read_total(ask: Bytes) -> Option<(AskKey, u64)> {
    let ask = ResourceRequestProto::decode(ask).ok()?;
    if ask.resource_name() != "*" {
        return None;
    }
    let priority = ask
        .priority
        .as_ref()
        .map_or(0, |priority| priority.priority());
    let (memory, vcores) = ask
        .capability
        .as_ref()
        .map_or((0, 0), |size| (size.memory(), size.virtual_cores()));
    let count = u64::try_from(ask.num_containers()).unwrap_or(0);
    let key = (priority, ask.allocation_request_id(), memory, vcores);
    Some((key, count))
}

fn invalid_ask(text: String) -> RemoteException {
    RemoteException::new(HadoopException::InvalidResourceRequest, text)
}

impl Interceptor for Throttle {
    type Effect = Infallible;
    type Event = Infallible;

    fn on_request(
        &mut self,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Actions<'_, Infallible>,
    ) -> Result<Pass, RemoteException> {
        let weight = self.weight(request);
        let delay_ms = self.delay_ms(weight, context.now.mono.0.saturating_mul(1000));
        if delay_ms > 0 {
            actions.chain.push(Action::Observe(Observation::Throttled(
                ThrottleReason::CallRate,
            )));
        }
        match request.method {
            // An AM that registers again also sends its asks again.
            AmMethod::Register => {
                self.outstanding.clear();
                self.total = 0;
            }
            AmMethod::Allocate => self.check_asks(request).map_err(|(reason, refusal)| {
                tracing::warn!(attempt = %context.attempt, %refusal, "an AM's asks are refused");
                actions
                    .chain
                    .push(Action::Observe(Observation::Throttled(reason)));
                refusal
            })?,
            AmMethod::Finish => {}
        }
        Ok(Pass { delay_ms })
    }

    fn on_response(
        &mut self,
        method: AmMethod,
        outcome: &mut Outcome,
        _context: &Context<'_>,
        _actions: &mut Actions<'_, Infallible>,
    ) {
        let (AmMethod::Allocate, Ok(response)) = (method, outcome) else {
            return;
        };
        if self.outstanding.is_empty() {
            return;
        }
        for container in response
            .message
            .all(allocate_response::ALLOCATED_CONTAINERS)
        {
            let Ok(container) = Answering::decode(container) else {
                continue;
            };
            let priority = container.priority.map_or(0, |priority| priority.priority());
            // The size may have been rounded up, so only the rest of the key identifies the ask.
            let id = container.allocation_request_id();
            let keys = (priority, id, i64::MIN, i32::MIN)..=(priority, id, i64::MAX, i32::MAX);
            let first = self.outstanding.range(keys).next();
            if let Some((key, count)) = first.map(|(key, count)| (*key, *count)) {
                self.set(key, count.saturating_sub(1));
            }
        }
    }
}

#[cfg(test)]
mod tests;
