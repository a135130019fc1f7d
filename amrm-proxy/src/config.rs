//! What the proxy is told: plain values, and the names of interceptors as Hadoop and this project write them.

use std::time::Duration;

pub use sched::DistributedAllocatorConfig;
use thiserror::Error;
use wire::secrets::RollTimes;

use crate::rm_forwarder::RmConfig;

/// A place in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InterceptorKind {
    /// Counts and times every call.
    CallMetrics,
    /// Holds back AMs that ask too often or too much.
    Throttle,
    /// Makes asks opportunistic by an operator's rules.
    Relabel,
    /// Answers opportunistic asks on this node.
    DistributedScheduler,
    /// Speaks to the ResourceManager; always the last.
    Forwarder,
}

impl InterceptorKind {
    /// Every kind, in the order of a chain that has all.
    pub const ALL: [Self; 5] = [
        Self::CallMetrics,
        Self::Throttle,
        Self::Relabel,
        Self::DistributedScheduler,
        Self::Forwarder,
    ];

    /// This project's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CallMetrics => "call-metrics",
            Self::Throttle => "throttle",
            Self::Relabel => "relabel",
            Self::DistributedScheduler => "distributed-scheduler",
            Self::Forwarder => "forwarder",
        }
    }

    /// Hadoop's class, where it has one.
    #[must_use]
    pub const fn class_name(self) -> Option<&'static str> {
        match self {
            Self::DistributedScheduler => {
                Some("org.apache.hadoop.yarn.server.nodemanager.scheduler.DistributedScheduler")
            }
            Self::Forwarder => Some(
                "org.apache.hadoop.yarn.server.nodemanager.amrmproxy.DefaultRequestInterceptor",
            ),
            Self::CallMetrics | Self::Throttle | Self::Relabel => None,
        }
    }

    /// The kind of this name, short or Hadoop's.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == name || kind.class_name() == Some(name))
    }
}

/// A chain that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PipelineError {
    /// Neither Hadoop's name nor ours of an interceptor that exists here.
    #[error("{name} is no known interceptor; known are {}", known())]
    Unknown {
        /// As it is written.
        name: String,
    },
    /// The forwarder is not the last, or not there.
    #[error("the last interceptor must be the forwarder, {}", InterceptorKind::Forwarder.class_name().unwrap_or_default())]
    ForwarderNotLast,
    /// Twice in the chain.
    #[error("{} stands twice", .0.as_str())]
    Twice(InterceptorKind),
    /// The scheduler without what it needs: only DistributedSchedulingAMProtocol grants it containers.
    #[error(
        "{} needs yarn.nodemanager.distributed-scheduling.enabled",
        InterceptorKind::DistributedScheduler.as_str()
    )]
    SchedulerWithoutScheduling,
    /// The scheduler would not see what the rules make opportunistic.
    #[error(
        "{} must stand before {}",
        InterceptorKind::Relabel.as_str(),
        InterceptorKind::DistributedScheduler.as_str()
    )]
    RelabelAfterScheduler,
}

fn known() -> String {
    let names = InterceptorKind::ALL.map(|kind| match kind.class_name() {
        Some(class) => format!("{} ({class})", kind.as_str()),
        None => kind.as_str().to_owned(),
    });
    names.join(", ")
}

/// Reads `yarn.nodemanager.amrmproxy.interceptor-class.pipeline`: names in the order from the AM to the ResourceManager.
/// What the list does not name and the settings want is put before it: metrics and throttling always, relabelling when
/// there are rules, the distributed scheduler when distributed scheduling is on, as in Hadoop.
///
/// # Errors
/// [`PipelineError`].
pub fn read_pipeline<'a>(
    names: impl IntoIterator<Item = &'a str>,
    has_rules: bool,
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
    if scheduler.is_some_and(|at| place(InterceptorKind::Relabel).is_some_and(|other| other > at)) {
        return Err(PipelineError::RelabelAfterScheduler);
    }
    Ok(pipeline)
}

/// What an AM may do before it is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottleConfig {
    /// Calls that one attempt may make each second in the long run; 0: any number.
    pub calls_per_second_max: u32,
    /// Calls that it may make at once before that counts.
    pub calls_burst: u32,
    /// Lines of asks in one call.
    pub asks_per_call_max: usize,
    /// Containers that one attempt may have asked for and not got.
    pub containers_outstanding_max: u64,
}

impl Default for ThrottleConfig {
    /// Far above what AMs do: they call once or twice a second, Spark and MapReduce up to ten times; the largest jobs have
    /// some hundred thousand tasks; a job that names every host of 10,000 nodes at ten priorities sends 100,000 lines.
    fn default() -> Self {
        Self {
            calls_per_second_max: 50,
            calls_burst: 100,
            asks_per_call_max: 100_000,
            containers_outstanding_max: 1_000_000,
        }
    }
}

/// An operator's rule: whose asks become opportunistic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelabelRule {
    /// For logs.
    pub name: String,
    /// Only applications of this user; `None`: of anybody.
    pub user: Option<String>,
    /// Only applications whose AM has this tag in its environment; `None`: with any.
    pub tag: Option<String>,
    /// Only asks from this priority on.
    pub priority_min: i32,
    /// Only asks up to this priority.
    pub priority_max: i32,
    /// How many of a hundred containers become opportunistic, 1 to 100.
    pub percent: u8,
    /// The promotion of containers that were given out so long ago is asked for; `None`: never. Whether they ran all the time
    /// nobody on the way of an AM's call knows.
    pub promote_after_ms: Option<u64>,
}

/// Everything the proxy is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyConfig {
    /// From the AM to the ResourceManager; see [`read_pipeline`].
    pub pipeline: Vec<InterceptorKind>,
    /// The ResourceManagers.
    pub rm: RmConfig,
    /// The local key of AMRMTokens.
    pub keys: RollTimes,
    /// Limits of AMs.
    pub throttle: ThrottleConfig,
    /// Rules, the first that matches counts.
    pub relabel: Vec<RelabelRule>,
    /// How the distributed scheduler gives out containers.
    pub allocator: DistributedAllocatorConfig,
}

/// How often the proxy looks whether its key has to roll.
pub(crate) const KEY_CHECK_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use InterceptorKind::{CallMetrics, DistributedScheduler, Forwarder, Relabel, Throttle};

    const HADOOPS: &str =
        "org.apache.hadoop.yarn.server.nodemanager.amrmproxy.DefaultRequestInterceptor";

    #[test]
    fn hadoops_default_gets_metrics_and_throttling() {
        assert_eq!(
            read_pipeline([HADOOPS], false, false),
            Ok(vec![CallMetrics, Throttle, Forwarder])
        );
    }

    #[test]
    fn settings_put_the_scheduler_and_the_rules_before_the_list() {
        assert_eq!(
            read_pipeline([HADOOPS], true, true),
            Ok(vec![
                CallMetrics,
                Throttle,
                Relabel,
                DistributedScheduler,
                Forwarder
            ])
        );
    }

    #[test]
    fn the_lists_own_order_stands() {
        let names = ["distributed-scheduler", "throttle", "forwarder"];
        assert_eq!(
            read_pipeline(names, false, true),
            Ok(vec![CallMetrics, DistributedScheduler, Throttle, Forwarder])
        );
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let federation =
            "org.apache.hadoop.yarn.server.nodemanager.amrmproxy.FederationInterceptor";
        let error = read_pipeline([federation, HADOOPS], false, false).unwrap_err();
        let text = error.to_string();
        for name in [federation, HADOOPS, "throttle", "relabel", "call-metrics"] {
            assert!(text.contains(name), "{text}");
        }
    }

    #[test]
    fn the_scheduler_is_not_built_where_nothing_would_be_granted() {
        let names = ["distributed-scheduler", "forwarder"];
        assert_eq!(
            read_pipeline(names, false, false),
            Err(PipelineError::SchedulerWithoutScheduling)
        );
        assert!(read_pipeline(names, false, true).is_ok());
    }

    #[test]
    fn rules_stand_where_the_scheduler_sees_their_work() {
        // The second names only the rules, so that the scheduler is put before the list.
        for names in [
            &["distributed-scheduler", "relabel", "forwarder"][..],
            &["relabel", "forwarder"],
        ] {
            assert_eq!(
                read_pipeline(names.iter().copied(), true, true),
                Err(PipelineError::RelabelAfterScheduler)
            );
        }
        let right = ["relabel", "distributed-scheduler", "forwarder"];
        assert!(read_pipeline(right, true, true).is_ok());
        assert!(read_pipeline(["relabel", "forwarder"], true, false).is_ok());
    }

    #[test]
    fn a_chain_must_end_with_one_forwarder() {
        for names in [&[][..], &["throttle"], &["forwarder", "throttle"]] {
            assert_eq!(
                read_pipeline(names.iter().copied(), false, false),
                Err(PipelineError::ForwarderNotLast)
            );
        }
        assert_eq!(
            read_pipeline(["forwarder", HADOOPS], false, false),
            Err(PipelineError::Twice(Forwarder))
        );
    }
}
