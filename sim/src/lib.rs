//! Engine of simulations: virtual time, events, random numbers from a seed, and models of the
//! network, of a disk and of a machine's clock. Knows neither YARN nor any workload.
//!
//! | module | subject |
//! |---|---|
//! | [`queue`] | events in the order of their virtual time |
//! | [`random`] | one stream of random numbers for each subject, all from one seed |
//! | [`distribution`] | distributions of durations and sizes |
//! | [`network`] | delay, loss, duplication, reordering and partitions of messages |
//! | [`disk`] | a store of records that loses what was not committed |
//! | [`clock`] | a machine's two clocks, of which one can be set |
//! | [`plot`] | charts of quantities over time |
//!
//! A simulation owns its parts and runs one loop: it takes the next event from the queue and passes
//! it to the part that it is for, which pushes further events. Virtual time jumps from event to
//! event. Nothing else moves it, so the same seed gives the same run on every machine.

pub mod clock;
pub mod disk;
pub mod distribution;
pub mod network;
pub mod plot;
pub mod quantiles;
pub mod queue;
pub mod random;

pub use clock::Clock;
pub use disk::{Disk, Write};
pub use distribution::Distribution;
pub use network::{LinkModel, Network};
pub use quantiles::{Quantiles, QuantilesError};
pub use queue::EventQueue;
pub use random::{Random, Streams};
