//! Log of the process: its destination and its filter.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, reload};

pub use tracing::level_filters::LevelFilter;

use crate::escaped::Escaped;
use crate::journal::{AUDIT, Journal};

/// Crates that a filter means when it names the program: those of the node and of the quick start.
const OF_THE_PROGRAM: [&str; 6] = [
    "container_runtime",
    "hadoop_conf",
    "localize",
    "node_manager",
    "node_web",
    "quickstart",
];

/// Form of a log's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text for people.
    #[default]
    Text,
    /// A JSON object in each line: `timestamp` (RFC 3339, UTC), `level`, `target`, and the fields
    /// of the entry, of which `message` is its text.
    Json,
}

impl Format {
    /// Returns the format of this name in `NM_AGENT_LOG_FORMAT`; `None`: there is none of it.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "" | "text" => Some(Self::Text),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// Starts the log: lines that pass `filter` go to `writer`, as text with colours if `is_coloured`.
/// May be called once in a process.
///
/// Texts of others reach the log in one line each: line feeds, ESC and other control characters are
/// written as Rust or JSON escapes, so that they neither forge lines nor operate the reader's
/// terminal. Tabs stay in text.
///
/// Lines that cannot be written are lost without a message: a reader that has gone away, or a full
/// disk, ends no part of the agent. The subscriber would report on standard error, and panic if
/// standard error is what cannot be written to.
///
/// Returns the filter, which may change later.
pub fn start<W>(filter: &str, format: Format, writer: W, is_coloured: bool) -> Filter
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt()
        .with_env_filter(parsed(filter))
        .with_writer(writer)
        .log_internal_errors(false);
    // The filter last, since its type has those of the others.
    match format {
        Format::Text => {
            let builder = builder
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
                .with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            Filter::of(filter, handle)
        }
        Format::Json => {
            let builder = builder
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .with_span_list(false)
                .with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            Filter::of(filter, handle)
        }
    }
}

/// Starts the log as [`start`] does, with its lines sent to the journal: they have the fields that
/// [`Journal`] says, and neither time nor colours.
pub fn start_in_journal(filter: &str, journal: Journal) -> Filter {
    let (layer, handle) = reload::Layer::new(parsed(filter));
    tracing_subscriber::registry()
        .with(layer)
        .with(journal)
        .init();
    Filter::of(filter, handle)
}

/// Returns whether people at this terminal want colours (<https://no-color.org>).
#[must_use]
pub fn wants_colours(is_terminal: bool, environment: &BTreeMap<String, String>) -> bool {
    let declines = |name: &str| environment.get(name).is_some_and(|value| !value.is_empty());
    let is_dumb = environment.get("TERM").is_some_and(|term| term == "dumb");
    is_terminal && !is_dumb && !declines("NO_COLOR")
}

/// Targets at most whose levels are set apart from the configured filter.
const SET_MAX: usize = 64;

/// Filter of the process's log, which may change.
#[derive(Clone)]
pub struct Filter {
    directives: Arc<Mutex<Directives>>,
    apply: Arc<dyn Fn(&str) + Send + Sync>,
}

/// A level that is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelRefused {
    /// Levels of too many targets are set already.
    TooManyTargets,
    /// The level of audit lines is only configured: who sets levels cannot hide what was done.
    Audit,
}

impl fmt::Display for LevelRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyTargets => write!(f, "levels of {SET_MAX} targets are set already"),
            Self::Audit => f.write_str("the level of audit lines is that of the configuration"),
        }
    }
}

impl std::error::Error for LevelRefused {}

impl Filter {
    fn of<S: 'static>(filter: &str, handle: reload::Handle<EnvFilter, S>) -> Self {
        let directives = Directives {
            configured: filter.to_owned(),
            set: Vec::new(),
        };
        Self {
            directives: Arc::new(Mutex::new(directives)),
            apply: Arc::new(move |text| {
                // Fails only once the log has ended, with the process.
                let _ended = handle.reload(parsed(text));
            }),
        }
    }

    /// Replaces the configured filter. Directives that cannot be read are left out. Levels that
    /// [`Filter::set_level`] has set stay.
    pub fn set(&self, filter: &str) {
        let mut directives = self.lock();
        filter.clone_into(&mut directives.configured);
        (self.apply)(&directives.text());
    }

    /// Sets the level of a target and of those below it; an empty target means all that have no
    /// level of their own.
    ///
    /// # Errors
    /// [`LevelRefused`]: then nothing has changed.
    pub fn set_level(&self, target: &str, level: LevelFilter) -> Result<(), LevelRefused> {
        let mut directives = self.lock();
        directives.set(target, level)?;
        (self.apply)(&directives.text());
        Ok(())
    }

    /// Returns the level of a target.
    #[must_use]
    pub fn level(&self, target: &str) -> LevelFilter {
        self.lock().level(target)
    }

    fn lock(&self) -> MutexGuard<'_, Directives> {
        // Each change is complete before anything can panic.
        self.directives
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Filter")
    }
}

/// Text of a filter: the configured one, and levels set while the process runs.
#[derive(Debug)]
struct Directives {
    configured: String,
    /// Targets with their levels; the last is what was set last.
    set: Vec<(String, LevelFilter)>,
}

impl Directives {
    fn set(&mut self, target: &str, level: LevelFilter) -> Result<(), LevelRefused> {
        if target == AUDIT {
            return Err(LevelRefused::Audit);
        }
        let is_known = self.set.iter().any(|(known, _)| known == target);
        if !is_known && self.set.len() >= SET_MAX {
            return Err(LevelRefused::TooManyTargets);
        }
        self.set.retain(|(known, _)| known != target);
        self.set.push((target.to_owned(), level));
        Ok(())
    }

    fn text(&self) -> String {
        let mut text = self.configured.clone();
        for (target, level) in &self.set {
            let separator = if target.is_empty() { "" } else { "=" };
            text.push_str(&format!(",{target}{separator}{level}"));
        }
        if !self.set.is_empty() {
            let audit = level_in(&self.configured, AUDIT);
            text.push_str(&format!(",{AUDIT}={audit}"));
        }
        text
    }

    fn level(&self, target: &str) -> LevelFilter {
        level_in(&self.text(), target)
    }
}

/// Returns the level of a target by the longest directive of a filter that the target begins with,
/// as [`EnvFilter`] does; the last one counts if there are several.
fn level_in(filter: &str, target: &str) -> LevelFilter {
    let filter = with_crates(filter);
    let mut found = (0, LevelFilter::OFF);
    for directive in filter.split(',').map(str::trim) {
        let (name, level) = match directive.split_once('=') {
            Some((name, level)) => (name, level.parse().ok()),
            None => match directive.parse() {
                Ok(level) => ("", Some(level)),
                Err(_) => (directive, Some(LevelFilter::TRACE)),
            },
        };
        if let Some(level) = level
            && target.starts_with(name)
            && name.len() >= found.0
        {
            found = (name.len(), level);
        }
    }
    found.1
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
    fn a_level_that_is_set_goes_before_the_configured_one_and_outlives_it() {
        let mut directives = Directives {
            configured: "warn,nm_agent=info".to_owned(),
            set: Vec::new(),
        };
        assert_eq!(directives.level("localize::cache"), LevelFilter::INFO);
        assert_eq!(directives.level("wire"), LevelFilter::WARN);
        directives.set("localize", LevelFilter::TRACE).unwrap();
        directives.set("", LevelFilter::ERROR).unwrap();
        "debug".clone_into(&mut directives.configured);
        assert_eq!(directives.text(), "debug,localize=trace,error,audit=debug");
        assert_eq!(directives.level("localize::cache"), LevelFilter::TRACE);
        assert_eq!(directives.level("wire"), LevelFilter::ERROR);
        // The program means its crates, also those that were set before.
        directives.set("nm_agent", LevelFilter::DEBUG).unwrap();
        assert_eq!(directives.level("localize"), LevelFilter::DEBUG);
        assert_eq!(directives.level("nm_agent"), LevelFilter::DEBUG);
    }

    #[test]
    fn levels_are_set_for_a_bounded_number_of_targets() {
        let mut directives = Directives {
            configured: String::new(),
            set: Vec::new(),
        };
        for number in 0..SET_MAX {
            let target = format!("t{number}");
            directives.set(&target, LevelFilter::DEBUG).unwrap();
        }
        let refused = directives.set("more", LevelFilter::DEBUG);
        assert_eq!(refused, Err(LevelRefused::TooManyTargets));
        directives.set("t0", LevelFilter::WARN).unwrap();
        assert_eq!(directives.level("t0"), LevelFilter::WARN);
    }

    #[test]
    fn who_sets_levels_hides_no_audit_lines() {
        let mut directives = Directives {
            configured: "info".to_owned(),
            set: Vec::new(),
        };
        let refused = directives.set(AUDIT, LevelFilter::OFF);
        assert_eq!(refused, Err(LevelRefused::Audit));
        for target in ["", "audi"] {
            directives.set(target, LevelFilter::OFF).unwrap();
        }
        assert_eq!(directives.level(AUDIT), LevelFilter::INFO);
        assert_eq!(directives.level("wire"), LevelFilter::OFF);
    }

    #[test]
    fn formats_are_known_by_name() {
        assert_eq!(Format::of_name("JSON"), Some(Format::Json));
        assert_eq!(Format::of_name(""), Some(Format::Text));
        assert_eq!(Format::of_name("xml"), None);
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
