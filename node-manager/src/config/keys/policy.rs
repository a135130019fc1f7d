//! Properties of `hadoop-policy.xml`: who may use the protocols of a node.

use hadoop_conf::DefaultSource::Code;
use hadoop_conf::KeyClass::{Honoured, NotApplicable};
use hadoop_conf::Unit::{List, Text};
use hadoop_conf::{Key, key};

/// Those of the protocols that this agent serves, those of every protocol, and those of the two
/// protocols of Hadoop's node that it has no port for.
#[rustfmt::skip] // One property a line, however long: the table is read and searched line by line.
pub(super) const POLICY: &[Key] = &[
    key(Honoured, Code, "security.containermanagement.protocol.acl", None, Text),
    key(Honoured, Code, "security.containermanagement.protocol.acl.blocked", None, Text),
    key(Honoured, Code, "security.containermanagement.protocol.hosts", None, List),
    key(Honoured, Code, "security.containermanagement.protocol.hosts.blocked", None, List),
    key(Honoured, Code, "security.applicationmaster-nodemanager.applicationmaster.protocol.acl", None, Text),
    key(Honoured, Code, "security.applicationmaster-nodemanager.applicationmaster.protocol.acl.blocked", None, Text),
    key(Honoured, Code, "security.applicationmaster-nodemanager.applicationmaster.protocol.hosts", None, List),
    key(Honoured, Code, "security.applicationmaster-nodemanager.applicationmaster.protocol.hosts.blocked", None, List),
    key(Honoured, Code, "security.service.authorization.default.acl", Some("*"), Text),
    key(Honoured, Code, "security.service.authorization.default.acl.blocked", None, Text),
    key(Honoured, Code, "security.service.authorization.default.hosts", Some("*"), List),
    key(Honoured, Code, "security.service.authorization.default.hosts.blocked", None, List),
    key(NotApplicable, Code, "security.resourcelocalizer.protocol.acl", None, Text),
    key(NotApplicable, Code, "security.resourcelocalizer.protocol.acl.blocked", None, Text),
    key(NotApplicable, Code, "security.resourcelocalizer.protocol.hosts", None, List),
    key(NotApplicable, Code, "security.resourcelocalizer.protocol.hosts.blocked", None, List),
    key(NotApplicable, Code, "security.collector-nodemanager.protocol.acl", None, Text),
    key(NotApplicable, Code, "security.collector-nodemanager.protocol.acl.blocked", None, Text),
    key(NotApplicable, Code, "security.collector-nodemanager.protocol.hosts", None, List),
    key(NotApplicable, Code, "security.collector-nodemanager.protocol.hosts.blocked", None, List),
];
