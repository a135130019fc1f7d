//! Exit statuses of children that outlive the program that started them.
//!
//! The kernel gives an exit status to the parent of a process only. When a program dies, its
//! children get another parent: the nearest ancestor that is a *subreaper*, or init, which forgets
//! the status. So a program whose children must survive it runs below a keeper:
//!
//! ```text
//! front ───────── keeper ───────── program ───────── children
//! what a service  a subreaper      SIGKILL when      fall to the keeper
//! manager sees    (`keep`)         the keeper dies   when the program dies
//! ```
//!
//! The [`front`] passes signals on and ends with the program's exit status, so that a service
//! manager may start the program again at once. The keeper stays until the last of the children
//! has ended. It writes each exit status into a file of its own, where the next program finds it
//! ([`ExitRecords`]). The next program has another front and another keeper: so an upgrade replaces
//! all three, and limits and environment are those of the new start.
//!
//! How the program itself has ended is in one more file ([`LastEnd`]), for the next one.
//!
//! Which child is which is in another file, the program's own: each child notes there that it
//! exists before it executes anything ([`StartSlots`]). One variable of the environment is copied
//! from each left child into the records, unread; a child may set it to anything.
//!
//! Knows processes and files; knows neither containers nor YARN.

mod children;
mod front;
mod keep;
mod last_end;
mod link;
mod liveness;
mod record_file;
mod records;
mod starts;

pub use front::{Beside, front};
pub use keep::{KeepError, Kept, keep};
pub use last_end::{LastEnd, PANICKED};
pub use link::die_with_parent;
pub use liveness::{has_ended, running_thread};
pub use records::{ExitRecords, LeftProcess, ProcessIdentity, boot_id};
pub use starts::{FoundStart, StartSlot, StartSlots, StartsError};
