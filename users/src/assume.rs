//! A process becomes an account's, for good, before it executes a program.
//!
//! The order matters. Each step needs a capability that a later one takes away, and the user id
//! comes last: from then on the account's other processes may signal this one, and its parent waits
//! until it has executed its program.

use nix::sys::stat::{Mode, umask};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use crate::accounts::Account;

/// Mode bits that new files of a container do not get (Hadoop: `container-executor.c` sets 0027).
const UMASK: Mode = Mode::from_bits_truncate(0o027);

impl Account {
    /// Gives this process the account's user and groups, no capability, none to gain, and Hadoop's
    /// umask. The program must be executed next: until then the process may still have
    /// `CAP_SETUID`, which no program of the account inherits.
    ///
    /// Allocates nothing, takes no lock and leaves the thread's `errno` alone, so a child that
    /// shares its parent's memory may call it.
    ///
    /// # Errors
    /// The kernel's refusal; the process must exit then.
    pub fn assume(&self) -> Result<(), Errno> {
        umask(UMASK);
        drop_bounding_set()?;
        // `EINVAL`: Linux before 4.3, which has no ambient set.
        match clear_ambient_capability_set() {
            Ok(()) | Err(Errno::INVAL) => {}
            Err(error) => return Err(error),
        }
        set_thread_groups(&self.groups)?;
        let gid = Gid::from_raw(self.gid);
        set_thread_res_gid(gid, gid, gid)?;
        set_no_new_privs(true)?;
        let capabilities = CapabilitySets {
            effective: CapabilitySet::SETUID,
            permitted: CapabilitySet::SETUID,
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, capabilities)?;
        let uid = Uid::from_raw(self.uid);
        set_thread_res_uid(uid, uid, uid)
    }
}

/// Gives up every capability of this process, and those that a program could gain. The user stays.
///
/// # Errors
/// The kernel's refusal; the process must exit then.
pub fn renounce_capabilities() -> Result<(), Errno> {
    drop_bounding_set()?;
    match clear_ambient_capability_set() {
        Ok(()) | Err(Errno::INVAL) => {}
        Err(error) => return Err(error),
    }
    set_no_new_privs(true)?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none)
}

/// Removes every capability that the kernel knows from the bounding set. Without `CAP_SETPCAP` the
/// set stays: no program can gain from it, since new privileges are refused.
fn drop_bounding_set() -> Result<(), Errno> {
    for bit in 0..u64::BITS {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)) {
            Ok(()) => {}
            // The kernel knows no further capability, or this process may not change the set.
            Err(Errno::INVAL | Errno::PERM) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
