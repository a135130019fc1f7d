//! A client's login to Kerberos and a service's proof of its callers, by the system's library MIT
//! krb5.
//!
//! Owns the library's handles and the rule when a login may be made. Goes in: principal, keytab,
//! the server to prove oneself to; or a caller's token. Comes out: security contexts for
//! [`wire::gssapi`], who the caller is, and what a keytab has keys of. Knows
//! neither Hadoop's messages nor its configuration.
//!
//! The library is loaded by [`Library::load`] and not before, so that a program starts without it
//! and builds without its headers. No environment variable is read or set but those that the
//! library itself reads (`KRB5_CONFIG`). Calls may wait for a KDC: [`Login`] runs them on threads
//! of its own.

mod acceptor;
mod context;
mod keytab;
mod library;
mod login;
mod names;
mod workers;

pub use self::acceptor::{Accepted, Acceptor, AcceptorConfig, NotAccepted};
pub use self::keytab::{KeytabEntry, KeytabError, read_keytab};
pub use self::library::{LIBRARY_NAME, Library, LoadError};
pub use self::login::{Login, LoginConfig, LoginStatus, StartError};
pub use self::names::canonical_host;
