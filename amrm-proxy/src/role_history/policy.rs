//! Placement policies of a service's roles, as a job or an operator's rule writes them.
//!
//! ```text
//! *=timeout:10; 1=strict; 2=relaxed,failures:5
//! ```
//!
//! A role is named by the priority of its asks; `*` stands for all others. Words after it, with
//! commas between them: a placement, `timeout:SECONDS` until a host is given up, and
//! `failures:NUMBER` of recent failures that a node may have.

use std::collections::BTreeMap;
use std::str::FromStr;

use records::Resource;
use role_history::{PlacementPolicy, Role, RoleId};
use thiserror::Error;

/// Maximum of roles in one text.
const ROLES_MAX: usize = 1_000;

/// Longest timeout: a day, in seconds.
const TIMEOUT_S_MAX: u64 = 86_400;

/// Placement of a role's containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Placement {
    /// On the nodes of the history alone, until the timeout.
    #[default]
    Escalate,
    /// On the nodes of the history as preferences, which the ResourceManager may give up at once.
    Relaxed,
    /// On the nodes of the history alone, whatever they take.
    Strict,
    /// Anywhere: the history is kept but not consulted.
    Anywhere,
}

/// Policy of one role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RolePolicy {
    pub(super) placement: Placement,
    timeout_ms: Option<u64>,
    failures_max: Option<u32>,
}

/// Policies of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    others: RolePolicy,
    by_priority: BTreeMap<i32, RolePolicy>,
}

/// Part of a text of policies that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// Part that is no role with words.
    #[error("{0:?} is not a role and its policy, such as 1=strict")]
    NoPolicy(String),
    /// Role that is no priority.
    #[error("{0:?} is neither a priority nor *")]
    NoRole(String),
    /// Word that is neither a placement nor a limit.
    #[error(
        "{0:?} is none of escalate, relaxed, strict, anywhere, timeout:SECONDS (at most \
         {TIMEOUT_S_MAX}), failures:NUMBER"
    )]
    UnknownWord(String),
    /// More roles than the limit.
    #[error("more than {ROLES_MAX} roles")]
    TooManyRoles,
}

impl FromStr for Policies {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let mut policies = Self::default();
        let parts = text.split(';').map(str::trim);
        for part in parts.filter(|part| !part.is_empty()) {
            let (role, words) = part
                .split_once('=')
                .ok_or_else(|| PolicyError::NoPolicy(part.to_owned()))?;
            let policy = RolePolicy::read(words)?;
            match role.trim() {
                "*" => policies.others = policy,
                number => {
                    let priority = number.parse();
                    let priority = priority.map_err(|_| PolicyError::NoRole(number.to_owned()))?;
                    policies.by_priority.insert(priority, policy);
                }
            }
            if policies.by_priority.len() > ROLES_MAX {
                return Err(PolicyError::TooManyRoles);
            }
        }
        Ok(policies)
    }
}

impl Policies {
    /// Returns the policy for asks of a priority.
    pub(super) fn of(&self, priority: i32) -> RolePolicy {
        let known = self.by_priority.get(&priority).copied();
        known.unwrap_or(self.others)
    }
}

impl RolePolicy {
    fn read(words: &str) -> Result<Self, PolicyError> {
        let mut policy = Self::default();
        for word in words.split(',').map(str::trim) {
            let unknown = || PolicyError::UnknownWord(word.to_owned());
            match word.split_once(':') {
                None => policy.placement = Placement::read(word).ok_or_else(unknown)?,
                Some(("timeout", seconds)) => {
                    let seconds: u64 = seconds.parse().map_err(|_| unknown())?;
                    if seconds > TIMEOUT_S_MAX {
                        return Err(unknown());
                    }
                    policy.timeout_ms = Some(seconds * 1_000);
                }
                Some(("failures", number)) => {
                    policy.failures_max = Some(number.parse().map_err(|_| unknown())?);
                }
                Some(_) => return Err(unknown()),
            }
        }
        Ok(policy)
    }

    /// Returns the milliseconds until a host is given up.
    pub(super) fn timeout_ms(self, default_ms: u64) -> u64 {
        self.timeout_ms.unwrap_or(default_ms)
    }

    /// Makes the role of this policy. Containers of any size answer its asks: the ResourceManager
    /// compares sizes. A role never fails the application, which its master decides.
    pub(super) fn role(self, id: RoleId, name: String, timeout_ms: u64) -> Role {
        let mut role = Role::new(id, name, Resource::new(0, 0));
        role.placement_policy = match self.placement {
            Placement::Escalate | Placement::Relaxed => PlacementPolicy::default(),
            Placement::Strict => PlacementPolicy::STRICT,
            Placement::Anywhere => PlacementPolicy::ANYWHERE,
        };
        role.placement_timeout_ms = self.timeout_ms(timeout_ms);
        if let Some(failures_max) = self.failures_max {
            role.node_failure_threshold = Some(failures_max);
        }
        role.container_failure_threshold = None;
        role
    }
}

impl Placement {
    fn read(word: &str) -> Option<Self> {
        match word {
            "escalate" => Some(Self::Escalate),
            "relaxed" => Some(Self::Relaxed),
            "strict" => Some(Self::Strict),
            "anywhere" => Some(Self::Anywhere),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_by_role() {
        let policies: Policies = " *=timeout:10 ; 1=strict; 2 = relaxed,failures:5;"
            .parse()
            .unwrap();
        assert_eq!(policies.of(1).placement, Placement::Strict);
        assert_eq!(policies.of(2).placement, Placement::Relaxed);
        assert_eq!(policies.of(2).failures_max, Some(5));
        assert_eq!(policies.of(2).timeout_ms(30_000), 30_000);
        assert_eq!(policies.of(7).placement, Placement::Escalate);
        assert_eq!(policies.of(7).timeout_ms(30_000), 10_000);
        assert_eq!("".parse(), Ok(Policies::default()));
    }

    #[test]
    fn an_unreadable_policy_names_the_part() {
        for (text, part) in [
            ("strict", "strict"),
            ("store=strict", "store"),
            ("1=stricter", "stricter"),
            ("1=timeout:soon", "timeout:soon"),
            ("1=timeout:86401", "timeout:86401"),
            ("1=failures:-1", "failures:-1"),
        ] {
            let error = text.parse::<Policies>().unwrap_err().to_string();
            assert!(error.contains(&format!("{part:?}")), "{error}");
        }
        let many: String = (0..=1_000).map(|role| format!("{role}=strict;")).collect();
        assert_eq!(many.parse::<Policies>(), Err(PolicyError::TooManyRoles));
    }
}
