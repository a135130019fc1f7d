//! What strangers send is read in processes of its own: by clients of file systems, and by readers
//! of archives. No program with the rights of others reads it.
//!
//! ```text
//!  agent                                        worker: this program again, as `COMMAND`
//!  FileSystems ─► Pool ── control ────────────► serve ── a thread for each session
//!                  │      Setup, then sessions    │
//!                  ├─ Session ── Request, Reply ──┼─► FileSystems ─► hdfs-native ─► NameNode
//!                  │  a FileSystem                │
//!                  └─ Archive ── content in, ─────┴─► archives::read
//!  Entries ◄──────    entries out                     the rights of an account, hardly an
//!                                                     environment, bounded memory
//! ```
//! A library for HDFS trusts the lengths that its peers state, and tenants choose the peers; and
//! libraries that decompress get their input from tenants. So they run in a worker: one for each
//! user and application, with the user's rights. A worker that dies fails the operations of its
//! application, with the reason; the next operation starts another.
//!
//! - [`Pool`]: which workers there are, whose turn a new one is, when an idle one goes
//!   (`places`: the decisions, pure; `process`: one worker as a process)
//! - `client`: the file system that the agent's threads see; `archive`: the archive
//! - [`serve`]: the worker's main loop; `session`, the operations of one session; `unpack`, one
//!   archive
//! - [`message`], [`record`], `codec`, `failure`, `frame`: the messages, read as those of a
//!   stranger on either side
//!
//! In a secure cluster a worker has what its user may prove: the tokens of its application, or the
//! node's keytab for the node's own work. Archives are read by other workers, which have neither.
//!
//! A worker that reads an archive touches no file: it is fed with content and tells entries, and
//! whoever gets them decides what they may do. So an archive in the hands of its author can do no
//! more in the agent than an honest archive with the same entries.
//!
//! Owns workers and sockets to them. In: URIs, archives and callers. Out: `hadoop_fs::FileSystem`,
//! entries. May not know YARN, containers or what files are for.

mod archive;
mod client;
mod codec;
mod failure;
mod frame;
pub mod message;
mod places;
mod pool;
mod process;
pub mod record;
mod security;
mod serve;
mod session;
mod unpack;

pub use codec::Malformed;
pub use namenode_access::Proof;
pub use pool::{AccountOf, Pool, PoolConfig};
pub use process::Program;
pub use security::{Identity, IdentityOf, Secret, Security};
pub use serve::serve;

/// Argument with which the program runs [`serve`].
pub const COMMAND: &str = "serve-files";
