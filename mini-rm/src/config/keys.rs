//! Table of the ResourceManager's properties with Hadoop's defaults.

use hadoop_conf::DefaultSource::{Code, CoreDefault, YarnDefault};
use hadoop_conf::KeyClass::Honoured;
use hadoop_conf::Unit::{ClassName, Count, Flag, Mebibytes, Millis, Paths, Ratio, Seconds};
use hadoop_conf::{Key, KeyTable, key, shared};

/// Properties of the ResourceManager, with those that nodes or clients read too.
pub(super) const TABLE: KeyTable = KeyTable {
    keys: &[OWN, shared::KEYS],
    families: &[],
    lenient: &[],
    guards: &[],
    own_prefix: None,
};

#[rustfmt::skip] // One property a line, however long: the table is read and searched line by line.
const OWN: &[Key] = &[
    key(Honoured, CoreDefault, "net.topology.node.switch.mapping.impl", Some("org.apache.hadoop.net.ScriptBasedMapping"), ClassName),
    key(Honoured, CoreDefault, "net.topology.table.file.name", None, Paths),
    key(Honoured, YarnDefault, "yarn.resourcemanager.am.max-attempts", Some("2"), Count),
    key(Honoured, YarnDefault, "yarn.resourcemanager.rm.container-allocation.expiry-interval-ms", Some("600000"), Millis),
    key(Honoured, YarnDefault, "yarn.scheduler.minimum-allocation-mb", Some("1024"), Mebibytes),
    key(Honoured, YarnDefault, "yarn.scheduler.minimum-allocation-vcores", Some("1"), Count),
    key(Honoured, YarnDefault, "yarn.scheduler.maximum-allocation-mb", Some("8192"), Mebibytes),
    key(Honoured, YarnDefault, "yarn.scheduler.maximum-allocation-vcores", Some("4"), Count),
    key(Honoured, YarnDefault, "yarn.resourcemanager.max-completed-applications", Some("1000"), Count),
    key(Honoured, Code, "yarn.resourcemanager.epoch", Some("0"), Count),
    key(Honoured, YarnDefault, "yarn.resourcemanager.container-tokens.master-key-rolling-interval-secs", Some("86400"), Seconds),
    key(Honoured, YarnDefault, "yarn.resourcemanager.nm-tokens.master-key-rolling-interval-secs", Some("86400"), Seconds),
    key(Honoured, YarnDefault, "yarn.resourcemanager.auto-update.containers", Some("false"), Flag),
    key(Honoured, YarnDefault, "yarn.resourcemanager.opportunistic-container-allocation.enabled", Some("false"), Flag),
    key(Honoured, YarnDefault, "yarn.resourcemanager.opportunistic-container-allocation.nodes-used", Some("10"), Count),
    key(Honoured, YarnDefault, "yarn.resourcemanager.nm-container-queuing.sorting-nodes-interval-ms", Some("1000"), Millis),
    key(Honoured, YarnDefault, "yarn.resourcemanager.nm-container-queuing.queue-limit-stdev", Some("1.0"), Ratio),
    key(Honoured, YarnDefault, "yarn.resourcemanager.nm-container-queuing.min-queue-length", Some("5"), Count),
    key(Honoured, YarnDefault, "yarn.resourcemanager.nm-container-queuing.max-queue-length", Some("15"), Count),
    key(Honoured, YarnDefault, "yarn.resourcemanager.nm-container-queuing.min-queue-wait-time-ms", Some("10"), Millis),
    key(Honoured, YarnDefault, "yarn.resourcemanager.nm-container-queuing.max-queue-wait-time-ms", Some("100"), Millis),
];
