//! Log of the process: its destination and its filter.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::Arc;

use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, reload};

use crate::escaped::Escaped;
use crate::journal::Journal;

/// Crates that a filter means when it names the program: those of the node and of the quick start.
const OF_THE_PROGRAM: [&str; 6] = [
    "container_runtime",
    "hadoop_conf",
    "localize",
    "node_manager",
    "node_web",
    "quickstart",
];

/// Starts the log: lines that pass `filter` go to `writer`, with colours if `is_coloured`. May be
/// called once in a process.
///
/// Texts of others reach the log in one line each: line feeds, ESC and other control characters are
/// written as Rust escapes, so that they neither forge lines nor operate the reader's terminal.
/// Tabs stay.
///
/// Lines that cannot be written are lost without a message: a reader that has gone away, or a full
/// disk, ends no part of the agent. The subscriber would report on standard error, and panic if
/// standard error is what cannot be written to.
///
/// Returns the filter, which may change later.
pub fn start<W>(filter: &str, writer: W, is_coloured: bool) -> Filter
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt()
        .with_env_filter(parsed(filter))
        .with_writer(writer)
        .with_ansi(is_coloured)
        .fmt_fields(
            debug_fn(|writer, field, value| {
                let mut escaped = Escaped(writer);
                match field.name() {
                    "message" => write!(escaped, "{value:?}"),
                    name => write!(escaped, "{name}={value:?}"),
                }
            })
            .delimited(" "),
        )
        .log_internal_errors(false)
        // Last, since its type has those of the others.
        .with_filter_reloading();
    let filter = builder.reload_handle();
    builder.init();
    Filter::of(filter)
}

/// Starts the log as [`start`] does, with its lines sent to the journal: they have the fields that
/// [`Journal`] says, and neither time nor colours.
pub fn start_in_journal(filter: &str, journal: Journal) -> Filter {
    let (filter, handle) = reload::Layer::new(parsed(filter));
    tracing_subscriber::registry()
        .with(filter)
        .with(journal)
        .init();
    Filter::of(handle)
}

/// Returns whether people at this terminal want colours (<https://no-color.org>).
#[must_use]
pub fn wants_colours(is_terminal: bool, environment: &BTreeMap<String, String>) -> bool {
    let declines = |name: &str| environment.get(name).is_some_and(|value| !value.is_empty());
    let is_dumb = environment.get("TERM").is_some_and(|term| term == "dumb");
    is_terminal && !is_dumb && !declines("NO_COLOR")
}

/// Filter of the process's log, which may change.
#[derive(Clone)]
pub struct Filter(Arc<dyn Fn(&str) + Send + Sync>);

impl Filter {
    fn of<S: 'static>(handle: reload::Handle<EnvFilter, S>) -> Self {
        Self(Arc::new(move |text| {
            // Fails only once the log has ended, with the process.
            let _ended = handle.reload(parsed(text));
        }))
    }

    /// Replaces the filter. Directives that cannot be read are left out.
    pub fn set(&self, filter: &str) {
        (self.0)(filter);
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Filter")
    }
}

fn parsed(filter: &str) -> EnvFilter {
    EnvFilter::builder().parse_lossy(with_crates(filter))
}

/// Returns the filter with a directive added for each crate of the program where it names the
/// program.
fn with_crates(filter: &str) -> String {
    let mut directives: Vec<String> = Vec::new();
    for directive in filter.split(',') {
        let (target, level) = match directive.split_once('=') {
            Some((target, level)) => (target, format!("={level}")),
            None => (directive, String::new()),
        };
        if target.trim() == "nm_agent" {
            let crates = OF_THE_PROGRAM.iter();
            directives.extend(crates.map(|name| format!("{name}{level}")));
        }
        directives.push(directive.to_owned());
    }
    directives.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_names_the_program_means_the_crates_it_is_made_of() {
        let filter = with_crates("warn,nm_agent=debug,wire=info");
        assert!(
            filter.starts_with("warn,container_runtime=debug,"),
            "{filter}"
        );
        assert!(filter.ends_with(",nm_agent=debug,wire=info"), "{filter}");
    }

    #[test]
    fn colours_are_for_terminals_of_people_who_have_not_declined() {
        let of = |set: &[(&str, &str)]| {
            let owned = set
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()));
            owned.collect::<BTreeMap<_, _>>()
        };
        assert!(wants_colours(true, &of(&[("NO_COLOR", "")])));
        assert!(!wants_colours(true, &of(&[("NO_COLOR", "1")])));
        assert!(!wants_colours(true, &of(&[("TERM", "dumb")])));
        assert!(!wants_colours(false, &of(&[])));
    }

    #[test]
    fn a_filter_that_does_not_stays_as_it_is() {
        for filter in ["info", "", "wire=debug,mini_rm", "nm_agentx=debug"] {
            assert_eq!(with_crates(filter), filter);
        }
    }
}
