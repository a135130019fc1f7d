//! The text of `directory.info`: what `ls -l` and two `find`s in Hadoop's script print.
//!
//! Entries are read by directory handle. Links are followed only to the container's own resources.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use dir_handle::{FileKind, FileStatus};
use time::OffsetDateTime;

use crate::launch::files::Directory;
use crate::launch::links::ResolvedLink;

/// Maximum depth, that of `find -maxdepth 5`.
const DEPTH_MAX: usize = 5;
/// Lines of a listing.
const ENTRIES_MAX: usize = 2_000;

/// Sizes that most listings and columns do not exceed.
const TEXT_BYTES: usize = 1_000;
const COLUMNS_BYTES: usize = 64;

/// Lists a work directory, whose `links` the container was given.
pub(super) fn listing(links: &[ResolvedLink], work_dir: Directory) -> String {
    let mut lister = Lister {
        targets: links.iter().map(|link| link.target.as_path()).collect(),
        entries_left: ENTRIES_MAX,
    };
    let mut text = String::with_capacity(TEXT_BYTES);
    text.push_str("ls -l:\n");
    let entries = lister.entries(&work_dir);
    for entry in &entries {
        text.push_str(&entry.columns);
        append_name(&mut text, Path::new(&entry.name), entry.target.as_deref());
    }
    text.push_str("find -L . -maxdepth 5 -ls:\n");
    let broken = lister.list_tree(work_dir, entries, &mut text);
    text.push_str("broken symlinks(find -L . -maxdepth 5 -type l -ls):\n");
    text.push_str(&broken);
    if lister.entries_left == 0 {
        append(
            &mut text,
            format_args!("(cut after {ENTRIES_MAX} entries)\n"),
        );
    }
    text
}

fn append(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments)
        .expect("writing to a String cannot fail");
}

struct Lister<'a> {
    /// Links to these are followed.
    targets: BTreeSet<&'a Path>,
    entries_left: usize,
}

/// An entry of a directory, itself and not what it may link to.
struct Entry {
    name: OsString,
    status: FileStatus,
    /// Text of the status: a line of the first directory has it twice.
    columns: String,
    /// Target of a symbolic link; `None` for other files.
    target: Option<PathBuf>,
}

/// A directory that is still to be listed.
struct Pending {
    base: Rc<Directory>,
    /// Relative to `base`.
    path: PathBuf,
    shown: PathBuf,
    depth: usize,
}

impl Lister<'_> {
    /// Returns the entries of a directory, by name; an unreadable one has none.
    fn entries(&mut self, directory: &Directory) -> Vec<Entry> {
        let handle = directory.handle();
        let Ok(names) = directory.names_alone() else {
            return Vec::new();
        };
        let mut entries: Vec<_> = names
            .take(self.entries_left)
            .filter_map(|name| {
                let name = name.ok()?;
                let status = handle.status(&name).ok()?;
                let is_link = status.kind == FileKind::Link;
                let target = is_link.then(|| handle.read_link(&name).ok()).flatten();
                Some(Entry {
                    target: target.map(PathBuf::from),
                    columns: columns(&status),
                    status,
                    name,
                })
            })
            .collect();
        self.entries_left -= entries.len();
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        entries
    }

    /// Does the same as `find -L . -maxdepth 5 -ls`, one directory after the other; `entries` are
    /// those of the first. Returns the lines of broken links.
    fn list_tree(
        &mut self,
        work_dir: Directory,
        mut entries: Vec<Entry>,
        text: &mut String,
    ) -> String {
        entries.truncate(self.entries_left);
        self.entries_left -= entries.len();
        let mut broken = String::new();
        let mut directory = Pending {
            base: Rc::new(work_dir),
            path: PathBuf::from("."),
            shown: PathBuf::from("."),
            depth: 1,
        };
        let mut pending = VecDeque::new();
        loop {
            for entry in entries {
                let shown = directory.shown.join(&entry.name);
                let followed = self.follow(&entry);
                let from = text.len();
                append_line(text, &shown, &entry, followed.as_ref());
                if is_broken(&entry) {
                    broken.push_str(&text[from..]);
                }
                if directory.depth == DEPTH_MAX {
                    continue;
                }
                let (base, path) = if let Some((target, status)) = followed {
                    let is_folder = status.kind == FileKind::Directory;
                    let base = is_folder.then(|| Directory::of_resource(&target).ok());
                    let Some(base) = base.flatten() else {
                        continue;
                    };
                    (Rc::new(base), PathBuf::from("."))
                } else if entry.status.kind == FileKind::Directory {
                    (Rc::clone(&directory.base), directory.path.join(&entry.name))
                } else {
                    continue;
                };
                pending.push_back(Pending {
                    base,
                    path,
                    shown,
                    depth: directory.depth + 1,
                });
            }
            let Some(next) = pending.pop_front() else {
                return broken;
            };
            directory = next;
            let opened = directory.base.open_beneath(&directory.path);
            entries = opened.map_or_else(|_unreadable| Vec::new(), |opened| self.entries(&opened));
        }
    }

    /// Returns the target of a link to a resource of the container; `None` for other entries.
    fn follow(&self, entry: &Entry) -> Option<(PathBuf, FileStatus)> {
        let target = entry.target.as_ref()?;
        if !self.targets.contains(target.as_path()) {
            return None;
        }
        let status = FileStatus::from(&target.symlink_metadata().ok()?);
        (status.kind != FileKind::Link).then(|| (target.clone(), status))
    }
}

/// Returns whether a link's target is missing. Relative targets count as present: they are
/// the container's own.
fn is_broken(entry: &Entry) -> bool {
    let target = entry.target.as_deref().filter(|t| t.is_absolute());
    target.is_some_and(|target| target.symlink_metadata().is_err())
}

fn append_line(
    text: &mut String,
    shown: &Path,
    entry: &Entry,
    followed: Option<&(PathBuf, FileStatus)>,
) {
    let status = followed.map_or(&entry.status, |(_, status)| status);
    let (inode, kib) = (status.inode, status.blocks.div_ceil(2));
    append(text, format_args!("{inode:>9} {kib:>6} "));
    match followed {
        Some((_, status)) => text.push_str(&columns(status)),
        None => text.push_str(&entry.columns),
    }
    let target = entry.target.as_deref().filter(|_| followed.is_none());
    append_name(text, shown, target);
}

fn append_name(text: &mut String, shown: &Path, target: Option<&Path>) {
    text.push_str(&shown.to_string_lossy());
    if let Some(target) = target {
        text.push_str(" -> ");
        text.push_str(&target.to_string_lossy());
    }
    text.push('\n');
}

/// Returns mode, links, owner, group, size and time of last change.
fn columns(status: &FileStatus) -> String {
    let mut text = String::with_capacity(COLUMNS_BYTES);
    text.extend(mode(status));
    append(
        &mut text,
        format_args!(
            " {:>3} {:>5} {:>5} {:>11} ",
            status.links, status.owner, status.group, status.length
        ),
    );
    if let Ok(time) = OffsetDateTime::from_unix_timestamp(status.modified_s) {
        let (year, month, day) = time.to_calendar_date();
        let (month, hour, minute) = (u8::from(month), time.hour(), time.minute());
        append(
            &mut text,
            format_args!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}Z"),
        );
    }
    text.push(' ');
    text
}

/// Returns the mode in the form of `ls`, without the special bits.
fn mode(status: &FileStatus) -> impl Iterator<Item = char> {
    let kind = match status.kind {
        FileKind::Directory => 'd',
        FileKind::Link => 'l',
        FileKind::File => '-',
        FileKind::Special => '?',
    };
    let bits = (0..9).rev().zip("rwx".chars().cycle());
    let mode_bits = status.mode_bits;
    let bits = bits.map(move |(bit, letter)| {
        if mode_bits >> bit & 1 == 1 {
            letter
        } else {
            '-'
        }
    });
    std::iter::once(kind).chain(bits)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::DebugJob;
    use super::super::tests::job;
    use super::*;

    fn listed(job: DebugJob) -> String {
        listing(&job.links, job.work_dir)
    }

    #[test]
    fn the_listing_shows_files_resources_and_broken_links() {
        let root = tempfile::tempdir().unwrap();
        let resource = root.path().join("resource");
        std::fs::create_dir(&resource).unwrap();
        std::fs::write(resource.join("inner.jar"), "x").unwrap();
        let (folders, job) = job(&[("lib", &resource)]);
        let work_dir = folders.dirs.work_dir.path();
        std::fs::write(work_dir.join("file"), "12345").unwrap();
        symlink(&resource, work_dir.join("lib")).unwrap();
        symlink("/nowhere", work_dir.join("broken")).unwrap();

        let text = listed(job);
        let (flat, rest) = text.split_once("find -L . -maxdepth 5 -ls:\n").unwrap();
        let (tree, broken) = rest.split_once("broken symlinks").unwrap();
        assert!(flat.starts_with("ls -l:\nlrwxrwxrwx"), "{flat}");
        assert!(
            flat.contains("          5 20")
                && flat.contains(&format!(" lib -> {}", resource.display()))
        );
        assert!(
            tree.contains(" ./lib/inner.jar\n") && tree.contains(" ./file\n"),
            "{tree}"
        );
        assert_eq!(broken.lines().count(), 2, "{broken}");
        assert!(broken.ends_with(" ./broken -> /nowhere\n"), "{broken}");
    }

    #[test]
    fn links_that_the_container_made_itself_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let secret = root.path().join("secret");
        std::fs::create_dir(&secret).unwrap();
        std::fs::write(secret.join("hidden"), "").unwrap();
        let (folders, job) = job(&[]);
        symlink(&secret, folders.dirs.work_dir.path().join("mine")).unwrap();
        let text = listed(job);
        assert!(!text.contains("hidden"), "{text}");
    }

    #[test]
    fn links_in_a_resource_are_listed_and_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let (secret, resource) = (root.path().join("secret"), root.path().join("resource"));
        for folder in [&secret, &resource] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(secret.join("hidden"), "").unwrap();
        symlink(&secret, resource.join("out")).unwrap();
        // Also where the launch has a link to each name in the resource.
        let (folders, job) = job(&[("lib", &resource), ("out", &resource.join("out"))]);
        let work_dir = folders.dirs.work_dir.path();
        symlink(&resource, work_dir.join("lib")).unwrap();
        symlink(resource.join("out"), work_dir.join("out")).unwrap();
        let text = listed(job);
        let shown = format!(" ./lib/out -> {}\n", secret.display());
        assert!(text.contains(&shown) && !text.contains("hidden"), "{text}");
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let (folders, first) = job(&[]);
        let work_dir = folders.dirs.work_dir.path();
        std::fs::create_dir_all(work_dir.join("1/2/3/4/5/6")).unwrap();
        let text = listed(first);
        assert!(
            text.contains("./1/2/3/4/5\n") && !text.contains("/6"),
            "{text}"
        );
        for n in 0..ENTRIES_MAX + 10 {
            std::fs::write(work_dir.join(format!("f{n}")), "").unwrap();
        }
        let text = listing(&[], Directory::of(&folders.dirs.work_dir).unwrap());
        assert!(text.lines().count() < ENTRIES_MAX + 10 && text.ends_with("entries)\n"));
    }
}
