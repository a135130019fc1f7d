//! Suggestions for names that no program reads.

use crate::KeyTable;

/// Longest name that is compared, in bytes: no real one is longer, and the cost is quadratic.
const NAME_BYTES_MAX: usize = 160;

/// Returns the name in a table that is nearest to `name`, if one is near enough to be meant.
#[must_use]
pub fn suggest(table: &KeyTable, name: &str) -> Option<&'static str> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    // Only the part after the common prefix counts: two wrong letters in a short name are a
    // different word.
    let short = name.strip_prefix("yarn.nodemanager.").unwrap_or(name);
    let limit = (short.len() / 5).clamp(1, 6);
    let known = table.all().map(|key| key.name);
    let own = known.filter(|known| known.starts_with("yarn."));
    let scored = own.filter_map(|known| {
        let close = known.len().abs_diff(name.len()) <= limit;
        let distance = close.then(|| distance(name, known))?;
        (distance <= limit).then_some((distance, known))
    });
    scored.min().map(|(_, known)| known)
}

/// Returns the number of insertions, deletions, replacements and swaps of neighbours between two
/// names.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best = (above[j] + usize::from(x != y))
                .min(above[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DefaultSource, Key, KeyClass, Unit, key};

    const fn own(name: &'static str) -> Key {
        key(
            KeyClass::Honoured,
            DefaultSource::YarnDefault,
            name,
            None,
            Unit::Text,
        )
    }

    const TABLE: KeyTable = KeyTable {
        keys: &[&[
            own("yarn.nodemanager.local-dirs"),
            own("yarn.nodemanager.resource.memory-mb"),
            own("yarn.nodemanager.address"),
            own("yarn.nodemanager.opportunistic-containers-max-queue-length"),
            own("yarn.nodemanager.vmem-pmem-ratio"),
        ]],
        families: &[],
        lenient: &[],
        guards: &[],
        own_prefix: None,
    };

    #[test]
    fn typing_errors_find_what_was_meant() {
        for (written, meant) in [
            ("yarn.nodemanager.local-dir", "yarn.nodemanager.local-dirs"),
            (
                "yarn.nodemanager.resource.memory.mb",
                "yarn.nodemanager.resource.memory-mb",
            ),
            ("yarn.nodemanager.adress", "yarn.nodemanager.address"),
            (
                "yarn.nodemanager.opportunistic-container-max-queue-length",
                "yarn.nodemanager.opportunistic-containers-max-queue-length",
            ),
            (
                "yarn.nodemanager.vmem-pmem-raito",
                "yarn.nodemanager.vmem-pmem-ratio",
            ),
        ] {
            assert_eq!(suggest(&TABLE, written), Some(meant), "{written}");
        }
    }

    #[test]
    fn names_like_no_other_get_no_suggestion() {
        assert_eq!(suggest(&TABLE, "yarn.nodemanager.banana"), None);
        assert_eq!(suggest(&TABLE, &"yarn.nodemanager.x".repeat(1000)), None);
    }

    #[test]
    fn a_swap_counts_once() {
        assert_eq!(distance("raito", "ratio"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
