//! Keys of roles, and their names in history files.

use super::asks::AskKey;

/// Name of a role's file entries: the priority of its asks, and their allocation request id if set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RoleKey {
    pub(super) priority: i32,
    pub(super) request_id: i64,
}

impl RoleKey {
    /// Returns the role of an ask, of whatever execution type.
    pub(super) fn of(key: AskKey) -> Self {
        Self::new(key.priority, key.request_id)
    }

    pub(super) fn new(priority: i32, request_id: i64) -> Self {
        Self {
            priority,
            request_id: request_id.max(0),
        }
    }

    /// Returns the name of the role in files.
    pub(super) fn name(self) -> String {
        match self.request_id {
            0 => format!("priority-{}", self.priority),
            id => format!("priority-{}.request-{id}", self.priority),
        }
    }

    /// Returns the role of a name; `None` if it is none of ours.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("priority-")?;
        let (priority, request_id) = match rest.split_once(".request-") {
            Some((priority, id)) => (priority, id.parse().ok()?),
            None => (rest, 0),
        };
        let key = Self::new(priority.parse().ok()?, request_id);
        (key.name() == name).then_some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_roles_are_read_as_they_are_written() {
        for key in [
            RoleKey::new(0, 0),
            RoleKey::new(20, 7),
            RoleKey::new(-1, i64::MAX),
        ] {
            assert_eq!(RoleKey::from_name(&key.name()), Some(key));
        }
        for name in [
            "store",
            "priority-",
            "priority-x",
            "priority-01",
            "priority-1.request-0",
        ] {
            assert_eq!(RoleKey::from_name(name), None, "{name}");
        }
        assert_eq!(RoleKey::new(1, -1), RoleKey::new(1, 0));
    }
}
