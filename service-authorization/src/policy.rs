//! The lists of a protocol, and the decision by them. Pure.

use std::net::IpAddr;

use access_control::{AccessList, User};
use thiserror::Error;

use crate::machines::{Inclusion, KnownNames, MachineList};

/// Policy of a protocol: its users, and the hosts that they may call from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolPolicy {
    /// Users who may (`security.….acl`).
    pub users: AccessList,
    /// Users who may not, even if they are in `users` (`security.….acl.blocked`).
    pub blocked_users: AccessList,
    /// Machines from which they may (`security.….hosts`).
    pub hosts: MachineList,
    /// Machines from which they may not, even if they are in `hosts` (`security.….hosts.blocked`).
    pub blocked_hosts: MachineList,
}

impl Default for ProtocolPolicy {
    /// Hadoop's defaults: everybody, from everywhere.
    fn default() -> Self {
        Self {
            users: AccessList::new("*"),
            blocked_users: AccessList::default(),
            hosts: MachineList::everything(),
            blocked_hosts: MachineList::default(),
        }
    }
}

/// A refusal, in Hadoop's words.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Denial {
    /// The port has no policy for the protocol.
    #[error("Protocol interface {protocol} is not known.")]
    Protocol {
        /// Java's name of the protocol.
        protocol: String,
    },
    /// The user may not use the protocol.
    #[error(
        "User {user} is not authorized for protocol interface {protocol}: \
         denied by configured ACL"
    )]
    User {
        /// Name of the user with the method of the proof, such as `alice (auth:TOKEN)`.
        user: String,
        /// Java's name of the protocol.
        protocol: String,
    },
    /// The protocol is closed to this host.
    #[error("Host {host} is not authorized for protocol interface {protocol}")]
    Host {
        /// Address of the caller.
        host: IpAddr,
        /// Java's name of the protocol.
        protocol: String,
    },
}

/// Part of a caller by which it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    User,
    Host,
}

impl ProtocolPolicy {
    /// Returns the names of hosts whose addresses decide about a caller from this one.
    pub(crate) fn undecided_names(&self, address: IpAddr) -> impl Iterator<Item = &str> {
        let allowed = self.hosts.undecided_names(address);
        allowed.chain(self.blocked_hosts.undecided_names(address))
    }

    /// Decides about a caller. What is not known counts against the caller: a name that could not
    /// be looked up neither allows a machine nor leaves one unblocked.
    pub(crate) fn judge(
        &self,
        user: &User,
        address: IpAddr,
        known: &KnownNames,
    ) -> Result<(), Refused> {
        if !self.users.allows(user) || self.blocked_users.allows(user) {
            return Err(Refused::User);
        }
        let is_allowed = self.hosts.includes(address, known) == Inclusion::Included;
        let is_unblocked = self.blocked_hosts.includes(address, known) == Inclusion::Excluded;
        if is_allowed && is_unblocked {
            Ok(())
        } else {
            Err(Refused::Host)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTEMPT: &str = "appattempt_1700000000000_0007_000001";

    fn policy(
        users: &str,
        blocked_users: &str,
        hosts: &str,
        blocked_hosts: &str,
    ) -> ProtocolPolicy {
        let machines = |text: &str| MachineList::parse(text).expect("a list");
        ProtocolPolicy {
            users: AccessList::new(users),
            blocked_users: AccessList::new(blocked_users),
            hosts: machines(hosts),
            blocked_hosts: machines(blocked_hosts),
        }
    }

    #[test]
    fn each_list_decides() {
        let (user, host) = (Err(Refused::User), Err(Refused::Host));
        for (lists, expected) in [
            (["*", "", "*", ""], Ok(())),
            (["alice", "", "*", ""], user),
            // A single blank stands for nobody.
            ([" ", "", "*", ""], user),
            (["", "", "*", ""], user),
            (["*", "*", "*", ""], user),
            (["*", ATTEMPT, "*", ""], user),
            (["*", "alice", "*", ""], Ok(())),
            (["*", "", "10.0.0.0/8", ""], Ok(())),
            (["*", "", "10.0.0.2", ""], host),
            (["*", "", "", ""], host),
            (["*", "", "*", "10.0.0.0/24"], host),
            (["*", "", "*", "10.0.1.0/24"], Ok(())),
            // Nothing is known of these names.
            (["*", "", "unanswered", ""], host),
            (["*", "", "*", "unanswered"], host),
            (["*", "", "unanswered,10.0.0.1", ""], Ok(())),
        ] {
            let [users, blocked_users, hosts, blocked_hosts] = lists;
            let policy = policy(users, blocked_users, hosts, blocked_hosts);
            let caller = User {
                name: ATTEMPT.to_owned(),
                groups: Vec::new(),
            };
            let address = "10.0.0.1".parse().expect("an address");
            let judged = policy.judge(&caller, address, &KnownNames::new());
            assert_eq!(judged, expected, "{lists:?}");
        }
    }
}
