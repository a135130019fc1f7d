//! `container-executor.cfg`: the rules that Hadoop's setuid helper reads, parsed. Pure: text in.
//!
//! Lines `NAME=VALUE`; `#` begins a comment anywhere; a line `[SECTION]` ends the general part, and
//! what follows is for features of the helper that have no meaning here (Hadoop:
//! `configuration.c`). A name without a value counts as not set.

use thiserror::Error;

use crate::rules::Rules;

/// General settings of the file that are set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecutorCfg {
    /// Value of `min.user.id`.
    pub uid_min: Option<u32>,
    /// Value of `banned.users`.
    pub banned: Option<Vec<String>>,
    /// Value of `allowed.system.users`.
    pub system_users: Option<Vec<String>>,
    /// Value of `yarn.nodemanager.linux-container-executor.group`.
    pub group: Option<String>,
}

/// Line of the file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {defect}")]
pub struct ExecutorCfgError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Problem with the line.
    pub defect: &'static str,
}

impl ExecutorCfg {
    /// Reads the file's text.
    ///
    /// # Errors
    /// The first line that cannot be read.
    pub fn parse(text: &str) -> Result<Self, ExecutorCfgError> {
        let mut cfg = Self::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.starts_with('[') {
                break;
            }
            let error = |defect| ExecutorCfgError {
                line: index + 1,
                defect,
            };
            let Some((name, value)) = line.split_once('=') else {
                if line.is_empty() {
                    continue;
                }
                return Err(error("must be NAME=VALUE"));
            };
            let value = value.trim();
            if value.is_empty() {
                continue;
            }
            match name.trim() {
                "min.user.id" => {
                    let uid = value.parse();
                    let uid = uid.map_err(|_| error("min.user.id must be a user id"))?;
                    cfg.uid_min = Some(uid);
                }
                "banned.users" => cfg.banned = Some(list(value)),
                "allowed.system.users" => cfg.system_users = Some(list(value)),
                "yarn.nodemanager.linux-container-executor.group" => {
                    cfg.group = Some(value.to_owned());
                }
                _ => {}
            }
        }
        Ok(cfg)
    }

    /// Puts the file's rules in the place of the defaults.
    pub fn apply(&self, rules: &mut Rules) {
        let Self {
            uid_min,
            banned,
            system_users,
            group: _,
        } = self.clone();
        rules.uid_min = uid_min.unwrap_or(rules.uid_min);
        if let Some(banned) = banned {
            rules.banned = banned;
        }
        if let Some(system_users) = system_users {
            rules.system_users = system_users;
        }
    }
}

fn list(value: &str) -> Vec<String> {
    let names = value.split(',').map(str::trim);
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{RunAs, UserPattern};

    /// The file of Hadoop 3.4.2's distribution, shortened, with values.
    const TEXT: &str = "\
yarn.nodemanager.linux-container-executor.group=hadoop#configured value of the property
banned.users=mallory, eve #comma separated list
min.user.id=500#Prevent other super-users
allowed.system.users=##comma separated list of system users who CAN run applications

feature.tc.enabled=false
[docker]
  min.user.id=0
  banned.users=
";

    #[test]
    fn hadoops_file_is_read_up_to_its_first_section() {
        let cfg = ExecutorCfg::parse(TEXT).unwrap();
        let expected = ExecutorCfg {
            uid_min: Some(500),
            banned: Some(vec!["mallory".to_owned(), "eve".to_owned()]),
            system_users: None,
            group: Some("hadoop".to_owned()),
        };
        assert_eq!(cfg, expected);
    }

    #[test]
    fn what_is_not_set_keeps_the_defaults() {
        let pattern = UserPattern::new(".*").unwrap();
        let defaults = Rules::new(RunAs::Submitter, pattern);
        let mut rules = defaults.clone();
        ExecutorCfg::parse("banned.users=#none\n")
            .unwrap()
            .apply(&mut rules);
        assert_eq!(rules, defaults);
        let text = "allowed.system.users=games\nmin.user.id=7\nbanned.users=x";
        ExecutorCfg::parse(text).unwrap().apply(&mut rules);
        assert_eq!((rules.uid_min, rules.banned), (7, vec!["x".to_owned()]));
        assert_eq!(rules.system_users, ["games"]);
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        let bad_number = ExecutorCfg::parse("\nmin.user.id=-1").unwrap_err();
        assert_eq!(
            bad_number.to_string(),
            "line 2: min.user.id must be a user id"
        );
        let no_value = ExecutorCfg::parse("banned.users").unwrap_err();
        assert_eq!(no_value.to_string(), "line 1: must be NAME=VALUE");
    }
}
