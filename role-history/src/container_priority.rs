//! A role and the kind of its ask in one YARN priority (Slider: `ContainerPriority`).
//!
//! An allocated container carries nothing but its priority to tell which ask caused it. Bit 30
//! marks asks without a location: YARN forbids relaxed and strict asks of one priority. The
//! documents of 2013 and 2016 describe a request id in the upper bits, which Slider never had.

use records::Priority;

use crate::role::RoleId;

/// Bit of a priority that marks an ask without a location (Slider: `ContainerPriority.NOLOCATION`).
const NO_LOCATION_BIT: i32 = 1 << 30;

/// Role and kind of an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerPriority {
    /// Role that the ask is for.
    pub role: RoleId,
    /// Whether the ask names no node that it insists on.
    pub no_location: bool,
}

impl ContainerPriority {
    /// Returns what a priority means, or `None` for one that no role can have.
    #[must_use]
    pub fn unpack(priority: Priority) -> Option<Self> {
        Some(Self {
            role: RoleId::new(priority.0 & !NO_LOCATION_BIT)?,
            no_location: priority.0 & NO_LOCATION_BIT != 0,
        })
    }

    /// Returns the priority on the wire.
    #[must_use]
    pub const fn pack(self) -> Priority {
        let bit = if self.no_location { NO_LOCATION_BIT } else { 0 };
        Priority(self.role.number() | bit)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_located_ask_has_the_role_as_its_priority() {
        let role = RoleId::new(7).unwrap();
        let located = ContainerPriority {
            role,
            no_location: false,
        };
        assert_eq!(located.pack(), Priority(7));
        let open = ContainerPriority {
            role,
            no_location: true,
        };
        assert_eq!(open.pack(), Priority(7 + (1 << 30)));
    }

    #[test]
    fn a_negative_priority_belongs_to_no_role() {
        assert_eq!(ContainerPriority::unpack(Priority(-1)), None);
        assert_eq!(ContainerPriority::unpack(Priority(i32::MIN)), None);
    }

    proptest! {
        #[test]
        fn every_priority_reads_back(role in 0..=RoleId::MAX.number(), no_location: bool) {
            let priority = ContainerPriority { role: RoleId::new(role).unwrap(), no_location };
            prop_assert_eq!(ContainerPriority::unpack(priority.pack()), Some(priority));
        }
    }
}
