//! Values that a property is not meant for and with which Hadoop's NodeManager starts all the same.
//!
//! Each rule follows the code of Hadoop 3.4.2 that reads the property. A property without a rule
//! here is refused when its number or word is odd, as by Hadoop, which throws.

use hadoop_conf::{Guard, Lenient};

/// Properties whose odd values are replaced. Ranges are those that the readers state.
pub(super) const LENIENT: &[Lenient] = &[
    Lenient::above("yarn.nodemanager.resource.percentage-physical-cpu-limit"),
    Lenient::below("yarn.nodemanager.localizer.cache.target-size-mb"),
    Lenient::below("yarn.nodemanager.log.retain-seconds"),
    Lenient::below("yarn.nodemanager.log-aggregation.roll-monitoring-interval-seconds.min"),
    Lenient::below("yarn.nodemanager.process-kill-wait.ms"),
    Lenient::below("yarn.nodemanager.container-diagnostics-maximum-size"),
    Lenient::below("yarn.nodemanager.container.stderr.tail.bytes"),
    Lenient::below("yarn.nodemanager.container-retry-minimum-interval-ms"),
    Lenient::below("yarn.nodemanager.linux-container-executor.cgroups.delete-delay-ms"),
    Lenient::below("yarn.nodemanager.linux-container-executor.cgroups.delete-timeout-ms"),
    Lenient::below("yarn.nodemanager.disk-health-checker.min-healthy-disks"),
    Lenient::below("yarn.nodemanager.disk-health-checker.min-free-space-per-disk-mb"),
    Lenient::below(
        "yarn.nodemanager.disk-health-checker.min-free-space-per-disk-watermark-high-mb",
    ),
    Lenient::below("yarn.nodemanager.node-labels.resync-interval-ms"),
    Lenient::below("yarn.nodemanager.node-attributes.resync-interval-ms"),
    Lenient::below("mapreduce.shuffle.connection-keep-alive.timeout"),
    Lenient::below("mapreduce.shuffle.max.connections"),
    Lenient::below("mapreduce.shuffle.readahead.bytes"),
    Lenient::clamped(
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage",
    ),
    Lenient::clamped(
        "yarn.nodemanager.disk-health-checker.disk-utilization-watermark-low-per-disk-percentage",
    ),
    Lenient::default_below("yarn.nodemanager.log-aggregation.num-log-files-per-app"),
    Lenient::default_for_all("yarn.nodemanager.logaggregation.threadpool-size-max"),
    Lenient::default_for_other("yarn.nodemanager.resourcemanager.minimum.version"),
    // Hadoop's NodeManager does not read it.
    Lenient::default_for_other("yarn.resourcemanager.nm-container-queuing.load-comparator"),
    Lenient::default_for_other("yarn.http.policy"),
];

/// Odd values of the properties whose rule depends on others, in words for the page of properties.
#[cfg(test)]
pub(super) const IN_WORDS: &[(&str, &str)] = &[
    (
        "yarn.nodemanager.resource-monitor.interval-ms",
        "0 and less: the machine is not measured, nor are containers without an interval of their own",
    ),
    (
        "yarn.nodemanager.container-monitor.interval-ms",
        "0 and less: containers are not measured",
    ),
    ("yarn.nodemanager.delete.thread-count", "0: one"),
    ("mapreduce.shuffle.listen.queue.size", "0: one"),
    (
        "hadoop.security.authentication",
        "refused; in any case of letters",
    ),
    ("hadoop.rpc.protection", "refused"),
    (
        "hadoop.security.group.mapping",
        "groups are those of the system, with a warning where lists of access count",
    ),
    (
        "yarn.nodemanager.linux-container-executor.resources-handler.class",
        "without effect",
    ),
    (
        "yarn.nodemanager.opportunistic-containers-queue-policy",
        "refused",
    ),
    (
        "yarn.nodemanager.delete.debug-delay-sec",
        "-1: nothing is deleted; less: 0",
    ),
    (
        "yarn.nodemanager.resource.system-reserved-memory-mb",
        "-1: a fifth of the memory; less: 0",
    ),
    (
        "yarn.nodemanager.disk-health-checker.min-healthy-disks",
        "below the range: the lowest; above 1: the node is never healthy",
    ),
    (
        "yarn.nodemanager.opportunistic-containers-max-queue-length",
        "less than 0: 0",
    ),
    (
        "yarn.nodemanager.sleep-delay-before-sigkill.ms",
        "less than 0: 0",
    ),
    (
        "yarn.nodemanager.log-aggregation.roll-monitoring-interval-seconds",
        "0 and less: logs are uploaded at the application's end",
    ),
    (
        "yarn.resourcemanager.opportunistic.max.container-allocation.per.am.heartbeat",
        "0 and less: no limit",
    ),
    (
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms",
        "0 and less: the default",
    ),
    (
        "yarn.nm.liveness-monitor.expiry-interval-ms",
        "0 and less: the default",
    ),
    (
        "yarn.am.liveness-monitor.expiry-interval-ms",
        "also with a unit, such as `15m`; other texts: refused with the AMRMProxy",
    ),
    (
        "ipc.client.rpc-timeout.ms",
        "0 and less, no limit in Hadoop: the default",
    ),
    (
        "yarn.http.policy",
        "in any case of letters; `HTTP_AND_HTTPS` and unknown words: `HTTP_ONLY`, as in Hadoop; \
         other words with `HTTPS`: refused",
    ),
    (
        "yarn.nodemanager.admin-env",
        "parts that are not `NAME=value`: left out",
    ),
    (
        "yarn.nodemanager.env-whitelist",
        "parts that name no variable: left out",
    ),
    (
        "yarn.nodemanager.resource.pcores-vcores-multiplier",
        "refused where vcores are detected",
    ),
    (
        "yarn.nodemanager.resource.memory.cgroups.swappiness",
        "refused with cgroups of memory",
    ),
    (
        "yarn.nodemanager.resource.memory.cgroups.soft-limit-percentage",
        "refused with cgroups of memory",
    ),
    (
        "yarn.nodemanager.health-checker.timeout-ms",
        "refused with a health script",
    ),
    (
        "yarn.nodemanager.health-checker.interval-ms",
        "refused with a health script",
    ),
    (
        "yarn.nodemanager.disk-health-checker.interval-ms",
        "refused with checks of disks",
    ),
    (
        "yarn.nodemanager.log-aggregation.compression-type",
        "refused with aggregation of logs",
    ),
    (
        "yarn.nodemanager.log-aggregation.policy.class",
        "refused with aggregation of logs",
    ),
    (
        "yarn.nodemanager.linux-container-executor.nonsecure-mode.user-pattern",
        "refused with LinuxContainerExecutor",
    ),
];

const fn guard(name: &'static str, protects: bool) -> Guard {
    Guard { name, protects }
}

/// Flags of which one value protects. Hadoop reads any other text as the default; where that is the
/// open value, and the text may have been meant as the other one, the agent does not start.
pub(super) const GUARDS: &[Guard] = &[
    guard("yarn.acl.enable", true),
    guard("yarn.webapp.filter-entity-list-by-user", true),
    guard("hadoop.security.authorization", true),
    guard("hadoop.security.instrumentation.requires.admin", true),
    guard("hadoop.http.authentication.simple.anonymous.allowed", false),
    guard("hadoop.ssl.require.client.cert", true),
    guard("mapreduce.shuffle.ssl.enabled", true),
    guard("yarn.intermediate-data-encryption.enable", true),
    guard("yarn.nodemanager.webapp.rest-csrf.enabled", true),
    guard(
        "yarn.nodemanager.linux-container-executor.nonsecure-mode.limit-users",
        true,
    ),
];
