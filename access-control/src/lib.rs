//! Who may see what: access control lists of applications and administrators, and the groups of
//! users (Hadoop: `ApplicationACLsManager`, `AdminACLsManager`).
//!
//! - [`AccessList`]: a list in Hadoop's form; [`AccessRules`]: the rules of a node. Both are pure.
//! - [`Groups`]: the groups of a user, which the system knows. Asks within a time limit, and
//!   remembers the answers for some minutes.
//!
//! In: texts of the configuration and of launch contexts, and the names of callers, which are
//! believed: each face of the node finds out by itself who calls. Out: whether a user may. Owns no
//! list. May not know a face, a node or any other crate of the workspace.

mod groups;
mod list;

pub use groups::Groups;
pub use list::AccessList;

/// Rules of a node, from its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRules {
    /// `yarn.acl.enable`: whether what applications show is only for those who may see it.
    pub enabled: bool,
    /// `yarn.admin.acl`: who may see everything.
    pub administrators: AccessList,
    /// User of the agent, an administrator too.
    pub own_user: String,
    /// `yarn.webapp.filter-entity-list-by-user`: lists leave out what the caller may not see.
    pub filter_lists: bool,
    /// `hadoop.security.instrumentation.requires.admin`: metrics and the configuration are for
    /// administrators, where `hadoop.security.authorization` is on too.
    pub instrumentation_requires_admin: bool,
    /// `hadoop.security.authorization`: without it everybody passes for an administrator.
    pub authorization: bool,
    /// `hadoop.http.authentication.simple.anonymous.allowed`: requests without a name are served.
    pub anonymous_allowed: bool,
}

impl Default for AccessRules {
    /// Hadoop's defaults: no lists, and everybody may ask.
    fn default() -> Self {
        Self {
            enabled: false,
            administrators: AccessList::new("*"),
            own_user: String::new(),
            filter_lists: false,
            instrumentation_requires_admin: false,
            authorization: false,
            anonymous_allowed: true,
        }
    }
}

/// A user with groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Name, as the user gave it.
    pub name: String,
    /// Names of the groups that the user is in.
    pub groups: Vec<String>,
}

impl AccessRules {
    /// Returns whether this user is an administrator.
    #[must_use]
    pub fn is_administrator(&self, user: &User) -> bool {
        let own = !self.own_user.is_empty() && user.name == self.own_user;
        own || self.administrators.allows(user)
    }

    /// Returns whether a caller may see what containers of an application wrote, which belongs to
    /// `owner` and is visible to `list`. A caller without a name may, as in Hadoop
    /// (`ContainerLogsUtils.checkAccess`): who may give any name gains nothing by it, and
    /// `yarn logs` gives none. [`Self::anonymous_allowed`] keeps such callers out altogether.
    #[must_use]
    pub fn may_view(&self, caller: Option<&User>, owner: &str, list: &AccessList) -> bool {
        let Some(user) = caller.filter(|_| self.enabled) else {
            return true;
        };
        user.name == owner || self.is_administrator(user) || list.allows(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, groups: &[&str]) -> User {
        User {
            name: name.to_owned(),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
        }
    }

    #[test]
    fn owner_administrators_and_listed_users_may_view_and_nobody_else() {
        let rules = AccessRules {
            enabled: true,
            administrators: AccessList::new("root ops"),
            own_user: "yarn".to_owned(),
            ..AccessRules::default()
        };
        let list = AccessList::new("bob testers");
        for (name, groups, expected) in [
            ("alice", vec![], true),
            ("bob", vec![], true),
            ("carol", vec!["testers"], true),
            ("root", vec![], true),
            ("dave", vec!["ops"], true),
            ("yarn", vec![], true),
            ("eve", vec!["alice", "bob"], false),
            ("dr.who", vec![], false),
            ("", vec![], false),
        ] {
            let user = user(name, &groups);
            assert_eq!(
                rules.may_view(Some(&user), "alice", &list),
                expected,
                "{name}"
            );
        }
        let (eve, nobody) = (user("eve", &[]), AccessList::default());
        assert!(rules.may_view(None, "alice", &nobody));
        let off = AccessRules {
            enabled: false,
            ..rules
        };
        assert!(off.may_view(Some(&eve), "alice", &nobody));
    }
}
