//! Properties to sections: what happens to containers, their logs and pages.

use std::path::PathBuf;
use std::time::Duration;

use hadoop_conf::site_xml::{Origin, Properties};
use hadoop_conf::{DefaultSource, Expected, PropertyReader, Secrets, parse};
use hadoop_fs::FsConfig;
use launch_context::ContextLimits;
use localize::config::{DeletionConfig, LocalizerConfig};
use node_web::site::conf::ShownProperty;
use sched::{LoadComparator, OpportunisticContainersQueuePolicy, QueueOrder, VictimsOrder};

use super::addresses::AddressConfig;
use super::read_node::none_or_more;
use super::read_policy::AUTHORIZATION;
use super::read_security::lists_of_access;
use super::sections::{ExecutorConfig, SchedulerConfig, WebConfig};
use super::{keys, read_filters, read_pages, read_runtimes, read_tls, read_users};

pub(super) fn scheduler(reader: &mut PropertyReader<'_>) -> SchedulerConfig {
    use OpportunisticContainersQueuePolicy::{ByQueueLen, ByResources};
    let length = "yarn.nodemanager.opportunistic-containers-max-queue-length";
    // Hadoop takes a negative length for 0.
    let length_max = reader.integer(length, i64::from(i32::MIN)..=i64::from(i32::MAX));
    SchedulerConfig {
        opportunistic_queue_policy: reader.choice(
            "yarn.nodemanager.opportunistic-containers-queue-policy",
            ("BY_QUEUE_LEN", ByQueueLen),
            &[("BY_RESOURCES", ByResources)],
        ),
        opportunistic_queue_length_max: u32::try_from(length_max).unwrap_or(0),
        queue_order: queue_order(reader),
        queue_bound_factor: reader.u32("yarn.nodemanager.agent.queue.bound-factor", 1),
        victims_order: victims_order(reader),
        load_comparator: load_comparator(reader),
        pause_for_preemption: reader
            .flag("yarn.nodemanager.opportunistic-containers-use-pause-for-preemption"),
        pause_max_ms: reader.u64("yarn.nodemanager.agent.pause.max-ms", 1),
        pause_memory_ceiling_mb: reader
            .u64_or_minus_one("yarn.nodemanager.agent.pause.memory-ceiling-mb"),
    }
}

fn queue_order(reader: &mut PropertyReader<'_>) -> QueueOrder {
    let word = |order: QueueOrder| (order.as_str(), order);
    reader.choice(
        "yarn.nodemanager.agent.queue.order",
        word(QueueOrder::Fifo),
        &[word(QueueOrder::Shortest), word(QueueOrder::LeastLeft)],
    )
}

fn victims_order(reader: &mut PropertyReader<'_>) -> VictimsOrder {
    let word = |order: VictimsOrder| (order.as_str(), order);
    reader.choice(
        "yarn.nodemanager.agent.victims.order",
        word(VictimsOrder::Newest),
        &[word(VictimsOrder::LeastWaste)],
    )
}

/// Reads the ResourceManager's comparator from the configuration that the nodes share with it.
fn load_comparator(reader: &mut PropertyReader<'_>) -> LoadComparator {
    let word = |comparator: LoadComparator| (comparator.as_str(), comparator);
    reader.choice(
        "yarn.resourcemanager.nm-container-queuing.load-comparator",
        word(LoadComparator::QueueLength),
        &[
            word(LoadComparator::QueueWaitTime),
            word(LoadComparator::QueueLengthThenResources),
        ],
    )
}

pub(super) fn launch(reader: &mut PropertyReader<'_>, conf_dirs: &[PathBuf]) -> ExecutorConfig {
    const WHITELIST: &str = "yarn.nodemanager.env-whitelist";
    let mut env_whitelist = reader.list(WHITELIST);
    let listed = env_whitelist.len();
    env_whitelist.retain(|name| parse::is_variable_name(name));
    if env_whitelist.len() < listed {
        reader.otherwise(WHITELIST, "parts that name no variable are left out");
    }
    let delay = reader.integer(
        "yarn.nodemanager.sleep-delay-before-sigkill.ms",
        i64::MIN..=i64::MAX,
    );
    let diagnostics = reader.u32("yarn.nodemanager.container-diagnostics-maximum-size", 0);
    ExecutorConfig {
        executor: read_users::executor(reader, conf_dirs),
        runtimes: read_runtimes::runtimes(reader),
        env_whitelist,
        admin_env: admin_env(reader),
        force_path: reader.text("yarn.nodemanager.force.path"),
        user_home_dir: reader
            .resolved_text("yarn.nodemanager.user-home-dir")
            .unwrap_or_else(|| "/home/".to_owned()),
        // Not above 0 means SIGKILL at once, in Hadoop too.
        sigkill_delay_ms: u64::try_from(delay).unwrap_or(0),
        process_kill_wait_ms: reader.u64("yarn.nodemanager.process-kill-wait.ms", 0),
        diagnostics_max_chars: usize::try_from(diagnostics).unwrap_or(usize::MAX),
        stderr_pattern: reader
            .text("yarn.nodemanager.container.stderr.pattern")
            .unwrap_or_default(),
        stderr_tail_bytes: reader.u64("yarn.nodemanager.container.stderr.tail.bytes", 0),
        debug_info: reader.flag("yarn.nodemanager.log-container-debug-info.enabled"),
        debug_info_on_error: reader
            .flag("yarn.nodemanager.log-container-debug-info-on-error.enabled"),
        one_bash: reader.flag("yarn.nodemanager.agent.launch.one-bash"),
        retry_minimum_interval_ms: reader
            .u64("yarn.nodemanager.container-retry-minimum-interval-ms", 0),
    }
}

pub(super) fn contexts(reader: &mut PropertyReader<'_>) -> ContextLimits {
    let resources = reader.u32("yarn.nodemanager.agent.launch-context.max-resources", 1);
    let node_mb = reader.u32("yarn.nodemanager.agent.launch-context.node-max-mb", 1);
    ContextLimits {
        resources_max: usize::try_from(resources).unwrap_or(usize::MAX),
        bytes_max: reader.u64("yarn.nodemanager.agent.launch-context.max-bytes", 1024),
        node_bytes_max: u64::from(node_mb) << 20,
    }
}

/// `A=x,B=y` from the one property, then one variable for each `admin-env.NAME`, which has the last
/// word.
fn admin_env(reader: &mut PropertyReader<'_>) -> Vec<(String, String)> {
    const NAME: &str = "yarn.nodemanager.admin-env";
    const PREFIX: &str = "yarn.nodemanager.admin-env.";
    let mut variables: Vec<(String, String)> = Vec::new();
    for entry in reader.list(NAME) {
        match entry.split_once('=') {
            Some((name, value)) if parse::is_variable_name(name) => {
                variables.push((name.to_owned(), value.to_owned()));
            }
            // As in Hadoop, which takes what it finds between the commas (`Apps`).
            Some(_) | None => {
                reader.otherwise(NAME, "parts that are not NAME=value are left out");
            }
        }
    }
    let names: Vec<String> = reader
        .properties()
        .names_under(PREFIX)
        .map(str::to_owned)
        .collect();
    for property in names {
        let name = &property[PREFIX.len()..];
        if !parse::is_variable_name(name) {
            let how = "left out: no shell has a variable of that name";
            reader.otherwise(&property, how);
            continue;
        }
        let value = reader.text(&property).unwrap_or_default();
        variables.retain(|(known, _)| known != name);
        variables.push((name.to_owned(), value));
    }
    variables
}

pub(super) fn localizer(reader: &mut PropertyReader<'_>) -> LocalizerConfig {
    LocalizerConfig {
        cache_target_size_mb: reader.u64("yarn.nodemanager.localizer.cache.target-size-mb", 0),
        cache_cleanup_interval_ms: reader
            .u64("yarn.nodemanager.localizer.cache.cleanup.interval-ms", 1),
        fetch_thread_count: threads(reader, "yarn.nodemanager.localizer.fetch.thread-count", 1),
        source_timeout_ms: reader.u64("yarn.nodemanager.agent.localizer.source-timeout-ms", 1),
        // 36 subfolders and at least one file (Hadoop: LocalCacheDirectoryManager).
        max_files_per_directory: reader
            .u32("yarn.nodemanager.local-cache.max-files-per-directory", 37),
    }
}

/// Reads the default file system, and what the HDFS client may want to know: it looks for names
/// that contain those of name services.
pub(super) fn file_systems(reader: &mut PropertyReader<'_>) -> FsConfig {
    const DEFAULT_FS: &str = "fs.defaultFS";
    const CLIENT_PREFIXES: [&str; 2] = ["dfs.", "hadoop.security.authentication"];
    let mut config = FsConfig::default();
    match reader.text(DEFAULT_FS).map(|text| text.parse()) {
        Some(Ok(uri)) => config.default_fs = uri,
        Some(Err(_)) => reader.problem(
            DEFAULT_FS,
            Expected::Rule("must be the URI of a file system, such as hdfs://host:8020".into()),
        ),
        None => {}
    }
    let properties = reader.properties();
    let names = CLIENT_PREFIXES
        .into_iter()
        .flat_map(|prefix| properties.names_under(prefix));
    for name in names {
        if let Some(value) = reader.text(name) {
            config.client_properties.push((name.to_owned(), value));
        }
    }
    config.step_limit = step_limit(reader).unwrap_or(config.step_limit);
    config
}

/// Reads the time limit of a step; `None`: Hadoop would wait without limit, which this agent never
/// does.
fn step_limit(reader: &mut PropertyReader<'_>) -> Option<Duration> {
    const LIMIT: &str = "ipc.client.rpc-timeout.ms";
    let limit = reader.integer(LIMIT, i64::MIN..=i64::MAX);
    let limit = u64::try_from(limit).ok().filter(|ms| *ms > 0);
    if limit.is_none() {
        let how = "no limit in Hadoop; this agent waits for no file system without one, and takes \
                   the default";
        reader.otherwise(LIMIT, how);
    }
    limit.map(Duration::from_millis)
}

/// Reads a number of threads of at least `min`. The default is Hadoop's, or one for each processor
/// where that is more.
fn threads(reader: &mut PropertyReader<'_>, name: &'static str, min: u32) -> u32 {
    let configured = reader.u32(name, min);
    if configured == 0 {
        reader.read_as(name, &1);
        return 1;
    }
    if reader.origin(name) != Origin::Default {
        return configured;
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    configured.max(u32::try_from(processors).unwrap_or(u32::MAX))
}

pub(super) fn deletion(reader: &mut PropertyReader<'_>) -> DeletionConfig {
    DeletionConfig {
        thread_count: threads(reader, "yarn.nodemanager.delete.thread-count", 0),
        debug_delay_sec: none_or_more(reader, "yarn.nodemanager.delete.debug-delay-sec"),
    }
}

pub(super) fn web(
    reader: &mut PropertyReader<'_>,
    addresses: &AddressConfig,
    conf_dirs: &[PathBuf],
) -> WebConfig {
    let over_tls = addresses.web_over_tls;
    let anonymous_allowed = reader.flag("hadoop.http.authentication.simple.anonymous.allowed");
    let proof = read_pages::proof(reader, over_tls);
    WebConfig {
        acl_enabled: lists_of_access(reader, anonymous_allowed && proof.is_none()),
        admin_acl: reader.untrimmed_text("yarn.admin.acl").unwrap_or_default(),
        filter_lists: reader.flag("yarn.webapp.filter-entity-list-by-user"),
        instrumentation_requires_admin: reader
            .flag("hadoop.security.instrumentation.requires.admin"),
        authorization: reader.flag(AUTHORIZATION),
        anonymous_allowed,
        proof,
        tls: if over_tls {
            read_tls::pages(reader, conf_dirs)
        } else {
            None
        },
        filters: read_filters::filters(reader),
        hosts: reader.list("yarn.nodemanager.agent.web.hosts"),
        shown: shown(reader.properties()),
    }
}

/// Returns every property with the value in force, without secrets. One that cannot be expanded is
/// left out; where it is read, that is a problem.
fn shown(properties: &Properties) -> Vec<ShownProperty> {
    let secrets = Secrets::of(properties);
    let show = |name: &str| {
        let value = properties.get(name).ok()??;
        Some(ShownProperty {
            name: name.to_owned(),
            is_final: properties.is_final(name),
            source: source_of(name, &value.origin),
            value: (!secrets.hides(name, &value)).then_some(value.text),
        })
    };
    properties.names().filter_map(show).collect()
}

/// Returns the name of the file that sets a property, as Hadoop shows it.
fn source_of(name: &str, origin: &Origin) -> String {
    match origin {
        Origin::File { file, .. } => file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into(),
        Origin::Default => match keys::find(name).map(|key| key.source) {
            Some(DefaultSource::CoreDefault) => "core-default.xml".to_owned(),
            Some(DefaultSource::YarnDefault) => "yarn-default.xml".to_owned(),
            Some(_) | None => "default of the code".to_owned(),
        },
    }
}
