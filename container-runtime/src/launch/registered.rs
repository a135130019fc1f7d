//! Registration of a descriptor with the runtime, for as long as its owner lives.

use std::os::fd::{AsRawFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdRegisterError};

use super::spawn::Leader;

/// A type that opens its descriptor when it is made and closes it when it is dropped, and names no
/// other meanwhile.
pub(super) trait OwnsHandle: AsRawFd {}
impl OwnsHandle for Leader {}
impl OwnsHandle for OwnedFd {}

#[expect(
    unsafe_code,
    reason = "tokio has no registration that knows who owns a descriptor"
)]
pub(super) fn register<T: OwnsHandle>(handle: T) -> Result<AsyncFd<T>, AsyncFdRegisterError<T>> {
    // SAFETY: such a type keeps one descriptor open for as long as it lives, and the registration
    // owns it.
    unsafe { AsyncFd::register_with_interest(handle, Interest::READABLE) }
}
