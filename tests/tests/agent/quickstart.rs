//! `nm-agent quickstart`, run as people run it: what it tells is checked against what its nodes and its ResourceManager
//! say, and nothing may be left behind, whenever it ends.

mod refusals;
mod run;
mod signals;
mod story;
