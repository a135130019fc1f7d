//! The user that tests run as.

/// Name of this process's effective user: the only user whose containers a node without privileges
/// can run.
///
/// # Panics
/// When the user has no name in the user database.
#[must_use]
pub fn current_user() -> String {
    let uid = nix::unistd::Uid::effective();
    let user = nix::unistd::User::from_uid(uid);
    let user = user.unwrap_or_else(|error| panic!("cannot look up the user {uid}: {error}"));
    user.unwrap_or_else(|| panic!("the user {uid} has no name, which Hadoop needs"))
        .name
}
