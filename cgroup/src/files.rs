//! The control files of one cgroup: one directory in each hierarchy that is used.

use std::sync::Arc;

use crate::dir::Dir;
use crate::error::CgroupError;
use crate::layout::Controller;

/// Version of a hierarchy. Decides the names and formats of its control files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    V1,
    V2,
}

/// An open directory of one hierarchy and the controllers that work there.
#[derive(Debug)]
pub(crate) struct HierarchyDir {
    pub(crate) kind: Kind,
    /// Controllers usable here. On `V2` those enabled for children of this directory; freezing and
    /// CPU accounting need none there.
    pub(crate) controllers: Vec<Controller>,
    pub(crate) dir: Dir,
}

impl HierarchyDir {
    fn has(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }
}

/// The directories of one cgroup that stays open, such as a parent's; the unified hierarchy's
/// first.
pub(crate) type HierarchyDirs = Arc<[HierarchyDir]>;

/// A view of one cgroup's files in all its hierarchies: in the open directories themselves, or in a
/// subdirectory of each.
#[derive(Clone, Copy)]
pub(crate) struct Files<'a> {
    dirs: &'a [HierarchyDir],
    /// Name of the cgroup below `dirs`; `""` for the open directories themselves.
    below: &'a str,
}

/// The control files of a cgroup in one hierarchy.
#[derive(Clone, Copy)]
pub(crate) struct ControlDir<'a> {
    pub(crate) kind: Kind,
    controllers: &'a [Controller],
    dir: &'a Dir,
    below: &'a str,
}

impl<'a> Files<'a> {
    pub(crate) fn of(dirs: &'a [HierarchyDir]) -> Self {
        Self { dirs, below: "" }
    }

    pub(crate) fn below(dirs: &'a [HierarchyDir], name: &'a str) -> Self {
        Self { dirs, below: name }
    }

    fn folder(self, dir: &'a HierarchyDir) -> ControlDir<'a> {
        ControlDir {
            kind: dir.kind,
            controllers: &dir.controllers,
            dir: &dir.dir,
            below: self.below,
        }
    }

    /// Returns the directory in the hierarchy of a controller, if that controller is usable.
    pub(crate) fn controller(self, controller: Controller) -> Option<ControlDir<'a>> {
        let dir = self.dirs.iter().find(|dir| dir.has(controller))?;
        Some(self.folder(dir))
    }

    /// Returns the directory in the unified hierarchy, whether or not it has controllers.
    pub(crate) fn unified(self) -> Option<ControlDir<'a>> {
        let dir = self.dirs.iter().find(|dir| dir.kind == Kind::V2)?;
        Some(self.folder(dir))
    }

    /// Returns the directories in all hierarchies, the unified one first.
    pub(crate) fn all(self) -> impl Iterator<Item = ControlDir<'a>> {
        self.dirs.iter().map(move |dir| self.folder(dir))
    }
}

impl<'a> ControlDir<'a> {
    /// Returns the file's path relative to the open directory.
    fn at(&self, file: &str) -> String {
        if self.below.is_empty() {
            file.to_owned()
        } else {
            format!("{}/{file}", self.below)
        }
    }

    /// Returns whether a controller is usable in this hierarchy.
    pub(crate) fn controls(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }

    pub(crate) fn dir(&self) -> &'a Dir {
        self.dir
    }

    pub(crate) fn has(&self, file: &str) -> bool {
        self.dir.has(&self.at(file))
    }

    pub(crate) fn read(&self, file: &str) -> Result<String, CgroupError> {
        self.dir.read(&self.at(file))
    }

    pub(crate) fn read_if_there(&self, file: &str) -> Result<Option<String>, CgroupError> {
        self.dir.read_if_there(&self.at(file))
    }

    pub(crate) fn open(&self, file: &str) -> Result<std::fs::File, CgroupError> {
        self.dir.open_file(&self.at(file))
    }

    pub(crate) fn open_for_writing(&self, file: &str) -> Result<std::fs::File, CgroupError> {
        self.dir.open_for_writing(&self.at(file))
    }

    pub(crate) fn write(&self, file: &str, data: &str) -> Result<(), CgroupError> {
        self.dir.write(&self.at(file), data)
    }

    /// Writes to a control file. Returns `false` if the kernel has no such file.
    pub(crate) fn write_if_there(&self, file: &str, data: &str) -> Result<bool, CgroupError> {
        match self.write(file, data) {
            Ok(()) => Ok(true),
            Err(error) if error.errno() == Some(libc::ENOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the whole path of a file, for messages.
    pub(crate) fn path(&self, file: &str) -> std::path::PathBuf {
        self.dir.path().join(self.at(file))
    }

    /// Reads a file that holds one number. `max` is [`u64::MAX`].
    pub(crate) fn number(&self, file: &str) -> Result<u64, CgroupError> {
        let text = self.read(file)?;
        crate::text::number(&text).ok_or_else(|| self.unexpected(file, "a number", &text))
    }

    /// Reads a file that holds one number; `None` if the kernel has no such file.
    pub(crate) fn number_if_there(&self, file: &str) -> Result<Option<u64>, CgroupError> {
        match self.number(file) {
            Ok(number) => Ok(Some(number)),
            Err(error) if error.errno() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn unexpected(&self, file: &str, expected: &'static str, text: &str) -> CgroupError {
        CgroupError::Format {
            path: self.path(file),
            expected,
            text: text.chars().take(80).collect(),
        }
    }
}
