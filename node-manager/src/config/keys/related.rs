//! Properties outside `yarn.nodemanager.*` that this agent reads.

use super::DefaultSource::{CoreDefault, YarnDefault};
use super::KeyClass::{Honoured, Later};
use super::Unit::{Address, Count, Flag, List, Millis, Seconds, Text};
use super::{Key, key};

/// Of `core-default.xml` and the rest of `yarn-default.xml`, those that are read.
#[rustfmt::skip] // One property a line, however long: the table is read and searched line by line.
pub(super) const RELATED: &[Key] = &[
    key(Honoured, CoreDefault, "hadoop.tmp.dir", Some("/tmp/hadoop-${user.name}"), Text),
    key(Honoured, CoreDefault, "hadoop.security.authentication", Some("simple"), Text),
    key(Honoured, CoreDefault, "hadoop.security.authorization", Some("false"), Flag),
    key(Honoured, CoreDefault, "hadoop.rpc.protection", Some("authentication"), List),
    key(Honoured, CoreDefault, "hadoop.security.sensitive-config-keys", Some("secret$ password$ ssl.keystore.pass$ fs.s3a.server-side-encryption.key fs.s3a.*.server-side-encryption.key fs.s3a.encryption.algorithm fs.s3a.encryption.key fs.s3a.secret.key fs.s3a.*.secret.key fs.s3a.session.key fs.s3a.*.session.key fs.s3a.session.token fs.s3a.*.session.token fs.azure.account.key.* fs.azure.oauth2.* fs.adl.oauth2.* fs.gs.encryption.* fs.gs.proxy.* fs.gs.auth.* credential$ oauth.*secret oauth.*password oauth.*token hadoop.security.sensitive-config-keys"), List),
    key(Honoured, CoreDefault, "hadoop.http.authentication.type", Some("simple"), Text),
    key(Honoured, CoreDefault, "fs.defaultFS", Some("file:///"), Text),
    key(Honoured, YarnDefault, "yarn.resourcemanager.hostname", Some("0.0.0.0"), Text),
    key(Honoured, YarnDefault, "yarn.resourcemanager.resource-tracker.address", Some("${yarn.resourcemanager.hostname}:8031"), Address),
    key(Honoured, YarnDefault, "yarn.resourcemanager.scheduler.address", Some("${yarn.resourcemanager.hostname}:8030"), Address),
    key(Honoured, YarnDefault, "yarn.resourcemanager.address", Some("${yarn.resourcemanager.hostname}:8032"), Address),
    key(Honoured, YarnDefault, "yarn.resourcemanager.webapp.address", Some("${yarn.resourcemanager.hostname}:8088"), Address),
    key(Honoured, YarnDefault, "yarn.resourcemanager.ha.enabled", Some("false"), Flag),
    key(Honoured, YarnDefault, "yarn.resourcemanager.ha.rm-ids", None, List),
    key(Honoured, YarnDefault, "yarn.resourcemanager.connect.max-wait.ms", Some("900000"), Millis),
    key(Honoured, YarnDefault, "yarn.resourcemanager.connect.retry-interval.ms", Some("30000"), Millis),
    key(Honoured, YarnDefault, "yarn.resourcemanager.work-preserving-recovery.enabled", Some("true"), Flag),
    key(Honoured, YarnDefault, "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms", Some("1000"), Millis),
    key(Honoured, YarnDefault, "yarn.nm.liveness-monitor.expiry-interval-ms", Some("600000"), Millis),
    key(Honoured, YarnDefault, "yarn.log-aggregation-enable", Some("false"), Flag),
    key(Honoured, YarnDefault, "yarn.log.server.url", None, Text),
    key(Honoured, YarnDefault, "yarn.log.server.web-service.url", None, Text),
    key(Later, YarnDefault, "yarn.acl.enable", Some("false"), Flag),
    key(Later, YarnDefault, "yarn.admin.acl", Some("*"), Text),
    key(Honoured, YarnDefault, "yarn.http.policy", Some("HTTP_ONLY"), Text),
    key(Later, YarnDefault, "yarn.resource-types", None, List),
    key(Honoured, YarnDefault, "yarn.resourcemanager.am-rm-tokens.master-key-rolling-interval-secs", Some("86400"), Seconds),
    key(Honoured, YarnDefault, "yarn.am.liveness-monitor.expiry-interval-ms", Some("900000"), Millis),
    key(Later, YarnDefault, "yarn.federation.enabled", Some("false"), Flag),
    key(Honoured, YarnDefault, "yarn.resourcemanager.opportunistic.max.container-allocation.per.am.heartbeat", Some("-1"), Count),
];
