//! A thread uses files with an account's rights for a moment, so that the kernel refuses what the
//! account may not do, whatever links and renames happen meanwhile.

use std::io;

use nix::unistd::{Gid, Uid, getegid, geteuid, setfsgid, setfsuid};
use rustix::process::getgroups;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups,
};

use crate::accounts::Account;

/// Capabilities that lead back; none of them opens a file.
const WAY_BACK: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID);

/// Identity of the thread before it acted as an account. Taken on again when dropped, also when the
/// work panics.
struct Own {
    groups: Vec<rustix::process::Gid>,
    capabilities: CapabilitySets,
}

impl Account {
    /// Does some work with files as this account: with its user, its groups and without
    /// capabilities. Other threads are not affected. The work may not start threads, which would
    /// keep the identity, and may not wait for long.
    ///
    /// # Errors
    /// The kernel refuses the identity; nothing was done.
    pub fn act<R>(&self, work: impl FnOnce() -> R) -> io::Result<R> {
        let _own = self.enter()?;
        Ok(work())
    }

    fn enter(&self) -> io::Result<Own> {
        let (groups, capabilities) = (getgroups()?, capabilities(None)?);
        set_thread_groups(&self.groups)?;
        // From here on there is something to take back.
        let own = Own {
            groups,
            capabilities,
        };
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        setfsgid(gid);
        setfsuid(uid);
        let without = CapabilitySets {
            effective: own.capabilities.effective & WAY_BACK,
            ..own.capabilities
        };
        set_capabilities(None, without)?;
        // These two calls report no error; an id that cannot be set shows what is in force.
        let none = u32::MAX;
        let in_force = (setfsuid(Uid::from_raw(none)), setfsgid(Gid::from_raw(none)));
        if in_force == (uid, gid) {
            Ok(own)
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        setfsuid(geteuid());
        setfsgid(getegid());
        let groups = set_thread_groups(&self.groups);
        let capabilities = set_capabilities(None, self.capabilities);
        if groups.is_err() || capabilities.is_err() {
            // A thread that goes on as another user would do the agent's work with wrong rights.
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use test_support::skip;

    use super::*;
    use crate::privileges::obstacles;

    /// Returns whether this test can run; prints why not otherwise.
    fn is_privileged(test: &str) -> bool {
        let obstacles = obstacles();
        if let Some(obstacle) = obstacles.first() {
            skip::skip(test, obstacle);
        }
        obstacles.is_empty()
    }

    #[test]
    fn work_has_the_accounts_rights_and_the_thread_gets_its_own_back() {
        if !is_privileged("work_has_the_accounts_rights_and_the_thread_gets_its_own_back") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let (secret, made) = (folder.path().join("secret"), folder.path().join("made"));
        fs::write(&secret, "secret").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o640)).unwrap();
        let before = fs::read_to_string("/proc/thread-self/status").unwrap();
        let account = Account::anybody();
        let refused = account.act(|| {
            fs::write(&made, "").unwrap();
            fs::read(&secret).unwrap_err().kind()
        });
        assert_eq!(refused.unwrap(), io::ErrorKind::PermissionDenied);
        assert_eq!(fs::metadata(&made).unwrap().uid(), account.uid());
        assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
        let after = fs::read_to_string("/proc/thread-self/status").unwrap();
        let identity = |status: &str| {
            let lines = status.lines().map(str::to_owned);
            let wanted = ["Uid:", "Gid:", "Groups:", "CapEff:", "CapPrm:"];
            let of_identity = |line: &String| wanted.iter().any(|name| line.starts_with(name));
            lines.filter(of_identity).collect::<Vec<_>>()
        };
        assert_eq!(identity(&before), identity(&after));
    }

    #[test]
    fn work_that_panics_leaves_the_identity_too() {
        if !is_privileged("work_that_panics_leaves_the_identity_too") {
            return;
        }
        let work = || Account::anybody().act(|| panic!("on purpose"));
        let panicked = std::panic::catch_unwind(work);
        assert!(panicked.is_err());
        assert!(setfsuid(Uid::from_raw(u32::MAX)).is_root());
    }

    #[test]
    fn another_thread_keeps_its_identity_meanwhile() {
        if !is_privileged("another_thread_keeps_its_identity_meanwhile") {
            return;
        }
        let (ask, asked) = std::sync::mpsc::channel();
        let (answer, answered) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            asked.recv().unwrap();
            answer.send(setfsuid(Uid::from_raw(u32::MAX))).unwrap();
        });
        let of_other = Account::anybody().act(|| {
            ask.send(()).unwrap();
            answered.recv().unwrap()
        });
        assert_eq!(of_other.unwrap(), geteuid());
        other.join().unwrap();
    }
}
