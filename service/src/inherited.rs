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
/// The number is that of a standard stream, or nothing is open there.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number < FIRST {
        let text = format!("descriptor {number} is a standard stream");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    #[expect(
        unsafe_code,
        reason = "an inherited descriptor is known by its number only"
    )]
    // SAFETY: the caller says that the descriptor was inherited, so no part of this process owns
    // it. Should nothing be open there, the next call fails, and the value is forgotten.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    match rustix::io::fcntl_getfd(&descriptor) {
        Ok(_) => Ok(descriptor),
        Err(error) => {
            std::mem::forget(descriptor);
            Err(error.into())
        }
    }
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
}
