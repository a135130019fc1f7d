//! Descriptors that the process was started with.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

use rustix::io::FdFlags;

/// First descriptor after the standard streams, and first that a service manager passes
/// (`SD_LISTEN_FDS_START`).
pub(crate) const FIRST: RawFd = 3;

/// Takes a descriptor that whoever started this process left open for it, by number. To be called
/// once for a number, before anything else is opened. Programs that this process starts inherit the
/// descriptor as well, unless it is made to end with this program.
///
/// # Errors
/// The number is that of a standard stream, nothing is open there, or this process has opened it.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number < FIRST {
        let text = format!("descriptor {number} is a standard stream");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    #[expect(
        unsafe_code,
        reason = "an inherited descriptor is known by its number only"
    )]
    // SAFETY: a descriptor that was inherited is owned by no part of this process. Should this one
    // not be open, or have been opened here, the value is forgotten.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    let refused = match rustix::io::fcntl_getfd(&descriptor) {
        // What passes an exec has no such flag, and what a program in Rust opens has.
        Ok(flags) if flags.contains(FdFlags::CLOEXEC) => {
            let text = format!("descriptor {number} was not inherited");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        }
        Ok(_) => return Ok(descriptor),
        Err(error) => error.into(),
    };
    std::mem::forget(descriptor);
    Err(refused)
}

/// Keeps programs that this process starts from inheriting a descriptor.
pub(crate) fn close_on_exec(descriptor: &OwnedFd) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(descriptor, FdFlags::CLOEXEC)?)
}

/// Lets programs that this process starts inherit a descriptor.
pub(crate) fn keep_on_exec(descriptor: &OwnedFd) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(descriptor, FdFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn a_descriptor_that_is_not_open_is_refused() {
        let refused = inherited(1_000_000).unwrap_err();
        assert_eq!(
            refused.raw_os_error(),
            Some(rustix::io::Errno::BADF.raw_os_error())
        );
        let _standard_output = inherited(1).unwrap_err();
    }

    #[test]
    fn a_descriptor_of_this_process_is_not_taken_from_its_owner() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let refused = inherited(file.as_raw_fd()).unwrap_err();
        assert!(
            refused.to_string().contains("was not inherited"),
            "{refused}"
        );
        assert!(file.metadata().is_ok(), "it is still open");
    }
}
