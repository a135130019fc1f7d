//! Whole configurations, good and bad.

mod filters;
mod kerberos;
mod labels;
mod odd_values;
mod pages;
mod policy;
mod proxy;
mod security;
mod services;
mod tls;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use hadoop_conf::{HostPort, KeyClass, PropertyReader, REDACTED, conf_dirs};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

fn environment() -> BTreeMap<String, String> {
    [("HADOOP_LOG_DIR", "/var/log/hadoop")]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .into()
}

fn xml(pairs: &[(&str, &str)]) -> String {
    let properties = pairs
        .iter()
        .map(|(n, v)| format!("<property><name>{n}</name><value>{v}</value></property>\n"));
    format!(
        "<configuration>\n{}</configuration>",
        properties.collect::<String>()
    )
}

/// Loads a `yarn-site.xml` with these properties; short names are completed with the NodeManager's
/// prefix.
pub(in crate::config) fn loaded(pairs: &[(&str, &str)]) -> Loaded {
    let full: Vec<(String, &str)> = pairs
        .iter()
        .map(|(name, value)| {
            let full = ["yarn.", "hadoop.", "fs.", "ipc.", "mapreduce.", "security."]
                .iter()
                .any(|p| name.starts_with(p));
            let prefix = if full { "" } else { "yarn.nodemanager." };
            (format!("{prefix}{name}"), *value)
        })
        .collect();
    let folder = TempDir::new().unwrap();
    let pairs: Vec<_> = full.iter().map(|(n, v)| (n.as_str(), *v)).collect();
    fs::write(folder.path().join("yarn-site.xml"), xml(&pairs)).unwrap();
    Loaded::read(&[folder.path().to_path_buf()], &environment())
}

fn config(pairs: &[(&str, &str)]) -> Config {
    loaded(pairs).config.unwrap_or_else(|told| panic!("{told}"))
}

pub(in crate::config) fn problems(pairs: &[(&str, &str)]) -> Vec<String> {
    let problems = loaded(pairs).config.expect_err("it must not be accepted");
    problems.list().iter().map(ToString::to_string).collect()
}

fn warnings(pairs: &[(&str, &str)]) -> Vec<String> {
    loaded(pairs)
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn without_any_property_all_is_as_in_hadoop() {
    let config = config(&[]);
    assert_eq!(config.addresses.node, HostPort::new("0.0.0.0", 0));
    assert_eq!(config.addresses.web_bind(), HostPort::new("0.0.0.0", 8042));
    let [rm] = config.rm.endpoints.as_slice() else {
        panic!("{:?}", config.rm.endpoints);
    };
    assert_eq!(rm.resource_tracker, HostPort::new("0.0.0.0", 8031));
    assert_eq!(config.rm.connect_max_wait_ms, Some(900_000));
    assert_eq!(config.rm.connect_retry_interval_ms, 30_000);
    assert!(config.rm.work_preserving_recovery_enabled);
    assert_eq!(
        config.capacity.memory,
        MemoryCapacity::Fixed { memory_mb: 8192 }
    );
    assert_eq!(config.capacity.vcores, VcoreCapacity::Fixed { vcores: 8 });
    assert_eq!(config.scheduler.opportunistic_queue_length_max, 0);
    assert_eq!(config.launch.sigkill_delay_ms, 250);
    let malloc = (
        "MALLOC_ARENA_MAX".to_owned(),
        "$MALLOC_ARENA_MAX".to_owned(),
    );
    assert_eq!(config.launch.admin_env, [malloc]);
    assert_eq!(config.launch.env_whitelist.len(), 10);
    assert_eq!(
        config.dirs.log_dirs,
        [PathBuf::from("/var/log/hadoop/userlogs")]
    );
    assert!(config.dirs.local_dirs[0].ends_with("nm-local-dir"));
    assert_eq!(config.dirs.log_dir_permissions, 0o710);
    assert_eq!(config.deletion.debug_delay_sec, Some(0));
    assert!(config.health.scripts.is_empty() && config.health.disks.is_some());
    let monitor = &config.monitor;
    assert!(!monitor.polled && monitor.vmem_check_enabled && monitor.pmem_check_enabled);
    assert!(warnings(&[]).is_empty());
}

#[test]
fn an_operator_is_warned_of_each_setting_without_effect() {
    for (name, value) in [
        ("disk-validator", "read-write"),
        ("resource-type.gpu", "2"),
        ("log.deletion-threads-count", "1"),
        ("log-container-debug-info-on-error.enabled", "true"),
    ] {
        let messages = warnings(&[(name, value)]);
        let expected = format!("yarn.nodemanager.{name} = {value} has no effect");
        assert!(
            messages.iter().any(|warning| warning.contains(&expected)),
            "{name}: {messages:?}"
        );
    }
}

#[test]
fn every_property_that_the_table_calls_honoured_is_read() {
    let shuffle = [
        ("yarn.nodemanager.aux-services", "mapreduce_shuffle"),
        ("mapreduce.shuffle.ssl.enabled", "true"),
    ];
    let properties = keys::TABLE.properties(&shuffle);
    let mut reader = PropertyReader::new(&properties, &keys::TABLE);
    load::build(&mut reader, &[]);
    let (_, _, asked) = reader.finish();
    let honoured = keys::all().filter(|key| key.class == KeyClass::Honoured);
    let unread: Vec<_> = honoured.filter(|key| !asked.contains(key.name)).collect();
    assert!(unread.is_empty(), "{unread:?}");
    let table: BTreeSet<_> = keys::all().map(|key| key.name.to_owned()).collect();
    let strangers: Vec<_> = asked.difference(&table).collect();
    // A script of the default list, which is only asked for its path.
    assert_eq!(strangers, ["yarn.nodemanager.health-checker.script.path"]);
}

#[test]
fn all_problems_are_reported_together_with_key_value_file_and_what_would_be_right() {
    let messages = problems(&[
        ("resource.memory-mb", "8g"),
        ("agent.launch.one-bash", "yes"),
        ("address", "host:port"),
        ("opportunistic-containers-queue-policy", "FOO"),
        ("vmem-pmem-ratio", "0.5"),
        ("local-dirs", "relative/dir"),
        ("default-container-executor.log-dirs.permissions", "799"),
        ("local-cache.max-files-per-directory", "36"),
    ]);
    for (name, value, right) in [
        (
            "resource.memory-mb",
            "8g",
            "a whole number from -1 to 2147483647 MiB",
        ),
        ("agent.launch.one-bash", "yes", "true or false"),
        ("address", "host:port", "host:port"),
        (
            "opportunistic-containers-queue-policy",
            "FOO",
            "one of BY_QUEUE_LEN, BY_RESOURCES",
        ),
        ("vmem-pmem-ratio", "0.5", "a number of at least 0.99"),
        ("local-dirs", "relative/dir", "absolute paths"),
        (
            "default-container-executor.log-dirs.permissions",
            "799",
            "octal",
        ),
        ("local-cache.max-files-per-directory", "36", "from 37 to"),
    ] {
        let start = format!("yarn.nodemanager.{name} = {value}: ");
        let found = messages.iter().find(|text| text.contains(&start));
        let found = found.unwrap_or_else(|| panic!("nothing about {name} in {messages:#?}"));
        assert!(
            found.contains(right) && found.contains("yarn-site.xml:"),
            "{found}"
        );
    }
    assert_eq!(messages.len(), 8, "{messages:#?}");
}

#[test]
fn a_file_that_cannot_be_read_is_reported_beside_the_other_problems() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("core-site.xml"), "<configuration>").unwrap();
    let site = xml(&[("yarn.nodemanager.resource.cpu-vcores", "many")]);
    fs::write(folder.path().join("yarn-site.xml"), site).unwrap();
    let missing = folder.path().join("nowhere");
    let dirs = [folder.path().to_path_buf(), missing];
    let problems = Config::load(&dirs, &environment()).expect_err("three problems");
    let text = problems.to_string();
    assert_eq!(problems.list().len(), 3, "{text}");
    for part in [
        "core-site.xml:1: ends inside",
        "cpu-vcores = many",
        "nowhere: is not a folder",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn resource_managers_come_in_the_order_of_their_ids() {
    let config = config(&[
        ("yarn.resourcemanager.ha.enabled", "true"),
        ("yarn.resourcemanager.ha.rm-ids", "rm2, rm1"),
        ("yarn.resourcemanager.hostname.rm1", "one.example"),
        ("yarn.resourcemanager.hostname.rm2", "two.example"),
        (
            "yarn.resourcemanager.resource-tracker.address.rm1",
            "one.example:9031",
        ),
        ("resourcemanager.connect.max-wait.ms", "-1"),
    ]);
    let trackers: Vec<_> = config
        .rm
        .endpoints
        .iter()
        .map(|e| e.resource_tracker.to_string())
        .collect();
    assert_eq!(trackers, ["two.example:8031", "one.example:9031"]);
    assert_eq!(config.rm.endpoints[0].id.as_deref(), Some("rm2"));
    assert_eq!(
        config.rm.endpoints[1].scheduler,
        HostPort::new("one.example", 8030)
    );
    assert_eq!(config.rm.connect_max_wait_ms, None);
}

#[test]
fn a_resource_manager_without_an_address_is_a_problem() {
    let ha = ("yarn.resourcemanager.ha.enabled", "true");
    let messages = problems(&[ha]);
    let expected = "yarn.resourcemanager.ha.rm-ids is not set";
    assert!(messages[0].contains(expected), "{messages:?}");
    let messages = problems(&[ha, ("yarn.resourcemanager.ha.rm-ids", "rm1")]);
    assert!(
        messages[0].contains("yarn.resourcemanager.hostname.rm1 is not set"),
        "{messages:?}"
    );
}

#[test]
fn what_is_done_otherwise_or_not_yet_is_warned_of() {
    let messages = warnings(&[("resource-plugins", "yarn.io/gpu")]);
    assert!(
        messages.len() == 1 && messages[0].contains("not supported yet"),
        "{messages:?}"
    );
    let same = [
        ("resource-plugins.gpu.discovery-timeout", "10000ms"),
        ("container-log-monitor.interval-ms", "060000"),
        (
            "runtime.linux.docker.allowed-container-networks",
            "host, none, bridge",
        ),
    ];
    assert!(warnings(&same).is_empty(), "{:?}", warnings(&same));
}

#[test]
fn logs_are_aggregated_to_local_directories_and_hdfs_and_others_are_warned_of() {
    let enable = ("yarn.log-aggregation-enable", "true");
    let logs = |more: &[(&str, &str)]| loaded(&[&[enable], more].concat()).config.unwrap().logs;
    let aggregation = logs(&[]).aggregation.unwrap();
    assert_eq!(aggregation.remote_dir.to_string(), "file:/tmp/logs");
    assert_eq!(aggregation.suffix, "logs-tfile");
    assert_eq!(aggregation.roll_interval_seconds, None);
    let interval = "log-aggregation.roll-monitoring-interval-seconds";
    let rolling = logs(&[(interval, "60")]).aggregation.unwrap();
    assert_eq!(rolling.roll_interval_seconds, Some(3600));
    let debugged = [(interval, "60"), ("log-aggregation.debug-enabled", "true")];
    let rolling = logs(&debugged).aggregation.unwrap();
    assert_eq!(rolling.roll_interval_seconds, Some(60));
    let hdfs = logs(&[("fs.defaultFS", "hdfs://a")]).aggregation.unwrap();
    assert_eq!(hdfs.remote_dir.to_string(), "hdfs://a/tmp/logs");
    let group = ("remote-app-log-dir.groupname", "hadoop");
    let aggregation = logs(&[group]).aggregation.unwrap();
    assert_eq!(aggregation.remote_group.as_deref(), Some("hadoop"));
    let elsewhere = ("remote-app-log-dir", "s3a://bucket/logs");
    let messages = warnings(&[enable, elsewhere]);
    assert!(
        messages.len() == 1 && messages[0].contains("file: and hdfs: only"),
        "{messages:?}"
    );
    assert_eq!(logs(&[elsewhere]).aggregation, None);
    let policy = ("log-aggregation.policy.class", "x.Mine");
    assert!(problems(&[enable, policy])[0].contains("policies"));
    assert!(warnings(&[policy])[0].contains("it is not read without aggregation of logs"));
}

#[test]
fn what_means_nothing_here_is_kept_for_a_debug_log() {
    let loaded = loaded(&[("windows-container.cpu-limit.enabled", "true")]);
    assert!(loaded.warnings.is_empty());
    assert_eq!(
        loaded.ignored[0].0,
        "yarn.nodemanager.windows-container.cpu-limit.enabled"
    );
}

#[test]
fn an_unknown_name_is_warned_of_with_what_it_resembles() {
    let messages = warnings(&[
        ("local-dir", "/x"),
        ("banana", "1"),
        ("yarn.scheduler.x", "1"),
    ]);
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(
        messages[0].ends_with("banana is not a property of the NodeManager"),
        "{messages:?}"
    );
    assert!(
        messages[1].contains("did you mean yarn.nodemanager.local-dirs?"),
        "{messages:?}"
    );
}

#[test]
fn a_yarn_property_in_core_site_has_no_effect_and_a_warning() {
    let folder = TempDir::new().unwrap();
    let site = xml(&[("yarn.nodemanager.resource.memory-mb", "1024")]);
    fs::write(folder.path().join("core-site.xml"), site).unwrap();
    let loaded = Loaded::read(&[folder.path().to_path_buf()], &environment());
    let texts: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert!(texts[0].starts_with("no yarn-site.xml in"), "{texts:?}");
    assert!(
        texts[1].contains("it belongs in yarn-site.xml"),
        "{texts:?}"
    );
    let memory = loaded.config.unwrap().capacity.memory;
    assert_eq!(memory, MemoryCapacity::Fixed { memory_mb: 8192 });
}

#[test]
fn expansion_loops_and_unresolved_names_are_problems_of_the_property_that_has_them() {
    let messages = problems(&[
        ("local-dirs", "${yarn.nodemanager.log-dirs}"),
        ("log-dirs", "${yarn.nodemanager.local-dirs}"),
    ]);
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(
        messages
            .iter()
            .all(|text| text.contains("-dirs = ") && text.contains("20 or more substitutions")),
        "{messages:?}"
    );
    let messages = problems(&[("local-dirs", "/data/${nope}/nm")]);
    assert!(
        messages.len() == 1 && messages[0].contains("contains ${nope}, which stands for nothing"),
        "{messages:?}"
    );
}

#[test]
fn folders_may_be_uris_and_each_counts_once() {
    let config = config(&[
        ("local-dirs", " /a/nm ,file:///b/nm,/a/nm,\n/c"),
        ("log-dirs", "file:/l"),
    ]);
    assert_eq!(
        config.dirs.local_dirs,
        ["/a/nm", "/b/nm", "/c"].map(PathBuf::from)
    );
    assert_eq!(config.dirs.log_dirs, [PathBuf::from("/l")]);
    for bad in ["hdfs://a/b", "file://host/b", "/a/../b", ",", "relative"] {
        assert_eq!(problems(&[("local-dirs", bad)]).len(), 1, "{bad}");
    }
}

#[test]
fn numbers_take_blanks_and_hexadecimal_and_minus_one_means_none() {
    let config = config(&[
        ("resource.cpu-vcores", " 0x10 "),
        ("delete.debug-delay-sec", "-1"),
        ("sleep-delay-before-sigkill.ms", "-5"),
        ("opportunistic-containers-max-queue-length", "-3"),
        ("process-kill-wait.ms", "9223372036854775807"),
    ]);
    assert_eq!(config.capacity.vcores, VcoreCapacity::Fixed { vcores: 16 });
    assert_eq!(config.deletion.debug_delay_sec, None);
    assert_eq!(config.launch.sigkill_delay_ms, 0);
    assert_eq!(config.scheduler.opportunistic_queue_length_max, 0);
    let soon = std::time::Duration::from_millis(config.launch.process_kill_wait_ms);
    assert!(std::time::Instant::now().checked_add(soon).is_some());
}

#[test]
fn hardware_is_detected_only_when_asked_for_and_not_configured() {
    let detect = ("resource.detect-hardware-capabilities", "true");
    let found = config(&[detect, ("resource.system-reserved-memory-mb", "1000")]);
    let reserved = MemoryCapacity::Detect {
        system_reserved_mb: Some(1000),
    };
    assert_eq!(found.capacity.memory, reserved);
    let fixed = config(&[detect, ("resource.memory-mb", "4096")]);
    assert_eq!(
        fixed.capacity.memory,
        MemoryCapacity::Fixed { memory_mb: 4096 }
    );
    assert!(matches!(
        fixed.capacity.vcores,
        VcoreCapacity::Detect { .. }
    ));
    assert_eq!(problems(&[("resource.memory-mb", "0")]).len(), 1);
}

#[test]
fn a_health_script_needs_a_path_and_takes_the_general_times() {
    let config = config(&[
        ("health-checker.scripts", "a,b"),
        ("health-checker.a.path", "/bin/a"),
        ("health-checker.a.opts", "-x, y"),
        ("health-checker.a.timeout-ms", "5"),
        ("health-checker.interval-ms", "7"),
    ]);
    let [script] = config.health.scripts.as_slice() else {
        panic!("{:?}", config.health.scripts);
    };
    assert_eq!((script.timeout_ms, script.interval_ms), (5, 7));
    assert_eq!(script.opts, ["-x", "y"]);
    assert_eq!(
        problems(&[("health-checker.scripts", "a,b,c,d,e")]).len(),
        1
    );
}

#[test]
fn memory_is_polled_only_where_hadoop_polls_it() {
    let polled = config(&[("resource.memory.enforced", "false")]).monitor;
    assert!(polled.polled && polled.pmem_check_enabled && polled.vmem_check_enabled);
    let without = config(&[
        ("resource.memory.enforced", "false"),
        ("vmem-check-enabled", "false"),
    ])
    .monitor;
    assert!(without.pmem_check_enabled && !without.vmem_check_enabled);
}

#[test]
fn folders_are_found_as_hadoops_scripts_find_them() {
    let env = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    };
    let both = env(&[("HADOOP_CONF_DIR", "/c"), ("HADOOP_HOME", "/h")]);
    assert_eq!(conf_dirs(None, &both), [PathBuf::from("/c")]);
    assert_eq!(conf_dirs(Some("/n".as_ref()), &both), [PathBuf::from("/n")]);
    assert_eq!(
        conf_dirs(None, &env(&[("HADOOP_HOME", "/h")])),
        [PathBuf::from("/h/etc/hadoop")]
    );
}

#[test]
fn problems_hide_secrets_and_stay_on_one_line() {
    let long = format!("/x\n{}", "y".repeat(10_000));
    let messages = problems(&[
        ("log-dirs", &format!("relative{long}")),
        ("local-dirs", "hdfs://u:word@host/x"),
    ]);
    assert!(
        messages
            .iter()
            .all(|text| !text.contains('\n') && text.len() < 800),
        "{messages:?}"
    );
    assert!(
        messages.iter().any(|text| text.contains(REDACTED)) && !messages.concat().contains("word"),
        "{messages:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_value_of_any_property_panics(index in 0..400usize, value in "[-0-9a-zA-Z${}.,:/= \u{e9}]{0,24}") {
        let all: Vec<_> = keys::all().collect();
        let key = all[index % all.len()];
        let _ = loaded(&[(key.name, &value)]);
    }
}
