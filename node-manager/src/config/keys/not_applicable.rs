//! The NodeManager's properties that mean something only to Java, to Windows or to plug-ins.

use hadoop_conf::DefaultSource::{Code, YarnDefault};
use hadoop_conf::KeyClass::NotApplicable;
use hadoop_conf::Unit::{Address, ClassName, Count, Flag, Ratio, Seconds, Text};
use hadoop_conf::{Key, key};

/// `yarn.nodemanager.*`, without meaning here.
#[rustfmt::skip] // One property a line, however long: the table is read and searched line by line.
pub(super) const NOT_APPLICABLE: &[Key] = &[
    key(NotApplicable, YarnDefault, "yarn.nodemanager.localizer.client.thread-count", Some("5"), Count),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.container-localizer.java.opts", Some("-Xmx256m"), Text),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.container-localizer.admin.java.opts", None, Text),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.container-localizer.java.opts.add-exports-as-default", Some("true"), Flag),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.resource-calculator.class", None, ClassName),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.container-monitor.resource-calculator.class", None, ClassName),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.windows-container.memory-limit.enabled", Some("false"), Flag),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.windows-container.cpu-limit.enabled", Some("false"), Flag),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.aux-services.%s.classpath", Some("NONE"), Text),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.aux-services.%s.system-classes", None, Text),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.recovery.compaction-interval-secs", Some("3600"), Seconds),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.container-monitor.process-tree.class", None, ClassName),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.windows-secure-container-executor.group", None, Text),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.dispatcher.metric.enable", Some("false"), Flag),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.least-load-policy-selector.enabled", Some("false"), Flag),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.least-load-policy-selector.pending-container.threshold", Some("10000"), Count),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.least-load-policy-selector.use-active-core", Some("false"), Flag),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.least-load-policy-selector.fail-on-error", Some("true"), Flag),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.least-load-policy-selector.blacklist-subclusters", None, Text),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.least-load-policy-selector.multiplier", Some("50000"), Ratio),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.container-manager.thread-count", Some("20"), Count),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.localizer.address", Some("${yarn.nodemanager.hostname}:8040"), Address),
    key(NotApplicable, Code, "yarn.nodemanager.linux-container-executor.cgroups.v2.enabled", Some("false"), Flag),
    key(NotApplicable, YarnDefault, "yarn.nodemanager.amrmproxy.client.thread-count", Some("25"), Count),
];
