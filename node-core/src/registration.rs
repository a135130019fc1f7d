//! Registration with the ResourceManager, and the contact to it.

use node_view::snapshot::RmContact;
use records::MonoMillis;

/// Registration of the node.
#[derive(Debug, Default)]
pub(crate) struct Registration {
    /// Identifier of the current registration; `None` before the first and during a resync, when
    /// nothing may start.
    identifier: Option<i64>,
    contact: RmContact,
    since: MonoMillis,
}

impl Registration {
    /// Returns the identifier of the current registration, which tokens must name; `None`: there is
    /// none.
    pub(crate) const fn identifier(&self) -> Option<i64> {
        self.identifier
    }

    /// Returns the contact and the time at which it became so.
    pub(crate) const fn contact(&self) -> (RmContact, MonoMillis) {
        (self.contact, self.since)
    }

    /// Takes an accepted registration. Returns whether the contact has changed.
    pub(crate) fn accepted(&mut self, identifier: i64, now: MonoMillis) -> bool {
        self.identifier = Some(identifier);
        self.set_contact(RmContact::Registered, now)
    }

    /// Takes the end of the registration. Returns whether the contact has changed.
    pub(crate) fn lost(&mut self, now: MonoMillis) -> bool {
        self.identifier = None;
        self.set_contact(RmContact::Registering, now)
    }

    /// Takes a heartbeat that was not answered. Returns whether the contact has changed.
    pub(crate) fn not_answered(&mut self, now: MonoMillis) -> bool {
        self.identifier.is_some() && self.set_contact(RmContact::Silent, now)
    }

    /// Takes a heartbeat that was answered. Returns whether the ResourceManager was silent before.
    pub(crate) fn answered(&mut self, now: MonoMillis) -> bool {
        self.contact == RmContact::Silent && self.set_contact(RmContact::Registered, now)
    }

    fn set_contact(&mut self, contact: RmContact, now: MonoMillis) -> bool {
        if self.contact == contact {
            return false;
        }
        (self.contact, self.since) = (contact, now);
        true
    }
}
