//! Every Prometheus series of the agent. Names, units, labels and help stand in the constructors of
//! this module's files.
//!
//! Counters and histograms are fed as things happen, through methods that take typed values, so
//! that no caller writes a label. Gauges are set from a [`NodeSnapshot`] at each request for
//! them: they are computed from the state and cannot drift. This module serves nothing; `site`
//! does.

mod asked_and_used;
mod calls;
mod container_use;
mod containers;
mod decisions;
mod family;
mod kerberos;
mod labels;
mod logs;
mod node;
mod proxy;
mod proxy_binding;
mod proxy_looks;
mod refused;
mod role_history;
mod shuffle;
mod spark_shuffle;
mod traces;
mod usage;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use amrm_proxy::attempts::ProxySnapshot;
use amrm_proxy::observe::{Observation, Observer};
use amrm_proxy::role_history::view::RoleHistoryView;
use node_view::outcome::{CacheUse, CallOutcome};
use prometheus::{Registry, TextEncoder};
use records::{ContainerId, MonoMillis};
use refusals::Refusals;
use sched::{Completion, Note};

use container_runtime::isolation::Availability;
use container_runtime::monitor::{ContainerLook, Sample};
pub use labels::{LaunchPhase, Outcome, Port, RpcMethod};

use node_view::snapshot::NodeSnapshot;

use asked_and_used::AskedAndUsed;
pub use calls::Answered;
use calls::CallSeries;
use container_use::ContainerUses;
pub use container_use::{ContainerUse, Statistics};
pub use containers::{ContainerEnds, Launches, Localizations, Resources};

use containers::ContainerSeries;
use decisions::DecisionSeries;
use family::Maker;
use kerberos::KerberosSeries;
pub use kerberos::LoginReading;
use logs::LogSeries;
use node::NodeGauges;
use proxy::ProxySeries;
use proxy_binding::OfferSeries;
use refused::RefusalSeries;
pub use shuffle::ShuffleReading;
use shuffle::ShuffleSeries;
pub use spark_shuffle::SparkShuffleReading;
use spark_shuffle::SparkShuffleSeries;
pub use traces::TraceReading;
use traces::TraceSeries;
pub use usage::Look;
use usage::UsageSeries;

/// State of the AMRMProxy at one moment, from which its gauges are computed.
#[derive(Clone, Debug, Default)]
pub struct ProxyReading {
    /// Sums over the proxy's attempts.
    pub snapshot: ProxySnapshot,
    /// Role histories of the attempts that keep one.
    pub role_histories: Vec<Arc<RoleHistoryView>>,
    /// Time of the reading.
    pub now: MonoMillis,
}

/// Series of one agent, to be shared behind an `Arc`. Every method may be called from any thread,
/// and all but [`Metrics::encode`] cost a few additions.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    node: NodeGauges,
    decisions: DecisionSeries,
    containers: ContainerSeries,
    container_uses: ContainerUses,
    calls: CallSeries,
    refusals: RefusalSeries,
    logs: LogSeries,
    proxy: ProxySeries,
    offers: OfferSeries,
    usage: UsageSeries,
    asked_and_used: AskedAndUsed,
    shuffle: ShuffleSeries,
    spark_shuffle: SparkShuffleSeries,
    kerberos: KerberosSeries,
    traces: TraceSeries,
}

impl Metrics {
    /// Series that all stand at zero, in a registry of their own.
    #[must_use]
    pub fn new() -> Self {
        let registry = Registry::new();
        let maker = Maker(&registry);
        maker.info(
            "nm_agent_build_info",
            "Version of the running agent; the value is always 1.",
            &[("version", env!("CARGO_PKG_VERSION"))],
        );
        Self {
            node: NodeGauges::new(&maker),
            decisions: DecisionSeries::new(&maker),
            containers: ContainerSeries::new(&maker),
            container_uses: ContainerUses::default(),
            calls: CallSeries::new(&maker),
            refusals: RefusalSeries::new(&maker),
            logs: LogSeries::new(&maker),
            proxy: ProxySeries::new(&maker),
            offers: OfferSeries::new(&maker),
            usage: UsageSeries::new(&maker),
            asked_and_used: AskedAndUsed::new(&maker),
            shuffle: ShuffleSeries::new(&maker),
            spark_shuffle: SparkShuffleSeries::new(&maker),
            kerberos: KerberosSeries::default(),
            traces: TraceSeries::default(),
            registry,
        }
    }

    /// Counts an offer of this node's room to a proxy.
    pub fn offered(&self, rooms: u32) {
        self.offers.offered(rooms);
    }

    /// Counts the tasks that a proxy has bound to an offer.
    pub fn offer_answered(&self, bound: u32) {
        self.offers.answered(bound);
    }

    /// Counts a decision of the scheduler.
    pub fn observe_note(&self, note: &Note) {
        self.decisions.observe_note(note);
    }

    /// Counts the end of a container.
    pub fn observe_completion(&self, completion: &Completion) {
        self.containers.observe_completion(completion);
    }

    /// Containers that have ended.
    #[must_use]
    pub fn container_ends(&self) -> ContainerEnds {
        self.containers.ends()
    }

    /// Launches that worked.
    #[must_use]
    pub fn launches(&self) -> Launches {
        self.containers.launches()
    }

    /// Localizations of containers, and what they brought.
    #[must_use]
    pub fn localizations(&self) -> Localizations {
        self.containers.localizations()
    }

    /// Last measurement of the monitor; `None` before the first.
    #[must_use]
    pub fn last_look(&self) -> Option<Look> {
        self.usage.last_look()
    }

    /// Counts of the shuffle; `None` without one.
    #[must_use]
    pub fn shuffle(&self) -> Option<ShuffleReading> {
        self.shuffle.read()
    }

    /// Records how long a part of a launch that worked took.
    pub fn observe_launch(&self, phase: LaunchPhase, took: Duration) {
        self.containers.observe_launch(phase, took);
    }

    /// Counts a launch that started no process.
    pub fn count_launch_failure(&self) {
        self.containers.count_launch_failure();
    }

    /// Counts one local resource that a container got, and its size in bytes on the disk.
    pub fn observe_resource(&self, cache: CacheUse, bytes: u64) {
        self.containers.observe_resource(cache, bytes);
    }

    /// Records the localization of one container, from the order until all its resources are there
    /// or one is known to fail.
    pub fn observe_localization(&self, outcome: CallOutcome, took: Duration) {
        self.containers.observe_localization(outcome, took);
    }

    /// Counts an upload of logs, with its files and their bytes.
    pub fn observe_log_upload(&self, outcome: CallOutcome, files: u64, bytes: u64) {
        self.logs.observe(outcome, files, bytes);
    }

    /// Records a heartbeat to the RM, from sending until its answer, error or time-out.
    pub fn observe_heartbeat(&self, outcome: CallOutcome, took: Duration) {
        self.calls.observe_heartbeat(outcome, took);
    }

    /// Counts a registration with the RM.
    pub fn count_registration(&self, outcome: CallOutcome) {
        self.calls.count_registration(outcome);
    }

    /// Records a call that this node answered; `took` is from the whole request read until the
    /// answer is handed over.
    pub fn observe_rpc(&self, method: RpcMethod, outcome: CallOutcome, took: Duration) {
        self.calls.observe_rpc(method, outcome, took);
    }

    /// Returns the calls of this method that this node has answered.
    #[must_use]
    pub fn answered(&self, method: RpcMethod) -> Answered {
        self.calls.answered(method)
    }

    /// Returns the counts of what a port refuses, for its server.
    #[must_use]
    pub fn refusals(&self, port: Port) -> Arc<Refusals> {
        self.refusals.of(port)
    }

    /// Sets whether containers have cgroups, found out once at start.
    pub fn set_isolation(&self, availability: &Availability) {
        self.node.set_isolation(availability);
    }

    /// Takes in what the monitor measured.
    pub fn observe_sample(&self, sample: &Sample) {
        self.usage.observe(sample);
    }

    /// Takes in what the monitor measured of each container.
    pub fn observe_containers(&self, looks: &[ContainerLook]) {
        self.container_uses.observe(looks);
        self.asked_and_used.observe(looks);
    }

    /// Records how long a container's resources took.
    pub fn container_localized(&self, id: ContainerId, took: Duration) {
        self.container_uses.localized(id, took);
    }

    /// Records how long it took from the acceptance of a container until it had a process.
    pub fn container_launched(&self, id: ContainerId, took: Duration) {
        self.container_uses.launched(id, took);
    }

    /// Forgets a container that has ended.
    pub fn container_completed(&self, id: ContainerId) {
        self.container_uses.completed(id);
    }

    /// Returns what is known of each container that is on the node and not new.
    #[must_use]
    pub fn container_uses(&self) -> BTreeMap<ContainerId, ContainerUse> {
        self.container_uses.all()
    }

    /// Sets the gauges. Without a call they stand at zero.
    pub fn set_node(&self, node: &NodeSnapshot) {
        self.node.set(node);
    }

    /// Makes `read` the source of the AMRMProxy's gauges, at each request for them. The first call
    /// counts.
    pub fn watch_proxy(&self, read: impl Fn() -> ProxyReading + Send + Sync + 'static) {
        self.proxy.watch(Box::new(read));
    }

    /// Makes `read` the source of the shuffle's series, at each request for them. The first call
    /// counts.
    pub fn watch_shuffle(&self, read: impl Fn() -> ShuffleReading + Send + Sync + 'static) {
        self.shuffle.watch(Box::new(read));
    }

    /// Makes `read` the source of the series of a service of this name for Spark's shuffle, at each
    /// request for them.
    pub fn watch_spark_shuffle(
        &self,
        service: &str,
        read: impl Fn() -> SparkShuffleReading + Send + Sync + 'static,
    ) {
        self.spark_shuffle.watch(service.to_owned(), Box::new(read));
    }

    /// Makes `read` the source of the gauges of the node's login to Kerberos, at each request for
    /// them. The first call counts, and makes them.
    pub fn watch_login(&self, read: impl Fn() -> LoginReading + Send + Sync + 'static) {
        self.kerberos.watch(&Maker(&self.registry), Box::new(read));
    }

    /// Counts applications whose credentials of the ResourceManager are not taken; without effect
    /// in a cluster without Kerberos.
    pub fn count_refused_credentials(&self, applications: u64) {
        self.kerberos.count_refused_credentials(applications);
    }

    /// Makes `read` the source of the counts of traces, at each request for them. The first call
    /// counts, and makes them.
    pub fn watch_traces(&self, read: impl Fn() -> TraceReading + Send + Sync + 'static) {
        self.traces.watch(&Maker(&self.registry), Box::new(read));
    }

    /// Returns all series in Prometheus' text format 0.0.4.
    #[must_use]
    pub fn encode(&self) -> String {
        self.proxy.refresh();
        self.shuffle.refresh();
        self.spark_shuffle.refresh();
        self.refusals.refresh();
        self.kerberos.refresh();
        self.traces.refresh();
        TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .expect("every family has a child and a string can always be written to")
    }
}

impl Observer for Metrics {
    fn observe(&self, observation: &Observation) {
        self.proxy.observe(observation);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
