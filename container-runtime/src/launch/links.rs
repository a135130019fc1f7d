//! Links to localized resources in a container's work directory: which ones, made by the agent, and
//! taken away before a relaunch.
//!
//! The script has a line for each link all the same; it runs `ln` only where the agent made none.
//! A link costs the agent two system calls and the script a process. The names are chosen by the
//! AM and the directories belong to the container's user, so no link on the way is followed.

use std::io;
use std::path::{Path, PathBuf};

use dir_handle::DirHandle;

use super::LINKS_MAX;
use super::context::{LAUNCH_SCRIPT, Link, PlanError, excerpt};
use super::environment::is_literal;

/// A link in the work directory: checked and without `*`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ResolvedLink {
    /// Relative to the work directory, made of names only.
    pub(super) link: String,
    /// Absolute path of the resource.
    pub(super) target: PathBuf,
}

impl ResolvedLink {
    /// Returns the folder of the link, relative to the work directory, and its name there. The
    /// folder is empty for a link in the work directory itself.
    pub(super) fn place(&self) -> (&str, &str) {
        self.link.rsplit_once('/').unwrap_or(("", &self.link))
    }

    /// Returns whether only the script can make the link: bash expands the texts between double
    /// quotes, or the link takes the place of the script itself.
    fn needs_bash(&self) -> bool {
        let is_literal = is_literal(&self.link) && self.target.to_str().is_some_and(is_literal);
        !is_literal || self.link == LAUNCH_SCRIPT
    }
}

/// Checks links and replaces those ending in `*` by one for each entry that `entries` finds in the
/// target (Hadoop: `ContainerExecutor.resolveSymLinks`: such links lie in the work directory
/// itself, whatever stands before the `*`).
pub(super) fn resolve_links<E: From<PlanError>>(
    links: &[Link],
    mut entries: impl FnMut(&Path) -> Result<Vec<String>, E>,
) -> Result<Vec<ResolvedLink>, E> {
    check_link_count(links.len())?;
    let mut resolved = Vec::with_capacity(links.len());
    for Link { link, target } in links {
        if !target.is_absolute() {
            return Err(PlanError::LinkTarget {
                target: target.clone(),
            }
            .into());
        }
        let link = normalize_link(link)?;
        if link.rsplit('/').next() == Some("*") {
            let names = entries(target)?;
            check_link_count(resolved.len().saturating_add(names.len()))?;
            resolved.extend(names.into_iter().map(|name| ResolvedLink {
                target: target.join(&name),
                link: name,
            }));
        } else {
            resolved.push(ResolvedLink {
                link,
                target: target.clone(),
            });
        }
    }
    check_link_count(resolved.len())?;
    Ok(resolved)
}

fn check_link_count(count: usize) -> Result<(), PlanError> {
    if count > LINKS_MAX {
        return Err(PlanError::TooManyLinks {
            count,
            max: LINKS_MAX,
        });
    }
    Ok(())
}

/// A link's name without empty and `.` components.
fn normalize_link(link: &str) -> Result<String, PlanError> {
    let refuse = || PlanError::LinkName {
        link: excerpt(link),
    };
    if link.starts_with('/') || link.contains('\0') || link.split('/').any(|part| part == "..") {
        return Err(refuse());
    }
    let parts: Vec<_> = link
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    if parts.is_empty() {
        return Err(refuse());
    }
    Ok(parts.join("/"))
}

/// Makes links in their order, up to the first that fails or needs bash, and returns the number
/// made. The script makes the others, so that a failure shows as it does in Hadoop.
pub(super) fn make_links(work_dir: &DirHandle, links: &[ResolvedLink]) -> usize {
    let end = links.iter().position(ResolvedLink::needs_bash);
    let links = end.and_then(|end| links.get(..end)).unwrap_or(links);
    let mut made = 0;
    for group in links.chunk_by(|one, next| one.place().0 == next.place().0) {
        let result = make_in_one_folder(work_dir, group, &mut made);
        if let Err(error) = result {
            tracing::debug!(%error, made, "the script makes the other links");
            break;
        }
    }
    made
}

/// Makes links of the same folder, and the folder with the permissions that `mkdir -p` would set.
fn make_in_one_folder(
    work_dir: &DirHandle,
    links: &[ResolvedLink],
    made: &mut usize,
) -> io::Result<()> {
    let mut folder = work_dir.try_clone()?;
    let path = links.first().map_or("", |link| link.place().0);
    for name in path.split('/').filter(|name| !name.is_empty()) {
        folder = folder.ensure_with_umask(name)?;
    }
    for link in links {
        folder.symlink(link.target.as_os_str(), link.place().1)?;
        *made += 1;
    }
    Ok(())
}

/// Makes one link, whatever bash would make of its name.
pub(super) fn make_link(work_dir: &DirHandle, link: &ResolvedLink) -> io::Result<()> {
    make_in_one_folder(work_dir, std::slice::from_ref(link), &mut 0)
}

/// Takes the links of an earlier launch away: `ln -sf` onto a link to a directory would make its
/// link inside. What cannot be taken away is left for `ln` to complain about.
pub(super) fn remove_links(work_dir: &DirHandle, links: &[ResolvedLink]) {
    for link in links {
        let (folder, name) = link.place();
        let removed = match folder {
            "" => work_dir.unlink(name),
            _ => work_dir
                .open_beneath(Path::new(folder))
                .and_then(|folder| folder.unlink(name)),
        };
        if let Err(error) = removed
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(%error, link = link.link, "an earlier link stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn no_entries(_: &Path) -> Result<Vec<String>, PlanError> {
        Ok(Vec::new())
    }

    fn link(link: &str, target: &str) -> Link {
        Link {
            link: link.to_owned(),
            target: PathBuf::from(target),
        }
    }

    #[test]
    fn links_outside_the_work_directory_are_refused() {
        for name in [
            "",
            "/",
            "/etc/x",
            "../x",
            "a/../../x",
            "a/..",
            "..",
            ".",
            "./",
            "a\0b",
        ] {
            let result = resolve_links(&[link(name, "/t")], no_entries);
            assert!(
                matches!(result, Err(PlanError::LinkName { .. })),
                "{name:?} gave {result:?}"
            );
        }
    }

    #[test]
    fn dots_in_link_names_are_names() {
        let resolved = resolve_links(&[link("./..a/b../.c", "/t")], no_entries).unwrap();
        assert_eq!(resolved[0].link, "..a/b../.c");
    }

    #[test]
    fn relative_targets_are_refused() {
        let result = resolve_links(&[link("a", "t")], no_entries);
        assert!(matches!(result, Err(PlanError::LinkTarget { .. })));
    }

    #[test]
    fn more_links_than_a_script_should_make_are_refused() {
        let entries = |_: &Path| Ok::<_, PlanError>(vec!["x".to_owned(); LINKS_MAX]);
        let result = resolve_links(&[link("a", "/t"), link("*", "/t")], entries);
        assert!(matches!(result, Err(PlanError::TooManyLinks { .. })));
    }

    /// A work directory and its handle.
    fn work_dir() -> (tempfile::TempDir, DirHandle) {
        let folder = tempfile::tempdir().unwrap();
        let handle = DirHandle::open_ambient(folder.path()).unwrap();
        (folder, handle)
    }

    fn resolved(names: &[&str]) -> Vec<ResolvedLink> {
        let resolved = names.iter().map(|name| ResolvedLink {
            link: (*name).to_owned(),
            target: PathBuf::from("/t"),
        });
        resolved.collect()
    }

    #[test]
    fn links_and_their_folders_are_made_with_the_permissions_that_the_umask_leaves() {
        let (folder, handle) = work_dir();
        let links = resolved(&["a", "x/y/b", "x/y/c", "d"]);
        assert_eq!(make_links(&handle, &links), links.len());
        for ResolvedLink { link, target } in &links {
            assert_eq!(
                &std::fs::read_link(folder.path().join(link)).unwrap(),
                target
            );
        }
        std::fs::create_dir(folder.path().join("by-umask")).unwrap();
        let mode = |name: &str| {
            folder
                .path()
                .join(name)
                .metadata()
                .unwrap()
                .permissions()
                .mode()
        };
        assert_eq!(mode("x/y"), mode("by-umask"));
    }

    #[test]
    fn a_link_that_only_bash_can_make_leaves_the_rest_to_the_script() {
        for name in [
            "$USER",
            "`id`",
            "a\\b",
            "\"",
            "launch_container.sh",
            "a",
            "$X/b",
        ] {
            let (folder, handle) = work_dir();
            assert_eq!(
                make_links(&handle, &resolved(&["a", name, "c"])),
                1,
                "{name}"
            );
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        }
        let (_folder, handle) = work_dir();
        let mut links = resolved(&["a", "b"]);
        links[1].target = PathBuf::from("/$USER");
        assert_eq!(make_links(&handle, &links), 1);
    }

    #[test]
    fn no_link_is_made_behind_another() {
        let (folder, handle) = work_dir();
        let outside = tempfile::tempdir().unwrap();
        symlink(outside.path(), folder.path().join("planted")).unwrap();
        for link in ["planted/a", "planted/b/c", "planted"] {
            assert_eq!(make_links(&handle, &resolved(&[link])), 0, "{link}");
        }
        std::fs::write(outside.path().join("a"), "kept").unwrap();
        remove_links(&handle, &resolved(&["planted/a"]));
        assert!(outside.path().join("a").exists());
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    }
}
