//! Hadoop's wire, from bytes to typed calls.
