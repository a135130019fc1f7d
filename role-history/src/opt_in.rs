//! Variables of an ApplicationMaster's launch environment with which its job opts in, and the names
//! that a service may have.

/// Variable whose value names the service.
pub const SERVICE_VARIABLE: &str = "NM_AGENT_ROLE_HISTORY";

/// Variable that is `true` if guaranteed asks, too, go to the nodes of the history.
pub const GUARANTEED_VARIABLE: &str = "NM_AGENT_ROLE_HISTORY_GUARANTEED";

/// Variable with the policies of the service's roles.
pub const POLICY_VARIABLE: &str = "NM_AGENT_ROLE_HISTORY_POLICY";

/// Longest name of a service, in bytes. As a directory's name it may grow to three times that, and
/// Linux has names of at most 255 bytes.
pub const SERVICE_BYTES_MAX: usize = 80;

/// Returns whether a service may have this name: 1 to [`SERVICE_BYTES_MAX`] of `A`-`Z`, `a`-`z`,
/// `0`-`9`, `.`, `_` and `-`, not a dot first. So a name is one directory, and no other than its
/// own.
#[must_use]
pub fn is_service_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=SERVICE_BYTES_MAX).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_has_a_name_that_is_one_directory() {
        for name in ["search", "a", "Web_2.0-x", &"x".repeat(SERVICE_BYTES_MAX)] {
            assert!(is_service_name(name), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            ".hidden",
            "a/b",
            "a b",
            "a\0",
            "ä",
            "a\n",
            &"x".repeat(SERVICE_BYTES_MAX + 1),
        ] {
            assert!(!is_service_name(name), "{name:?}");
        }
    }
}
