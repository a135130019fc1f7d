//! Who may ask for what, by the kernel's word on the caller (`SO_PEERCRED`). Pure.

use access_control::{AccessList, User};

use crate::message::Permission;

/// Caller as the kernel knows it, with names from the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Effective user id of the caller when it connected.
    pub uid: u32,
    /// Name and groups of that user; the name is empty if the system knows none.
    pub user: User,
    /// Name of the caller's effective group; empty if the system knows none.
    pub group: String,
}

impl Caller {
    /// Returns the caller's name, or its number if it has none.
    #[must_use]
    pub fn name(&self) -> String {
        if self.user.name.is_empty() {
            self.uid.to_string()
        } else {
            self.user.name.clone()
        }
    }
}

/// Rules of the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminRules {
    /// User id of the agent.
    pub own_uid: u32,
    /// Group whose members may look (`yarn.nodemanager.agent.admin.group`); `None`: nobody but root
    /// and the agent's user.
    pub group: Option<String>,
    /// Members of the group who may also change what the node does (`yarn.admin.acl`).
    pub administrators: AccessList,
}

impl AdminRules {
    /// Returns whether the caller has a permission. Root and the agent's user have all; a member of
    /// the group may look; one whom `yarn.admin.acl` names may change too.
    #[must_use]
    pub fn allow(&self, caller: &Caller, permission: Permission) -> bool {
        if caller.uid == 0 || caller.uid == self.own_uid {
            return true;
        }
        let Some(group) = &self.group else {
            return false;
        };
        let is_member = caller.group == *group || caller.user.groups.contains(group);
        is_member
            && match permission {
                Permission::Look => true,
                Permission::Change => self.administrators.allows(&caller.user),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(uid: u32, name: &str, groups: &[&str]) -> Caller {
        Caller {
            uid,
            user: User {
                name: name.to_owned(),
                groups: groups.iter().map(|&group| group.to_owned()).collect(),
            },
            group: groups.first().copied().unwrap_or_default().to_owned(),
        }
    }

    #[test]
    fn members_may_look_and_administrators_among_them_may_change() {
        let rules = AdminRules {
            own_uid: 500,
            group: Some("ops".to_owned()),
            administrators: AccessList::new("alice seniors"),
        };
        for (who, look, change) in [
            (caller(0, "root", &[]), true, true),
            (caller(500, "yarn", &[]), true, true),
            (caller(7, "alice", &["users", "ops"]), true, true),
            (caller(8, "bob", &["ops"]), true, false),
            (caller(9, "carol", &["seniors", "ops"]), true, true),
            // An administrator by the list who is not in the group.
            (caller(10, "alice", &["users"]), false, false),
            (caller(11, "eve", &["users"]), false, false),
            (caller(12, "", &[]), false, false),
        ] {
            let found = [Permission::Look, Permission::Change].map(|each| rules.allow(&who, each));
            assert_eq!(found, [look, change], "{who:?}");
        }
    }

    #[test]
    fn without_a_group_only_root_and_the_agents_user_may_ask() {
        let rules = AdminRules {
            own_uid: 500,
            group: None,
            administrators: AccessList::new("*"),
        };
        assert!(rules.allow(&caller(0, "root", &[]), Permission::Change));
        assert!(rules.allow(&caller(500, "yarn", &[]), Permission::Change));
        assert!(!rules.allow(&caller(8, "bob", &["ops"]), Permission::Look));
        assert!(!rules.allow(&caller(8, "", &[]), Permission::Look));
    }
}
