//! A client's login to Kerberos, by the system's library MIT krb5.
//!
//! Owns the library's handles and the rule when a login may be made. Goes in: principal, keytab,
//! the server to prove oneself to. Comes out: security contexts for [`wire::gssapi`], and what a
//! keytab has keys of. Knows
//! neither Hadoop's messages nor its configuration.
//!
//! The library is loaded by [`Library::load`] and not before, so that a program starts without it
//! and builds without its headers. No environment variable is read or set but those that the
//! library itself reads (`KRB5_CONFIG`). Calls may wait for a KDC: [`Login`] runs them on threads
//! of its own.

mod context;
mod keytab;
mod library;
mod login;
mod names;
mod workers;

pub use self::keytab::{KeytabEntry, KeytabError, read_keytab};
pub use self::library::{LIBRARY_NAME, Library, LoadError};
pub use self::login::{Login, LoginConfig, LoginStatus, StartError};
pub use self::names::canonical_host;
