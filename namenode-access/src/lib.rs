//! Access to the NameNodes of a secure cluster, for a process that works for one user.
//!
//! ```text
//!  secret ─► Access ── tokens: the one for a NameNode ─► SecretFile ─► hdfs-native reads it
//!              │                                                          │ connects here
//!              └── Relay, one for each NameNode ◄───────────────────────┘
//!                    └── handshake: what the NameNode may say (pure) ──► NameNode
//! ```
//! The library `hdfs-native` takes tokens from a file that one variable of the environment names,
//! panics at a malformed one, takes SIMPLE from whoever offers it, believes a server that ends the
//! proof early, and compares no principal. So it connects to a relay in its own process, which
//! passes on what a NameNode may say and refuses the rest, before the library has proved
//! anything to it. The file has but the tokens that fit the NameNodes in use.
//!
//! Owns relays, and the descriptors behind secret files. In: credentials of an application or a
//! keytab, NameNodes. Out: the way to them, as [`hadoop_fs::SecureAccess`]. May not know YARN,
//! containers, or where secrets come from.

mod access;
#[doc(hidden)]
pub mod handshake;
mod relay;
mod secret_file;
#[doc(hidden)]
pub mod tokens;

pub use access::{Access, Proof};

/// Path of the file with the tokens of this process (`HADOOP_TOKEN_FILE_LOCATION`).
pub const TOKEN_FILE: &str = "/proc/self/fd/100";

/// Longest secret that a process takes, in bytes.
pub const SECRET_MAX: usize = 16 << 20;
