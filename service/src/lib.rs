//! The agreement between a program and the service manager that started it (systemd).
//!
//! ```text
//! service manager ◄── NOTIFY_SOCKET ── front ◄── relay ── program     with a keeper
//! service manager ◄── NOTIFY_SOCKET ───────────────────── program     without
//! ```
//!
//! - [`Manager`]: notifications (`sd_notify(3)`), and the sockets that the manager keeps while the
//!   program is started again (`FDSTORE`, `sd_listen_fds(3)`)
//! - [`Relay`]: the front's part, where the process that the manager knows is not the program.
//!   Managers take notifications from their main process only, so that no container can forge one.
//! - [`Vitals`]: when each part of the program was last seen to make progress. Pure.
//! - [`Watchdog`]: a thread that notifies the manager as long as every part does
//!
//! Owns the protocol and the record of progress. In: the environment of the process, signs of
//! life. Out: notifications and kept sockets. May not know containers, YARN, or what the sockets
//! and parts are for.

mod inherited;
mod manager;
mod message;
mod passed;
mod relay;
mod vitals;
mod watchdog;

pub use inherited::inherited;
pub use manager::{Manager, VARIABLES};
pub use message::Message;
pub use relay::Relay;
pub use vitals::{Limits, Sign, Stuck, Vitals};
pub use watchdog::Watchdog;
