//! The node's own files.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::Path;

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::unistd::{Group, Uid, User};

use crate::error::FsError;
use crate::file_system::{FileSystem, Kind, ReadFile, Status, WriteFile};

const MODE_BITS: u32 = 0o7777;

/// The `file:` file system.
pub(crate) struct Local;

impl FileSystem for Local {
    fn status(&self, path: &str) -> Result<Status, FsError> {
        let metadata = fs::metadata(path).map_err(failed("read the status of", path))?;
        Ok(status(Path::new(path), &metadata))
    }

    fn list(&self, path: &str, limit: usize) -> Result<Vec<Status>, FsError> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path).map_err(failed("list", path))? {
            let entry = entry.map_err(failed("list", path))?.path();
            if entries.len() == limit {
                let uri = uri(path);
                return Err(FsError::TooMany { uri, limit });
            }
            // An entry may vanish meanwhile, or be a link that leads nowhere.
            let metadata = fs::metadata(&entry).or_else(|_| fs::symlink_metadata(&entry));
            if let Ok(metadata) = metadata {
                entries.push(status(&entry, &metadata));
            }
        }
        Ok(entries)
    }

    fn open(&self, path: &str) -> Result<Box<dyn ReadFile>, FsError> {
        let file = File::open(path).map_err(failed("open", path))?;
        Ok(Box::new(file))
    }

    fn create(
        &self,
        path: &str,
        mode: u32,
        overwrite: bool,
    ) -> Result<Box<dyn WriteFile>, FsError> {
        let mut options = OpenOptions::new();
        options.write(true).mode(mode);
        if overwrite {
            options.create(true).truncate(true);
        } else {
            options.create_new(true);
        }
        let file = options.open(path).map_err(failed("create", path))?;
        Ok(Box::new(LocalWriter {
            file,
            path: path.to_owned(),
        }))
    }

    fn rename(&self, from: &str, to: &str, overwrite: bool) -> Result<(), FsError> {
        let flags = if overwrite {
            RenameFlags::empty()
        } else {
            RenameFlags::RENAME_NOREPLACE
        };
        let renamed = renameat2(AT_FDCWD, from, AT_FDCWD, to, flags);
        renamed.map_err(|error| {
            let named = if error == nix::errno::Errno::EEXIST {
                to
            } else {
                from
            };
            failed("rename", named)(error.into())
        })
    }

    fn make_dirs(&self, path: &str, mode: u32) -> Result<(), FsError> {
        let mut builder = DirBuilder::new();
        let created = builder.recursive(true).mode(mode).create(path);
        created.map_err(failed("create", path))
    }

    fn set_mode(&self, path: &str, mode: u32) -> Result<(), FsError> {
        let permissions = Permissions::from_mode(mode & MODE_BITS);
        fs::set_permissions(path, permissions).map_err(failed("set the mode of", path))
    }

    fn set_owner(&self, path: &str, owner: &str, group: &str) -> Result<(), FsError> {
        let failed = |error| failed("set the owner of", path)(error);
        let unknown = || io::Error::other("there is no such user or group");
        let user = User::from_name(owner).map_err(|error| failed(error.into()))?;
        let group = Group::from_name(group).map_err(|error| failed(error.into()))?;
        let (user, group) = user.zip(group).ok_or_else(|| failed(unknown()))?;
        let (user, group) = (user.uid.as_raw(), group.gid.as_raw());
        chown(path, Some(user), Some(group)).map_err(failed)
    }

    fn delete(&self, path: &str) -> Result<bool, FsError> {
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed("delete", path)(error)),
        };
        let deleted = if metadata.is_dir() {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        };
        deleted.map(|()| true).map_err(failed("delete", path))
    }
}

impl ReadFile for File {
    fn modified_ms(&self) -> io::Result<i64> {
        Ok(modified_ms(&self.metadata()?))
    }
}

struct LocalWriter {
    file: File,
    path: String,
}

impl Write for LocalWriter {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        self.file.write(content)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl WriteFile for LocalWriter {
    fn close(self: Box<Self>) -> Result<(), FsError> {
        let synced = self.file.sync_all();
        synced.map_err(failed("write", &self.path))
    }
}

fn status(path: &Path, metadata: &Metadata) -> Status {
    let kind = if metadata.is_file() {
        Kind::File
    } else if metadata.is_dir() {
        Kind::Folder
    } else {
        Kind::Special
    };
    let name = path.file_name().unwrap_or_default();
    Status {
        name: name.to_string_lossy().into_owned(),
        kind,
        length: metadata.len(),
        modified_ms: modified_ms(metadata),
        mode: metadata.mode() & MODE_BITS,
        owner: owner(metadata.uid()),
    }
}

fn owner(uid: u32) -> String {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    user.map_or_else(|| uid.to_string(), |user| user.name)
}

fn modified_ms(metadata: &Metadata) -> i64 {
    let seconds = metadata.mtime().saturating_mul(1000);
    seconds.saturating_add(metadata.mtime_nsec() / 1_000_000)
}

fn uri(path: &str) -> String {
    format!("file:{path}")
}

fn failed(step: &'static str, path: &str) -> impl FnOnce(io::Error) -> FsError {
    let uri = uri(path);
    move |source| {
        let kind = source.kind();
        if kind == io::ErrorKind::NotFound {
            FsError::NotFound { uri }
        } else if kind == io::ErrorKind::AlreadyExists {
            FsError::Exists { step, uri }
        } else if kind == io::ErrorKind::PermissionDenied {
            let message = source.to_string();
            FsError::Denied { step, uri, message }
        } else {
            FsError::Io { step, uri, source }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn write(path: &str, overwrite: bool) -> Result<(), FsError> {
        let mut file = Local.create(path, 0o640, overwrite)?;
        file.write_all(b"content").unwrap();
        file.close()
    }

    #[test]
    fn a_file_is_written_listed_read_renamed_and_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| format!("{}/{name}", dir.path().display());
        Local.make_dirs(&at("a/b"), 0o750).unwrap();
        Local.make_dirs(&at("a/b"), 0o700).unwrap();
        write(&at("a/b/new"), false).unwrap();
        Local.set_mode(&at("a/b/new"), 0o600).unwrap();
        let listed = Local.list(&at("a/b"), 1).unwrap();
        assert_eq!(listed, [Local.status(&at("a/b/new")).unwrap()]);
        let Status {
            name,
            kind,
            length,
            mode,
            ..
        } = &listed[0];
        let listed = (name.as_str(), *kind, *length, *mode);
        assert_eq!(listed, ("new", Kind::File, 7, 0o600));
        Local.rename(&at("a/b/new"), &at("a/b/old"), false).unwrap();
        let mut text = String::new();
        let mut file = Local.open(&at("a/b/old")).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "content");
        assert!(Local.delete(&at("a")).unwrap());
        assert!(!Local.delete(&at("a")).unwrap());
    }

    #[test]
    fn nothing_is_replaced_unless_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| format!("{}/{name}", dir.path().display());
        write(&at("a"), false).unwrap();
        write(&at("b"), false).unwrap();
        let refused = [
            write(&at("a"), false),
            Local.rename(&at("a"), &at("b"), false),
        ];
        for error in refused.map(Result::unwrap_err) {
            assert!(matches!(error, FsError::Exists { .. }), "{error}");
        }
        write(&at("a"), true).unwrap();
        Local.rename(&at("a"), &at("b"), true).unwrap();
    }

    #[test]
    fn a_file_is_given_to_a_known_user_and_group_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = format!("{}/a", dir.path().display());
        write(&path, false).unwrap();
        let owner = Local.status(&path).unwrap().owner;
        let error = Local.set_owner(&path, &owner, "no such group").unwrap_err();
        assert!(matches!(error, FsError::Io { .. }), "{error}");
        // Only the superuser may choose any group.
        let gid = if Uid::effective().is_root() {
            1
        } else {
            nix::unistd::getegid().as_raw()
        };
        let group = Group::from_gid(gid.into()).unwrap().unwrap();
        Local.set_owner(&path, &owner, &group.name).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().gid(), gid);
    }

    #[test]
    fn failures_name_uri_and_step() {
        let dir = tempfile::tempdir().unwrap();
        let path = format!("{}/a", dir.path().display());
        let error = Local.open(&path).err().unwrap();
        assert_eq!(
            error.to_string(),
            format!("File does not exist: file:{path}")
        );
        write(&path, false).unwrap();
        let error = Local.make_dirs(&format!("{path}/b"), 0o755).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot create file:{path}/b"));
        let folder = dir.path().display().to_string();
        let error = Local.list(&folder, 0).unwrap_err();
        assert!(
            matches!(error, FsError::TooMany { limit: 0, .. }),
            "{error}"
        );
    }
}
