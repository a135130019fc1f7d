//! Levels of protection of what follows the authentication, and lists of those that a side accepts.
//!
//! Source: `hadoop.rpc.protection` and `org.apache.hadoop.security.SaslRpcServer`.

use std::fmt;
use std::str::FromStr;

/// A level of protection of the frames after the authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// None: frames in clear.
    Authentication,
    /// A signature and a sequence number on each frame.
    Integrity,
    /// Signatures and encryption.
    Privacy,
}

impl Protection {
    /// Every level, in the order of their strength.
    pub const ALL: [Self; 3] = [Self::Authentication, Self::Integrity, Self::Privacy];

    /// Returns the name in configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Authentication => "authentication",
            Self::Integrity => "integrity",
            Self::Privacy => "privacy",
        }
    }

    /// Returns SASL's name, the quality of protection.
    #[must_use]
    pub const fn qop(self) -> &'static str {
        match self {
            Self::Authentication => "auth",
            Self::Integrity => "auth-int",
            Self::Privacy => "auth-conf",
        }
    }

    /// Returns the level of this name of SASL.
    pub(crate) fn from_qop(qop: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.qop() == qop)
    }
}

/// A word that names no level of protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a level of protection is one of authentication, integrity and privacy")]
pub struct UnknownProtection;

impl FromStr for Protection {
    type Err = UnknownProtection;

    /// Reads the name in configurations, in any case as Hadoop does.
    fn from_str(name: &str) -> Result<Self, UnknownProtection> {
        let mut levels = Self::ALL.into_iter();
        let level = levels.find(|level| level.name().eq_ignore_ascii_case(name));
        level.ok_or(UnknownProtection)
    }
}

/// Levels of protection that a side accepts, the preferred one first; at least one.
#[derive(Clone, PartialEq, Eq)]
pub struct Protections(Vec<Protection>);

impl Default for Protections {
    /// Returns Hadoop's default, authentication alone.
    fn default() -> Self {
        Self(vec![Protection::Authentication])
    }
}

impl FromIterator<Protection> for Protections {
    /// Keeps the first of equal levels. No level at all stands for the default.
    fn from_iter<T: IntoIterator<Item = Protection>>(levels: T) -> Self {
        let mut distinct = Vec::with_capacity(Protection::ALL.len());
        for level in levels {
            if !distinct.contains(&level) {
                distinct.push(level);
            }
        }
        if distinct.is_empty() {
            Self::default()
        } else {
            Self(distinct)
        }
    }
}

impl From<Protection> for Protections {
    fn from(level: Protection) -> Self {
        Self(vec![level])
    }
}

impl Protections {
    /// Makes the list of these names in configurations.
    ///
    /// # Errors
    /// [`UnknownProtection`] if one of them is no level.
    pub fn from_names(
        names: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, UnknownProtection> {
        let levels = names.into_iter().map(|name| name.as_ref().parse());
        levels.collect()
    }

    /// Returns whether this level is accepted.
    #[must_use]
    pub fn contains(&self, level: Protection) -> bool {
        self.0.contains(&level)
    }

    /// Returns the levels, the preferred one first.
    pub fn iter(&self) -> impl Iterator<Item = Protection> {
        self.0.iter().copied()
    }

    /// Returns the preferred one of those that the other side offers, as Java's clients do: the
    /// other side's order does not matter.
    #[must_use]
    pub fn choose(&self, is_offered: impl Fn(Protection) -> bool) -> Option<Protection> {
        self.iter().find(|level| is_offered(*level))
    }

    /// Returns SASL's names with commas between.
    pub(crate) fn qops(&self) -> String {
        let names: Vec<_> = self.iter().map(Protection::qop).collect();
        names.join(",")
    }
}

impl fmt::Debug for Protections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.qops())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_its_order_and_is_never_empty() {
        use Protection::{Authentication, Integrity, Privacy};
        let list = |levels: &[Protection]| levels.iter().copied().collect::<Protections>();
        assert_eq!(list(&[]), Protections::default());
        let mixed = list(&[Privacy, Authentication, Privacy]);
        assert_eq!(mixed.qops(), "auth-conf,auth");
        assert_eq!(mixed.choose(|_| true), Some(Privacy));
        assert_eq!(mixed.choose(|level| level != Privacy), Some(Authentication));
        assert_eq!(mixed.choose(|level| level == Integrity), None);
    }

    #[test]
    fn names_are_hadoops_in_any_case() {
        assert_eq!("Privacy".parse(), Ok(Protection::Privacy));
        assert_eq!("auth-conf".parse::<Protection>(), Err(UnknownProtection));
        let list = Protections::from_names(["privacy", "INTEGRITY"]).unwrap();
        assert_eq!(list.qops(), "auth-conf,auth-int");
        assert_eq!(Protections::from_names(["none"]), Err(UnknownProtection));
    }
}
