//! The log: where it goes and what is in it.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Starts it: what `filter` lets through goes to `writer`, with colours if `is_coloured`. Once in a process.
///
/// What cannot be written is lost, without a word: a reader that has gone away, or a full disk, ends no part of the agent.
/// The subscriber would complain on standard error, which panics when that is what cannot be written to.
pub(crate) fn start<W>(filter: &str, writer: W, is_coloured: bool)
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::builder().parse_lossy(filter))
        .with_writer(writer)
        .with_ansi(is_coloured)
        .log_internal_errors(false)
        .init();
}
