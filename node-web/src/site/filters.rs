//! Hadoop's filters of web pages: requests that a browser was made to send, pages in frames of
//! others, scripts of other origins. Pure.

mod cross_origin;
mod csrf;
mod frames;
mod pattern;

use hyper::HeaderMap;
use hyper::header::HeaderName;

pub use cross_origin::{BadCrossOrigin, CrossOrigin};
pub use csrf::{BadCsrf, CsrfPrevention};
pub use frames::Frames;
pub use pattern::BadPattern;

/// Filters of all requests and answers, from the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// Header that requests of browsers must have; `None`: none must have one.
    pub csrf: Option<CsrfPrevention>,
    /// Origins whose scripts may read answers; `None`: that of the node alone.
    pub cross_origin: Option<CrossOrigin>,
    /// Pages whose frames may show answers.
    pub frames: Frames,
}

/// Returns the first header of this name as Java reads it: a character for each byte.
fn first(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?;
    Some(
        value
            .as_bytes()
            .iter()
            .map(|byte| char::from(*byte))
            .collect(),
    )
}

/// Returns the parts between commas, without blanks around them.
fn trimmed_parts(text: &str) -> Vec<String> {
    text.trim()
        .split(',')
        .map(|part| part.trim().to_owned())
        .collect()
}

impl Filters {
    /// Adds to an answer's headers what the filters say of it.
    pub(super) fn complete(&self, request: &HeaderMap, answer: &mut HeaderMap) {
        self.frames.complete(answer);
        if let Some(cross_origin) = &self.cross_origin {
            cross_origin.complete(request, answer);
        }
    }
}
