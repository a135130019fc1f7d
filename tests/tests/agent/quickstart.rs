//! `nm-agent quickstart`, run as people run it: its output is checked against what its nodes and
//! its ResourceManager report, and it may leave nothing behind, however it ends.

mod refusals;
mod run;
mod signals;
mod story;
