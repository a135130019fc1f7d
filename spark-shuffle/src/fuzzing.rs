//! Requests without a socket: for the fuzz targets, which nothing else is.

use std::sync::Arc;

use tokio::runtime::Builder;

use crate::executors::Applications;
use crate::frame::{self, LENGTH_BYTES, Request};
use crate::session::Session;
use crate::shared::{Shared, SparkShuffleConfig};

/// Bytes of the longest request.
const FRAME_BYTES_MAX: usize = 1 << 20;

/// Outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Bytes of the input up to the end of the request.
    pub used: usize,
    /// Frame that is sent.
    pub frame: Vec<u8>,
    /// Bytes of a file that follow.
    pub range_bytes: Option<u64>,
}

/// Answers the requests of an input, as far as they are whole and the connection stays open.
///
/// # Panics
/// The system has no memory for a runtime.
#[must_use]
pub fn answers(input: &[u8], applications: &Arc<Applications>, authenticates: bool) -> Vec<Answer> {
    let runtime = Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime without threads takes memory only");
    let config = SparkShuffleConfig {
        authenticates,
        ..SparkShuffleConfig::default()
    };
    let shared = Shared::new(config, Arc::clone(applications), Arc::default());
    let mut session = Session::new(Arc::new(shared), 1);
    let (mut used, mut answers) = (0, Vec::new());
    while let Ok(Some(length)) = frame::length(&input[used..], FRAME_BYTES_MAX) {
        let start = used + LENGTH_BYTES;
        let Some(request) = input.get(start..start + length) else {
            break;
        };
        let Ok(request) = Request::parse(request) else {
            break;
        };
        let reply = runtime.block_on(session.answer(request));
        used = start + length;
        answers.push(Answer {
            used,
            frame: reply.frame,
            range_bytes: reply.range.map(|range| range.length),
        });
        if reply.ends {
            break;
        }
    }
    answers
}
