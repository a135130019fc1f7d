//! Properties of Spark's shuffle, which `yarn-site.xml` or the file `spark-shuffle-site.xml` in the
//! service's class path sets. Defaults are those of Spark 3.5.

use hadoop_conf::DefaultSource::Code;
use hadoop_conf::KeyClass::{Honoured, NotApplicable};
use hadoop_conf::Unit::{ClassName, Count, Flag, Text};
use hadoop_conf::{Guard, Key, KeyTable, key};

/// Properties that Spark's `YarnShuffleService` reads.
pub const SPARK_SHUFFLE: KeyTable = KeyTable {
    keys: &[SPARK_SHUFFLE_KEYS],
    families: &[],
    lenient: &[],
    guards: GUARDS,
    own_prefix: None,
};

const fn guard(name: &'static str, protects: bool) -> Guard {
    Guard { name, protects }
}

const GUARDS: &[Guard] = &[
    guard("spark.authenticate", true),
    guard("spark.network.crypto.enabled", true),
    guard("spark.network.crypto.saslFallback", false),
    guard("spark.network.sasl.serverAlwaysEncrypt", true),
    guard("spark.ssl.rpc.enabled", true),
];

#[rustfmt::skip] // One property a line, however long: the table is read and searched line by line.
const SPARK_SHUFFLE_KEYS: &[Key] = &[
    key(Honoured, Code, "spark.shuffle.service.port", Some("7337"), Count),
    key(Honoured, Code, "spark.authenticate", Some("false"), Flag),
    key(Honoured, Code, "spark.network.crypto.enabled", Some("false"), Flag),
    key(Honoured, Code, "spark.network.crypto.authEngineVersion", Some("1"), Count),
    key(Honoured, Code, "spark.network.crypto.cipher", Some("AES/CTR/NoPadding"), Text),
    key(Honoured, Code, "spark.network.crypto.saslFallback", Some("true"), Flag),
    key(Honoured, Code, "spark.network.sasl.serverAlwaysEncrypt", Some("false"), Flag),
    key(Honoured, Code, "spark.ssl.rpc.enabled", Some("false"), Flag),
    key(Honoured, Code, "spark.shuffle.io.serverThreads", Some("0"), Count),
    key(Honoured, Code, "spark.shuffle.io.backLog", Some("-1"), Count),
    key(Honoured, Code, "spark.shuffle.io.connectionTimeout", None, Text),
    key(Honoured, Code, "spark.network.timeout", Some("120s"), Text),
    key(Honoured, Code, "spark.shuffle.maxChunksBeingTransferred", None, Text),
    key(Honoured, Code, "spark.shuffle.push.server.mergedShuffleFileManagerImpl", Some("org.apache.spark.network.shuffle.NoOpMergedShuffleFileManager"), ClassName),
    key(NotApplicable, Code, "spark.shuffle.service.index.cache.size", Some("100m"), Text),
    key(NotApplicable, Code, "spark.shuffle.service.db.backend", Some("LEVELDB"), Text),
    key(NotApplicable, Code, "spark.shuffle.service.fetch.rdd.enabled", Some("false"), Flag),
    key(NotApplicable, Code, "spark.yarn.shuffle.stopOnFailure", Some("false"), Flag),
    key(NotApplicable, Code, "spark.yarn.shuffle.service.metrics.namespace", Some("sparkShuffleService"), Text),
];
