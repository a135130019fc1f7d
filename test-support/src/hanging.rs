//! Folders whose files cannot be opened, as on a disk that hangs.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Folders in which no call that opens a file returns for as long as this lives. A process that
/// waits in such a call can be killed.
///
/// The kernel asks a group of fanotify(7) for permission, and this one never answers.
#[derive(Debug)]
pub struct Hanging(OwnedFd);

impl Hanging {
    /// Makes a value without folders.
    ///
    /// # Errors
    /// This process lacks `CAP_SYS_ADMIN`, or the kernel asks nobody.
    #[expect(unsafe_code, reason = "system calls without a safe binding here")]
    pub fn none() -> io::Result<Self> {
        let flags = libc::FAN_CLASS_CONTENT | libc::FAN_CLOEXEC;
        // SAFETY: no memory is passed.
        let group = unsafe { libc::fanotify_init(flags, 0) };
        if group < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just returned this descriptor, and nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(group) }))
    }

    /// Adds the files right in this folder. The folder itself can still be opened and listed.
    ///
    /// # Errors
    /// The folder does not exist, or its file system cannot be watched.
    #[expect(unsafe_code, reason = "system calls without a safe binding here")]
    pub fn add(&self, folder: &Path) -> io::Result<()> {
        let path = CString::new(folder.as_os_str().as_bytes())?;
        let mask = libc::FAN_OPEN_PERM | libc::FAN_EVENT_ON_CHILD;
        let group = self.0.as_raw_fd();
        // SAFETY: the path is a C string that outlives the call.
        let marked = unsafe {
            libc::fanotify_mark(
                group,
                libc::FAN_MARK_ADD,
                mask,
                libc::AT_FDCWD,
                path.as_ptr(),
            )
        };
        if marked < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_file_in_a_hanging_folder_is_opened_once_the_folder_hangs_no_longer() {
        let test = "a_file_in_a_hanging_folder_is_opened_once_the_folder_hangs_no_longer";
        let hanging = match Hanging::none() {
            Ok(hanging) => hanging,
            Err(error) => return crate::skip::skip_by_kernel(test, &error),
        };
        let folder = std::env::temp_dir().join(format!("nm-agent-hanging-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("file");
        fs::write(&file, "").unwrap();
        hanging.add(&folder).unwrap();
        let names = fs::read_dir(&folder).unwrap();
        assert_eq!(names.count(), 1, "the folder can be listed");
        let (opened, when) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| opened.send(File::open(&file).is_ok()).unwrap());
            let early = when.recv_timeout(Duration::from_millis(100));
            drop(hanging);
            assert!(early.is_err(), "opened: {early:?}");
            assert!(when.recv().unwrap());
        });
        fs::remove_dir_all(&folder).unwrap();
    }
}
