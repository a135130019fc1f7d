//! Properties that a program knows: name, default, unit, and whether the program honours them.

use crate::{Guard, Lenient};

/// Effect of a property in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyClass {
    /// Read and honoured.
    Honoured,
    /// Not honoured yet; a value other than the default is worth a warning.
    Later,
    /// Relevant only to Java, Windows or plug-ins.
    NotApplicable,
}

/// Source of a property's default. The order of the sources matters: a value in `core-site.xml` is
/// overridden by one in `yarn-default.xml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultSource {
    /// Hadoop's `core-default.xml`.
    CoreDefault,
    /// Hadoop's `yarn-default.xml`.
    YarnDefault,
    /// Default in the code of the reader only.
    Code,
}

/// Unit or form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Text without a fixed form.
    Text,
    /// `true` or `false`.
    Flag,
    /// Whole number of things.
    Count,
    /// Whole number of milliseconds.
    Millis,
    /// Whole number of seconds.
    Seconds,
    /// Time with a unit: `ns`, `us`, `ms`, `s`, `m`, `h` or `d`.
    Duration,
    /// Whole number of mebibytes.
    Mebibytes,
    /// Whole number of bytes.
    Bytes,
    /// Whole number of characters.
    Characters,
    /// Whole number of megabits per second.
    MegabitsPerSecond,
    /// Percentage from 0 to 100.
    Percent,
    /// Number without a unit.
    Ratio,
    /// Address, `host:port`.
    Address,
    /// Paths separated by commas.
    Paths,
    /// Words separated by commas.
    List,
    /// Name of a Java class.
    ClassName,
    /// File mode in octal digits.
    Octal,
}

impl Unit {
    /// Returns the text to print after a value; empty for units that the value's own form states.
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

/// A property that a program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Full name, as in Hadoop.
    pub name: &'static str,
    /// Value when the property is not set; may refer to other properties. `None`: unset.
    pub default: Option<&'static str>,
    /// Source of the default.
    pub source: DefaultSource,
    /// Effect in the program.
    pub class: KeyClass,
    /// Unit or form of the value.
    pub unit: Unit,
}

/// Returns one line of a table.
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

/// Properties whose names have a part that the operator chooses.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Text before the chosen part.
    pub prefix: &'static str,
    /// Texts that may follow the chosen part.
    pub suffixes: &'static [&'static str],
    /// Effect in the program.
    pub class: KeyClass,
    /// Property that lists the chosen parts. Those that it does not list have no effect. `None`:
    /// there is no list.
    pub listed_in: Option<&'static str>,
}

impl Family {
    /// Returns the part of a name that the operator has chosen; `None`: a name of another family.
    #[must_use]
    pub fn chosen_part<'n>(&self, name: &'n str) -> Option<&'n str> {
        let rest = name.strip_prefix(self.prefix)?;
        let parts = self
            .suffixes
            .iter()
            .filter_map(|suffix| rest.strip_suffix(suffix));
        parts.into_iter().find(|part| !part.is_empty())
    }
}

/// Properties that a program knows, and the single source of their defaults.
#[derive(Clone, Copy, Debug)]
pub struct KeyTable {
    /// Properties with a fixed name, each in one list only.
    pub keys: &'static [&'static [Key]],
    /// Properties with a chosen part in their name.
    pub families: &'static [Family],
    /// Properties with which Hadoop goes on where their value is odd.
    pub lenient: &'static [Lenient],
    /// Flags of which one value protects.
    pub guards: &'static [Guard],
    /// Beginning of the names that Hadoop does not know, whose odd values are always a problem.
    /// `None`: the program has no names of its own.
    pub own_prefix: Option<&'static str>,
}

impl KeyTable {
    /// Returns all properties with a fixed name, list by list.
    pub fn all(&self) -> impl Iterator<Item = &'static Key> + use<> {
        self.keys.iter().copied().flatten()
    }

    /// Returns the property of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&'static Key> {
        self.all().find(|key| key.name == name)
    }

    /// Returns the effect of a property, be it in a list or of a family; `None`: unknown.
    #[must_use]
    pub fn class_of(&self, name: &str) -> Option<KeyClass> {
        if let Some(key) = self.find(name) {
            return Some(key.class);
        }
        self.family_of(name).map(|(family, _)| family.class)
    }

    /// Returns the family of a name, with the part that the operator has chosen.
    #[must_use]
    pub fn family_of<'n>(&self, name: &'n str) -> Option<(&'static Family, &'n str)> {
        let mut families = self.families.iter();
        families.find_map(|family| Some((family, family.chosen_part(name)?)))
    }

    /// Returns the rule for odd values of a property; `None`: they are refused.
    #[must_use]
    pub fn lenient(&self, name: &str) -> Option<&'static Lenient> {
        self.lenient.iter().find(|rule| rule.name == name)
    }

    /// Returns the flag of this name, if one of its values protects.
    #[must_use]
    pub fn guard(&self, name: &str) -> Option<&'static Guard> {
        self.guards.iter().find(|guard| guard.name == name)
    }

    /// Returns whether Hadoop does not know this name.
    #[must_use]
    pub fn is_own(&self, name: &str) -> bool {
        self.own_prefix
            .is_some_and(|prefix| name.starts_with(prefix))
    }

    /// Returns names and values of the defaults of one source.
    pub fn defaults(
        &self,
        source: DefaultSource,
    ) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        self.all()
            .filter(move |key| key.source == source)
            .filter_map(|key| Some((key.name, key.default?)))
    }
}
