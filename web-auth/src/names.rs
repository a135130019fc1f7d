//! From principals to names of users (Hadoop: `KerberosName`, `hadoop.security.auth_to_local`).

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};
use thiserror::Error;

use crate::replacement::Replacement;

/// Longest principal that rules are tried on, in bytes.
const PRINCIPAL_BYTES_MAX: usize = 1024;
/// Limit on the rules of a text.
const RULES_MAX: usize = 1024;
/// Limit on the memory of a compiled pattern, in bytes. Matching takes time in proportion to the
/// text, whatever the pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Meaning of a name that is not simple, or that no rule fits
/// (`hadoop.security.auth_to_local.mechanism`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mechanism {
    /// An error.
    #[default]
    Hadoop,
    /// The name as it is.
    Mit,
}

/// Rules in their order.
#[derive(Clone, Debug)]
pub struct NameRules {
    /// Text that they were read from.
    text: String,
    rules: Vec<Rule>,
    mechanism: Mechanism,
}

/// Reason for which a text is no list of rules.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RulesError {
    /// The text from here on is no rule.
    #[error("invalid rule: {0}")]
    Syntax(String),
    /// A pattern that cannot be used. There is no look-around and no back reference here.
    #[error("a rule has a pattern that this agent cannot use: {0}")]
    Pattern(String),
    /// A replacement or a format refers to a part that is not there.
    #[error("a rule refers to a part that is not there: {0}")]
    Reference(String),
    /// More rules than are tried.
    #[error("more than {RULES_MAX} rules")]
    TooMany,
}

/// Reason for which a principal has no user's name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// The name is not made of a name, a host and a realm.
    #[error("Malformed Kerberos name: {0}")]
    Malformed(String),
    /// No rule fits.
    #[error("No rules applied to {0}")]
    NoRule(String),
    /// A rule's result is empty, or has a `/` or `@`.
    #[error("Non-simple name {0} after auth_to_local rule")]
    NotSimple(String),
}

#[derive(Clone, Debug)]
enum Rule {
    /// The first part, in the default realm.
    Default {
        lower: bool,
    },
    Mapping(Box<Mapping>),
}

#[derive(Clone, Debug)]
struct Mapping {
    /// Number of parts of the names that it is for, without the realm.
    parts: usize,
    format: String,
    matches: Option<Regex>,
    change: Option<Change>,
    lower: bool,
}

#[derive(Clone, Debug)]
struct Change {
    from: Regex,
    to: Replacement,
    is_global: bool,
}

impl NameRules {
    /// Reads rules; a text without any is `DEFAULT`.
    ///
    /// # Errors
    /// [`RulesError`].
    pub fn parse(text: &str, mechanism: Mechanism) -> Result<Self, RulesError> {
        let mut rules = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            if rules.len() == RULES_MAX {
                return Err(RulesError::TooMany);
            }
            let (rule, after) = Rule::parse(rest)?;
            rules.push(rule);
            rest = after.trim_start();
        }
        if rules.is_empty() {
            rules.push(Rule::Default { lower: false });
        }
        Ok(Self {
            text: text.to_owned(),
            rules,
            mechanism,
        })
    }

    /// Returns the user's name of a principal.
    ///
    /// # Errors
    /// [`NameError`].
    pub fn user(&self, principal: &str, default_realm: &str) -> Result<String, NameError> {
        let parts = Parts::of(principal)?;
        let realm = match (parts.realm, parts.names.as_slice()) {
            (Some(realm), _) => realm,
            (None, [name]) => return Ok((*name).to_owned()),
            // As in Hadoop the rules decide, of which none is for the default realm.
            (None, _) => "",
        };
        for rule in &self.rules {
            let Some(name) = rule.apply(realm, &parts.names, default_realm) else {
                continue;
            };
            let is_simple = self.mechanism == Mechanism::Mit || !name.contains(['/', '@']);
            if name.is_empty() || !is_simple {
                return Err(NameError::NotSimple(name));
            }
            return Ok(name);
        }
        match self.mechanism {
            Mechanism::Hadoop => Err(NameError::NoRule(principal.to_owned())),
            Mechanism::Mit => Ok(principal.to_owned()),
        }
    }
}

impl PartialEq for NameRules {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.mechanism == other.mechanism
    }
}

impl Eq for NameRules {}

/// Parts of a principal.
struct Parts<'a> {
    /// Name, and perhaps a host.
    names: Vec<&'a str>,
    realm: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(principal: &'a str) -> Result<Self, NameError> {
        let shown: String = principal.chars().take(200).collect();
        let malformed = NameError::Malformed(shown);
        let is_odd = |char: char| char.is_control() || char == '\\';
        if principal.len() > PRINCIPAL_BYTES_MAX || principal.contains(is_odd) {
            return Err(malformed);
        }
        let (name, realm) = match principal.split_once('@') {
            Some((name, realm)) => (name, Some(realm)),
            None => (principal, None),
        };
        let names: Vec<_> = name.split('/').collect();
        let is_whole = |part: &str| !part.is_empty() && !part.contains(['/', '@']);
        let all = names.iter().copied().chain(realm).all(is_whole);
        if all && names.len() <= 2 {
            Ok(Self { names, realm })
        } else {
            Err(malformed)
        }
    }
}

impl Rule {
    /// Reads the rule at the beginning of a text; returns what stands behind it.
    fn parse(text: &str) -> Result<(Self, &str), RulesError> {
        let shown = || text.chars().take(200).collect::<String>();
        let syntax = || RulesError::Syntax(shown());
        if let Some(rest) = text.strip_prefix("DEFAULT") {
            let (lower, rest) = lower(rest);
            return Ok((Self::Default { lower }, rest));
        }
        let rest = text.strip_prefix("RULE:[").ok_or_else(syntax)?;
        let (parts, rest) = rest.split_once(':').ok_or_else(syntax)?;
        let parts: usize = parts.parse().map_err(|_| syntax())?;
        let (format, mut rest) = rest.split_once(']').ok_or_else(syntax)?;
        if !(1..=2).contains(&parts) || filled(format, "", &vec![""; parts]).is_none() {
            return Err(RulesError::Reference(shown()));
        }
        let mut matches = None;
        if let Some(inner) = rest.strip_prefix('(') {
            // As in Hadoop, the first bracket ends it.
            let (inner, after) = inner.split_once(')').ok_or_else(syntax)?;
            matches = Some(pattern(&format!(r"\A(?:{inner})\z"))?);
            rest = after;
        }
        let mut change = None;
        if let Some(inner) = rest.strip_prefix("s/") {
            let (from, after) = inner.split_once('/').ok_or_else(syntax)?;
            let (to, after) = after.split_once('/').ok_or_else(syntax)?;
            let global = after.strip_prefix('g');
            let from = pattern(from)?;
            let to = Replacement::parse(to, from.captures_len());
            change = Some(Change {
                to: to.ok_or_else(|| RulesError::Reference(shown()))?,
                from,
                is_global: global.is_some(),
            });
            rest = global.unwrap_or(after);
        }
        let (lower, rest) = lower(rest);
        let mapping = Mapping {
            parts,
            format: format.to_owned(),
            matches,
            change,
            lower,
        };
        Ok((Self::Mapping(Box::new(mapping)), rest))
    }

    fn apply(&self, realm: &str, names: &[&str], default_realm: &str) -> Option<String> {
        let (name, lower) = match self {
            Self::Default { lower } => {
                let is_default = realm == default_realm;
                let first = names.first().filter(|_| is_default)?;
                ((*first).to_owned(), *lower)
            }
            Self::Mapping(mapping) => (mapping.apply(realm, names)?, mapping.lower),
        };
        Some(if lower { name.to_lowercase() } else { name })
    }
}

impl Mapping {
    fn apply(&self, realm: &str, names: &[&str]) -> Option<String> {
        if names.len() != self.parts {
            return None;
        }
        let base = filled(&self.format, realm, names)?;
        if self
            .matches
            .as_ref()
            .is_some_and(|matches| !matches.is_match(&base))
        {
            return None;
        }
        let Some(Change {
            from,
            to,
            is_global,
        }) = &self.change
        else {
            return Some(base);
        };
        let by = |captures: &regex::Captures<'_>| to.of(captures);
        let changed: Cow<'_, str> = if *is_global {
            from.replace_all(&base, by)
        } else {
            from.replace(&base, by)
        };
        Some(changed.into_owned())
    }
}

/// Reads what makes a rule's result lower case; returns what stands behind it.
fn lower(text: &str) -> (bool, &str) {
    let text = text.strip_prefix('/').unwrap_or(text);
    match text.strip_prefix('L') {
        Some(rest) => (true, rest),
        None => (false, text),
    }
}

/// Puts realm and names into a format: `$0` is the realm, `$1` the first name. `None` for a part
/// that is not there.
fn filled(format: &str, realm: &str, names: &[&str]) -> Option<String> {
    let mut pieces = format.split('$');
    let mut text = pieces.next()?.to_owned();
    for piece in pieces {
        let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
        let (number, plain) = piece.split_at(digits);
        text.push_str(match number.parse::<usize>().ok()? {
            0 => realm,
            number => names.get(number - 1)?,
        });
        text.push_str(plain);
    }
    Some(text)
}

fn pattern(text: &str) -> Result<Regex, RulesError> {
    let built = RegexBuilder::new(text)
        .size_limit(PATTERN_BYTES_MAX)
        .build();
    built.map_err(|error| {
        let told = error.to_string();
        let why = told.lines().last().unwrap_or_default();
        let why = why.trim_start_matches("error: ");
        RulesError::Pattern(format!(
            "{} ({why})",
            text.chars().take(200).collect::<String>()
        ))
    })
}

#[cfg(test)]
mod tests;
