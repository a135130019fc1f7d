//! Groups of users, as the system knows them (Hadoop: `Groups`,
//! `JniBasedUnixGroupsMapping`).

use std::collections::HashMap;
use std::ffi::CString;
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use crate::User;

/// How long an answer of the system holds (Hadoop: `hadoop.security.groups.cache.secs`).
const REMEMBERED: Duration = Duration::from_secs(300);
/// Users remembered. A caller chooses a name, so that their number is unbounded; beyond, the oldest
/// is forgotten.
const USERS_MAX: usize = 1024;
/// How long a caller waits for the system, which may ask a directory server over the network.
const LOOK_UP_WAIT: Duration = Duration::from_secs(5);
/// Threads that may wait for the system. Further callers have no groups until one is free.
const LOOK_UPS_MAX: usize = 4;

/// Source that a look-up asks: the system, or a test's own users. Blocks.
type LookUp = fn(&str) -> Vec<String>;

/// Groups of users, remembered for some minutes.
#[derive(Debug)]
pub struct Groups {
    look_up: LookUp,
    known: Mutex<HashMap<String, (Instant, Vec<String>)>>,
    threads: std::sync::Arc<Semaphore>,
}

impl Default for Groups {
    fn default() -> Self {
        Self::by(groups_of_system)
    }
}

impl Groups {
    fn by(look_up: LookUp) -> Self {
        Self {
            look_up,
            known: Mutex::default(),
            threads: std::sync::Arc::new(Semaphore::new(LOOK_UPS_MAX)),
        }
    }

    /// Returns the user of this name with the groups. A user that the system does not know, or not
    /// within five seconds, has none: that never gives access.
    pub async fn user(&self, name: String) -> User {
        let groups = self.groups_of(&name).await;
        User { name, groups }
    }

    async fn groups_of(&self, name: &str) -> Vec<String> {
        {
            let known = self.known.lock().await;
            if let Some((at, groups)) = known.get(name)
                && at.elapsed() < REMEMBERED
            {
                return groups.clone();
            }
        }
        let Ok(permit) = std::sync::Arc::clone(&self.threads).try_acquire_owned() else {
            return Vec::new();
        };
        let (look_up, asked) = (self.look_up, name.to_owned());
        // The thread keeps its permit for as long as the system takes, whoever waits.
        let asking = spawn_blocking(move || {
            let _permit = permit;
            look_up(&asked)
        });
        let Ok(Ok(groups)) = timeout(LOOK_UP_WAIT, asking).await else {
            tracing::warn!(user = name, "the system does not tell the groups of a user");
            return Vec::new();
        };
        let mut known = self.known.lock().await;
        if known.len() >= USERS_MAX {
            let oldest = known.iter().min_by_key(|(_, (at, _))| *at);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                known.remove(&oldest);
            }
        }
        known.insert(name.to_owned(), (Instant::now(), groups.clone()));
        groups
    }
}

/// Returns the names of a user's groups, by the system's own rules (`getgrouplist(3)`).
fn groups_of_system(name: &str) -> Vec<String> {
    let Ok(Some(user)) = nix::unistd::User::from_name(name) else {
        return Vec::new();
    };
    let Ok(c_name) = CString::new(name) else {
        return Vec::new();
    };
    let ids = nix::unistd::getgrouplist(&c_name, user.gid).unwrap_or_default();
    ids.into_iter()
        .filter_map(|id| Some(nix::unistd::Group::from_gid(id).ok()??.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn the_system_knows_the_groups_of_its_users_and_of_nobody_else() {
        let groups = Groups::default();
        let root = groups.user("root".to_owned()).await;
        assert!(root.groups.contains(&"root".to_owned()), "{root:?}");
        for name in ["", "no such user", "a\0b"] {
            assert!(groups.user(name.to_owned()).await.groups.is_empty());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_remembered_for_some_minutes() {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        let groups = Groups::by(|name| {
            ASKED.fetch_add(1, Ordering::Relaxed);
            vec![format!("{name}s")]
        });
        for _ in 0..3 {
            let user = groups.user("op".to_owned()).await;
            assert_eq!(user.groups, ["ops"]);
        }
        assert_eq!(ASKED.load(Ordering::Relaxed), 1);
        tokio::time::advance(REMEMBERED).await;
        groups.user("op".to_owned()).await;
        assert_eq!(ASKED.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn names_that_callers_make_up_take_bounded_memory() {
        let groups = Groups::by(|_| Vec::new());
        for number in 0..USERS_MAX + 10 {
            groups.user(format!("user{number}")).await;
        }
        assert_eq!(groups.known.lock().await.len(), USERS_MAX);
    }
}
