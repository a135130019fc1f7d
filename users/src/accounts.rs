//! Accounts as the system knows them, and the rules applied to them.
//!
//! A look-up may ask a directory server over the network, so it blocks; answers are remembered.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::{Group, User, getegid, getgrouplist};
use rustix::process::Gid;
use thiserror::Error;

use crate::rules::{Refusal, Rules};

/// Time for which an answer of the system holds (Hadoop: `hadoop.security.groups.cache.secs`).
const REMEMBERED: Duration = Duration::from_secs(300);
/// Limit on remembered submitters; beyond it the oldest is forgotten.
const SUBMITTERS_MAX: usize = 1024;

/// Account that containers run as: never the superuser's.
#[derive(Debug, PartialEq, Eq)]
pub struct Account {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Every group of the account, the primary one included.
    pub(crate) groups: Vec<Gid>,
}

/// Numbers by which the kernel knows an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountIds {
    /// User id.
    pub uid: u32,
    /// Id of the primary group.
    pub gid: u32,
    /// Ids of every group, the primary one included.
    pub groups: Vec<u32>,
}

impl Account {
    /// Returns the account with these numbers, as [`Self::ids`] gives them to another process;
    /// `None`: they are the superuser's.
    #[must_use]
    pub fn of_ids(ids: AccountIds) -> Option<Self> {
        (ids.uid != 0).then(|| Self {
            name: ids.uid.to_string(),
            uid: ids.uid,
            gid: ids.gid,
            groups: ids.groups.into_iter().map(Gid::from_raw).collect(),
        })
    }

    /// Returns the numbers of the account.
    #[must_use]
    pub fn ids(&self) -> AccountIds {
        AccountIds {
            uid: self.uid,
            gid: self.gid,
            groups: self.groups.iter().map(|gid| gid.as_raw()).collect(),
        }
    }

    /// Returns the account of nobody in particular: no groups, and an id that owns no files
    /// (kernel: `overflowuid`). The kernel grants it what any user may do.
    #[must_use]
    pub fn anybody() -> Self {
        const OVERFLOW_ID: u32 = 65_534;
        Self {
            name: "anybody".to_owned(),
            uid: OVERFLOW_ID,
            gid: OVERFLOW_ID,
            groups: Vec::new(),
        }
    }

    /// Returns the account's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the account's user id, which is not 0.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }
}

/// Reason why a submitter has no account to run containers as. Hadoop's texts.
#[derive(Debug, Error)]
pub enum RefusedUser {
    /// A rule forbids it.
    #[error(transparent)]
    Forbidden(#[from] Refusal),
    /// The system does not know the account.
    #[error("User {name} not found")]
    NotFound {
        /// Name of the account.
        name: String,
    },
    /// The system does not answer.
    #[error("cannot look up user {name}")]
    LookUp {
        /// Name of the account.
        name: String,
        /// Error of the system.
        source: io::Error,
    },
}

/// Group of the configuration that cannot be had.
#[derive(Debug, Error)]
pub enum GroupError {
    /// The system does not know it.
    #[error("the system has no group {name}")]
    Unknown {
        /// Name of the group.
        name: String,
    },
    /// The system does not answer.
    #[error("cannot look up group {name}: {source}")]
    LookUp {
        /// Name of the group.
        name: String,
        /// Error of the system.
        source: Errno,
    },
}

/// Asks the system for an account: its ids and groups. `None`: it has none of this name.
type LookUp = fn(&str) -> io::Result<Option<Account>>;

/// Accounts of submitters.
#[derive(Debug)]
pub struct Users {
    rules: Rules,
    file_group: u32,
    look_up: LookUp,
    known: Mutex<HashMap<String, (Instant, Arc<Account>)>>,
}

impl Users {
    /// Makes the accounts under these rules. The folders of users get the group of this name, so
    /// that its members may read them; `None`: the group of this process.
    ///
    /// # Errors
    /// The system does not know the group.
    pub fn new(rules: Rules, file_group: Option<&str>) -> Result<Self, GroupError> {
        let file_group = match file_group {
            None => getegid(),
            Some(name) => {
                let name = || name.to_owned();
                let group = Group::from_name(&name());
                let group = group.map_err(|source| GroupError::LookUp {
                    name: name(),
                    source,
                });
                group?
                    .ok_or_else(|| GroupError::Unknown { name: name() })?
                    .gid
            }
        };
        Ok(Self {
            rules,
            file_group: file_group.as_raw(),
            look_up,
            known: Mutex::default(),
        })
    }

    /// Returns the id of the group that the folders of users have.
    #[must_use]
    pub fn file_group(&self) -> u32 {
        self.file_group
    }

    /// Returns the rules.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns the account that a submitter's containers run as. May block.
    ///
    /// # Errors
    /// [`RefusedUser`]; it is not remembered, so that a new account can be used at once.
    pub fn run_as(&self, submitter: &str) -> Result<Arc<Account>, RefusedUser> {
        self.account(self.rules.account_of(submitter)?)
    }

    /// Checks that an account may run containers. May block.
    ///
    /// # Errors
    /// [`RefusedUser`]
    pub fn check(&self, name: &str) -> Result<(), RefusedUser> {
        self.account(name).map(drop)
    }

    fn account(&self, name: &str) -> Result<Arc<Account>, RefusedUser> {
        let now = Instant::now();
        if let Some((at, account)) = self.lock().get(name)
            && now.duration_since(*at) < REMEMBERED
        {
            return Ok(Arc::clone(account));
        }
        let owned = || name.to_owned();
        let found = (self.look_up)(name).map_err(|source| RefusedUser::LookUp {
            name: owned(),
            source,
        })?;
        let account = found.ok_or_else(|| RefusedUser::NotFound { name: owned() })?;
        self.rules.admit(&account.name, account.uid)?;
        let account = Arc::new(account);
        let mut known = self.lock();
        if known.len() >= SUBMITTERS_MAX {
            let oldest = known.iter().min_by_key(|(_, (at, _))| *at);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                known.remove(&oldest);
            }
        }
        known.insert(owned(), (now, Arc::clone(&account)));
        Ok(account)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Instant, Arc<Account>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the system (`getpwnam(3)`, `getgrouplist(3)`).
fn look_up(name: &str) -> io::Result<Option<Account>> {
    let Ok(c_name) = CString::new(name) else {
        return Ok(None);
    };
    let Some(user) = User::from_name(name)? else {
        return Ok(None);
    };
    let groups = getgrouplist(&c_name, user.gid)?;
    Ok(Some(Account {
        name: user.name,
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
        groups: groups
            .iter()
            .map(|group| Gid::from_raw(group.as_raw()))
            .collect(),
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::rules::{RunAs, UserPattern};

    fn users(look_up: LookUp) -> Users {
        let rules = Rules::new(RunAs::Submitter, UserPattern::new(".*").unwrap());
        Users {
            look_up,
            ..Users::new(rules, None).unwrap()
        }
    }

    fn account(name: &str) -> Account {
        Account {
            name: name.to_owned(),
            ..Account::anybody()
        }
    }

    #[test]
    fn the_systems_accounts_are_found_and_the_superuser_is_refused() {
        let users = users(look_up);
        let nobody = users.run_as("nobody").unwrap();
        assert!(nobody.uid() >= 1000 && !nobody.groups.is_empty());
        assert!(matches!(
            users.run_as("root"),
            Err(RefusedUser::Forbidden(Refusal::Root))
        ));
        for name in ["", "no such user", "a\0b"] {
            let refused = users.run_as(name);
            assert!(
                matches!(refused, Err(RefusedUser::NotFound { .. })),
                "{name:?}"
            );
        }
    }

    #[test]
    fn a_found_account_is_remembered_and_a_missing_one_is_not() {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        let users = users(|name| {
            ASKED.fetch_add(1, Ordering::Relaxed);
            Ok((name == "alice").then(|| account(name)))
        });
        for _ in 0..3 {
            assert_eq!(users.run_as("alice").unwrap().name(), "alice");
        }
        assert_eq!(ASKED.load(Ordering::Relaxed), 1);
        for _ in 0..3 {
            assert!(users.run_as("bob").is_err());
        }
        assert_eq!(ASKED.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn an_account_that_the_system_calls_otherwise_is_judged_by_the_systems_name() {
        let users = users(|_| Ok(Some(account("hdfs"))));
        let refused = users.run_as("HDFS").unwrap_err();
        assert_eq!(refused.to_string(), "Requested user hdfs is banned");
    }

    #[test]
    fn many_submitters_take_bounded_memory() {
        let users = users(|name| Ok(Some(account(name))));
        for number in 0..SUBMITTERS_MAX + 10 {
            users.run_as(&format!("user{number}")).unwrap();
        }
        assert_eq!(users.lock().len(), SUBMITTERS_MAX);
    }

    #[test]
    fn a_group_that_is_not_there_is_named() {
        let rules = Rules::new(RunAs::Submitter, UserPattern::new(".*").unwrap());
        let error = Users::new(rules, Some("no such group")).unwrap_err();
        assert_eq!(error.to_string(), "the system has no group no such group");
    }
}
