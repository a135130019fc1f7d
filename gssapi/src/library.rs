//! The library's functions, found at run time, with types that C gives them.
//!
//! Sources: RFC 2744 (C bindings), `gssapi/gssapi_ext.h` of MIT krb5 1.11 and later
//! (`gss_acquire_cred_from`), `krb5.h` (`krb5_cc_destroy`). Layouts are those of Linux, 64 bit.
#![expect(unsafe_code, reason = "functions of a C library")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::slice;
use std::sync::{Mutex, PoisonError};

use wire::gssapi::GssError;

/// File name of the library, which the loader looks for as for any library.
pub const LIBRARY_NAME: &str = "libgssapi_krb5.so.2";

/// Bytes of the text of a status that are read.
const STATUS_TEXT_BYTES_MAX: usize = 1024;

/// Mask of the errors in a major status.
const ERRORS: u32 = 0xffff_0000;

/// A sequence of bytes.
#[repr(C)]
pub(crate) struct Buffer {
    pub(crate) length: usize,
    pub(crate) value: *mut c_void,
}

/// An object identifier.
#[repr(C)]
pub(crate) struct Oid {
    pub(crate) length: u32,
    pub(crate) elements: *const c_void,
}

/// A set of object identifiers.
#[repr(C)]
pub(crate) struct OidSet {
    pub(crate) count: usize,
    pub(crate) elements: *const Oid,
}

/// A name and its value.
#[repr(C)]
pub(crate) struct KeyValue {
    pub(crate) key: *const c_char,
    pub(crate) value: *const c_char,
}

/// Description of the place of a credential.
#[repr(C)]
pub(crate) struct KeyValueSet {
    pub(crate) count: u32,
    pub(crate) elements: *const KeyValue,
}

/// Identifier of the mechanism Kerberos 5 (RFC 1964).
pub(crate) const KRB5: &[u8] = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02";
/// Identifier of the mechanism that chooses another one (RFC 4178).
pub(crate) const SPNEGO: &[u8] = b"\x2b\x06\x01\x05\x05\x02";
/// Identifier of names `service@host` (RFC 2743).
pub(crate) const HOST_BASED_SERVICE: &[u8] = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04";
/// Identifier of names that are principals (RFC 1964).
pub(crate) const PRINCIPAL_NAME: &[u8] = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01";

/// Makes an identifier; the library's are never that long.
pub(crate) fn oid(bytes: &'static [u8]) -> Oid {
    Oid {
        length: u32::try_from(bytes.len()).unwrap_or(0),
        elements: bytes.as_ptr().cast(),
    }
}

type Handle = *mut c_void;

/// Declares the functions and their loading.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),* $(,)?) -> $result:ty;)*) => {
        /// Functions of the library, by their names.
        pub(crate) struct Functions {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            fn find(library: &libloading::Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the declarations are those of the headers.
                    $($name: unsafe { *library.get(stringify!($name).as_bytes())? },)*
                })
            }
        }
    };
}

functions! {
    gss_import_name: fn(*mut u32, *const Buffer, *const Oid, *mut Handle) -> u32;
    gss_release_name: fn(*mut u32, *mut Handle) -> u32;
    gss_acquire_cred_from: fn(*mut u32, Handle, u32, *const OidSet, c_int, *const KeyValueSet,
        *mut Handle, *mut Handle, *mut u32) -> u32;
    gss_release_cred: fn(*mut u32, *mut Handle) -> u32;
    gss_init_sec_context: fn(*mut u32, Handle, *mut Handle, Handle, *const Oid, u32, u32,
        *const c_void, *const Buffer, *mut Handle, *mut Buffer, *mut u32, *mut u32) -> u32;
    gss_accept_sec_context: fn(*mut u32, *mut Handle, Handle, *const Buffer, *const c_void,
        *mut Handle, *mut *const Oid, *mut Buffer, *mut u32, *mut u32, *mut Handle) -> u32;
    gss_display_name: fn(*mut u32, Handle, *mut Buffer, *mut *const Oid) -> u32;
    gss_delete_sec_context: fn(*mut u32, *mut Handle, *mut Buffer) -> u32;
    gss_wrap: fn(*mut u32, Handle, c_int, u32, *const Buffer, *mut c_int, *mut Buffer) -> u32;
    gss_unwrap: fn(*mut u32, Handle, *const Buffer, *mut Buffer, *mut c_int, *mut u32) -> u32;
    gss_display_status: fn(*mut u32, u32, c_int, *const Oid, *mut u32, *mut Buffer) -> u32;
    gss_release_buffer: fn(*mut u32, *mut Buffer) -> u32;
    krb5_init_context: fn(*mut Handle) -> i32;
    krb5_free_context: fn(Handle) -> ();
    krb5_cc_resolve: fn(Handle, *const c_char, *mut Handle) -> i32;
    krb5_cc_destroy: fn(Handle, Handle) -> i32;
    krb5_get_default_realm: fn(Handle, *mut *mut c_char) -> i32;
    krb5_free_default_realm: fn(Handle, *mut c_char) -> ();
}

/// The library is not there, or not the one that it must be.
#[derive(Debug, thiserror::Error)]
#[error(
    "{LIBRARY_NAME} cannot be loaded: install the package libgssapi-krb5-2 (Debian) or krb5-libs \
     (Red Hat)"
)]
pub struct LoadError(#[from] libloading::Error);

/// The loaded library. It stays loaded: its code runs in threads, and it registers what is called
/// at their end.
#[derive(Clone, Copy)]
pub struct Library(&'static Functions);

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(LIBRARY_NAME)
    }
}

impl Library {
    /// Loads the library, once in the life of the process.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load() -> Result<Self, LoadError> {
        static LOADED: Mutex<Option<Library>> = Mutex::new(None);
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(library) = *loaded {
            return Ok(library);
        }
        // SAFETY: what runs when the system's library is loaded has no demands on its caller.
        let file = unsafe { libloading::Library::new(LIBRARY_NAME)? };
        let functions = Functions::find(&file)?;
        // Its functions are called for the rest of the process's life.
        std::mem::forget(file);
        let library = Self(Box::leak(Box::new(functions)));
        *loaded = Some(library);
        Ok(library)
    }

    /// Returns the functions.
    pub(crate) const fn functions(self) -> &'static Functions {
        self.0
    }

    /// Checks a status of the call that this thread has made last.
    ///
    /// # Errors
    /// [`GssError`] with the library's texts for both statuses.
    pub(crate) fn check(self, doing: &str, major: u32, minor: u32) -> Result<(), GssError> {
        if major & ERRORS == 0 {
            return Ok(());
        }
        let texts = [self.status_text(major, 1), self.status_text(minor, 2)];
        let texts: Vec<_> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        Err(GssError(format!("{doing}: {}", texts.join(": "))))
    }

    /// Returns the library's text for a status; `kind` is 1 for a major and 2 for a minor one.
    fn status_text(self, status: u32, kind: c_int) -> String {
        let mechanism = oid(KRB5);
        let (mut minor, mut more, mut text) = (0, 0, Owned::new(self));
        // SAFETY: all pointers are to live values; `text` releases what the library makes.
        let major = unsafe {
            let text = &raw mut text.buffer;
            (self.0.gss_display_status)(&mut minor, status, kind, &mechanism, &mut more, text)
        };
        if major & ERRORS != 0 {
            return format!("status {status:#x}");
        }
        let bytes = text.bytes();
        let bytes = &bytes[..bytes.len().min(STATUS_TEXT_BYTES_MAX)];
        let text = String::from_utf8_lossy(bytes);
        text.trim_end_matches('\0').to_owned()
    }

    /// Imports a name.
    ///
    /// # Errors
    /// [`GssError`].
    pub(crate) fn name(self, text: &str, kind: &'static [u8]) -> Result<Name, GssError> {
        let (mut minor, kind) = (0, oid(kind));
        let mut name = Name {
            library: self,
            handle: null_mut(),
        };
        let buffer = borrowed(text.as_bytes());
        // SAFETY: all pointers are to live values; the library copies the text.
        let major =
            unsafe { (self.0.gss_import_name)(&mut minor, &buffer, &kind, &mut name.handle) };
        self.check("reading a name", major, minor)?;
        Ok(name)
    }

    /// Returns the realm of names without one, as the library's configuration has it.
    ///
    /// # Errors
    /// [`GssError`]: it has none.
    pub fn default_realm(self) -> Result<String, GssError> {
        let (mut context, mut realm) = (null_mut(), null_mut());
        let mut found = None;
        // SAFETY: handles and the text are used only after the call that makes them has succeeded,
        // and the text is copied before it is freed.
        unsafe {
            if (self.0.krb5_init_context)(&mut context) == 0 {
                if (self.0.krb5_get_default_realm)(context, &mut realm) == 0 {
                    let text = CStr::from_ptr(realm).to_string_lossy();
                    found = Some(text.into_owned());
                    (self.0.krb5_free_default_realm)(context, realm);
                }
                (self.0.krb5_free_context)(context);
            }
        }
        found.ok_or_else(|| GssError("the configuration of Kerberos has no default realm".into()))
    }

    /// Forgets all tickets of a cache of this process. One that is not there is forgotten already.
    pub(crate) fn destroy_cache(self, name: &CStr) {
        let (mut context, mut cache) = (null_mut(), null_mut());
        // SAFETY: handles are used only after the call that makes them has succeeded, and the
        // context outlives the cache's handle, which `krb5_cc_destroy` frees.
        unsafe {
            if (self.0.krb5_init_context)(&mut context) != 0 {
                return;
            }
            if (self.0.krb5_cc_resolve)(context, name.as_ptr(), &mut cache) == 0 {
                (self.0.krb5_cc_destroy)(context, cache);
            }
            (self.0.krb5_free_context)(context);
        }
    }
}

/// Makes a buffer of bytes that the library only reads.
pub(crate) fn borrowed(bytes: &[u8]) -> Buffer {
    Buffer {
        length: bytes.len(),
        value: bytes.as_ptr().cast_mut().cast(),
    }
}

/// A buffer that the library fills, and that is released with it.
pub(crate) struct Owned {
    library: Library,
    pub(crate) buffer: Buffer,
}

impl Owned {
    pub(crate) const fn new(library: Library) -> Self {
        Self {
            library,
            buffer: Buffer {
                length: 0,
                value: null_mut(),
            },
        }
    }

    /// Returns what the library has filled in; nothing before.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.buffer.value.is_null() {
            return &[];
        }
        // SAFETY: the library has set both, and nobody writes until the buffer is released.
        unsafe { slice::from_raw_parts(self.buffer.value.cast(), self.buffer.length) }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the buffer is the library's or empty, and is not used again.
        unsafe { (self.library.0.gss_release_buffer)(&mut minor, &raw mut self.buffer) };
    }
}

/// A name inside the library.
pub(crate) struct Name {
    library: Library,
    pub(crate) handle: Handle,
}

impl Name {
    /// Returns a name that the library has yet to make.
    pub(crate) const fn none(library: Library) -> Self {
        Self {
            library,
            handle: null_mut(),
        }
    }

    /// Returns the name as text.
    ///
    /// # Errors
    /// [`GssError`]: it is no text.
    pub(crate) fn text(&self) -> Result<String, GssError> {
        let (mut minor, mut text) = (0, Owned::new(self.library));
        // SAFETY: the name is the library's, and all pointers are to live values or null where that
        // is allowed.
        let major = unsafe {
            let text = &raw mut text.buffer;
            (self.library.0.gss_display_name)(&mut minor, self.handle, text, null_mut())
        };
        self.library.check("the name of a caller", major, minor)?;
        let text = str::from_utf8(text.bytes());
        let text = text.map_err(|_| GssError("the name of a caller is no text".to_owned()))?;
        Ok(text.to_owned())
    }
}

// SAFETY: the library's names have no tie to the thread that made them.
unsafe impl Send for Name {}

impl Drop for Name {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the handle is the library's or null, and is not used again.
        unsafe { (self.library.0.gss_release_name)(&mut minor, &mut self.handle) };
    }
}

/// A credential inside the library.
pub(crate) struct Credential {
    library: Library,
    pub(crate) handle: Handle,
    /// Seconds until its ticket ends.
    pub(crate) lifetime_s: u32,
}

// SAFETY: the library's credentials have no tie to the thread that made them, and lock themselves.
unsafe impl Send for Credential {}

impl Credential {
    /// Acquires the credential of a principal by its key in a keytab, with tickets kept in this
    /// cache. Waits for a KDC unless the cache has a ticket with more than half of its life left.
    ///
    /// # Errors
    /// [`GssError`].
    pub(crate) fn acquire(
        library: Library,
        principal: &Name,
        keytab: &CStr,
        cache: &CStr,
    ) -> Result<Self, GssError> {
        const INITIATE: c_int = 1;
        let store = [(c"client_keytab", keytab), (c"ccache", cache)];
        let lack = "no ticket for this node";
        Self::from_store(library, principal, (INITIATE, &[KRB5][..]), &store, lack)
    }

    /// Acquires the credential with which tickets for a service are read: its keys in a keytab.
    ///
    /// # Errors
    /// [`GssError`]: the keytab cannot be read, or has no such key.
    pub(crate) fn accept(library: Library, name: &Name, keytab: &CStr) -> Result<Self, GssError> {
        const ACCEPT: c_int = 2;
        // Clients send tokens of either mechanism.
        let usage = (ACCEPT, &[SPNEGO, KRB5][..]);
        let store = [(c"keytab", keytab)];
        Self::from_store(library, name, usage, &store, "no key of the service")
    }

    /// Acquires a credential for a use of these mechanisms from a store with these entries. `lack`
    /// begins the text of an error.
    fn from_store(
        library: Library,
        name: &Name,
        (usage, mechanisms): (c_int, &[&'static [u8]]),
        entries: &[(&CStr, &CStr)],
        lack: &str,
    ) -> Result<Self, GssError> {
        let entries = entries.iter().map(|(key, value)| KeyValue {
            key: key.as_ptr(),
            value: value.as_ptr(),
        });
        let entries: Vec<KeyValue> = entries.collect();
        let store = KeyValueSet {
            count: u32::try_from(entries.len()).unwrap_or(0),
            elements: entries.as_ptr(),
        };
        let known: Vec<Oid> = mechanisms.iter().map(|mechanism| oid(mechanism)).collect();
        let mechanisms = OidSet {
            count: known.len(),
            elements: known.as_ptr(),
        };
        let mut minor = 0;
        let mut credential = Self {
            library,
            handle: null_mut(),
            lifetime_s: 0,
        };
        // SAFETY: all pointers are to live values or null where that is allowed.
        let major = unsafe {
            (library.0.gss_acquire_cred_from)(
                &mut minor,
                name.handle,
                u32::MAX,
                &mechanisms,
                usage,
                &store,
                &mut credential.handle,
                null_mut(),
                &mut credential.lifetime_s,
            )
        };
        library.check(lack, major, minor)?;
        Ok(credential)
    }
}

impl Drop for Credential {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the handle is the library's or null, and is not used again.
        unsafe { (self.library.0.gss_release_cred)(&mut minor, &mut self.handle) };
    }
}

/// No channel bindings.
pub(crate) const NO_BINDINGS: *const c_void = null();
