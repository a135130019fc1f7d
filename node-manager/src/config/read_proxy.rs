//! Properties to the AMRMProxy's section.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use amrm_proxy::config::{ProxyConfig, RelabelRule, ThrottleConfig, TokenPolicy, read_pipeline};
use amrm_proxy::rm_forwarder::RmConfig;
use hadoop_conf::site_xml::Origin;
use hadoop_conf::{Expected, HostPort, PropertyReader, parse};
use sched::{DistributedAllocatorConfig, Placement};
use wire::protection::Protections;
use wire::secrets::RollTimes;

use super::read_history::role_history;
use super::read_node::{own_or_general, rule_names};
use super::sections::{AmrmProxyConfig, ResourceManagerConfig};

const ENABLED: &str = "yarn.nodemanager.amrmproxy.enabled";
const DISTRIBUTED: &str = "yarn.nodemanager.distributed-scheduling.enabled";
const PER_HEARTBEAT: &str =
    "yarn.resourcemanager.opportunistic.max.container-allocation.per.am.heartbeat";
const SCHEDULER: &str = "yarn.resourcemanager.scheduler.address";
const PIPELINE: &str = "yarn.nodemanager.amrmproxy.interceptor-class.pipeline";
const ROLL_INTERVAL: &str = "yarn.resourcemanager.am-rm-tokens.master-key-rolling-interval-secs";
const AM_EXPIRY: &str = "yarn.am.liveness-monitor.expiry-interval-ms";
const TOKEN: &str = "yarn.nodemanager.agent.amrmproxy.token";
const PLACEMENT: &str = "yarn.nodemanager.agent.amrmproxy.placement";
const LOOK_WAIT: &str = "yarn.nodemanager.agent.amrmproxy.look-wait-ms";
const RULES: &str = "yarn.nodemanager.agent.amrmproxy.relabel.rules";

pub(super) fn amrm_proxy(
    reader: &mut PropertyReader<'_>,
    rm: &ResourceManagerConfig,
    protections: &Protections,
    pages_over_tls: bool,
) -> AmrmProxyConfig {
    let enabled = reader.flag(ENABLED);
    let distributed_scheduling = reader.flag(DISTRIBUTED);
    let enabled = enabled || distributed_scheduling;
    let mut config = reader.only_if(enabled, "without the AMRMProxy", |reader| {
        proxy(reader, rm, protections, enabled, distributed_scheduling)
    });
    let placement = &mut config.proxy.allocator.placement;
    if distributed_scheduling
        && pages_over_tls
        && *placement == Placement::Look
        && !config.binds_late
    {
        // Nodes of a cluster are configured alike, and looks do not speak TLS.
        let how = "with yarn.http.policy = HTTPS_ONLY no node is looked at: spread is in force";
        reader.otherwise(PLACEMENT, how);
        *placement = Placement::Spread;
    }
    config
}

fn proxy(
    reader: &mut PropertyReader<'_>,
    rm: &ResourceManagerConfig,
    protections: &Protections,
    enabled: bool,
    distributed_scheduling: bool,
) -> AmrmProxyConfig {
    let relabel = rules(reader);
    let role_history = role_history(reader);
    let names = reader.list(PIPELINE);
    let pipeline = read_pipeline(
        names.iter().map(String::as_str),
        !relabel.is_empty(),
        role_history.is_some(),
        distributed_scheduling,
    )
    .unwrap_or_else(|error| {
        reader.problem(PIPELINE, Expected::Rule(error.to_string().into()));
        Vec::new()
    });
    // Hadoop's distributed scheduler waits for the ResourceManager as the node does, its plain
    // proxy as a client does.
    let (max_wait, interval) = if distributed_scheduling {
        let max_wait = own_or_general(reader, "resourcemanager.connect.max-wait.ms", -1);
        let interval = own_or_general(reader, "resourcemanager.connect.retry-interval.ms", 0);
        (max_wait, interval)
    } else {
        let max_wait = reader.integer("yarn.resourcemanager.connect.max-wait.ms", -1..=i64::MAX);
        let interval = "yarn.resourcemanager.connect.retry-interval.ms";
        (max_wait, reader.integer(interval, 0..=i64::MAX))
    };
    let (placement, binds_late) = placement(reader);
    let address = reader.address("yarn.nodemanager.amrmproxy.address", 8049);
    if enabled
        && rm
            .endpoints
            .iter()
            .any(|endpoint| is_itself(&endpoint.scheduler, &address))
    {
        reader.problem(SCHEDULER, Expected::Rule("is this node's own AMRMProxy; only the configuration of ApplicationMasters names it here".into()));
    }
    AmrmProxyConfig {
        enabled,
        address,
        binds_late,
        look_wait_ms: reader.duration_ms(LOOK_WAIT, 1),
        proxy: ProxyConfig {
            pipeline,
            rm: RmConfig {
                addresses: rm
                    .endpoints
                    .iter()
                    .map(|endpoint| endpoint.scheduler.to_string())
                    .collect(),
                max_wait: u64::try_from(max_wait).ok().map(Duration::from_millis),
                retry_interval: Duration::from_millis(u64::try_from(interval).unwrap_or(0).max(1)),
                distributed_scheduling,
                protections: protections.clone(),
            },
            token: token(reader, enabled),
            keys: keys(reader, enabled),
            throttle: throttle(reader),
            relabel,
            role_history,
            allocator: allocator(reader, placement),
        },
    }
}

/// Returns whether the scheduler's address is the one that the proxy itself listens on: an AM's
/// configuration must contain it, the node's must not.
fn is_itself(scheduler: &HostPort, proxy: &HostPort) -> bool {
    let is_here = |address: &HostPort| {
        let ip = address.host.parse::<IpAddr>();
        address.is_wildcard() || address.host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    };
    let same_host = scheduler.host == proxy.host;
    scheduler.port == proxy.port && proxy.port != 0 && (same_host || is_here(scheduler))
}

/// Reads which AMRMToken masters get. Who turns the proxy on and does not choose is told what the
/// default does to jobs that do not name it.
fn token(reader: &mut PropertyReader<'_>, is_needed: bool) -> TokenPolicy {
    let replace = ("replace", TokenPolicy::Replace);
    let policy = reader.choice(TOKEN, replace, &[("keep", TokenPolicy::Keep)]);
    if is_needed && reader.origin(TOKEN) == Origin::Default {
        reader.consequence(
            TOKEN,
            "a job whose configuration does not name this node's AMRMProxy fails with \
             \"Invalid AMRMToken\"; keep lets such jobs run beside those that name it",
        );
    }
    policy
}

/// How the local key rolls. A new key counts from 1.5 times the AMs' expiry on, when each AM has
/// either spoken and got a token of it or is lost (Hadoop: `AMRMProxyTokenSecretManager`, which
/// refuses to start as well).
fn keys(reader: &mut PropertyReader<'_>, is_needed: bool) -> RollTimes {
    let interval = reader.u64(ROLL_INTERVAL, 1).saturating_mul(1000);
    let expiry = reader.duration_ms(AM_EXPIRY, 1);
    let overlap = expiry.saturating_add(expiry / 2);
    if is_needed && interval <= overlap.saturating_mul(2) {
        let least = overlap.saturating_mul(2) / 1000;
        let rule = format!("must be more than {least} s, three times {AM_EXPIRY}");
        reader.problem(ROLL_INTERVAL, Expected::Rule(rule.into()));
    }
    RollTimes { interval, overlap }
}

/// Reads how nodes are chosen, and whether containers are bound late. Where nodes do not take
/// reservations, late binding places by looks.
fn placement(reader: &mut PropertyReader<'_>) -> (Placement, bool) {
    reader.choice(
        PLACEMENT,
        ("look", (Placement::Look, false)),
        &[
            ("reservations", (Placement::Look, true)),
            ("spread", (Placement::Spread, false)),
            ("list-order", (Placement::ListOrder, false)),
        ],
    )
}

fn allocator(reader: &mut PropertyReader<'_>, placement: Placement) -> DistributedAllocatorConfig {
    // 0 and less mean any number.
    let max = reader.integer(PER_HEARTBEAT, i64::from(i32::MIN)..=i64::from(i32::MAX));
    let mut at_least_one =
        |name: &str| NonZeroU32::new(reader.u32(name, 1)).unwrap_or(NonZeroU32::MIN);
    DistributedAllocatorConfig {
        max_per_heartbeat: u32::try_from(max).ok().and_then(NonZeroU32::new),
        node_local_max: at_least_one("yarn.nodemanager.agent.amrmproxy.containers-per-named-host"),
        elsewhere_max: at_least_one("yarn.nodemanager.agent.amrmproxy.containers-per-node"),
        placement,
        ..DistributedAllocatorConfig::default()
    }
}

fn throttle(reader: &mut PropertyReader<'_>) -> ThrottleConfig {
    let count = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    ThrottleConfig {
        calls_per_second_max: reader.u32(
            "yarn.nodemanager.agent.amrmproxy.throttle.calls-per-second",
            0,
        ),
        calls_burst: reader.u32("yarn.nodemanager.agent.amrmproxy.throttle.calls-burst", 1),
        asks_per_call_max: count(
            reader.u64("yarn.nodemanager.agent.amrmproxy.throttle.asks-per-call", 1),
        ),
        containers_outstanding_max: reader.u64(
            "yarn.nodemanager.agent.amrmproxy.throttle.containers-outstanding",
            1,
        ),
    }
}

fn rules(reader: &mut PropertyReader<'_>) -> Vec<RelabelRule> {
    let mut rules = Vec::new();
    for name in rule_names(reader, RULES) {
        let of = |what: &str| format!("yarn.nodemanager.agent.amrmproxy.relabel.{name}.{what}");
        let (priority_min, priority_max) = priorities(reader, &of("priorities"));
        let percent = reader
            .integer_if_set(&of("percent"), 1..=100)
            .unwrap_or(100);
        let promote_after = reader.integer_if_set(&of("promote-after-ms"), 0..=i64::MAX);
        rules.push(RelabelRule {
            user: reader.text(&of("user")),
            tag: reader.text(&of("tag")),
            priority_min,
            priority_max,
            percent: u8::try_from(percent).unwrap_or(100),
            promote_after_ms: promote_after.and_then(|after| u64::try_from(after).ok()),
            name,
        });
    }
    rules
}

/// Reads one priority, or two with a `-` between them; every priority if the property is unset.
fn priorities(reader: &mut PropertyReader<'_>, name: &str) -> (i32, i32) {
    const ALL: (i32, i32) = (i32::MIN, i32::MAX);
    let Some(text) = reader.text(name) else {
        return ALL;
    };
    let bound = |text: &str| parse::trim(text).parse::<u32>().ok();
    let range = match text.split_once('-') {
        Some((first, last)) => bound(first).zip(bound(last)),
        None => bound(&text).map(|only| (only, only)),
    };
    let range = range
        .filter(|(first, last)| first <= last)
        .and_then(|(first, last)| Some((i32::try_from(first).ok()?, i32::try_from(last).ok()?)));
    range.unwrap_or_else(|| {
        reader.problem(
            name,
            Expected::Rule(
                "must be a priority such as 5, or two with a - between them such as 1-20".into(),
            ),
        );
        ALL
    })
}
