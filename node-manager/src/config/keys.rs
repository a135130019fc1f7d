//! Every property that Hadoop's NodeManager knows, as one table: name, default, unit, and what this agent makes of it.
//!
//! The table is the single source of defaults. Names and defaults are those of Hadoop 3.4.2's `core-default.xml` and
//! `yarn-default.xml`, plus those that stand only in its code.

mod honoured;
mod later;
mod not_applicable;
mod related;

/// What this agent makes of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyClass {
    /// It is read and obeyed.
    Honoured,
    /// It is not obeyed yet; setting it away from its default is worth a warning.
    Later,
    /// It means something only to Java, to Windows or to plug-ins.
    NotApplicable,
}

/// What states a property's default. It matters: a value in `core-site.xml` loses against one in `yarn-default.xml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultSource {
    /// Hadoop's `core-default.xml`.
    CoreDefault,
    /// Hadoop's `yarn-default.xml`.
    YarnDefault,
    /// Only the code that reads it.
    Code,
}

/// What a value counts or is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Free text.
    Text,
    /// `true` or `false`.
    Flag,
    /// A whole number of things.
    Count,
    /// A whole number of milliseconds.
    Millis,
    /// A whole number of seconds.
    Seconds,
    /// A time with a unit: `ns`, `us`, `ms`, `s`, `m`, `h` or `d`.
    Duration,
    /// A whole number of mebibytes.
    Mebibytes,
    /// A whole number of bytes.
    Bytes,
    /// A whole number of characters.
    Characters,
    /// A whole number of megabits per second.
    MegabitsPerSecond,
    /// 0 to 100.
    Percent,
    /// A number without unit.
    Ratio,
    /// `host:port`.
    Address,
    /// Paths with commas between them.
    Paths,
    /// Words with commas between them.
    List,
    /// A Java class.
    ClassName,
    /// An octal file mode.
    Octal,
}

impl Unit {
    /// What to print after a value; empty where the value says it all.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Millis => "ms",
            Self::Seconds => "s",
            Self::Mebibytes => "MiB",
            Self::Bytes => "bytes",
            Self::Characters => "characters",
            Self::MegabitsPerSecond => "Mbit/s",
            Self::Percent => "%",
            Self::Text
            | Self::Flag
            | Self::Count
            | Self::Duration
            | Self::Ratio
            | Self::Address
            | Self::Paths
            | Self::List
            | Self::ClassName
            | Self::Octal => "",
        }
    }
}

/// One property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Hadoop's full name.
    pub name: &'static str,
    /// What it is when nothing sets it; may refer to other properties. `None`: unset.
    pub default: Option<&'static str>,
    /// Who states that default.
    pub source: DefaultSource,
    /// What this agent makes of it.
    pub class: KeyClass,
    /// What its value counts.
    pub unit: Unit,
}

/// One line of the table.
const fn key(
    class: KeyClass,
    source: DefaultSource,
    name: &'static str,
    default: Option<&'static str>,
    unit: Unit,
) -> Key {
    Key {
        name,
        default,
        source,
        class,
        unit,
    }
}

/// Names with a part that the operator chooses: what stands before it, what after it, and what this agent makes of them.
const FAMILIES: &[(&str, &[&str], KeyClass)] = &[
    ("yarn.nodemanager.admin-env.", &[""], KeyClass::Honoured),
    ("yarn.nodemanager.resource-type.", &[""], KeyClass::Later),
    (
        "yarn.nodemanager.health-checker.",
        &[".path", ".opts", ".timeout-ms", ".interval-ms"],
        KeyClass::Later,
    ),
    (
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
    (
        "yarn.nodemanager.aux-services.",
        &[
            ".class",
            ".classpath",
            ".remote-classpath",
            ".system-classes",
        ],
        KeyClass::Honoured,
    ),
    (
        "yarn.nodemanager.runtime.linux.",
        &[".class"],
        KeyClass::NotApplicable,
    ),
    (
        "yarn.nodemanager.runtime.linux.sandbox-mode.policy.group.",
        &[""],
        KeyClass::NotApplicable,
    ),
    (
        "yarn.nodemanager.csi-driver-adaptor.",
        &[".address", ".class"],
        KeyClass::NotApplicable,
    ),
    (
        "yarn.nodemanager.csi-driver.",
        &[".endpoint"],
        KeyClass::NotApplicable,
    ),
];

/// All properties in the table: honoured, later, not applicable, then those outside `yarn.nodemanager.*`.
pub fn all() -> impl Iterator<Item = &'static Key> {
    [
        honoured::HONOURED,
        later::LATER,
        not_applicable::NOT_APPLICABLE,
        related::RELATED,
    ]
    .into_iter()
    .flatten()
}

/// The table's entry of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Key> {
    all().find(|key| key.name == name)
}

/// What this agent makes of a name, be it in the table or of a family; `None`: unknown.
#[must_use]
pub fn class_of(name: &str) -> Option<KeyClass> {
    if let Some(key) = find(name) {
        return Some(key.class);
    }
    let family = FAMILIES.iter().find(|(prefix, suffixes, _)| {
        let chosen = name.strip_prefix(prefix).unwrap_or("");
        suffixes.iter().any(|suffix| {
            chosen
                .strip_suffix(suffix)
                .is_some_and(|part| !part.is_empty())
        })
    });
    family.map(|(_, _, class)| *class)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
    fn names_with_a_chosen_part_are_known_by_their_family() {
        for (name, class) in [
            ("yarn.nodemanager.admin-env.FOO", KeyClass::Honoured),
            (
                "yarn.nodemanager.aux-services.spark_shuffle.class",
                KeyClass::Honoured,
            ),
            ("yarn.nodemanager.health-checker.disk.path", KeyClass::Later),
        ] {
            assert_eq!(class_of(name), Some(class), "{name}");
        }
        assert_eq!(class_of("yarn.nodemanager.admin-env."), None);
        assert_eq!(class_of("yarn.nodemanager.aux-services.x.klass"), None);
    }
}
