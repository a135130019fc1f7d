//! The ResourceManager of this project, `nm-agent rm`: the command itself, and its services with
//! simulated nodes and scripted masters. With Hadoop's nodes and clients: the tests of `hadoop`.

#![expect(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too: a panic is a failed test"
)]

mod clients;
mod command;
mod distributed;
mod flood;
mod garbage;
mod gone;
mod masters;
mod nodes;
mod process;
mod proxied;
