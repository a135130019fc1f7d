//! Who asks for a page, where Kerberos proves it (Hadoop: `KerberosAuthenticationHandler`,
//! `Signer`, `KerberosName`). Pure: texts and times in, decisions out.
//!
//! - [`negotiation`]: the token in an `Authorization` header.
//! - [`Cookies`]: Hadoop's signed cookie, by which a proof counts for further requests and nodes.
//! - [`NameRules`]: from a principal to a user's name (`hadoop.security.auth_to_local`).
//! - [`Failures`]: how many wrong proofs an address may send in a second.
//!
//! Everything that a stranger sends is bounded. May not know HTTP's connections, a page, or the
//! library that judges a token.

mod cookie;
mod failures;
mod names;
pub mod negotiation;
mod replacement;

pub use cookie::{COOKIE_BYTES_MAX, CookieError, Cookies, Proven};
pub use failures::{FAILURES_PER_SECOND, Failures};
pub use names::{Mechanism, NameError, NameRules, RulesError};
