//! User names that are safe as one component of a path.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

/// Longest name of a folder on Linux file systems (`NAME_MAX`).
const LENGTH_MAX: usize = 255;

/// User name that matches Hadoop's `nonsecure-mode.user-pattern` and is neither `.` nor `..`.
/// Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserName(Arc<str>);

/// User name that must not become part of a path.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid user name {name:?}")]
pub struct InvalidUserName {
    /// The name as given, cut to a length that fits a log line.
    pub name: String,
}

impl UserName {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Checks Hadoop's default of
/// `yarn.nodemanager.linux-container-executor.nonsecure-mode.user-pattern`,
/// `^[_.A-Za-z0-9][-@_.A-Za-z0-9]{0,255}?[$]?$`, and the length limit of a folder's name.
fn is_safe(name: &str) -> bool {
    let body = name.strip_suffix('$').unwrap_or(name);
    let mut bytes = body.bytes();
    let first = bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphanumeric() || b"_.".contains(&b));
    first
        && bytes.all(|b| b.is_ascii_alphanumeric() || b"-@_.".contains(&b))
        && name.len() <= LENGTH_MAX
        && name != "."
        && name != ".."
}

impl FromStr for UserName {
    type Err = InvalidUserName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        if is_safe(name) {
            Ok(Self(name.into()))
        } else {
            // A peer chooses this text; 64 characters identify it.
            let name = name.chars().take(64).collect();
            Err(InvalidUserName { name })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_hadoop_takes_are_taken() {
        for name in [
            "joe",
            "_svc",
            ".hidden",
            "joe@EXAMPLE.COM",
            "host$",
            "a-b_c.d9",
        ] {
            assert!(name.parse::<UserName>().is_ok(), "{name}");
        }
    }

    #[test]
    fn names_that_would_leave_or_confuse_the_path_are_refused() {
        let long = "a".repeat(256);
        for name in [
            "", ".", "..", "/", "a/b", "../x", "-x", "$", "a$b", "a b", "a\0b", "a\n", "jö", &long,
        ] {
            assert!(name.parse::<UserName>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_huge_name_is_not_kept_in_the_error() {
        let error = "/".repeat(1 << 20).parse::<UserName>().unwrap_err();
        assert!(error.name.len() <= 64);
    }
}
