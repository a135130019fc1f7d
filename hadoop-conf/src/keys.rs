//! What a program knows of the properties that it reads: name, default, unit, and what it makes of them.

/// What a program makes of a property.
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
    /// What the program makes of it.
    pub class: KeyClass,
    /// What its value counts.
    pub unit: Unit,
}

/// One line of a table.
#[must_use]
pub const fn key(
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

/// Names with a part that the operator chooses.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// What stands before the chosen part.
    pub prefix: &'static str,
    /// What may stand after it.
    pub suffixes: &'static [&'static str],
    /// What the program makes of them.
    pub class: KeyClass,
}

/// All properties of a program. The single source of their defaults.
#[derive(Clone, Copy, Debug)]
pub struct KeyTable {
    /// Properties with a fixed name, each in one list only.
    pub keys: &'static [&'static [Key]],
    /// Properties with a chosen part in their name.
    pub families: &'static [Family],
}

impl KeyTable {
    /// All properties with a fixed name, list by list.
    pub fn all(&self) -> impl Iterator<Item = &'static Key> + use<> {
        self.keys.iter().copied().flatten()
    }

    /// The property of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&'static Key> {
        self.all().find(|key| key.name == name)
    }

    /// What the program makes of a name, be it in a list or of a family; `None`: unknown.
    #[must_use]
    pub fn class_of(&self, name: &str) -> Option<KeyClass> {
        if let Some(key) = self.find(name) {
            return Some(key.class);
        }
        let family = self.families.iter().find(|family| {
            let chosen = name.strip_prefix(family.prefix).unwrap_or("");
            family.suffixes.iter().any(|suffix| {
                chosen
                    .strip_suffix(suffix)
                    .is_some_and(|part| !part.is_empty())
            })
        });
        family.map(|family| family.class)
    }

    /// Names and values of the defaults that one source states.
    pub fn defaults(
        &self,
        source: DefaultSource,
    ) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        self.all()
            .filter(move |key| key.source == source)
            .filter_map(|key| Some((key.name, key.default?)))
    }
}
