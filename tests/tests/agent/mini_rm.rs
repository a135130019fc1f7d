//! Our own ResourceManager, `nm-agent rm`: the command itself, what it does with Hadoop's own NodeManager, and with simulated nodes
//! and masters. What it does with our agent is among the tests of `interop`.

#![expect(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too: a panic is a failed test"
)]

mod clients;
mod command;
mod distributed;
mod garbage;
mod gone;
mod masters;
mod nodes;
mod process;
mod proxied;
