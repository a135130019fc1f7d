//! Auxiliary services, and the settings of the shuffle.

use std::time::Duration;

use shuffle::ShuffleConfig;
use spark_shuffle::{AuthVersion, SparkShuffleConfig};

use super::*;

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
fn a_service_that_the_agent_does_not_have_is_a_problem_unless_it_may_be_skipped() {
    let services = ("aux-services", "mapreduce_shuffle,tez_shuffle");
    let messages = problems(&[services, TEZ]);
    assert_eq!(messages.len(), 1, "{messages:?}");
    for part in [
        "yarn.nodemanager.aux-services.tez_shuffle.class = org.apache.tez",
        "org.apache.hadoop.mapred.ShuffleHandler and org.apache.spark",
        "yarn.nodemanager.agent.aux-services.skip-unavailable = true",
    ] {
        assert!(messages[0].contains(part), "{part}: {messages:?}");
    }
    let skip = ("agent.aux-services.skip-unavailable", "true");
    assert_eq!(config(&[services, TEZ, skip]).aux_services.len(), 1);
    let messages = warnings(&[services, TEZ, skip]);
    assert!(
        messages.len() == 1 && messages[0].contains("tez_shuffle"),
        "{messages:?}"
    );
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
