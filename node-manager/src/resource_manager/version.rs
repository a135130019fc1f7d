//! Is the ResourceManager new enough? Hadoop's order of version texts
//! (`VersionUtil.compareVersions`), for releases. Pure.

use std::cmp::Ordering;

use crate::config::MinimumVersion;

/// The version that a ResourceManager of version `found` falls short of; `None` when it is good
/// enough. `own`: what this node registers with.
#[must_use]
pub(super) fn missing(minimum: &MinimumVersion, own: &str, found: &str) -> Option<String> {
    let wanted = match minimum {
        MinimumVersion::None => return None,
        MinimumVersion::EqualToNm => own,
        MinimumVersion::AtLeast(version) => version,
    };
    (compare(found, wanted) == Ordering::Less).then(|| wanted.to_owned())
}

/// By the numbers between the dots, a missing one counting as 0; a `-SNAPSHOT` comes before its
/// release. Other suffixes, which vendors add, do not count.
fn compare(left: &str, right: &str) -> Ordering {
    let (left, left_suffix) = left.split_once('-').unwrap_or((left, ""));
    let (right, right_suffix) = right.split_once('-').unwrap_or((right, ""));
    let numbers = |text: &str| -> Vec<u64> {
        // What is no number comes before every release, as in Hadoop a qualifier does.
        text.split('.')
            .map(|part| part.parse().unwrap_or(0))
            .collect()
    };
    let (mut left, mut right) = (numbers(left), numbers(right));
    let length = left.len().max(right.len());
    left.resize(length, 0);
    right.resize(length, 0);
    let released = |suffix: &str| !suffix.starts_with("SNAPSHOT");
    left.cmp(&right)
        .then(released(left_suffix).cmp(&released(right_suffix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        for (left, right, order) in [
            ("3.4.2", "3.4.2", Ordering::Equal),
            ("3.4", "3.4.0", Ordering::Equal),
            ("3.4.2", "3.4.10", Ordering::Less),
            ("3.10.0", "3.9.9", Ordering::Greater),
            ("3.4.2-SNAPSHOT", "3.4.2", Ordering::Less),
            ("3.4.2-SNAPSHOT", "3.4.1", Ordering::Greater),
            ("3.4.2-vendor7", "3.4.2", Ordering::Equal),
            ("", "3.4.2", Ordering::Less),
        ] {
            assert_eq!(compare(left, right), order, "{left} and {right}");
        }
    }

    #[test]
    fn a_resource_manager_falls_short_only_of_a_configured_version() {
        let at_least = MinimumVersion::AtLeast("3.5.0".to_owned());
        assert_eq!(missing(&MinimumVersion::None, "3.4.2", ""), None);
        assert_eq!(
            missing(&MinimumVersion::EqualToNm, "3.4.2", "3.4.1"),
            Some("3.4.2".to_owned())
        );
        assert_eq!(missing(&MinimumVersion::EqualToNm, "3.4.2", "3.4.3"), None);
        assert_eq!(
            missing(&at_least, "3.4.2", "3.4.9"),
            Some("3.5.0".to_owned())
        );
    }
}
