//! The study of `docs/policies.md`: which cells are simulated ([`plan`]), their figures as they are
//! kept ([`stored`]), and the part of the page that is made from them ([`render`]).
//!
//! `cargo run --release -p simulate --example policies` runs it and writes all of it.

pub mod plan;
pub mod render;
pub mod stored;
