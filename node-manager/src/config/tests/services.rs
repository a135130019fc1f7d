//! Auxiliary services, and the settings of the shuffle.

use std::time::Duration;

use shuffle::ShuffleConfig;
use spark_shuffle::{AuthVersion, SparkShuffleConfig};

use super::*;
use crate::config::ServedBy;

const SPARK: &str = "org.apache.spark.network.yarn.YarnShuffleService";

const TEZ: (&str, &str) = (
    "aux-services.tez_shuffle.class",
    "org.apache.tez.auxservices.ShuffleHandler",
);

fn shuffle(pairs: &[(&str, &str)]) -> ShuffleConfig {
    let mut all = vec![("aux-services", "mapreduce_shuffle")];
    all.extend(pairs);
    let services = config(&all).aux_services;
    assert_eq!(services.len(), 1, "{services:?}");
    let shuffle = services[0].map_reduce_shuffle().unwrap();
    shuffle.clone()
}

#[test]
fn a_shuffle_has_hadoops_defaults_and_any_name() {
    let defaults = shuffle(&[]);
    assert_eq!(defaults.port, 13_562);
    assert_eq!(defaults.connections_max, usize::MAX);
    assert_eq!(defaults.index_cache_bytes, 10 << 20);
    assert!(defaults.threads >= 2);
    assert!(!defaults.keep_alive && defaults.manage_os_cache);
    let named = config(&[
        ("aux-services", "mine,mine"),
        (
            "aux-services.mine.class",
            "org.apache.hadoop.mapred.ShuffleHandler",
        ),
    ]);
    assert_eq!(named.aux_services.len(), 1, "{:?}", named.aux_services);
    assert_eq!(named.aux_services[0].name, "mine");
    assert!(config(&[]).aux_services.is_empty());
}

#[test]
fn the_settings_of_the_shuffle_are_read() {
    let read = shuffle(&[
        ("mapreduce.shuffle.port", "0"),
        ("mapreduce.shuffle.max.connections", "7"),
        ("mapreduce.shuffle.max.threads", "3"),
        ("mapreduce.shuffle.connection-keep-alive.enable", "true"),
        ("mapreduce.shuffle.connection-keep-alive.timeout", "0"),
        ("mapreduce.shuffle.manage.os.cache", "false"),
    ]);
    assert_eq!((read.port, read.connections_max, read.threads), (0, 7, 3));
    assert!(read.keep_alive && !read.manage_os_cache);
    assert_eq!(read.keep_alive_timeout.as_secs(), 1);
}

#[test]
fn mapred_site_sets_the_shuffle_as_for_hadoops_node_manager() {
    let folder = TempDir::new().unwrap();
    let write = |file: &str, pairs: &[(&str, &str)]| {
        fs::write(folder.path().join(file), xml(pairs)).unwrap();
    };
    write(
        "yarn-site.xml",
        &[("yarn.nodemanager.aux-services", "mapreduce_shuffle")],
    );
    write("mapred-site.xml", &[("mapreduce.shuffle.port", "9999")]);
    let config = Config::load(&[folder.path().to_path_buf()], &environment()).unwrap();
    let shuffle = config.aux_services[0].map_reduce_shuffle().unwrap();
    assert_eq!(shuffle.port, 9999);
}

#[test]
fn a_java_class_without_a_host_is_a_problem_unless_it_may_be_skipped() {
    let services = ("aux-services", "mapreduce_shuffle,tez_shuffle");
    let messages = problems(&[services, TEZ]);
    assert_eq!(messages.len(), 1, "{messages:?}");
    for part in [
        "yarn.nodemanager.aux-services.tez_shuffle.class = org.apache.tez",
        "yarn.nodemanager.agent.aux-services.host-jar (/usr/share/nm-agent/",
        "java/aux-host/build",
        "neither yarn.nodemanager.agent.aux-services.host-java-home nor JAVA_HOME",
        "HADOOP_HOME",
        "yarn.nodemanager.agent.aux-services.skip-unavailable = true",
    ] {
        assert!(messages[0].contains(part), "{part}: {messages:?}");
    }
    let skip = ("agent.aux-services.skip-unavailable", "true");
    let without = config(&[services, TEZ, skip]);
    assert_eq!(without.aux_services.len(), 1);
    assert_eq!(without.aux_host, None);
    let messages = warnings(&[services, TEZ, skip]);
    assert!(
        messages.len() == 1 && messages[0].contains("tez_shuffle"),
        "{messages:?}"
    );
}

/// A machine that has what a host takes.
struct HostedMachine {
    folder: TempDir,
}

impl HostedMachine {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        for file in ["host.jar", "bin/java"] {
            fs::write(folder.path().join(file), "").unwrap();
        }
        Self { folder }
    }

    /// Returns the properties that name it.
    fn properties(&self) -> Vec<(&'static str, String)> {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        vec![
            (
                "yarn.nodemanager.agent.aux-services.host-jar",
                path("host.jar"),
            ),
            (
                "yarn.nodemanager.agent.aux-services.host-java-home",
                path(""),
            ),
            (
                "yarn.nodemanager.agent.aux-services.host-classpath",
                "/h/*".to_owned(),
            ),
        ]
    }
}

#[test]
fn every_class_that_is_not_the_agents_own_is_the_hosts() {
    let machine = HostedMachine::new();
    let host = machine.properties();
    let mut pairs: Vec<_> = host.iter().map(|(name, value)| (*name, &**value)).collect();
    pairs.extend([
        ("aux-services", "mapreduce_shuffle,tez_shuffle,mine"),
        TEZ,
        ("aux-services.mine.class", "org.example.Mine"),
        ("aux-services.mine.classpath", "/opt/mine:/opt/mine/*"),
        (
            "aux-services.mine.system-classes",
            "org.example.api., java.",
        ),
        ("agent.aux-services.host-java-options", "-Xss1m  -Da=b"),
    ]);
    let read = config(&pairs);
    let served: Vec<_> = read
        .aux_services
        .iter()
        .map(|it| (it.served_by(), it.port()))
        .collect();
    let expected = [
        (ServedBy::Agent, Some((13_562, "mapreduce.shuffle.port"))),
        (ServedBy::Host, Some((13_563, "tez.shuffle.port"))),
        (ServedBy::Host, None),
    ];
    assert_eq!(served, expected);
    let AuxServiceKind::Hosted(mine) = &read.aux_services[2].kind else {
        panic!("{:?}", read.aux_services[2]);
    };
    assert_eq!(mine.class_path, "/opt/mine:/opt/mine/*");
    assert_eq!(mine.system_classes, ["org.example.api.", "java."]);
    let host = read.aux_host.unwrap();
    assert_eq!((host.heap_mb, host.is_required), (256, true));
    assert_eq!(host.options, ["-Xss1m", "-Da=b"]);
    let class = (
        "yarn.nodemanager.aux-services.mine.class",
        "org.example.Mine",
    );
    let mut passed = host
        .properties
        .iter()
        .map(|(name, value)| (&**name, &**value));
    assert!(passed.any(|pair| pair == class), "{:?}", host.properties);
    // No other service needs one.
    pairs[3] = ("aux-services", "mapreduce_shuffle");
    assert_eq!(config(&pairs).aux_host, None);
}

/// Writes a configuration with services of Spark and their class paths, and loads it. Each service
/// is its name and the pairs of its own file; `all` is beside them in `yarn-site.xml`.
fn load_spark(
    services: &[(&str, &[(&str, &str)])],
    all: &[(&str, &str)],
) -> Result<Vec<(String, SparkShuffleConfig)>, String> {
    let folder = TempDir::new().unwrap();
    let names: Vec<_> = services.iter().map(|(name, _)| *name).collect();
    let mut pairs = vec![("yarn.nodemanager.aux-services".to_owned(), names.join(","))];
    for (name, overlay) in services {
        let class_path = folder.path().join(name);
        fs::create_dir(&class_path).unwrap();
        fs::write(class_path.join("spark-shuffle-site.xml"), xml(overlay)).unwrap();
        let prefix = format!("yarn.nodemanager.aux-services.{name}");
        let shown = format!("/opt/spark/yarn:{}/*", class_path.display());
        pairs.push((format!("{prefix}.class"), SPARK.to_owned()));
        pairs.push((format!("{prefix}.classpath"), shown));
    }
    let pairs = pairs.iter().map(|(name, value)| (&**name, &**value));
    let pairs: Vec<_> = pairs.chain(all.iter().copied()).collect();
    fs::write(folder.path().join("yarn-site.xml"), xml(&pairs)).unwrap();
    let config = Config::load(&[folder.path().to_path_buf()], &environment());
    let services = config
        .map_err(|problems| problems.to_string())?
        .aux_services;
    let spark = services.into_iter().map(|service| {
        let AuxServiceKind::SparkShuffle(config) = service.kind else {
            panic!("{} is another service", service.name);
        };
        (service.name, config)
    });
    Ok(spark.collect())
}

#[test]
fn a_service_of_spark_has_sparks_defaults() {
    let services = load_spark(&[("spark_shuffle", &[])], &[]).unwrap();
    let (name, config) = &services[0];
    assert_eq!((name.as_str(), config.port), ("spark_shuffle", 7337));
    assert_eq!(config.idle_timeout, Duration::from_secs(120));
    assert!(!config.authenticates && config.chunks_max.is_none());
}

#[test]
fn each_of_three_services_of_spark_has_its_own_file_over_the_nodes() {
    let port = "spark.shuffle.service.port";
    let services = load_spark(
        &[
            ("spark_shuffle_3_1", &[]),
            ("spark_shuffle_3_3", &[(port, "7338")]),
            (
                "spark_shuffle_3_4",
                &[(port, "7339"), ("spark.authenticate", "false")],
            ),
        ],
        &[
            ("spark.authenticate", "true"),
            ("spark.network.timeout", "5min"),
        ],
    );
    let read: Vec<_> = services.unwrap();
    let read: Vec<_> = read
        .iter()
        .map(|(name, config)| (&**name, config.port, config.authenticates))
        .collect();
    let expected = [
        ("spark_shuffle_3_1", 7337, true),
        ("spark_shuffle_3_3", 7338, true),
        ("spark_shuffle_3_4", 7339, false),
    ];
    assert_eq!(read, expected);
}

#[test]
fn two_services_on_one_port_are_a_problem() {
    let services: &[(&str, &[(&str, &str)])] = &[("spark_shuffle", &[]), ("spark2_shuffle", &[])];
    let problem = load_spark(services, &[]).unwrap_err();
    let expected = "names spark_shuffle and spark2_shuffle on one port, 7337";
    assert!(problem.contains(expected), "{problem}");
    let skip = [(
        "yarn.nodemanager.agent.aux-services.skip-unavailable",
        "true",
    )];
    let services = load_spark(services, &skip).unwrap();
    let names: Vec<_> = services.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["spark_shuffle"]);
}

#[test]
fn encryption_is_read_and_nothing_weaker_is_served() {
    let crypto = ("spark.network.crypto.enabled", "true");
    let authenticate = ("spark.authenticate", "true");
    let load = |pairs: &[(&str, &str)]| load_spark(&[("spark_shuffle", &[])], pairs);
    let encryption = |pairs: &[(&str, &str)]| load(pairs).unwrap()[0].1.encryption;
    assert_eq!(encryption(&[authenticate]), None);
    let first = encryption(&[authenticate, crypto]).unwrap();
    assert_eq!((first.version, first.allows_sasl), (AuthVersion::V1, true));
    let second = ("spark.network.crypto.authEngineVersion", "2");
    let alone = ("spark.network.crypto.saslFallback", "false");
    let second = encryption(&[authenticate, crypto, second, alone]).unwrap();
    assert_eq!(
        (second.version, second.allows_sasl),
        (AuthVersion::V2, false)
    );
    for (pairs, named) in [
        (&[crypto][..], "spark.network.crypto.enabled = true"),
        (
            &[
                authenticate,
                crypto,
                ("spark.network.crypto.cipher", "AES/GCM/NoPadding"),
            ],
            "spark.network.crypto.cipher = AES/GCM/NoPadding",
        ),
        (
            &[
                authenticate,
                crypto,
                ("spark.network.crypto.authEngineVersion", "3"),
            ],
            "spark.network.crypto.authEngineVersion = 3",
        ),
        (
            &[
                authenticate,
                crypto,
                ("spark.network.crypto.saslFallback", "no"),
            ],
            "spark.network.crypto.saslFallback = no",
        ),
    ] {
        let problem = load(pairs).unwrap_err();
        assert!(problem.contains(named), "{problem}");
    }
}

#[test]
fn what_a_service_of_spark_lacks_is_refused_by_its_property() {
    let push = "org.apache.spark.network.shuffle.RemoteBlockPushResolver";
    for (name, value) in [
        (
            "spark.shuffle.push.server.mergedShuffleFileManagerImpl",
            push,
        ),
        ("spark.network.sasl.serverAlwaysEncrypt", "true"),
        ("spark.ssl.rpc.enabled", "true"),
        ("spark.authenticate", "yes"),
        ("spark.network.timeout", "soon"),
        ("spark.shuffle.service.port", "70000"),
    ] {
        let problem = load_spark(&[("spark_shuffle", &[])], &[(name, value)]).unwrap_err();
        assert!(problem.contains(&format!("{name} = {value}")), "{problem}");
        let skip = (
            "yarn.nodemanager.agent.aux-services.skip-unavailable",
            "true",
        );
        let left_out = load_spark(&[("spark_shuffle", &[])], &[(name, value), skip]);
        let may_be_left_out = value == "true" || value == push;
        assert_eq!(
            left_out.is_ok_and(|left| left.is_empty()),
            may_be_left_out,
            "{name}"
        );
        // Also where only the service's own file asks for it.
        let problem = load_spark(&[("spark_shuffle", &[(name, value)])], &[]).unwrap_err();
        assert!(problem.contains("spark-shuffle-site.xml"), "{problem}");
    }
}

#[test]
fn sparks_own_service_serves_what_the_agents_lacks_and_what_it_is_told_to() {
    let machine = HostedMachine::new();
    let host = machine.properties();
    let folder = TempDir::new().unwrap();
    let load = |name: &'static str, value: &'static str| {
        let mut pairs: Vec<_> = host.iter().map(|(name, value)| (*name, &**value)).collect();
        pairs.extend([
            ("yarn.nodemanager.aux-services", "spark_shuffle"),
            ("yarn.nodemanager.aux-services.spark_shuffle.class", SPARK),
            ("spark.shuffle.service.port", "7447"),
            (name, value),
        ]);
        fs::write(folder.path().join("yarn-site.xml"), xml(&pairs)).unwrap();
        let config = Config::load(&[folder.path().to_path_buf()], &environment());
        config.unwrap().aux_services.remove(0)
    };
    let served_by = "yarn.nodemanager.agent.spark-shuffle";
    for (name, value) in [(served_by, "host"), ("spark.ssl.rpc.enabled", "true")] {
        let service = load(name, value);
        assert_eq!(service.port(), Some((7447, "spark.shuffle.service.port")));
        let AuxServiceKind::Hosted(hosted) = &service.kind else {
            panic!("{service:?}");
        };
        assert_eq!(hosted.because, Some(name));
    }
    assert_eq!(load(served_by, "native").served_by(), ServedBy::Agent);
}
