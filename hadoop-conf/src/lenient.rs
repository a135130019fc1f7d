//! Values with which Hadoop goes on although they are not what a property is meant for, and flags
//! whose odd values Hadoop reads as the less protected one.

use std::fmt;

/// Replacement of a value that Hadoop goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    /// The nearest value of the range.
    Nearest,
    /// The property's default.
    Default,
}

/// Values outside of a property's range with which Hadoop goes on. Any other is refused, here as
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lenient {
    /// Name of the property.
    pub name: &'static str,
    /// Replacement of numbers below the range.
    pub below: Option<Instead>,
    /// Replacement of numbers above the range.
    pub above: Option<Instead>,
    /// Replacement of texts that are no number, or none of the property's words.
    pub other: Option<Instead>,
}

impl Lenient {
    const fn none(name: &'static str) -> Self {
        Self {
            name,
            below: None,
            above: None,
            other: None,
        }
    }

    /// Returns the rule of a number that counts as the lowest one when it is below the range.
    #[must_use]
    pub const fn below(name: &'static str) -> Self {
        Self {
            below: Some(Instead::Nearest),
            ..Self::none(name)
        }
    }

    /// Returns the rule of a number that counts as the highest one when it is above the range.
    #[must_use]
    pub const fn above(name: &'static str) -> Self {
        Self {
            above: Some(Instead::Nearest),
            ..Self::none(name)
        }
    }

    /// Returns the rule of a number that is replaced by the nearest one of the range.
    #[must_use]
    pub const fn clamped(name: &'static str) -> Self {
        Self {
            below: Some(Instead::Nearest),
            above: Some(Instead::Nearest),
            ..Self::none(name)
        }
    }

    /// Returns the rule of a number that is replaced by the default when it is below the range.
    #[must_use]
    pub const fn default_below(name: &'static str) -> Self {
        Self {
            below: Some(Instead::Default),
            ..Self::none(name)
        }
    }

    /// Returns the rule of a property whose default replaces everything that it is not meant for.
    #[must_use]
    pub const fn default_for_all(name: &'static str) -> Self {
        Self {
            below: Some(Instead::Default),
            above: Some(Instead::Default),
            other: Some(Instead::Default),
            ..Self::none(name)
        }
    }

    /// Returns the rule of a property whose default replaces words that it does not know.
    #[must_use]
    pub const fn default_for_other(name: &'static str) -> Self {
        Self {
            other: Some(Instead::Default),
            ..Self::none(name)
        }
    }
}

impl fmt::Display for Lenient {
    /// Formats the rule for a table, such as `below: the lowest`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cases = [
            (self.below, "below the range", "the lowest"),
            (self.above, "above it", "the highest"),
            (self.other, "other texts", "the nearest"),
        ];
        let mut separator = "";
        for (instead, which, nearest) in cases {
            let Some(instead) = instead else { continue };
            let value = match instead {
                Instead::Nearest => nearest,
                Instead::Default => "the default",
            };
            write!(f, "{separator}{which}: {value}")?;
            separator = "; ";
        }
        Ok(())
    }
}

/// Flag that protects something with one of its two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Name of the property.
    pub name: &'static str,
    /// Value that protects.
    pub protects: bool,
}

/// Words by which somebody says no, in a form that Hadoop does not know.
const NO: [&str; 7] = ["0", "no", "off", "n", "f", "none", "disabled"];
/// Words by which somebody says yes, in a form that Hadoop does not know.
const YES: [&str; 7] = ["1", "yes", "on", "y", "t", "all", "enabled"];

impl Guard {
    /// Returns whether a text that is no flag may have been meant to protect. Then Hadoop's
    /// reading, which is the default, would leave open what its author wanted closed.
    #[must_use]
    pub fn may_protect(&self, text: &str) -> bool {
        let opens = if self.protects { NO } else { YES };
        !opens.iter().any(|word| text.eq_ignore_ascii_case(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_word_for_the_open_value_may_not_protect() {
        let lists = Guard {
            name: "lists",
            protects: true,
        };
        for (text, may) in [
            ("0", false),
            ("No", false),
            ("1", true),
            ("yes", true),
            ("fasle", true),
        ] {
            assert_eq!(lists.may_protect(text), may, "{text}");
        }
        let anonymous = Guard {
            name: "anonymous",
            protects: false,
        };
        assert!(!anonymous.may_protect("yes") && anonymous.may_protect("no"));
    }

    #[test]
    fn a_rule_is_told_for_each_case() {
        assert_eq!(
            Lenient::clamped("x").to_string(),
            "below the range: the lowest; above it: the highest"
        );
        assert_eq!(
            Lenient::default_for_other("x").to_string(),
            "other texts: the default"
        );
    }
}
