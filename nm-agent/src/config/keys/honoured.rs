//! The NodeManager's properties that this agent honours.

use super::DefaultSource::{Code, YarnDefault};
use super::KeyClass::Honoured;
use super::Unit::{
    Address, Bytes, Characters, ClassName, Count, Flag, List, Mebibytes, Millis, Octal, Paths,
    Percent, Ratio, Seconds, Text,
};
use super::{Key, key};

/// `yarn.nodemanager.*`, honoured.
#[rustfmt::skip] // One property a line, however long: the table is read and searched line by line.
pub(super) const HONOURED: &[Key] = &[
    key(Honoured, YarnDefault, "yarn.nodemanager.hostname", Some("0.0.0.0"), Text),
    key(Honoured, YarnDefault, "yarn.nodemanager.address", Some("${yarn.nodemanager.hostname}:0"), Address),
    key(Honoured, YarnDefault, "yarn.nodemanager.bind-host", None, Text),
    key(Honoured, YarnDefault, "yarn.nodemanager.admin-env", Some("MALLOC_ARENA_MAX=$MALLOC_ARENA_MAX"), List),
    key(Honoured, YarnDefault, "yarn.nodemanager.force.path", None, Text),
    key(Honoured, YarnDefault, "yarn.nodemanager.env-whitelist", Some("JAVA_HOME,HADOOP_COMMON_HOME,HADOOP_HDFS_HOME,HADOOP_CONF_DIR,CLASSPATH_PREPEND_DISTCACHE,HADOOP_YARN_HOME,HADOOP_HOME,PATH,LANG,TZ"), List),
    key(Honoured, YarnDefault, "yarn.nodemanager.container-executor.class", Some("org.apache.hadoop.yarn.server.nodemanager.DefaultContainerExecutor"), ClassName),
    key(Honoured, YarnDefault, "yarn.nodemanager.delete.thread-count", Some("4"), Count),
    key(Honoured, YarnDefault, "yarn.nodemanager.opportunistic-containers-queue-policy", Some("BY_QUEUE_LEN"), Text),
    key(Honoured, YarnDefault, "yarn.nodemanager.opportunistic-containers-max-queue-length", Some("0"), Count),
    key(Honoured, YarnDefault, "yarn.nodemanager.delete.debug-delay-sec", Some("0"), Seconds),
    key(Honoured, YarnDefault, "yarn.nodemanager.local-dirs", Some("${hadoop.tmp.dir}/nm-local-dir"), Paths),
    key(Honoured, YarnDefault, "yarn.nodemanager.local-cache.max-files-per-directory", Some("8192"), Count),
    key(Honoured, YarnDefault, "yarn.nodemanager.localizer.cache.cleanup.interval-ms", Some("600000"), Millis),
    key(Honoured, YarnDefault, "yarn.nodemanager.localizer.cache.target-size-mb", Some("10240"), Mebibytes),
    key(Honoured, YarnDefault, "yarn.nodemanager.localizer.fetch.thread-count", Some("4"), Count),
    key(Honoured, YarnDefault, "yarn.nodemanager.log-dirs", Some("${yarn.log.dir}/userlogs"), Paths),
    key(Honoured, YarnDefault, "yarn.nodemanager.default-container-executor.log-dirs.permissions", Some("710"), Octal),
    key(Honoured, YarnDefault, "yarn.nodemanager.log.retain-seconds", Some("10800"), Seconds),
    key(Honoured, YarnDefault, "yarn.nodemanager.log-container-debug-info.enabled", Some("true"), Flag),
    key(Honoured, YarnDefault, "yarn.nodemanager.resource.memory-mb", Some("-1"), Mebibytes),
    key(Honoured, YarnDefault, "yarn.nodemanager.resource.system-reserved-memory-mb", Some("-1"), Mebibytes),
    key(Honoured, YarnDefault, "yarn.nodemanager.pmem-check-enabled", Some("true"), Flag),
    key(Honoured, YarnDefault, "yarn.nodemanager.vmem-check-enabled", Some("true"), Flag),
    key(Honoured, YarnDefault, "yarn.nodemanager.vmem-pmem-ratio", Some("2.1"), Ratio),
    key(Honoured, YarnDefault, "yarn.nodemanager.resource.cpu-vcores", Some("-1"), Count),
    key(Honoured, YarnDefault, "yarn.nodemanager.resource.count-logical-processors-as-cores", Some("false"), Flag),
    key(Honoured, YarnDefault, "yarn.nodemanager.resource.pcores-vcores-multiplier", Some("1.0"), Ratio),
    key(Honoured, YarnDefault, "yarn.nodemanager.resource.percentage-physical-cpu-limit", Some("100"), Percent),
    key(Honoured, YarnDefault, "yarn.nodemanager.resource.detect-hardware-capabilities", Some("false"), Flag),
    key(Honoured, YarnDefault, "yarn.nodemanager.webapp.address", Some("${yarn.nodemanager.hostname}:8042"), Address),
    key(Honoured, YarnDefault, "yarn.nodemanager.resource-monitor.interval-ms", Some("3000"), Millis),
    key(Honoured, YarnDefault, "yarn.nodemanager.container-monitor.interval-ms", None, Millis),
    key(Honoured, YarnDefault, "yarn.nodemanager.aux-services", None, List),
    key(Honoured, YarnDefault, "yarn.nodemanager.sleep-delay-before-sigkill.ms", Some("250"), Millis),
    key(Honoured, YarnDefault, "yarn.nodemanager.process-kill-wait.ms", Some("5000"), Millis),
    key(Honoured, YarnDefault, "yarn.nodemanager.container-diagnostics-maximum-size", Some("10000"), Characters),
    key(Honoured, YarnDefault, "yarn.nodemanager.resourcemanager.minimum.version", Some("NONE"), Text),
    key(Honoured, YarnDefault, "yarn.nodemanager.resourcemanager.connect.max-wait.ms", None, Millis),
    key(Honoured, YarnDefault, "yarn.nodemanager.resourcemanager.connect.retry-interval.ms", None, Millis),
    key(Honoured, YarnDefault, "yarn.nodemanager.opportunistic-containers-use-pause-for-preemption", Some("false"), Flag),
    key(Honoured, Code, "yarn.nodemanager.agent.pause.max-ms", Some("300000"), Millis),
    key(Honoured, Code, "yarn.nodemanager.agent.pause.memory-ceiling-mb", Some("-1"), Mebibytes),
    key(Honoured, YarnDefault, "yarn.nodemanager.container.stderr.pattern", Some("{*stderr*,*STDERR*}"), Text),
    key(Honoured, YarnDefault, "yarn.nodemanager.container.stderr.tail.bytes", Some("4096"), Bytes),
    key(Honoured, Code, "yarn.nodemanager.user-home-dir", Some("/home/"), Text),
    key(Honoured, Code, "yarn.nodemanager.duration-to-track-stopped-containers", Some("600000"), Millis),
];
