//! Properties that more than one program of this workspace reads, with their defaults.

use crate::DefaultSource::{CoreDefault, YarnDefault};
use crate::KeyClass::Honoured;
use crate::Unit::{Address, Count, Flag, List, Millis, Seconds, Text};
use crate::{Expected, Key, KeyTable, PropertyReader, key};

/// Levels of protection of calls, the preferred one first.
const RPC_PROTECTION: &str = "hadoop.rpc.protection";
/// Every level.
const RPC_PROTECTIONS: [&str; 3] = ["authentication", "integrity", "privacy"];

/// Names and defaults as in Hadoop 3.4.2's `core-default.xml` and `yarn-default.xml`.
#[rustfmt::skip] // One property a line, however long: the table is read and searched line by line.
pub const KEYS: &[Key] = &[
    key(Honoured, CoreDefault, "hadoop.security.authentication", Some("simple"), Text),
    key(Honoured, CoreDefault, RPC_PROTECTION, Some("authentication"), List),
    key(Honoured, CoreDefault, "hadoop.security.sensitive-config-keys", Some("secret$ password$ ssl.keystore.pass$ fs.s3a.server-side-encryption.key fs.s3a.*.server-side-encryption.key fs.s3a.encryption.algorithm fs.s3a.encryption.key fs.s3a.secret.key fs.s3a.*.secret.key fs.s3a.session.key fs.s3a.*.session.key fs.s3a.session.token fs.s3a.*.session.token fs.azure.account.key.* fs.azure.oauth2.* fs.adl.oauth2.* fs.gs.encryption.* fs.gs.proxy.* fs.gs.auth.* credential$ oauth.*secret oauth.*password oauth.*token hadoop.security.sensitive-config-keys"), List),
    key(Honoured, YarnDefault, "yarn.resourcemanager.hostname", Some("0.0.0.0"), Text),
    key(Honoured, YarnDefault, "yarn.resourcemanager.resource-tracker.address", Some("${yarn.resourcemanager.hostname}:8031"), Address),
    key(Honoured, YarnDefault, "yarn.resourcemanager.scheduler.address", Some("${yarn.resourcemanager.hostname}:8030"), Address),
    key(Honoured, YarnDefault, "yarn.resourcemanager.address", Some("${yarn.resourcemanager.hostname}:8032"), Address),
    key(Honoured, YarnDefault, "yarn.resourcemanager.webapp.address", Some("${yarn.resourcemanager.hostname}:8088"), Address),
    key(Honoured, YarnDefault, "yarn.resourcemanager.ha.enabled", Some("false"), Flag),
    key(Honoured, YarnDefault, "yarn.resourcemanager.ha.rm-ids", None, List),
    key(Honoured, YarnDefault, "yarn.resourcemanager.connect.max-wait.ms", Some("900000"), Millis),
    key(Honoured, YarnDefault, "yarn.resourcemanager.connect.retry-interval.ms", Some("30000"), Millis),
    key(Honoured, YarnDefault, "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms", Some("1000"), Millis),
    key(Honoured, YarnDefault, "yarn.nm.liveness-monitor.expiry-interval-ms", Some("600000"), Millis),
    key(Honoured, YarnDefault, "yarn.resourcemanager.am-rm-tokens.master-key-rolling-interval-secs", Some("86400"), Seconds),
    key(Honoured, YarnDefault, "yarn.am.liveness-monitor.expiry-interval-ms", Some("900000"), Millis),
    key(Honoured, YarnDefault, "yarn.resourcemanager.opportunistic.max.container-allocation.per.am.heartbeat", Some("-1"), Count),
    key(Honoured, YarnDefault, "yarn.resourcemanager.nm-container-queuing.load-comparator", Some("QUEUE_LENGTH"), Text),
    key(Honoured, YarnDefault, "yarn.nodemanager.distributed-scheduling.enabled", Some("false"), Flag),
];

/// Key table of a program that reads no other properties.
pub const TABLE: KeyTable = KeyTable {
    keys: &[KEYS],
    families: &[],
    lenient: &[],
    guards: &[],
    own_prefix: None,
};

/// Reads the levels of protection of calls that carry a proof (`hadoop.rpc.protection`), the
/// preferred one first, in any case of letters. A word that is no level is a problem.
pub fn rpc_protections(reader: &mut PropertyReader<'_>) -> Vec<String> {
    let levels = reader.list(RPC_PROTECTION);
    let is_known = |level: &String| {
        let mut known = RPC_PROTECTIONS.iter();
        known.any(|known| known.eq_ignore_ascii_case(level))
    };
    if levels.iter().all(is_known) {
        return levels;
    }
    reader.problem(RPC_PROTECTION, Expected::OneOf(RPC_PROTECTIONS.to_vec()));
    Vec::new()
}
