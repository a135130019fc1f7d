//! Fixtures and fakes for the tests and measurements of every crate: a dev-dependency, never part
//! of a program.
//!
//! - [`ids`]: ids of applications, attempts, containers and nodes; [`tokens`]: keys, and container,
//!   NM and AMRM tokens made with them; [`LaunchContext`]: what a container runs.
//! - [`scripted`]: ResourceManager, scheduler, ApplicationMaster and node port that do what the
//!   test wrote, and record what they were sent.
//! - [`simulated`]: ApplicationMasters and nodes that follow the rules of real ones without
//!   processes.
//! - [`folders`]: folders of a container, for a launch without localization.
//! - [`Hanging`]: folders whose files cannot be opened, as on a disk that hangs.
//! - [`hostile`]: processes that make their own end hard.
//! - [`mounts`]: mounts that only one test sees.
//! - [`HeldPort`]: a port whose server may be down without losing it.
//! - [`realm`]: a Kerberos realm with its KDC.
//! - [`Keytool`]: key stores as Java writes them.
//! - [`skip`]: the end of a test that this machine cannot run.
//! - [`write_program`]: programs that tests write and execute; [`replace_file`]: files that change
//!   while somebody reads them.
//!
//! Two words tell fakes apart everywhere: *scripted* answers come from the test, *simulated*
//! behaviour follows rules. Anything else in a test is real. The crate knows `records`, `wire`
//! and the folders of `localize` only: no scheduling, no node, no processes. Unit tests of `wire`
//! itself cannot use the parts over `wire`, since their `wire` is another build of the same code.
//!
//! [`HeldPort`] needs the feature `net`, [`Hanging`] `hanging`, [`folders`], [`hostile`] and
//! [`mounts`] those of their names; all others but [`ids`], [`Keytool`], [`realm`],
//! [`replace_file`], [`skip`] and [`write_program`] need `rpc`.
//!
//! Helpers panic instead of returning errors: a fake that cannot start fails the test.

#[cfg(feature = "folders")]
pub mod folders;
#[cfg(feature = "hostile")]
pub mod hostile;
pub mod ids;
mod keytool;
#[cfg(feature = "mounts")]
pub mod mounts;
mod program;
pub mod realm;
mod replaced_file;
#[cfg(feature = "rpc")]
pub mod scripted;
#[cfg(feature = "rpc")]
pub mod simulated;
pub mod skip;
#[cfg(feature = "rpc")]
pub mod tokens;

#[cfg(feature = "hanging")]
mod hanging;
#[cfg(feature = "net")]
mod held_port;
#[cfg(feature = "rpc")]
mod launch_context;
#[cfg(feature = "rpc")]
mod user;

#[cfg(feature = "hanging")]
pub use hanging::Hanging;
#[cfg(feature = "net")]
pub use held_port::HeldPort;
pub use keytool::{Keytool, STORE_PASSWORD};
#[cfg(feature = "rpc")]
pub use launch_context::LaunchContext;
pub use program::write_program;
pub use replaced_file::replace_file;
#[cfg(feature = "rpc")]
pub use tokens::{Allocation, RmSecrets, now_ms};
#[cfg(feature = "rpc")]
pub use user::current_user;

/// The Hadoop release that fakes claim to be and that interop tests run against.
pub const HADOOP_VERSION: &str = "3.4.2";
