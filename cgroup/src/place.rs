//! A set of directories that together are one cgroup: one in each hierarchy that is used.

use std::sync::Arc;

use crate::dir::Dir;
use crate::error::CgroupError;
use crate::layout::Controller;

/// The version of the hierarchy that a controller is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    V1,
    V2,
}

/// One directory of a cgroup, and what works there.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) kind: Kind,
    /// In `V2`: those that are enabled below this directory. Freezing and counting processor time need none there.
    pub(crate) controllers: Vec<Controller>,
    pub(crate) dir: Dir,
}

impl Place {
    fn has(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }
}

/// The directories of a cgroup that is kept open, as parents are.
pub(crate) type Places = Arc<[Place]>;

/// A view of one cgroup's files in all its hierarchies: the directories opened, or names below those of a parent.
#[derive(Clone, Copy)]
pub(crate) struct Files<'a> {
    places: &'a [Place],
    /// `""`, or the cgroup's name below `places`.
    below: &'a str,
}

/// The files of a cgroup in one hierarchy.
#[derive(Clone, Copy)]
pub(crate) struct Folder<'a> {
    pub(crate) kind: Kind,
    controllers: &'a [Controller],
    dir: &'a Dir,
    below: &'a str,
}

impl<'a> Files<'a> {
    pub(crate) fn of(places: &'a [Place]) -> Self {
        Self { places, below: "" }
    }

    pub(crate) fn below(places: &'a [Place], name: &'a str) -> Self {
        Self {
            places,
            below: name,
        }
    }

    fn folder(self, place: &'a Place) -> Folder<'a> {
        Folder {
            kind: place.kind,
            controllers: &place.controllers,
            dir: &place.dir,
            below: self.below,
        }
    }

    /// Where a controller works, if it does.
    pub(crate) fn controller(self, controller: Controller) -> Option<Folder<'a>> {
        let place = self.places.iter().find(|place| place.has(controller))?;
        Some(self.folder(place))
    }

    /// The unified hierarchy, whatever controllers it has.
    pub(crate) fn unified(self) -> Option<Folder<'a>> {
        let place = self.places.iter().find(|place| place.kind == Kind::V2)?;
        Some(self.folder(place))
    }

    /// All hierarchies, the unified one first.
    pub(crate) fn all(self) -> impl Iterator<Item = Folder<'a>> {
        self.places.iter().map(move |place| self.folder(place))
    }
}

impl<'a> Folder<'a> {
    /// The file's name as seen from the open directory.
    fn at(&self, file: &str) -> String {
        if self.below.is_empty() {
            file.to_owned()
        } else {
            format!("{}/{file}", self.below)
        }
    }

    /// Whether a controller works here.
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

    /// Writes where the kernel has such a file; whether it has.
    pub(crate) fn write_if_there(&self, file: &str, data: &str) -> Result<bool, CgroupError> {
        match self.write(file, data) {
            Ok(()) => Ok(true),
            Err(error) if error.errno() == Some(libc::ENOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The path of a file, for messages.
    pub(crate) fn path(&self, file: &str) -> std::path::PathBuf {
        self.dir.path().join(self.at(file))
    }

    /// The number that a file holds. `max` is [`u64::MAX`].
    pub(crate) fn number(&self, file: &str) -> Result<u64, CgroupError> {
        let text = self.read(file)?;
        crate::text::number(&text).ok_or_else(|| self.unexpected(file, "a number", &text))
    }

    /// The number that a file holds; `None` where the kernel has no such file.
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
