//! A cgroup and the cgroups that its processes made inside it, of any number and depth: one
//! directory is open at a time, and the way back is `..`.

use crate::dir::Dir;
use crate::error::CgroupError;

/// Limit on the names of cgroups remembered for a later visit. The kernel itself allows no more
/// with a memory controller; names beyond the limit are found once some of these are gone.
const NAMES_MAX: usize = 65_536;
/// Names read of a directory before their cgroups are removed.
const BATCH: usize = 256;

/// Visits a directory and all below it, each before its children. Directories removed meanwhile are
/// skipped.
pub(crate) fn visit(
    top: &Dir,
    name: &str,
    mut look: impl FnMut(&Dir) -> Result<(), CgroupError>,
) -> Result<(), CgroupError> {
    let Some(mut here) = if_exists(top.open_dir(name))? else {
        return Ok(());
    };
    look(&here)?;
    let mut remembered = 0;
    let mut levels = vec![here.directories(NAMES_MAX)?];
    while let Some(siblings) = levels.last_mut() {
        if let Some(name) = siblings.pop() {
            let Some(child) = if_exists(here.open_dir(&name))? else {
                continue;
            };
            here = child;
            look(&here)?;
            remembered += siblings.len();
            let below = here.directories(NAMES_MAX.saturating_sub(remembered))?;
            levels.push(below);
        } else {
            levels.pop();
            let Some(siblings) = levels.last() else {
                break;
            };
            remembered -= siblings.len();
            let Some(parent) = if_exists(here.parent())? else {
                break;
            };
            here = parent;
        }
    }
    Ok(())
}

/// Removes a directory and all below it, the deepest first. A missing directory is no error.
///
/// # Errors
/// `EBUSY` at the first one that holds a process.
pub(crate) fn remove(top: &Dir, name: &str) -> Result<(), CgroupError> {
    // Most cgroups have none inside.
    match top.remove(name) {
        Err(error) if is_not_empty(&error) => {}
        result => return result,
    }
    let Some(mut here) = if_exists(top.open_dir(name))? else {
        return Ok(());
    };
    let mut names: Vec<String> = Vec::new();
    loop {
        if let Some(inside) = first_not_empty(&here)? {
            let Some(child) = if_exists(here.open_dir(&inside))? else {
                continue;
            };
            here = child;
            names.push(inside);
        } else if let Some(name) = names.pop() {
            // The directory has no children left. If it still cannot be removed, it holds a
            // process.
            here = here.parent()?;
            here.remove(&name)?;
        } else {
            return top.remove(name);
        }
    }
}

/// Removes children until one has children itself, and returns that one; `None` if no child is
/// left.
fn first_not_empty(here: &Dir) -> Result<Option<String>, CgroupError> {
    loop {
        let batch = here.directories(BATCH)?;
        if batch.is_empty() {
            return Ok(None);
        }
        for name in batch {
            match here.remove(&name) {
                Ok(()) => {}
                Err(error) if is_not_empty(&error) => return Ok(Some(name)),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns whether a removal failed because the directory has children. A cgroup reports `EBUSY`,
/// for processes and child cgroups alike; ordinary directories, in tests, report `ENOTEMPTY`.
fn is_not_empty(error: &CgroupError) -> bool {
    matches!(error.errno(), Some(libc::EBUSY | libc::ENOTEMPTY))
}

fn if_exists<T>(result: Result<T, CgroupError>) -> Result<Option<T>, CgroupError> {
    match result {
        Ok(it) => Ok(Some(it)),
        Err(error) if error.errno() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_directory_is_seen_once_and_all_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let top = Dir::open(folder.path()).unwrap();
        let mut made = vec!["t".to_owned()];
        for wide in 0..20 {
            made.push(format!("t/{wide}"));
            let deep = (0..wide).map(|depth| format!("t/{wide}{}", "/d".repeat(depth + 1)));
            made.extend(deep);
        }
        for path in &made {
            fs::create_dir(folder.path().join(path)).unwrap();
        }
        made.sort();
        let mut seen = Vec::new();
        visit(&top, "t", |dir| {
            let below = dir.path().strip_prefix(folder.path()).unwrap();
            seen.push(below.display().to_string());
            Ok(())
        })
        .unwrap();
        seen.sort();
        assert_eq!(seen, made);
        remove(&top, "t").unwrap();
        assert!(!folder.path().join("t").exists());
        // Removing and visiting a missing directory succeed.
        remove(&top, "t").unwrap();
        visit(&top, "t", |_| panic!("there is nothing")).unwrap();
    }
}
