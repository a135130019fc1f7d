//! Opting in to the role history: by an AM's launch environment, or by an operator's rule.

use role_history::opt_in::{GUARANTEED_VARIABLE, POLICY_VARIABLE, SERVICE_VARIABLE};

use super::policy::{Policies, PolicyError};
use crate::rules::applies;

/// Longest text of policies, in bytes.
const POLICY_BYTES_MAX: usize = 16_384;

/// Service whose history an attempt keeps, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptIn {
    /// Name of the service, unique for its user.
    pub service: String,
    /// Whether guaranteed asks for any node name the nodes of the history.
    pub is_guaranteed: bool,
    /// Policies of the roles, in the form of [`Policies`].
    pub policy: String,
}

impl OptIn {
    /// Reads the variables of an AM's environment; `None` if it opts in to nothing.
    #[must_use]
    pub fn from_environment<'a>(variable: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        let service = variable(SERVICE_VARIABLE).map(str::trim);
        let service = service.filter(|service| !service.is_empty())?;
        let is_guaranteed = variable(GUARANTEED_VARIABLE)
            .is_some_and(|value| value.trim().eq_ignore_ascii_case("true"));
        Some(Self {
            service: service.to_owned(),
            is_guaranteed,
            policy: variable(POLICY_VARIABLE).unwrap_or_default().to_owned(),
        })
    }

    /// Returns the policies of the roles.
    ///
    /// # Errors
    /// The part of the text that cannot be read.
    pub fn policies(&self) -> Result<Policies, PolicyError> {
        if self.policy.len() > POLICY_BYTES_MAX {
            return Err(PolicyError::TooManyRoles);
        }
        self.policy.parse()
    }
}

/// Operator's rule that keeps the history of a service, for AMs whose environment their client
/// cannot set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRule {
    /// Name of the rule for log lines.
    pub name: String,
    /// User whose applications the rule applies to; `None` for every user.
    pub user: Option<String>,
    /// Tag in the AM's environment that the rule applies to; `None` for any tags.
    pub tag: Option<String>,
    /// Service and policies that the rule opts in to.
    pub opt_in: OptIn,
}

impl HistoryRule {
    /// Returns what an attempt opts in to: by its own environment first, else by the first rule
    /// that applies.
    pub(crate) fn choose(
        own: Option<&OptIn>,
        rules: &[Self],
        user: &str,
        tags: &[String],
    ) -> Option<OptIn> {
        let applies = |rule: &&Self| applies(rule.user.as_deref(), rule.tag.as_deref(), user, tags);
        let by_rule = || rules.iter().find(applies).map(|rule| &rule.opt_in);
        own.or_else(by_rule).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &'static str)]) -> Option<OptIn> {
        OptIn::from_environment(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| *value)
        })
    }

    #[test]
    fn the_environment_opts_in_by_the_name_of_a_service() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[(SERVICE_VARIABLE, "  ")]), None);
        assert_eq!(read(&[(GUARANTEED_VARIABLE, "true")]), None);
        let store = OptIn {
            service: "store".to_owned(),
            ..OptIn::default()
        };
        assert_eq!(read(&[(SERVICE_VARIABLE, " store ")]), Some(store.clone()));
        let all = [
            (SERVICE_VARIABLE, "store"),
            (GUARANTEED_VARIABLE, "True"),
            (POLICY_VARIABLE, "1=strict"),
        ];
        let expected = OptIn {
            is_guaranteed: true,
            policy: "1=strict".to_owned(),
            ..store
        };
        assert_eq!(read(&all), Some(expected));
    }

    #[test]
    fn a_masters_own_choice_comes_before_the_rules() {
        let opt_in = |service: &str| OptIn {
            service: service.to_owned(),
            ..OptIn::default()
        };
        let rule = |user: Option<&str>, tag: Option<&str>, service: &str| HistoryRule {
            name: service.to_owned(),
            user: user.map(str::to_owned),
            tag: tag.map(str::to_owned),
            opt_in: opt_in(service),
        };
        let rules = [
            rule(Some("alice"), Some("nightly"), "both"),
            rule(Some("alice"), None, "user"),
        ];
        let tags = ["nightly".to_owned()];
        let choose = |own, user, tags: &[String]| HistoryRule::choose(own, &rules, user, tags);
        assert_eq!(choose(None, "alice", &tags), Some(opt_in("both")));
        assert_eq!(choose(None, "alice", &[]), Some(opt_in("user")));
        assert_eq!(choose(None, "bob", &tags), None);
        let own = opt_in("own");
        assert_eq!(choose(Some(&own), "alice", &tags), Some(own.clone()));
    }
}
