//! The NodeManager's properties of labels and attributes that a node gives itself.

use hadoop_conf::DefaultSource::YarnDefault;
use hadoop_conf::KeyClass::Honoured;
use hadoop_conf::Unit::{List, Millis, Text};
use hadoop_conf::{Key, key};

/// Honoured properties of the providers.
#[rustfmt::skip] // One property a line, however long: the table is read and searched line by line.
pub(super) const NODE_LABELS: &[Key] = &[
    key(Honoured, YarnDefault, "yarn.nodemanager.node-labels.provider", None, Text),
    key(Honoured, YarnDefault, "yarn.nodemanager.node-labels.provider.fetch-interval-ms", Some("600000"), Millis),
    key(Honoured, YarnDefault, "yarn.nodemanager.node-labels.resync-interval-ms", Some("120000"), Millis),
    key(Honoured, YarnDefault, "yarn.nodemanager.node-labels.provider.configured-node-partition", None, Text),
    key(Honoured, YarnDefault, "yarn.nodemanager.node-labels.provider.fetch-timeout-ms", Some("1200000"), Millis),
    key(Honoured, YarnDefault, "yarn.nodemanager.node-attributes.provider", None, Text),
    key(Honoured, YarnDefault, "yarn.nodemanager.node-attributes.provider.script.path", None, Text),
    key(Honoured, YarnDefault, "yarn.nodemanager.node-attributes.provider.script.opts", None, List),
    key(Honoured, YarnDefault, "yarn.nodemanager.node-attributes.provider.fetch-interval-ms", Some("600000"), Millis),
    key(Honoured, YarnDefault, "yarn.nodemanager.node-attributes.provider.fetch-timeout-ms", Some("1200000"), Millis),
    key(Honoured, YarnDefault, "yarn.nodemanager.node-attributes.provider.configured-node-attributes", None, Text),
    key(Honoured, YarnDefault, "yarn.nodemanager.node-attributes.resync-interval-ms", Some("120000"), Millis),
    key(Honoured, YarnDefault, "yarn.nodemanager.node-labels.provider.script.path", None, Text),
    key(Honoured, YarnDefault, "yarn.nodemanager.node-labels.provider.script.opts", None, List),
];
