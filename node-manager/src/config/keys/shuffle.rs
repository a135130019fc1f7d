//! Properties of the MapReduce shuffle, which `mapred-site.xml` or `yarn-site.xml` sets.
//! Defaults are those of Hadoop 3.4.2's `mapred-default.xml`.

use hadoop_conf::DefaultSource::Code;
use hadoop_conf::KeyClass::{Honoured, NotApplicable};
use hadoop_conf::Unit::{Bytes, Count, Flag, Mebibytes, Seconds};
use hadoop_conf::{Key, key};

/// `mapreduce.*` that Hadoop's ShuffleHandler reads.
#[rustfmt::skip] // One property a line, however long: the table is read and searched line by line.
pub(super) const SHUFFLE: &[Key] = &[
    key(Honoured, Code, "mapreduce.shuffle.port", Some("13562"), Count),
    key(Honoured, Code, "mapreduce.shuffle.listen.queue.size", Some("128"), Count),
    key(Honoured, Code, "mapreduce.shuffle.max.connections", Some("0"), Count),
    key(Honoured, Code, "mapreduce.shuffle.max.threads", Some("0"), Count),
    key(Honoured, Code, "mapreduce.shuffle.connection-keep-alive.enable", Some("false"), Flag),
    key(Honoured, Code, "mapreduce.shuffle.connection-keep-alive.timeout", Some("5"), Seconds),
    key(Honoured, Code, "mapreduce.shuffle.manage.os.cache", Some("true"), Flag),
    key(Honoured, Code, "mapreduce.shuffle.readahead.bytes", Some("4194304"), Bytes),
    key(Honoured, Code, "mapreduce.shuffle.ssl.enabled", Some("false"), Flag),
    key(Honoured, Code, "mapreduce.reduce.shuffle.indexcache.mb", Some("10"), Mebibytes),
    key(NotApplicable, Code, "mapreduce.shuffle.transferTo.allowed", None, Flag),
    key(NotApplicable, Code, "mapreduce.shuffle.transfer.buffer.size", Some("131072"), Bytes),
    key(NotApplicable, Code, "mapreduce.shuffle.max.session-open-files", Some("3"), Count),
    key(NotApplicable, Code, "mapreduce.shuffle.mapoutput-info.meta.cache.size", Some("1000"), Count),
    key(NotApplicable, Code, "mapreduce.shuffle.ssl.file.buffer.size", Some("65536"), Bytes),
    key(NotApplicable, Code, "mapreduce.shuffle.pathcache.max-weight", Some("10485760"), Bytes),
    key(NotApplicable, Code, "mapreduce.shuffle.pathcache.expire-after-access-minutes", Some("5"), Count),
    key(NotApplicable, Code, "mapreduce.shuffle.pathcache.concurrency-level", Some("16"), Count),
];
