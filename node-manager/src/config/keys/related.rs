//! Properties outside `yarn.nodemanager.*` that this agent reads.

use hadoop_conf::DefaultSource::{Code, CoreDefault, YarnDefault};
use hadoop_conf::KeyClass::{Honoured, Later};
use hadoop_conf::Unit::{ClassName, Flag, List, Millis, Seconds, Text};
use hadoop_conf::{Key, key};

/// Properties that are read of `core-default.xml` and of the rest of `yarn-default.xml`.
#[rustfmt::skip] // One property a line, however long: the table is read and searched line by line.
pub(super) const RELATED: &[Key] = &[
    key(Honoured, CoreDefault, "hadoop.tmp.dir", Some("/tmp/hadoop-${user.name}"), Text),
    key(Honoured, CoreDefault, "hadoop.security.authorization", Some("false"), Flag),
    key(Honoured, CoreDefault, "hadoop.kerberos.min.seconds.before.relogin", Some("60"), Seconds),
    key(Honoured, CoreDefault, "ipc.client.fallback-to-simple-auth-allowed", Some("false"), Flag),
    key(Honoured, YarnDefault, "yarn.resourcemanager.principal", None, Text),
    key(Honoured, Code, "yarn.resourcemanager.principal.pattern", None, Text),
    key(Honoured, CoreDefault, "hadoop.http.authentication.type", Some("simple"), Text),
    key(Honoured, CoreDefault, "hadoop.http.authentication.simple.anonymous.allowed", Some("true"), Flag),
    key(Honoured, CoreDefault, "hadoop.http.authentication.kerberos.principal", Some("HTTP/_HOST@LOCALHOST"), Text),
    key(Honoured, CoreDefault, "hadoop.http.authentication.kerberos.keytab", Some("${user.home}/hadoop.keytab"), Text),
    key(Honoured, CoreDefault, "hadoop.http.authentication.kerberos.endpoint.whitelist", None, List),
    key(Honoured, CoreDefault, "hadoop.http.authentication.signature.secret.file", Some("${user.home}/hadoop-http-auth-signature-secret"), Text),
    key(Honoured, CoreDefault, "hadoop.http.authentication.token.validity", Some("36000"), Seconds),
    key(Honoured, CoreDefault, "hadoop.http.authentication.cookie.domain", None, Text),
    key(Honoured, Code, "hadoop.http.authentication.cookie.path", Some("/"), Text),
    key(Honoured, Code, "hadoop.http.authentication.cookie.persistent", Some("false"), Flag),
    key(Honoured, CoreDefault, "hadoop.security.auth_to_local", None, Text),
    key(Honoured, CoreDefault, "hadoop.security.auth_to_local.mechanism", Some("hadoop"), Text),
    key(Honoured, CoreDefault, "hadoop.security.instrumentation.requires.admin", Some("false"), Flag),
    key(Honoured, CoreDefault, "hadoop.security.group.mapping", Some("org.apache.hadoop.security.JniBasedUnixGroupsMappingWithFallback"), ClassName),
    key(Honoured, CoreDefault, "fs.defaultFS", Some("file:///"), Text),
    key(Honoured, CoreDefault, "ipc.client.rpc-timeout.ms", Some("120000"), Millis),
    key(Honoured, YarnDefault, "yarn.resourcemanager.work-preserving-recovery.enabled", Some("true"), Flag),
    key(Honoured, YarnDefault, "yarn.log-aggregation-enable", Some("false"), Flag),
    key(Honoured, YarnDefault, "yarn.log-aggregation.file-formats", Some("TFile"), List),
    key(Honoured, YarnDefault, "yarn.log-aggregation.enable-local-cleanup", Some("true"), Flag),
    key(Honoured, Code, "yarn.log-aggregation.TFile.remote-app-log-dir", None, Text),
    key(Honoured, Code, "yarn.log-aggregation.TFile.remote-app-log-dir-suffix", None, Text),
    key(Honoured, Code, "yarn.log-aggregation.IFile.remote-app-log-dir", None, Text),
    key(Honoured, Code, "yarn.log-aggregation.IFile.remote-app-log-dir-suffix", None, Text),
    key(Honoured, Code, "yarn.log-aggregation.IndexedFormat.remote-app-log-dir", None, Text),
    key(Honoured, Code, "yarn.log-aggregation.IndexedFormat.remote-app-log-dir-suffix", None, Text),
    key(Honoured, YarnDefault, "yarn.log.server.url", None, Text),
    key(Honoured, YarnDefault, "yarn.log.server.web-service.url", None, Text),
    key(Honoured, YarnDefault, "yarn.acl.enable", Some("false"), Flag),
    key(Honoured, YarnDefault, "yarn.admin.acl", Some("*"), Text),
    key(Honoured, YarnDefault, "yarn.webapp.filter-entity-list-by-user", Some("false"), Flag),
    key(Honoured, YarnDefault, "yarn.http.policy", Some("HTTP_ONLY"), Text),
    key(Honoured, CoreDefault, "hadoop.security.saslproperties.resolver.class", None, ClassName),
    key(Honoured, YarnDefault, "yarn.intermediate-data-encryption.enable", Some("false"), Flag),
    key(Later, YarnDefault, "yarn.timeline-service.enabled", Some("false"), Flag),
    key(Later, YarnDefault, "yarn.sharedcache.enabled", Some("false"), Flag),
    key(Later, YarnDefault, "yarn.resource-types", None, List),
    key(Later, YarnDefault, "yarn.federation.enabled", Some("false"), Flag),
];
