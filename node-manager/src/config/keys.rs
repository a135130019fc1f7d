//! Every property that Hadoop's NodeManager knows, as one table: name, default, unit, and what this
//! agent makes of it.
//!
//! The table is the single source of defaults. Names and defaults are those of Hadoop 3.4.2's
//! `core-default.xml` and `yarn-default.xml`, plus those that stand only in its code.

mod honoured;
mod later;
mod node_labels;
mod not_applicable;
mod odd_values;
#[cfg(test)]
mod page;
mod policy;
mod related;
mod shuffle;
mod spark_shuffle;
mod ssl;

use hadoop_conf::{Family, Key, KeyClass, KeyTable, shared};
pub use spark_shuffle::SPARK_SHUFFLE;
pub use ssl::SSL_SERVER;

/// The table: honoured, those of labels and attributes, later, not applicable, then those outside
/// `yarn.nodemanager.*`, those of service authorization, of the shuffle and of TLS, and those that
/// other programs read too.
pub const TABLE: KeyTable = KeyTable {
    keys: &[
        honoured::HONOURED,
        node_labels::NODE_LABELS,
        later::LATER,
        not_applicable::NOT_APPLICABLE,
        related::RELATED,
        policy::POLICY,
        shuffle::SHUFFLE,
        ssl::SSL,
        shared::KEYS,
    ],
    families: FAMILIES,
    lenient: odd_values::LENIENT,
    guards: odd_values::GUARDS,
    own_prefix: Some("yarn.nodemanager.agent."),
};

const fn family(
    prefix: &'static str,
    suffixes: &'static [&'static str],
    class: KeyClass,
) -> Family {
    Family {
        prefix,
        suffixes,
        class,
        listed_in: None,
    }
}

/// Returns a family whose chosen parts a property must list.
const fn listed(list: &'static str, family: Family) -> Family {
    Family {
        listed_in: Some(list),
        ..family
    }
}

/// Names with a part that the operator chooses: what stands before it, what after it, and what this
/// agent makes of them.
const FAMILIES: &[Family] = &[
    family("yarn.nodemanager.admin-env.", &[""], KeyClass::Honoured),
    family("yarn.nodemanager.resource-type.", &[""], KeyClass::Later),
    listed(
        "yarn.nodemanager.health-checker.scripts",
        family(
            "yarn.nodemanager.health-checker.",
            &[".path", ".opts", ".timeout-ms", ".interval-ms"],
            KeyClass::Honoured,
        ),
    ),
    listed(
        "yarn.nodemanager.agent.amrmproxy.relabel.rules",
        family(
            "yarn.nodemanager.agent.amrmproxy.relabel.",
            &[
                ".user",
                ".tag",
                ".priorities",
                ".percent",
                ".promote-after-ms",
            ],
            KeyClass::Honoured,
        ),
    ),
    listed(
        "yarn.nodemanager.agent.role-history.rules",
        family(
            "yarn.nodemanager.agent.role-history.rule.",
            &[".user", ".tag", ".service", ".guaranteed", ".policy"],
            KeyClass::Honoured,
        ),
    ),
    listed(
        "yarn.nodemanager.aux-services",
        family(
            "yarn.nodemanager.aux-services.",
            &[
                ".class",
                ".classpath",
                ".remote-classpath",
                ".system-classes",
            ],
            KeyClass::Honoured,
        ),
    ),
    listed(
        "yarn.nodemanager.runtime.linux.allowed-runtimes",
        family(
            "yarn.nodemanager.runtime.linux.",
            &[".class"],
            KeyClass::Later,
        ),
    ),
    family(
        "yarn.nodemanager.runtime.linux.sandbox-mode.policy.group.",
        &[""],
        KeyClass::Later,
    ),
    family(
        "yarn.nodemanager.csi-driver-adaptor.",
        &[".address", ".class"],
        KeyClass::Later,
    ),
    family(
        "yarn.nodemanager.csi-driver.",
        &[".endpoint"],
        KeyClass::Later,
    ),
];

/// Properties whose values the agent takes over while it runs, when it reads its configuration
/// again. All others take effect at the next start.
const TAKEN_AT_RUN_TIME: [&str; 29] = [
    "security.applicationmaster-nodemanager.applicationmaster.protocol.acl",
    "security.applicationmaster-nodemanager.applicationmaster.protocol.acl.blocked",
    "security.applicationmaster-nodemanager.applicationmaster.protocol.hosts",
    "security.applicationmaster-nodemanager.applicationmaster.protocol.hosts.blocked",
    "security.containermanagement.protocol.acl",
    "security.containermanagement.protocol.acl.blocked",
    "security.containermanagement.protocol.hosts",
    "security.containermanagement.protocol.hosts.blocked",
    "security.service.authorization.default.acl",
    "security.service.authorization.default.acl.blocked",
    "security.service.authorization.default.hosts",
    "security.service.authorization.default.hosts.blocked",
    "yarn.nodemanager.agent.amrmproxy.look-wait-ms",
    "yarn.nodemanager.agent.amrmproxy.placement",
    "yarn.nodemanager.agent.launch-context.max-bytes",
    "yarn.nodemanager.agent.launch-context.max-resources",
    "yarn.nodemanager.agent.launch-context.node-max-mb",
    "yarn.nodemanager.agent.log.level",
    "yarn.nodemanager.agent.pause.max-ms",
    "yarn.nodemanager.agent.queue.bound-factor",
    "yarn.nodemanager.agent.queue.order",
    "yarn.nodemanager.agent.victims.order",
    "yarn.nodemanager.container-diagnostics-maximum-size",
    "yarn.nodemanager.container-retry-minimum-interval-ms",
    "yarn.nodemanager.duration-to-track-stopped-containers",
    "yarn.nodemanager.localizer.cache.target-size-mb",
    "yarn.nodemanager.log.retain-seconds",
    "yarn.nodemanager.opportunistic-containers-max-queue-length",
    "yarn.nodemanager.opportunistic-containers-queue-policy",
];

/// Returns whether the agent takes a new value of this property over while it runs.
#[must_use]
pub fn is_taken_at_run_time(name: &str) -> bool {
    TAKEN_AT_RUN_TIME.contains(&name)
}

/// Returns whether the part that obeys this property reads it again by itself.
#[must_use]
pub fn rereads_itself(name: &str) -> bool {
    [
        "yarn.nodemanager.node-attributes.provider.configured-node-attributes",
        "yarn.nodemanager.node-labels.provider.configured-node-partition",
    ]
    .contains(&name)
}

/// Iterates over the properties in the table.
pub fn all() -> impl Iterator<Item = &'static Key> {
    TABLE.all()
}

/// Returns the table's entry of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Key> {
    TABLE.find(name)
}

/// Returns the class of a name in the table or of a family; `None`: unknown.
#[must_use]
pub fn class_of(name: &str) -> Option<KeyClass> {
    TABLE.class_of(name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hadoop_conf::DefaultSource;

    use super::*;

    #[test]
    fn no_name_stands_twice() {
        let mut seen = BTreeSet::new();
        for key in all() {
            assert!(seen.insert(key.name), "{} stands twice", key.name);
        }
    }

    /// Hadoop 3.4.2's `yarn-default.xml` has 231 of them.
    #[test]
    fn every_nodemanager_property_of_yarn_default_xml_is_there() {
        let named = all().filter(|key| {
            key.name.starts_with("yarn.nodemanager.") && key.source == DefaultSource::YarnDefault
        });
        assert_eq!(named.count(), 231);
    }

    #[test]
    fn names_that_are_taken_at_run_time_are_in_the_table() {
        for name in TAKEN_AT_RUN_TIME {
            assert!(find(name).is_some(), "{name}");
        }
    }

    #[test]
    fn names_with_a_chosen_part_are_known_by_their_family() {
        for (name, class) in [
            ("yarn.nodemanager.admin-env.FOO", KeyClass::Honoured),
            (
                "yarn.nodemanager.aux-services.spark_shuffle.class",
                KeyClass::Honoured,
            ),
            (
                "yarn.nodemanager.health-checker.disk.path",
                KeyClass::Honoured,
            ),
        ] {
            assert_eq!(class_of(name), Some(class), "{name}");
        }
        assert_eq!(class_of("yarn.nodemanager.admin-env."), None);
        assert_eq!(class_of("yarn.nodemanager.aux-services.x.klass"), None);
    }
}
