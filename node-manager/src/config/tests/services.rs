//! Auxiliary services, and the settings of the shuffle.

use shuffle::ShuffleConfig;

use super::*;

const SPARK: (&str, &str) = (
    "aux-services.spark_shuffle.class",
    "org.apache.spark.network.yarn.YarnShuffleService",
);

fn shuffle(pairs: &[(&str, &str)]) -> ShuffleConfig {
    let mut all = vec![("aux-services", "mapreduce_shuffle")];
    all.extend(pairs);
    let services = config(&all).aux_services;
    assert_eq!(services.len(), 1, "{services:?}");
    let AuxServiceKind::MapReduceShuffle(shuffle) = &services[0].kind;
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
    let AuxServiceKind::MapReduceShuffle(shuffle) = &config.aux_services[0].kind;
    assert_eq!(shuffle.port, 9999);
}

#[test]
fn a_service_that_the_agent_does_not_have_is_a_problem_unless_it_may_be_skipped() {
    let services = ("aux-services", "mapreduce_shuffle,spark_shuffle");
    let messages = problems(&[services, SPARK]);
    assert_eq!(messages.len(), 1, "{messages:?}");
    for part in [
        "yarn.nodemanager.aux-services.spark_shuffle.class = org.apache.spark",
        "org.apache.hadoop.mapred.ShuffleHandler only",
        "yarn.nodemanager.agent.aux-services.skip-unavailable = true",
    ] {
        assert!(messages[0].contains(part), "{part}: {messages:?}");
    }
    let skip = ("agent.aux-services.skip-unavailable", "true");
    assert_eq!(config(&[services, SPARK, skip]).aux_services.len(), 1);
    let messages = warnings(&[services, SPARK, skip]);
    assert!(
        messages.len() == 1 && messages[0].contains("spark_shuffle"),
        "{messages:?}"
    );
}
