//! Decisions on the accounts of containers: whose account a submitter's containers run as, and
//! which accounts may run any. Pure: texts and numbers in, a name or a refusal out.
//!
//! Source: `LinuxContainerExecutor.getRunAsUser` and `verifyUsernamePattern`, and `check_user` of
//! Hadoop's `container-executor.c`, whose texts the refusals have.

use regex::Regex;
use thiserror::Error;

/// Accounts that run no containers unless `banned.users` is set (Hadoop: `DEFAULT_BANNED_USERS`).
const BANNED_BY_DEFAULT: [&str; 4] = ["yarn", "mapred", "hdfs", "bin"];
/// Lowest user id of people on most systems (Hadoop: `min.user.id`, 1000).
const UID_MIN_BY_DEFAULT: u32 = 1000;

/// Account that the containers of a submitter run as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunAs {
    /// The submitter's own (`nonsecure-mode.limit-users` = `false`).
    Submitter,
    /// A single account for all submitters (`nonsecure-mode.local-user`).
    One(String),
}

/// Regular expression that a submitter's whole name must match (`nonsecure-mode.user-pattern`).
#[derive(Clone, Debug)]
pub struct UserPattern {
    text: String,
    whole: Regex,
}

impl UserPattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The text is no regular expression without look-around.
    pub fn new(text: &str) -> Result<Self, regex::Error> {
        let whole = Regex::new(&format!("^(?:{text})$"))?;
        let text = text.to_owned();
        Ok(Self { text, whole })
    }
}

impl PartialEq for UserPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// Rules for the accounts of containers.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Account of a submitter's containers.
    pub run_as: RunAs,
    /// Names that submitters may have.
    pub user_pattern: UserPattern,
    /// Lowest id of an account that runs containers, unless it is among `system_users`.
    pub uid_min: u32,
    /// Names of accounts that run no containers.
    pub banned: Vec<String>,
    /// Names of accounts below `uid_min` that run containers all the same.
    pub system_users: Vec<String>,
}

/// Reason why containers of a submitter do not run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The submitter's name does not match the pattern.
    #[error("Invalid user name '{name}', it must match '{pattern}'")]
    Name {
        /// Name of the submitter, cut to a length that fits a log line.
        name: String,
        /// Pattern of the configuration.
        pattern: String,
    },
    /// The account is the superuser's.
    #[error("Running as root is not allowed")]
    Root,
    /// The account's id is too low.
    #[error(
        "Requested user {name} is not whitelisted and has id {uid}, which is below the minimum \
         allowed {uid_min}"
    )]
    SystemUser {
        /// Name of the account.
        name: String,
        /// Id of the account.
        uid: u32,
        /// Lowest id allowed.
        uid_min: u32,
    },
    /// The account is listed in `banned.users`.
    #[error("Requested user {name} is banned")]
    Banned {
        /// Name of the account.
        name: String,
    },
}

impl Rules {
    /// Returns Hadoop's default rules with this account and pattern.
    #[must_use]
    pub fn new(run_as: RunAs, user_pattern: UserPattern) -> Self {
        Self {
            run_as,
            user_pattern,
            uid_min: UID_MIN_BY_DEFAULT,
            banned: BANNED_BY_DEFAULT.map(str::to_owned).to_vec(),
            system_users: Vec::new(),
        }
    }

    /// Returns the name of the account that a submitter's containers run as.
    ///
    /// # Errors
    /// The submitter's name does not match the pattern.
    pub fn account_of<'a>(&'a self, submitter: &'a str) -> Result<&'a str, Refusal> {
        if !self.user_pattern.whole.is_match(submitter) {
            return Err(Refusal::Name {
                name: submitter.chars().take(64).collect(),
                pattern: self.user_pattern.text.clone(),
            });
        }
        Ok(match &self.run_as {
            RunAs::Submitter => submitter,
            RunAs::One(account) => account,
        })
    }

    /// Checks that an account of this name and id may run containers.
    ///
    /// # Errors
    /// The rule that forbids it.
    pub fn admit(&self, name: &str, uid: u32) -> Result<(), Refusal> {
        let is_listed = |names: &[String]| names.iter().any(|listed| listed == name);
        if uid == 0 || name == "root" {
            return Err(Refusal::Root);
        }
        let name_owned = || name.to_owned();
        if uid < self.uid_min && !is_listed(&self.system_users) {
            return Err(Refusal::SystemUser {
                name: name_owned(),
                uid,
                uid_min: self.uid_min,
            });
        }
        if is_listed(&self.banned) {
            return Err(Refusal::Banned { name: name_owned() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HADOOPS_PATTERN: &str = "^[_.A-Za-z0-9][-@_.A-Za-z0-9]{0,255}?[$]?$";

    fn rules(run_as: RunAs) -> Rules {
        Rules::new(run_as, UserPattern::new(HADOOPS_PATTERN).unwrap())
    }

    #[test]
    fn all_submitters_share_one_account_unless_users_are_not_limited() {
        let limited = rules(RunAs::One("nobody".to_owned()));
        assert_eq!(limited.account_of("alice"), Ok("nobody"));
        assert_eq!(rules(RunAs::Submitter).account_of("alice"), Ok("alice"));
    }

    #[test]
    fn a_name_must_match_the_whole_pattern() {
        let mut rules = rules(RunAs::Submitter);
        for name in ["alice", "a-b@EXAMPLE.COM", "host$"] {
            assert!(rules.account_of(name).is_ok(), "{name}");
        }
        for name in ["", "-x", "a/b", "a b", "../x"] {
            let refused = rules.account_of(name);
            assert!(matches!(refused, Err(Refusal::Name { .. })), "{name}");
        }
        rules.user_pattern = UserPattern::new("a|b+").unwrap();
        assert!(rules.account_of("bb").is_ok() && rules.account_of("ab").is_err());
        let long = rules.account_of(&"x".repeat(5000)).unwrap_err().to_string();
        assert!(long.len() < 200, "{long}");
    }

    #[test]
    fn the_superuser_never_runs_containers() {
        let mut rules = rules(RunAs::Submitter);
        rules.uid_min = 0;
        rules.system_users = vec!["root".to_owned(), "toor".to_owned()];
        for (name, uid) in [("root", 0), ("toor", 0), ("root", 1000)] {
            assert_eq!(rules.admit(name, uid), Err(Refusal::Root), "{name}");
        }
    }

    #[test]
    fn accounts_below_the_minimum_run_only_if_they_are_listed() {
        let mut rules = rules(RunAs::Submitter);
        assert_eq!(rules.admit("alice", 1000), Ok(()));
        let refused = rules.admit("daemon", 999).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "Requested user daemon is not whitelisted and has id 999, which is below the minimum \
             allowed 1000"
        );
        rules.system_users = vec!["daemon".to_owned()];
        assert_eq!(rules.admit("daemon", 999), Ok(()));
    }

    #[test]
    fn banned_accounts_run_nothing_even_if_they_are_listed() {
        let mut rules = rules(RunAs::Submitter);
        for name in ["yarn", "mapred", "hdfs", "bin"] {
            assert!(rules.admit(name, 2000).is_err(), "{name}");
        }
        rules.banned = vec!["mallory".to_owned()];
        rules.system_users = vec!["mallory".to_owned()];
        assert_eq!(rules.admit("yarn", 2000), Ok(()));
        let refused = rules.admit("mallory", 2000).unwrap_err();
        assert_eq!(refused.to_string(), "Requested user mallory is banned");
    }
}
