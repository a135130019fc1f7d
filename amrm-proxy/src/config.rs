//! Configuration of the proxy as plain values, and the names of interceptors in Hadoop and in this
//! project.

use std::time::Duration;

pub use role_history_store::FileAccess;
pub use sched::DistributedAllocatorConfig;
use thiserror::Error;
use wire::secrets::RollTimes;

use crate::rm_forwarder::RmConfig;
pub use crate::role_history::files::FilesConfig;
pub use crate::role_history::opt_in::{HistoryRule, OptIn};

/// Kind of interceptor, as named in the configured pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InterceptorKind {
    /// Counts and times every call.
    CallMetrics,
    /// Delays AMs that call too often and refuses excessive asks.
    Throttle,
    /// Makes asks opportunistic by an operator's rules.
    Relabel,
    /// Keeps the role history of services that opt in.
    RoleHistory,
    /// Answers opportunistic asks on this node.
    DistributedScheduler,
    /// Sends calls to the ResourceManager; always the last.
    Forwarder,
}

impl InterceptorKind {
    /// Every kind, in the order of a chain that has all.
    pub const ALL: [Self; 6] = [
        Self::CallMetrics,
        Self::Throttle,
        Self::Relabel,
        Self::RoleHistory,
        Self::DistributedScheduler,
        Self::Forwarder,
    ];

    /// Returns the name that this project gives the kind.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CallMetrics => "call-metrics",
            Self::Throttle => "throttle",
            Self::Relabel => "relabel",
            Self::RoleHistory => "role-history",
            Self::DistributedScheduler => "distributed-scheduler",
            Self::Forwarder => "forwarder",
        }
    }

    /// Returns the name of Hadoop's class for this kind, or `None` if Hadoop has none.
    #[must_use]
    pub const fn class_name(self) -> Option<&'static str> {
        match self {
            Self::DistributedScheduler => {
                Some("org.apache.hadoop.yarn.server.nodemanager.scheduler.DistributedScheduler")
            }
            Self::Forwarder => Some(
                "org.apache.hadoop.yarn.server.nodemanager.amrmproxy.DefaultRequestInterceptor",
            ),
            Self::CallMetrics | Self::Throttle | Self::Relabel | Self::RoleHistory => None,
        }
    }

    /// Returns the kind of this name, this project's or Hadoop's.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == name || kind.class_name() == Some(name))
    }
}

/// Reason for which a configured pipeline cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PipelineError {
    /// A name that neither Hadoop nor this project gives to an available interceptor.
    #[error("{name} is no known interceptor; known are {}", known())]
    Unknown {
        /// Name as written in the configuration.
        name: String,
    },
    /// The forwarder is missing or not the last.
    #[error("the last interceptor must be the forwarder, {}", InterceptorKind::Forwarder.class_name().unwrap_or_default())]
    ForwarderNotLast,
    /// An interceptor is listed twice.
    #[error("{} stands twice", .0.as_str())]
    Twice(InterceptorKind),
    /// The distributed scheduler without distributed scheduling: only
    /// DistributedSchedulingAMProtocol grants it containers.
    #[error(
        "{} needs yarn.nodemanager.distributed-scheduling.enabled",
        InterceptorKind::DistributedScheduler.as_str()
    )]
    SchedulerWithoutScheduling,
    /// Two interceptors in the wrong order. The rules make asks opportunistic, the role history
    /// chooses nodes for them, and the distributed scheduler answers them.
    #[error("{} must stand before {}", first.as_str(), second.as_str())]
    WrongOrder {
        /// Interceptor that works on the asks first.
        first: InterceptorKind,
        /// Interceptor that takes the asks from it.
        second: InterceptorKind,
    },
    /// The role history without a directory for its files.
    #[error(
        "{} needs yarn.nodemanager.agent.role-history.dir",
        InterceptorKind::RoleHistory.as_str()
    )]
    HistoryWithoutDirectory,
}

fn known() -> String {
    let names = InterceptorKind::ALL.map(|kind| match kind.class_name() {
        Some(class) => format!("{} ({class})", kind.as_str()),
        None => kind.as_str().to_owned(),
    });
    names.join(", ")
}

/// Reads `yarn.nodemanager.amrmproxy.interceptor-class.pipeline`: names in the order from the AM to
/// the ResourceManager. Interceptors that other settings require and the list does not name are put
/// before the list: metrics and throttling always, relabelling if there are rules, the role history
/// if it has a directory, and the distributed scheduler if distributed scheduling is on, as in
/// Hadoop.
///
/// # Errors
/// [`PipelineError`] for the first problem found.
pub fn read_pipeline<'a>(
    names: impl IntoIterator<Item = &'a str>,
    has_rules: bool,
    has_history: bool,
    distributed_scheduling: bool,
) -> Result<Vec<InterceptorKind>, PipelineError> {
    let mut listed = Vec::new();
    for name in names {
        let kind = InterceptorKind::from_name(name).ok_or_else(|| PipelineError::Unknown {
            name: name.to_owned(),
        })?;
        if listed.contains(&kind) {
            return Err(PipelineError::Twice(kind));
        }
        listed.push(kind);
    }
    if listed.last() != Some(&InterceptorKind::Forwarder) {
        return Err(PipelineError::ForwarderNotLast);
    }
    let wanted = InterceptorKind::ALL.into_iter().filter(|kind| match kind {
        InterceptorKind::CallMetrics | InterceptorKind::Throttle => true,
        InterceptorKind::Relabel => has_rules,
        InterceptorKind::RoleHistory => has_history,
        InterceptorKind::DistributedScheduler => distributed_scheduling,
        InterceptorKind::Forwarder => false,
    });
    let mut pipeline: Vec<_> = wanted.filter(|kind| !listed.contains(kind)).collect();
    pipeline.extend(listed);
    let place = |kind| pipeline.iter().position(|each| *each == kind);
    let scheduler = place(InterceptorKind::DistributedScheduler);
    if scheduler.is_some() && !distributed_scheduling {
        return Err(PipelineError::SchedulerWithoutScheduling);
    }
    if place(InterceptorKind::RoleHistory).is_some() && !has_history {
        return Err(PipelineError::HistoryWithoutDirectory);
    }
    for (first, second) in [
        (
            InterceptorKind::Relabel,
            InterceptorKind::DistributedScheduler,
        ),
        (
            InterceptorKind::RoleHistory,
            InterceptorKind::DistributedScheduler,
        ),
        (InterceptorKind::Relabel, InterceptorKind::RoleHistory),
    ] {
        if place(second).is_some_and(|at| place(first).is_some_and(|other| other > at)) {
            return Err(PipelineError::WrongOrder { first, second });
        }
    }
    Ok(pipeline)
}

/// Limits of one attempt's calls and asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottleConfig {
    /// Sustained rate of one attempt's calls, per second; 0 for no limit.
    pub calls_per_second_max: u32,
    /// Calls that the attempt may make in a burst before the rate applies.
    pub calls_burst: u32,
    /// Lines of asks in one call.
    pub asks_per_call_max: usize,
    /// Containers that one attempt may have requested and not received.
    pub containers_outstanding_max: u64,
}

impl Default for ThrottleConfig {
    /// Returns limits far above what AMs do. They call once or twice a second, Spark and MapReduce
    /// up to ten times. The largest jobs have some hundred thousand tasks. A job that names every
    /// host of 10,000 nodes at ten priorities sends 100,000 lines.
    fn default() -> Self {
        Self {
            calls_per_second_max: 50,
            calls_burst: 100,
            asks_per_call_max: 100_000,
            containers_outstanding_max: 1_000_000,
        }
    }
}

/// An operator's rule that makes asks of some applications opportunistic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelabelRule {
    /// Name of the rule for log lines.
    pub name: String,
    /// User whose applications the rule applies to; `None` for every user.
    pub user: Option<String>,
    /// Tag in the AM's environment that the rule applies to; `None` for any tags.
    pub tag: Option<String>,
    /// Lowest priority number of the asks that the rule applies to.
    pub priority_min: i32,
    /// Highest priority number of the asks that the rule applies to.
    pub priority_max: i32,
    /// Percentage of containers that become opportunistic, 1 to 100.
    pub percent: u8,
    /// Age of a container at which its promotion is requested, in milliseconds since the AM got it;
    /// `None` for never. The proxy cannot know whether the container ran all that time.
    pub promote_after_ms: Option<u64>,
}

/// Role histories of the services whose AMs run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryConfig {
    /// Files of the histories.
    pub files: FilesConfig,
    /// Milliseconds until an ask for a host of the history is relaxed, for roles without a timeout
    /// of their own.
    pub placement_timeout_ms: u64,
    /// Rules that opt in for AMs that do not; the first match counts.
    pub rules: Vec<HistoryRule>,
}

/// Configuration of the whole proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyConfig {
    /// Interceptors from the AM to the ResourceManager, as [`read_pipeline`] returns them.
    pub pipeline: Vec<InterceptorKind>,
    /// Addresses of the ResourceManagers, and how they are called.
    pub rm: RmConfig,
    /// AMRMToken that AMs are started with.
    pub token: TokenPolicy,
    /// Lifetime of the local master key of AMRMTokens.
    pub keys: RollTimes,
    /// Limits of each attempt's calls and asks.
    pub throttle: ThrottleConfig,
    /// Rules for opportunistic asks; the first match counts.
    pub relabel: Vec<RelabelRule>,
    /// Role histories; `None` without a directory for them.
    pub role_history: Option<HistoryConfig>,
    /// Settings of the distributed scheduler's allocator.
    pub allocator: DistributedAllocatorConfig,
}

/// AMRMToken that an AM is started with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenPolicy {
    /// A local one in place of the ResourceManager's, as in Hadoop: the AM can call through this
    /// node only.
    #[default]
    Replace,
    /// The ResourceManager's: the AM can call through this node, and the ResourceManager itself.
    Keep,
}

/// Interval at which the proxy checks whether its key has to roll.
pub(crate) const KEY_CHECK_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use InterceptorKind::{
        CallMetrics, DistributedScheduler, Forwarder, Relabel, RoleHistory, Throttle,
    };

    const HADOOPS: &str =
        "org.apache.hadoop.yarn.server.nodemanager.amrmproxy.DefaultRequestInterceptor";

    #[test]
    fn hadoops_default_gets_metrics_and_throttling() {
        assert_eq!(
            read_pipeline([HADOOPS], false, false, false),
            Ok(vec![CallMetrics, Throttle, Forwarder])
        );
    }

    #[test]
    fn settings_put_the_scheduler_and_the_rules_before_the_list() {
        assert_eq!(
            read_pipeline([HADOOPS], true, true, true),
            Ok(vec![
                CallMetrics,
                Throttle,
                Relabel,
                RoleHistory,
                DistributedScheduler,
                Forwarder
            ])
        );
    }

    #[test]
    fn the_lists_own_order_stands() {
        let names = ["distributed-scheduler", "throttle", "forwarder"];
        assert_eq!(
            read_pipeline(names, false, false, true),
            Ok(vec![CallMetrics, DistributedScheduler, Throttle, Forwarder])
        );
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let federation =
            "org.apache.hadoop.yarn.server.nodemanager.amrmproxy.FederationInterceptor";
        let error = read_pipeline([federation, HADOOPS], false, false, false).unwrap_err();
        let text = error.to_string();
        for name in [federation, HADOOPS, "throttle", "relabel", "call-metrics"] {
            assert!(text.contains(name), "{text}");
        }
    }

    #[test]
    fn the_scheduler_is_not_built_where_nothing_would_be_granted() {
        let names = ["distributed-scheduler", "forwarder"];
        assert_eq!(
            read_pipeline(names, false, false, false),
            Err(PipelineError::SchedulerWithoutScheduling)
        );
        assert!(read_pipeline(names, false, false, true).is_ok());
    }

    #[test]
    fn rules_stand_where_the_scheduler_sees_their_work() {
        // The second list names only the rules, so that the scheduler is put before the list.
        for names in [
            &["distributed-scheduler", "relabel", "forwarder"][..],
            &["relabel", "forwarder"],
        ] {
            assert_eq!(
                read_pipeline(names.iter().copied(), true, false, true),
                Err(PipelineError::WrongOrder {
                    first: Relabel,
                    second: DistributedScheduler
                })
            );
        }
        let right = ["relabel", "distributed-scheduler", "forwarder"];
        assert!(read_pipeline(right, true, false, true).is_ok());
        assert!(read_pipeline(["relabel", "forwarder"], true, false, false).is_ok());
    }

    #[test]
    fn the_role_history_stands_between_the_rules_and_the_scheduler() {
        for (names, first, second) in [
            (
                [
                    "role-history",
                    "relabel",
                    "distributed-scheduler",
                    "forwarder",
                ],
                Relabel,
                RoleHistory,
            ),
            (
                [
                    "relabel",
                    "distributed-scheduler",
                    "role-history",
                    "forwarder",
                ],
                RoleHistory,
                DistributedScheduler,
            ),
        ] {
            assert_eq!(
                read_pipeline(names, true, true, true),
                Err(PipelineError::WrongOrder { first, second })
            );
        }
        assert_eq!(
            read_pipeline(["role-history", "forwarder"], false, false, false),
            Err(PipelineError::HistoryWithoutDirectory)
        );
    }

    #[test]
    fn a_chain_must_end_with_one_forwarder() {
        for names in [&[][..], &["throttle"], &["forwarder", "throttle"]] {
            assert_eq!(
                read_pipeline(names.iter().copied(), false, false, false),
                Err(PipelineError::ForwarderNotLast)
            );
        }
        assert_eq!(
            read_pipeline(["forwarder", HADOOPS], false, false, false),
            Err(PipelineError::Twice(Forwarder))
        );
    }
}
