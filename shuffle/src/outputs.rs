//! Files of map outputs, found below the folders of the right application.
//!
//! Containers own these folders and may put anything into them, so a file is opened by single names
//! from an open directory: no link is followed and no mount is crossed on the way.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dir_handle::DirHandle;

/// Name of a map output.
pub(crate) const DATA: &str = "file.out";

/// Name of the index beside it.
pub(crate) const INDEX: &str = "file.out.index";

/// Folder of a job's map outputs on one local directory:
/// `usercache/USER/appcache/APP/output` below `root`.
#[derive(Clone, Debug)]
pub struct OutputFolder {
    /// Handle of the local directory.
    pub root: Arc<DirHandle>,
    /// Path of the folder below it. The folder need not exist yet.
    pub below: PathBuf,
}

/// Name of a map output's folder: an attempt's id, to which Tez adds suffixes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MapId(Box<str>);

impl MapId {
    /// Takes letters, digits and `_` only: one component of a path, whatever it is joined with.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let valid = (1..=255).contains(&text.len()) && text.bytes().all(good);
        valid.then(|| Self(text.into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// File of a map that is in none of the folders. The text is Hadoop's, for people who search for
/// it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotFound {
    path: PathBuf,
}

impl NotFound {
    pub(crate) fn new(folders: &[OutputFolder], map: &str, name: &str) -> Self {
        let below = folders
            .first()
            .map_or(Path::new(""), |folder| &folder.below);
        // Not `join`, which an absolute text would replace.
        let path = format!("{}/{map}/{name}", below.display());
        Self { path: path.into() }
    }
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        write!(f, "Could not find {path} in any of the directories")
    }
}

/// Opens a file of a map in the first folder that has it.
pub(crate) fn open(folders: &[OutputFolder], map: &MapId, name: &str) -> Result<File, NotFound> {
    let open = |folder: &OutputFolder| {
        let directory = folder.root.open_beneath(&folder.below.join(map.as_str()));
        directory.and_then(|directory| directory.open_regular(name))
    };
    let mut opened = folders.iter().filter_map(|folder| open(folder).ok());
    let file = opened.next();
    file.ok_or_else(|| NotFound::new(folders, map.as_str(), name))
}
