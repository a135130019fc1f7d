//! Values that a property is not meant for: read as Hadoop reads them, or refused.

use super::*;

/// Settings with which Hadoop's NodeManager starts, each with a part of the warning. Empty: there
/// is nothing to warn of.
const READ: [(&str, &str, &str); 41] = [
    ("yarn.acl.enable", "0", "read as false"),
    ("yarn.acl.enable", "no", "read as false"),
    ("yarn.acl.enable", " TRUE ", "the lists bind only callers"),
    ("recovery.enabled", "yes", "read as false"),
    ("vmem-check-enabled", "no", "read as true"),
    (
        "hadoop.http.authentication.simple.anonymous.allowed",
        "yes",
        "read as true",
    ),
    (
        "linux-container-executor.nonsecure-mode.limit-users",
        "no",
        "read as true",
    ),
    ("resource-monitor.interval-ms", "0", ""),
    ("resource-monitor.interval-ms", "-1", ""),
    ("container-monitor.interval-ms", "0", ""),
    ("container-monitor.interval-ms", "-1", ""),
    ("yarn.http.policy", "http_only", ""),
    ("yarn.http.policy", "HTTP_AND_HTTPS", "read as HTTP_ONLY"),
    ("yarn.http.policy", "ftp", "read as HTTP_ONLY"),
    (
        "resource.percentage-physical-cpu-limit",
        "150",
        "read as 100",
    ),
    (
        "disk-health-checker.max-disk-utilization-per-disk-percentage",
        "120.5",
        "read as 100",
    ),
    (
        "disk-health-checker.max-disk-utilization-per-disk-percentage",
        "-1",
        "read as 0",
    ),
    (
        "disk-health-checker.min-healthy-disks",
        "1.5",
        "the node is never healthy",
    ),
    ("resource.memory.cgroups.swappiness", "101", "not read"),
    ("admin-env", "A=1,nonsense", "left out"),
    ("delete.debug-delay-sec", "-5", "read as 0"),
    ("delete.thread-count", "0", "read as 1"),
    ("localizer.cache.target-size-mb", "-1", "read as 0"),
    ("log.retain-seconds", "-1", "read as 0"),
    ("logaggregation.threadpool-size-max", "many", "read as 100"),
    ("process-kill-wait.ms", "-1", "read as 0"),
    ("container-diagnostics-maximum-size", "-1", "read as 0"),
    ("container-retry-minimum-interval-ms", "-1", "read as 0"),
    ("disk-health-checker.interval-ms", "120000", ""),
    ("health-checker.timeout-ms", "0", "without a health script"),
    (
        "yarn.nm.liveness-monitor.expiry-interval-ms",
        "0",
        "600000 counts",
    ),
    ("yarn.am.liveness-monitor.expiry-interval-ms", "15m", ""),
    (
        "amrmproxy.interceptor-class.pipeline",
        "x.Y",
        "not read without the AMRMProxy",
    ),
    ("ipc.client.rpc-timeout.ms", "0", "takes the default"),
    ("resourcemanager.minimum.version", "none", "read as NONE"),
    (
        "yarn.resourcemanager.nm-container-queuing.load-comparator",
        "LIGHT",
        "read as QUEUE_LENGTH",
    ),
    ("resource.pcores-vcores-multiplier", "0", "not detected"),
    ("resource.pcores-vcores-multiplier", "5000", ""),
    ("vmem-pmem-ratio", "0.995", ""),
    ("node-labels.provider.fetch-interval-ms", "0", "a provider"),
    (
        "yarn.webapp.filter-entity-list-by-user",
        "off",
        "read as false",
    ),
];

/// Returns the problems, if there are any, and the warnings.
fn told(loaded: &Loaded) -> (Option<Vec<String>>, Vec<String>) {
    let problems = loaded.config.as_ref().err().map(|problems| {
        let list = problems.list().iter();
        list.map(ToString::to_string).collect()
    });
    let warnings = loaded.warnings.iter().map(ToString::to_string).collect();
    (problems, warnings)
}

#[test]
fn where_hadoop_goes_on_the_agent_goes_on_with_a_warning_that_tells_the_value() {
    for (name, value, part) in READ {
        let (problems, warnings) = told(&loaded(&[(name, value)]));
        assert_eq!(problems, None, "{name} = {value}");
        let expected = usize::from(!part.is_empty());
        assert_eq!(warnings.len(), expected, "{name} = {value}: {warnings:?}");
        assert!(
            warnings.iter().all(|warning| warning.contains(part)),
            "{name} = {value}: {warnings:?}"
        );
    }
}

#[test]
fn where_hadoop_throws_the_agent_does_not_start() {
    for (name, value) in [
        ("resource.memory-mb", "8g"),
        ("resource.memory-mb", "0"),
        ("resource.percentage-physical-cpu-limit", "0"),
        ("delete.thread-count", "-1"),
        ("localizer.cache.cleanup.interval-ms", "0"),
        ("localizer.fetch.thread-count", "0"),
        ("resource-monitor.interval-ms", "3s"),
        ("disk-health-checker.interval-ms", "0"),
        ("resourcemanager.connect.max-wait.ms", "-2"),
        ("opportunistic-containers-queue-policy", "by_queue_len"),
        ("container-executor.class", "x.MyExecutor"),
        ("hadoop.rpc.protection", "secret"),
        ("hadoop.security.authentication", "none"),
        ("yarn.http.policy", "HTTPS"),
    ] {
        assert_eq!(problems(&[(name, value)]).len(), 1, "{name} = {value}");
    }
}

#[test]
fn a_flag_that_may_be_meant_to_protect_is_not_read_as_the_open_value() {
    for (name, value) in [
        ("yarn.acl.enable", "1"),
        ("yarn.acl.enable", "yes"),
        ("yarn.acl.enable", "treu"),
        ("hadoop.security.authorization", "on"),
        ("hadoop.http.authentication.simple.anonymous.allowed", "no"),
        ("yarn.intermediate-data-encryption.enable", "1"),
        ("webapp.rest-csrf.enabled", "yes"),
    ] {
        let told = problems(&[(name, value)]);
        assert!(
            told.len() == 1 && told[0].contains("does not protect"),
            "{name} = {value}: {told:?}"
        );
    }
}

#[test]
fn intervals_of_nothing_turn_measuring_off() {
    let monitor = |pairs: &[(&str, &str)]| {
        let monitor = config(pairs).monitor;
        (monitor.interval_ms, monitor.node, monitor.enabled)
    };
    let (node, containers) = (
        "resource-monitor.interval-ms",
        "container-monitor.interval-ms",
    );
    assert_eq!(monitor(&[]), (Some(3000), true, true));
    assert_eq!(monitor(&[(node, "-1")]), (None, false, false));
    assert_eq!(monitor(&[(containers, "0")]), (Some(3000), true, false));
    assert_eq!(
        monitor(&[(node, "0"), (containers, "7")]),
        (Some(7), false, true)
    );
}

#[test]
fn a_property_that_two_parts_read_is_told_of_once() {
    let pause = ("opportunistic-containers-use-pause-for-preemption", "maybe");
    assert_eq!(warnings(&[pause]).len(), 1, "{:?}", warnings(&[pause]));
    let wait = ("yarn.resourcemanager.connect.max-wait.ms", "-9");
    let proxy = ("amrmproxy.enabled", "true");
    assert_eq!(problems(&[wait, proxy]).len(), 1);
}

#[test]
fn a_part_that_no_list_names_is_warned_of() {
    for (name, list) in [
        ("aux-services.spark_shuffle.class", "aux-services"),
        ("aux-services.mapreduce.shuffle.class", "aux-services"),
        ("aux-services.mapreduce_shuffle.class", "aux-services"),
        ("health-checker.gpu.path", "health-checker.scripts"),
        (
            "agent.amrmproxy.relabel.mr.user",
            "agent.amrmproxy.relabel.rules",
        ),
        ("runtime.linux.kata.class", "runtime.linux.allowed-runtimes"),
    ] {
        let told = warnings(&[(name, "x")]);
        let expected = format!("has no effect: yarn.nodemanager.{list} does not name");
        assert!(
            told.len() == 1 && told[0].contains(&expected),
            "{name}: {told:?}"
        );
    }
    let shuffle = "org.apache.hadoop.mapred.ShuffleHandler";
    let listed = [
        ("aux-services", "mapreduce_shuffle"),
        ("aux-services.mapreduce_shuffle.class", shuffle),
    ];
    assert!(warnings(&listed).is_empty());
}

#[test]
fn features_that_the_agent_does_not_have_are_named() {
    for (name, value) in [
        ("yarn.timeline-service.enabled", "true"),
        ("yarn.sharedcache.enabled", "true"),
        ("pluggable-device-framework.enabled", "true"),
        ("csi-driver.names", "x"),
        ("csi-driver.x.endpoint", "unix:///x"),
        ("container-state-transition-listener.classes", "x.Y"),
        ("emit-container-events", "false"),
    ] {
        let told = warnings(&[(name, value)]);
        assert!(
            told.len() == 1 && told[0].contains("not supported yet"),
            "{name}: {told:?}"
        );
    }
}

#[test]
fn variables_for_containers_come_from_both_forms_and_bad_names_are_left_out() {
    let config = config(&[("admin-env", "A=1,B=$B"), ("admin-env.A", "x,y")]);
    let pairs: Vec<_> = config
        .launch
        .admin_env
        .iter()
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    assert_eq!(pairs, ["B=$B", "A=x,y"]);
    for (name, value) in [
        ("admin-env", "C=3,1A=2"),
        ("admin-env", "A,C=3"),
        ("admin-env.A-B", "1"),
        ("env-whitelist", "A,B C"),
    ] {
        let loaded = loaded(&[(name, value)]);
        assert_eq!(loaded.warnings.len(), 1, "{name}={value}");
        let launch = loaded.config.unwrap().launch;
        let is_kept = |known: &String| known == "A" || known == "C";
        let kept = match name {
            "admin-env" => launch.admin_env.iter().any(|(known, _)| is_kept(known)),
            "env-whitelist" => launch.env_whitelist == ["A"],
            _ => launch.admin_env.len() == 1,
        };
        assert!(kept, "{name}={value}: {launch:?}");
    }
}
