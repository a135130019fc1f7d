//! Readers of a host's bytes, for `fuzz-targets`.

use crate::{frame, message};

/// Reads frames and messages as long as there are any; returns the number of messages.
#[must_use]
pub fn read_answers(mut bytes: &[u8]) -> usize {
    let mut count = 0;
    while let Ok(Some(frame)) = frame::read(&mut bytes) {
        if message::read(&frame).is_err() {
            break;
        }
        count += 1;
    }
    count
}
