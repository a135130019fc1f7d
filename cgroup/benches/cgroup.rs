//! What cgroups cost a launch, and what watching a thousand containers costs. Prints; asserts nothing.
//!
//! `cargo bench -p cgroup`

fn main() {}
