//! Series of the AMRMProxy.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use amrm_proxy::call::AmMethod;
use amrm_proxy::observe::{CallResult, Observation, ThrottleReason};
use node_view::outcome::CallOutcome;
use prometheus::{Gauge, Histogram, IntCounter, IntGauge};

use super::ProxyReading;
use super::family::{Maker, PerLabel, PerPair};
use super::labels::{AllocationLocality, ProxiedMethod, Throttled};
use super::proxy_binding::BindingSeries;
use super::proxy_looks::LookSeries;
use super::role_history::RoleHistorySeries;

/// Seconds. What the proxy adds is some ten microseconds; a call that waits for the ResourceManager
/// is held for a minute.
const CALL_BUCKETS: [f64; 12] = [
    0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.005, 0.02, 0.1, 1.0, 10.0, 60.0,
];

/// Seconds, from an ask until its container: at once, or some heartbeats later.
const ALLOCATION_BUCKETS: [f64; 8] = [0.001, 0.01, 0.1, 1.0, 2.0, 5.0, 20.0, 60.0];

/// See the help texts.
#[derive(Debug)]
pub(super) struct ProxySeries {
    calls: PerPair<ProxiedMethod, CallOutcome, IntCounter>,
    call_seconds: PerLabel<ProxiedMethod, Histogram>,
    own_seconds: PerLabel<ProxiedMethod, Histogram>,
    allocated: PerLabel<AllocationLocality, IntCounter>,
    allocation_seconds: Histogram,
    completed: IntCounter,
    looks: LookSeries,
    binding: BindingSeries,
    short_node_lists: IntCounter,
    throttled: PerLabel<Throttled, IntCounter>,
    relabelled: IntCounter,
    promotions: IntCounter,
    registrations_again: IntCounter,
    promotions_ended: PerLabel<CallOutcome, IntCounter>,
    role_history: RoleHistorySeries,
    gauges: ProxyGauges,
    watched: Watched,
}

/// Gauges of the proxy, computed when scraped.
#[derive(Debug)]
struct ProxyGauges {
    pipelines: IntGauge,
    outstanding: IntGauge,
    live: IntGauge,
    node_list_age: Gauge,
}

impl ProxyGauges {
    fn new(maker: &Maker<'_>) -> Self {
        Self {
            pipelines: maker.gauge(
                "nm_agent_amrmproxy_pipelines",
                "ApplicationMasters that speak to the RM through this node.",
            ),
            outstanding: maker.gauge(
                "nm_agent_amrmproxy_outstanding_containers",
                "Opportunistic containers asked for and not yet allocated by this node.",
            ),
            live: maker.gauge(
                "nm_agent_amrmproxy_live_containers",
                "Containers allocated by this node whose end has not been told.",
            ),
            node_list_age: maker.float_gauge(
                "nm_agent_amrmproxy_node_list_age_seconds",
                "Age of the oldest list of nodes that this node allocates on for ApplicationMasters that call; 0 without one.",
            ),
        }
    }
}

type ReadGauges = dyn Fn() -> ProxyReading + Send + Sync;

/// Reads the gauges, once there is a proxy.
#[derive(Default)]
struct Watched(OnceLock<Box<ReadGauges>>);

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watched({})", self.0.get().is_some())
    }
}

impl ProxySeries {
    pub(super) fn new(maker: &Maker<'_>) -> Self {
        Self {
            calls: maker.counter_pairs(
                "nm_agent_amrmproxy_calls_total",
                "Calls of ApplicationMasters that went through this node.",
            ),
            call_seconds: maker.histograms(
                "nm_agent_amrmproxy_call_seconds",
                "From a proxied call's whole request until its answer, the RM's part included.",
                &CALL_BUCKETS,
            ),
            own_seconds: maker.histograms(
                "nm_agent_amrmproxy_own_seconds",
                "The same without waiting for the RM.",
                &CALL_BUCKETS,
            ),
            allocated: maker.counters(
                "nm_agent_amrmproxy_allocated_containers_total",
                "Opportunistic containers allocated by this node for its ApplicationMasters.",
            ),
            allocation_seconds: maker.histogram(
                "nm_agent_amrmproxy_allocation_seconds",
                "From an opportunistic ask until a container for it was allocated by this node.",
                &ALLOCATION_BUCKETS,
            ),
            completed: maker.counter(
                "nm_agent_amrmproxy_completed_containers_total",
                "Containers allocated by this node whose end was told to their ApplicationMaster.",
            ),
            looks: LookSeries::new(maker),
            binding: BindingSeries::new(maker),
            short_node_lists: maker.counter(
                "nm_agent_amrmproxy_short_node_lists_total",
                "ApplicationMasters whose lists of nodes are shorter than a tenth of the cluster.",
            ),
            throttled: maker.counters(
                "nm_agent_amrmproxy_throttled_calls_total",
                "Calls of ApplicationMasters that were delayed or refused by this node.",
            ),
            relabelled: maker.counter(
                "nm_agent_amrmproxy_relabelled_containers_total",
                "Containers in asks that a rule made opportunistic, each time they were asked for.",
            ),
            promotions: maker.counter(
                "nm_agent_amrmproxy_promotions_asked_total",
                "Promotions of relabelled containers that this node asked the RM for.",
            ),
            registrations_again: maker.counter(
                "nm_agent_amrmproxy_registrations_again_total",
                "Registrations that this node made again because the RM had forgotten an ApplicationMaster.",
            ),
            promotions_ended: maker.counters(
                "nm_agent_amrmproxy_promotions_ended_total",
                "Promotions that the RM granted and that this node brought to the containers' nodes, or could not.",
            ),
            role_history: RoleHistorySeries::new(maker),
            gauges: ProxyGauges::new(maker),
            watched: Watched::default(),
        }
    }

    pub(super) fn observe(&self, observation: &Observation) {
        match observation {
            Observation::Call {
                method,
                result,
                timing,
            } => {
                let method = ProxiedMethod::from(*method);
                let outcome = match result {
                    CallResult::Answered => CallOutcome::Ok,
                    CallResult::Refused => CallOutcome::Error,
                };
                self.calls.of(method, outcome).inc();
                let own = timing.total.saturating_sub(timing.rm);
                let seconds = |duration: Duration| duration.as_secs_f64();
                self.call_seconds.of(method).observe(seconds(timing.total));
                self.own_seconds.of(method).observe(seconds(own));
            }
            Observation::Allocated {
                locality, latency, ..
            } => {
                self.allocated.of(AllocationLocality::from(*locality)).inc();
                self.allocation_seconds.observe(latency.as_secs_f64());
            }
            Observation::AllocatedCompleted => self.completed.inc(),
            Observation::Looked(numbers) => self.looks.observe(numbers),
            Observation::Bound(numbers) => self.binding.observe(numbers),
            Observation::ShortNodeLists => self.short_node_lists.inc(),
            Observation::Throttled(reason) => self.throttled.of(Throttled::from(*reason)).inc(),
            Observation::Relabelled { containers } => self.relabelled.inc_by(*containers),
            Observation::PromotionAsked => self.promotions.inc(),
            Observation::RegisteredAgain => self.registrations_again.inc(),
            Observation::PromotionsEnded { reached, failed } => {
                self.promotions_ended.of(CallOutcome::Ok).inc_by(*reached);
                self.promotions_ended.of(CallOutcome::Error).inc_by(*failed);
            }
            Observation::History(event) => self.role_history.observe(*event),
        }
    }

    pub(super) fn watch(&self, read: Box<ReadGauges>) {
        let _already_watched = self.watched.0.set(read);
    }

    /// Brings the gauges up to date.
    pub(super) fn refresh(&self) {
        let Some(read) = self.watched.0.get() else {
            return;
        };
        let ProxyReading {
            snapshot,
            role_histories,
            now,
        } = read();
        self.role_history.set(&role_histories);
        let count = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        self.gauges
            .pipelines
            .set(i64::try_from(snapshot.pipelines).unwrap_or(i64::MAX));
        self.gauges
            .outstanding
            .set(count(snapshot.gauges.containers_outstanding));
        self.gauges.live.set(count(snapshot.gauges.containers_live));
        let age = snapshot.gauges.nodes_at.map_or(0, |at| now.since(at));
        self.gauges
            .node_list_age
            .set(Duration::from_millis(age).as_secs_f64());
    }
}

impl From<AmMethod> for ProxiedMethod {
    fn from(method: AmMethod) -> Self {
        match method {
            AmMethod::Register => Self::Register,
            AmMethod::Allocate => Self::Allocate,
            AmMethod::Finish => Self::Finish,
        }
    }
}

impl From<sched::Locality> for AllocationLocality {
    fn from(locality: sched::Locality) -> Self {
        match locality {
            sched::Locality::NodeLocal => Self::NodeLocal,
            sched::Locality::RackLocal => Self::RackLocal,
            sched::Locality::OffSwitch => Self::OffSwitch,
        }
    }
}

impl From<ThrottleReason> for Throttled {
    fn from(reason: ThrottleReason) -> Self {
        match reason {
            ThrottleReason::CallRate => Self::CallRate,
            ThrottleReason::CallsWaiting => Self::CallsWaiting,
            ThrottleReason::AsksPerCall => Self::AsksPerCall,
            ThrottleReason::OutstandingContainers => Self::OutstandingContainers,
        }
    }
}
