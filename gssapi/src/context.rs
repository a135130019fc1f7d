//! A client's security context.
#![expect(unsafe_code, reason = "functions of a C library")]

use std::ffi::c_void;
use std::ptr::null_mut;

use wire::gssapi::{GssContext, GssError, Unwrapped};

use crate::library::{Credential, KRB5, Library, NO_BINDINGS, Name, Owned, borrowed, oid};

/// Bit of a major status: the other side's token is needed.
const CONTINUE_NEEDED: u32 = 1;

/// Flags (RFC 2744): the server proves itself, no message is repeated or moved, messages are signed
/// and can be encrypted. Credentials are not delegated.
const WANTED: u32 = MUTUAL | REPLAY | SEQUENCE | CONFIDENTIAL | INTEGRITY;
const MUTUAL: u32 = 2;
const REPLAY: u32 = 4;
const SEQUENCE: u32 = 8;
const CONFIDENTIAL: u32 = 16;
const INTEGRITY: u32 = 32;

/// A client's side of one context.
pub(crate) struct Initiator {
    library: Library,
    credential: Credential,
    target: Name,
    handle: *mut c_void,
    is_complete: bool,
}

// SAFETY: a context has no tie to a thread; only one uses it at once, since all calls take `&mut`.
unsafe impl Send for Initiator {}

impl Initiator {
    /// Starts a context with the server of this name.
    pub(crate) const fn new(library: Library, credential: Credential, target: Name) -> Self {
        Self {
            library,
            credential,
            target,
            handle: null_mut(),
            is_complete: false,
        }
    }
}

impl Drop for Initiator {
    fn drop(&mut self) {
        let mut minor = 0;
        let functions = self.library.functions();
        // SAFETY: the handle is the library's or null, and is not used again.
        unsafe {
            (functions.gss_delete_sec_context)(&mut minor, &mut self.handle, null_mut());
        }
    }
}

impl GssContext for Initiator {
    fn step(&mut self, token: &[u8]) -> Result<Vec<u8>, GssError> {
        if self.is_complete {
            return Err(GssError("a token for a complete context".to_owned()));
        }
        let functions = self.library.functions();
        let (mechanism, input, mut output) = (oid(KRB5), borrowed(token), Owned::new(self.library));
        let (mut minor, mut flags) = (0, 0);
        // SAFETY: all pointers are to live values or null where that is allowed.
        let major = unsafe {
            (functions.gss_init_sec_context)(
                &mut minor,
                self.credential.handle,
                &mut self.handle,
                self.target.handle,
                &mechanism,
                WANTED,
                0,
                NO_BINDINGS,
                &input,
                null_mut(),
                &raw mut output.buffer,
                &mut flags,
                null_mut(),
            )
        };
        self.library.check("proving this node", major, minor)?;
        if major & CONTINUE_NEEDED == 0 {
            if flags & WANTED != WANTED {
                let text = format!("the context has flags {flags:#x} and needs {WANTED:#x}");
                return Err(GssError(text));
            }
            self.is_complete = true;
        }
        Ok(output.bytes().to_vec())
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }

    fn wrap(&mut self, message: &[u8], seal: bool) -> Result<Vec<u8>, GssError> {
        let functions = self.library.functions();
        let (input, mut output) = (borrowed(message), Owned::new(self.library));
        let (mut minor, mut sealed) = (0, 0);
        let handle = self.complete()?;
        // SAFETY: the context is complete, and all pointers are to live values.
        let major = unsafe {
            let output = &raw mut output.buffer;
            (functions.gss_wrap)(
                &mut minor,
                handle,
                i32::from(seal),
                0,
                &input,
                &mut sealed,
                output,
            )
        };
        self.library.check("wrapping a message", major, minor)?;
        if (sealed != 0) != seal {
            return Err(GssError("a message is not encrypted as asked".to_owned()));
        }
        Ok(output.bytes().to_vec())
    }

    fn unwrap(&mut self, token: &[u8]) -> Result<Unwrapped, GssError> {
        let functions = self.library.functions();
        let (input, mut output) = (borrowed(token), Owned::new(self.library));
        let (mut minor, mut sealed) = (0, 0);
        let handle = self.complete()?;
        // SAFETY: the context is complete, and all pointers are to live values or null where that
        // is allowed.
        let major = unsafe {
            let output = &raw mut output.buffer;
            (functions.gss_unwrap)(&mut minor, handle, &input, output, &mut sealed, null_mut())
        };
        self.library.check("unwrapping a message", major, minor)?;
        if major != 0 {
            // Only bits of the order are left: repeated, old, moved, or one before it is missing.
            return Err(GssError(format!(
                "a message out of its order (status {major:#x})"
            )));
        }
        Ok(Unwrapped {
            message: output.bytes().to_vec(),
            is_sealed: sealed != 0,
        })
    }
}

impl Initiator {
    /// Returns the handle once both sides are proven.
    fn complete(&self) -> Result<*mut c_void, GssError> {
        if self.is_complete {
            Ok(self.handle)
        } else {
            Err(GssError("the context is not complete".to_owned()))
        }
    }
}
