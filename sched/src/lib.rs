//! What decides: the pure core.

mod action;
