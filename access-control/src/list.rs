//! An access control list in Hadoop's form: users and groups (Hadoop: `AccessControlList`). Pure.

use std::sync::Arc;

use crate::User;

/// Users, with commas between, then a blank and groups, with commas between; `*` for everybody.
/// Kept as its text, so that it takes no more memory than it was sent with. Empty by
/// default: nobody, as an application without a list has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessList(Arc<str>);

impl AccessList {
    /// Every text is a list.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Returns whether this user, or a group of this user, is in the list.
    #[must_use]
    pub fn allows(&self, user: &User) -> bool {
        let (users, groups) = self.parts();
        self.is_everybody()
            || names(users).any(|name| name == user.name)
            || names(groups).any(|name| user.groups.iter().any(|group| group == name))
    }

    /// Returns whether every user is in the list.
    #[must_use]
    pub fn is_everybody(&self) -> bool {
        let (users, groups) = self.parts();
        users.trim() == "*" || groups.trim() == "*"
    }

    /// Returns whether no user is in the list.
    #[must_use]
    pub fn is_nobody(&self) -> bool {
        let (users, groups) = self.parts();
        names(users).chain(names(groups)).next().is_none()
    }

    /// Returns whether the list names groups, so that a user's groups matter.
    #[must_use]
    pub fn names_groups(&self) -> bool {
        names(self.parts().1).next().is_some()
    }

    /// Returns the texts of the users and of the groups.
    fn parts(&self) -> (&str, &str) {
        self.0.split_once(' ').unwrap_or((&self.0, ""))
    }
}

fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn user(name: &str, group: &str) -> User {
        User {
            name: name.to_owned(),
            groups: vec![group.to_owned()],
        }
    }

    #[test]
    fn users_and_groups_are_found_as_hadoop_does() {
        for (list, allowed, refused) in [
            ("bob", ("bob", "x"), ("x", "bob")),
            ("bob,carol", ("carol", "x"), ("bob,carol", "x")),
            // What stands behind the first blank is groups.
            ("bob, carol", ("x", "carol"), ("carol", "x")),
            (" ops", ("x", "ops"), ("ops", "x")),
            ("bob  ops , dev", ("x", "dev"), ("dev", "x")),
            ("*", ("x", "x"), ("", "")),
            (" * ", ("x", "x"), ("", "")),
            ("bob *", ("x", "x"), ("", "")),
        ] {
            let list_of = AccessList::new(list);
            assert!(list_of.allows(&user(allowed.0, allowed.1)), "{list:?}");
            if !refused.0.is_empty() {
                assert!(!list_of.allows(&user(refused.0, refused.1)), "{list:?}");
            }
        }
        for nobody in ["", " ", ",", " ,"] {
            assert!(AccessList::new(nobody).is_nobody(), "{nobody:?}");
        }
        assert!(AccessList::new("*").is_everybody() && !AccessList::new("*").is_nobody());
        assert!(!AccessList::new("*,bob").is_everybody());
        for nobody in ["", " ", ",", " ,", "*,bob"] {
            assert!(
                !AccessList::new(nobody).allows(&user("x", "")),
                "{nobody:?}"
            );
            assert!(!AccessList::new(nobody).allows(&user("", "")), "{nobody:?}");
        }
    }

    proptest! {
        #[test]
        fn a_listed_user_is_allowed_whatever_stands_beside(before in "[a-z,]{0,9}", name in "[a-z]{1,5}", after in "(,[a-z ,]{0,9})?") {
            let list = AccessList::new(format!("{before},{name}{after}"));
            prop_assert!(list.allows(&user(&name, "")));
        }
    }
}
