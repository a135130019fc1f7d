//! Claims about the scheduler.
