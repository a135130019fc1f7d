//! The side of a service: callers prove who they are in one step, as SPNEGO over HTTP does.
#![expect(unsafe_code, reason = "functions of a C library")]

use std::ffi::{CString, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;

use wire::gssapi::GssError;

use crate::library::{
    Credential, HOST_BASED_SERVICE, Library, NO_BINDINGS, Name, Owned, PRINCIPAL_NAME, borrowed,
};
use crate::login::StartError;
use crate::workers::Workers;

/// Bit of a major status: the caller's next token is needed.
const CONTINUE_NEEDED: u32 = 1;
/// Flag of a context (RFC 2744): the caller does not say who it is.
const ANONYMOUS: u32 = 64;

/// Service and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptorConfig {
    /// Principal of the service in full, or the service alone (`HTTP`): then each host of it that
    /// the keytab has a key of.
    pub service: String,
    /// File with its keys, read for each caller: a new one needs no restart.
    pub keytab: PathBuf,
}

/// A caller who has proved who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Principal in full.
    pub principal: String,
    /// Token by which the service proves itself; may be empty.
    pub answer: Vec<u8>,
}

/// Reason for which a token proves nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAccepted {
    /// The caller would have to send more, with this answer before it. No context is kept.
    Incomplete(Vec<u8>),
    /// The token is not good, with the library's reason.
    Refused(GssError),
    /// The service itself cannot judge: it has no key.
    NoKey(GssError),
}

impl From<GssError> for NotAccepted {
    fn from(error: GssError) -> Self {
        Self::Refused(error)
    }
}

/// Judge of the callers of one service. Calls run on threads of its own.
#[derive(Debug)]
pub struct Acceptor {
    library: Library,
    workers: Workers,
    service: String,
    keytab: CString,
}

impl Acceptor {
    /// Loads the library and starts the threads. The keytab is not read yet.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(config: AcceptorConfig) -> Result<Self, StartError> {
        Ok(Self {
            library: Library::load()?,
            workers: Workers::start()?,
            keytab: CString::new(format!("FILE:{}", config.keytab.display()))?,
            service: config.service,
        })
    }

    /// Judges a caller's first token on one of the threads, and tells `done` there.
    ///
    /// # Errors
    /// [`GssError`]: too many wait already. Then `done` is not called.
    pub fn submit(
        &self,
        token: Vec<u8>,
        done: impl FnOnce(Result<Accepted, NotAccepted>) + Send + 'static,
    ) -> Result<(), GssError> {
        let (library, service) = (self.library, self.service.clone());
        let keytab = self.keytab.clone();
        self.workers.submit(Box::new(move || {
            let kind = if service.contains('/') {
                PRINCIPAL_NAME
            } else {
                HOST_BASED_SERVICE
            };
            let credential = library
                .name(&service, kind)
                .and_then(|name| Credential::accept(library, &name, &keytab));
            done(match credential {
                Ok(credential) => accept(library, &credential, &token),
                Err(error) => Err(NotAccepted::NoKey(error)),
            });
        }))
    }
}

/// A context on its way, which goes at the end of the step.
struct Context {
    library: Library,
    handle: *mut c_void,
}

impl Drop for Context {
    fn drop(&mut self) {
        let mut minor = 0;
        let functions = self.library.functions();
        // SAFETY: the handle is the library's or null, and is not used again.
        unsafe {
            (functions.gss_delete_sec_context)(&mut minor, &mut self.handle, null_mut());
        }
    }
}

fn accept(
    library: Library,
    credential: &Credential,
    token: &[u8],
) -> Result<Accepted, NotAccepted> {
    let functions = library.functions();
    let mut context = Context {
        library,
        handle: null_mut(),
    };
    let mut caller = Name::none(library);
    let (input, mut output) = (borrowed(token), Owned::new(library));
    let (mut minor, mut flags) = (0, 0);
    // SAFETY: all pointers are to live values or null where that is allowed.
    let major = unsafe {
        (functions.gss_accept_sec_context)(
            &mut minor,
            &mut context.handle,
            credential.handle,
            &input,
            NO_BINDINGS,
            &mut caller.handle,
            null_mut(),
            &raw mut output.buffer,
            &mut flags,
            null_mut(),
            null_mut(),
        )
    };
    library.check("a caller's token", major, minor)?;
    let answer = output.bytes().to_vec();
    if major & CONTINUE_NEEDED != 0 {
        return Err(NotAccepted::Incomplete(answer));
    }
    if flags & ANONYMOUS != 0 {
        return Err(GssError("the caller is anonymous".to_owned()).into());
    }
    let principal = caller.text()?;
    Ok(Accepted { principal, answer })
}
