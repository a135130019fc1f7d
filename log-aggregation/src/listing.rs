//! Entries of a folder in order, a part at a time, so that a folder of any size takes the memory of
//! a part.

use std::collections::BTreeSet;

use dir_handle::DirHandle;

/// Returns the first entries after `after`, at most `count`, as `read` makes them of names; `None`
/// from it leaves a name out. Fewer than `count`: there are no more. A folder that cannot be listed
/// has none.
pub(crate) fn next_entries<T: Ord + Clone>(
    folder: &DirHandle,
    after: Option<&T>,
    count: usize,
    read: impl Fn(&str) -> Option<T>,
) -> Vec<T> {
    let mut first = BTreeSet::new();
    let names = folder.names().into_iter().flatten();
    for name in names.map_while(Result::ok) {
        let Some(entry) = name.to_str().and_then(&read) else {
            continue;
        };
        if after.is_some_and(|after| entry <= *after) {
            continue;
        }
        first.insert(entry);
        if first.len() > count {
            first.pop_last();
        }
    }
    first.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_folder_are_all_of_it_in_order() {
        let base = tempfile::tempdir().unwrap();
        for number in 0..25 {
            std::fs::write(base.path().join(format!("{number:02}")), "").unwrap();
        }
        let folder = DirHandle::open_ambient(base.path()).unwrap();
        let read = |name: &str| (name != "13").then(|| name.to_owned());
        let mut found: Vec<String> = Vec::new();
        let mut sizes = Vec::new();
        loop {
            let part = next_entries(&folder, found.last(), 10, read);
            sizes.push(part.len());
            found.extend(part);
            if sizes.last() != Some(&10) {
                break;
            }
        }
        let all = (0..25).filter(|number| *number != 13);
        assert_eq!(
            found,
            all.map(|number| format!("{number:02}")).collect::<Vec<_>>()
        );
        assert_eq!(sizes, [10, 10, 4]);
    }
}
