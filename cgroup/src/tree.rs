//! A cgroup and the cgroups that its processes made inside it, as many and as deep as they liked: one directory of them is
//! open at a time, and the way back is `..`.

use crate::dir::Dir;
use crate::error::CgroupError;

/// Names of cgroups that are remembered at a time, to be looked into. The kernel itself has no more than so many with a
/// memory controller; what is beyond is seen when some of these are gone.
const NAMES_MAX: usize = 65_536;
/// Names that are read of a directory before those are removed.
const BATCH: usize = 256;

/// Looks into a directory and all below it, each before what is in it. What is gone meanwhile is passed over.
pub(crate) fn visit(
    top: &Dir,
    name: &str,
    mut look: impl FnMut(&Dir) -> Result<(), CgroupError>,
) -> Result<(), CgroupError> {
    let Some(mut here) = there(top.open_dir(name))? else {
        return Ok(());
    };
    look(&here)?;
    let mut remembered = 0;
    let mut levels = vec![here.directories(NAMES_MAX)?];
    while let Some(siblings) = levels.last_mut() {
        if let Some(name) = siblings.pop() {
            let Some(child) = there(here.open_dir(&name))? else {
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
            let Some(parent) = there(here.parent())? else {
                break;
            };
            here = parent;
        }
    }
    Ok(())
}

/// Removes a directory and all below it, the deepest first. Fine if it is not there.
///
/// # Errors
/// `EBUSY` at the first that somebody is in.
pub(crate) fn remove(top: &Dir, name: &str) -> Result<(), CgroupError> {
    // Most have nothing inside.
    match top.remove(name) {
        Err(error) if is_not_empty(&error) => {}
        result => return result,
    }
    let Some(mut here) = there(top.open_dir(name))? else {
        return Ok(());
    };
    let mut names: Vec<String> = Vec::new();
    loop {
        if let Some(inside) = first_not_empty(&here)? {
            let Some(child) = there(here.open_dir(&inside))? else {
                continue;
            };
            here = child;
            names.push(inside);
        } else if let Some(name) = names.pop() {
            // Nothing is left in it. If it cannot be removed now, somebody is in it.
            here = here.parent()?;
            here.remove(&name)?;
        } else {
            return top.remove(name);
        }
    }
}

/// Removes what can be removed at once. The first that cannot; `None`: nothing is left.
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

/// Cgroups say `EBUSY`, whether processes or cgroups are inside; ordinary directories, in tests, the other.
fn is_not_empty(error: &CgroupError) -> bool {
    matches!(error.errno(), Some(libc::EBUSY | libc::ENOTEMPTY))
}

fn there<T>(result: Result<T, CgroupError>) -> Result<Option<T>, CgroupError> {
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
        // Nothing is there any more, and nothing is wrong with that.
        remove(&top, "t").unwrap();
        visit(&top, "t", |_| panic!("there is nothing")).unwrap();
    }
}
