//! A walk from the archive's folder to one below it, through links that stay inside.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

use dir_handle::{DirHandle, FileKind};

use super::{EntryFailure, PARTS_MAX};
use crate::error::RefusedEntry;

/// Limit on the links of one walk, which is the kernel's.
const LINKS_MAX: usize = 40;

/// Limit on the steps of one walk, those of links included.
const STEPS_MAX: usize = 1024;

/// Treatment of a folder that does not exist.
#[derive(Clone, Copy, Debug)]
pub(super) enum Missing {
    Created { mode: u32 },
    Refused,
}

/// Opens the folder that these parts name from `root`. No link is followed by the kernel, and `..`
/// of a link's target leads back the way that the walk came, so that no other process can lead it
/// out by changing a link or moving a folder.
pub(super) fn walk(
    root: &DirHandle,
    parts: &[&OsStr],
    missing: Missing,
) -> Result<DirHandle, EntryFailure> {
    let mut way: Vec<DirHandle> = Vec::new();
    // The next part is the last one of the list.
    let mut parts: Vec<OsString> = parts.iter().rev().map(|part| (*part).to_owned()).collect();
    let (mut links, mut steps) = (0, 0);
    while let Some(part) = parts.pop() {
        steps += 1;
        if steps > STEPS_MAX || way.len() > PARTS_MAX {
            return Err(RefusedEntry::TooDeep.into());
        }
        match part.as_bytes() {
            b"" | b"." => continue,
            b".." => {
                way.pop().ok_or(RefusedEntry::ThroughLink)?;
                continue;
            }
            _ => {}
        }
        let folder = way.last().unwrap_or(root);
        match folder.open(&part) {
            Ok(next) => way.push(next),
            Err(error) if error.kind() == io::ErrorKind::NotFound => match missing {
                Missing::Created { mode } => {
                    let next = folder.create(&part, mode)?;
                    way.push(next);
                }
                Missing::Refused => return Err(error.into()),
            },
            Err(error) => match folder.kind(&part)? {
                Some(FileKind::Link) => {
                    let target = folder.read_link(&part)?;
                    let target = target.as_bytes();
                    links += 1;
                    if target.starts_with(b"/") || links > LINKS_MAX {
                        return Err(RefusedEntry::ThroughLink.into());
                    }
                    let target = target.rsplit(|byte| *byte == b'/');
                    parts.extend(target.map(|part| OsStr::from_bytes(part).to_owned()));
                }
                Some(FileKind::File | FileKind::Special) => {
                    return Err(RefusedEntry::ThroughFile.into());
                }
                Some(FileKind::Directory) | None => return Err(error.into()),
            },
        }
    }
    match way.pop() {
        Some(folder) => Ok(folder),
        None => Ok(root.try_clone()?),
    }
}
