//! The report of an output without a script: for the fuzz targets, which nothing else is.

use crate::output::Output;

/// Returns the report of an output that comes in these pieces; `None` if no line reports a fault.
#[must_use]
pub fn report<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Option<String> {
    let mut output = Output::default();
    for piece in pieces {
        output.add(piece);
    }
    output.report()
}
