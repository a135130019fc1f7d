//! Selection of log files by an application's patterns. Pure.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

use crate::policy::{Policy, UnknownPolicy};

/// Memory of a compiled pattern, in bytes. A pattern comes from whoever submits an application.
const PATTERN_BYTES_MAX: usize = 256 * 1024;

/// Wishes of an application about its logs (Hadoop: `LogAggregationContext`). Empty texts are
/// absent ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogAggregationContext {
    /// Files to aggregate when the application has finished.
    pub include: String,
    /// Files not to aggregate then.
    pub exclude: String,
    /// Files to aggregate while the application runs.
    pub rolled_include: String,
    /// Files not to aggregate then.
    pub rolled_exclude: String,
    /// Class of the application's own policy.
    pub policy_class: String,
    /// Parameters of that policy.
    pub policy_parameters: String,
}

/// Names that one pair of patterns selects.
#[derive(Debug, Default)]
struct Pair {
    include: Option<Regex>,
    exclude: Option<Regex>,
}

impl Pair {
    fn read(include: &str, exclude: &str) -> Result<Self, regex::Error> {
        Ok(Self {
            include: compile(include)?,
            exclude: compile(exclude)?,
        })
    }

    /// Returns whether the file is selected. A pattern may match anywhere in the name.
    fn selects(&self, name: &str) -> bool {
        let is_in = |pattern: &Option<Regex>| pattern.as_ref().map(|it| it.is_match(name));
        is_in(&self.include) != Some(false) && is_in(&self.exclude) != Some(true)
    }
}

fn compile(pattern: &str) -> Result<Option<Regex>, regex::Error> {
    if pattern.is_empty() {
        return Ok(None);
    }
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(PATTERN_BYTES_MAX);
    builder.dfa_size_limit(PATTERN_BYTES_MAX);
    builder.build().map(Some)
}

/// When the files of a container are uploaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The container runs.
    Running,
    /// The container has ended, its application has not.
    ContainerEnded,
    /// The application has finished.
    ApplicationFinished,
}

/// Files and containers of one application that are aggregated.
#[derive(Debug)]
pub struct Selection {
    policy: Policy,
    context: LogAggregationContext,
    /// Patterns for the end and for the time before. They are compiled when the first file asks,
    /// which is on a thread of an upload: compiling may take milliseconds.
    pairs: OnceLock<(Pair, Pair)>,
}

impl Selection {
    /// Takes an application's context. `policy` is the node's, for an application without one; an
    /// application whose policy is unknown gets the node's, too, as in Hadoop.
    #[must_use]
    pub fn new(context: LogAggregationContext, policy: Policy) -> Self {
        let policy = match context.policy_class.as_str() {
            "" => policy,
            class => Policy::read(class, &context.policy_parameters).unwrap_or_else(
                |error: UnknownPolicy| {
                    tracing::warn!(%error, ?policy, "the node's policy is used instead");
                    policy
                },
            ),
        };
        Self {
            policy,
            context,
            pairs: OnceLock::new(),
        }
    }

    /// Returns the policy that chooses containers.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Returns whether some files are uploaded while the application runs.
    #[must_use]
    pub fn has_rolled(&self) -> bool {
        !self.context.rolled_include.is_empty()
    }

    /// Returns whether a file is uploaded (Hadoop: `LogValue.getPendingLogFilesToUpload`).
    #[must_use]
    pub fn selects(&self, phase: Phase, name: &str) -> bool {
        let (at_end, rolled) = self.pairs.get_or_init(|| self.compile());
        let is_rolled = || self.has_rolled() && rolled.selects(name);
        match phase {
            Phase::Running => is_rolled(),
            Phase::ContainerEnded => at_end.selects(name) || is_rolled(),
            Phase::ApplicationFinished => at_end.selects(name),
        }
    }

    /// Compiles the patterns. A pair that is no expression, too large, or has what only Java's
    /// expressions have, such as looking ahead, selects every file: a log too many is no loss.
    fn compile(&self) -> (Pair, Pair) {
        let context = &self.context;
        let pair = |include: &str, exclude: &str| {
            Pair::read(include, exclude).unwrap_or_else(|error| {
                tracing::warn!(include, exclude, %error, "patterns for logs cannot be used; all are taken");
                Pair::default()
            })
        };
        (
            pair(&context.include, &context.exclude),
            pair(&context.rolled_include, &context.rolled_exclude),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(context: LogAggregationContext) -> Selection {
        Selection::new(context, Policy::All)
    }

    #[test]
    fn without_a_context_every_file_is_taken_at_the_end_and_none_before() {
        let selection = selection(LogAggregationContext::default());
        assert!(selection.selects(Phase::ApplicationFinished, "stdout"));
        assert!(selection.selects(Phase::ContainerEnded, "stdout"));
        assert!(!selection.selects(Phase::Running, "stdout"));
        assert!(!selection.has_rolled());
    }

    #[test]
    fn patterns_match_anywhere_and_exclusion_has_the_last_word() {
        let selection = selection(LogAggregationContext {
            include: "std|sys".to_owned(),
            exclude: "err".to_owned(),
            rolled_include: r"\.log\.\d+$".to_owned(),
            rolled_exclude: "secret".to_owned(),
            ..Default::default()
        });
        let taken = |phase| {
            let names = [
                "stdout",
                "stderr",
                "my.syslog",
                "gc",
                "a.log.1",
                "secret.log.1",
            ];
            names.map(|name| selection.selects(phase, name))
        };
        assert_eq!(
            taken(Phase::ApplicationFinished),
            [true, false, true, false, false, false]
        );
        assert_eq!(
            taken(Phase::Running),
            [false, false, false, false, true, false]
        );
        assert_eq!(
            taken(Phase::ContainerEnded),
            [true, false, true, false, true, false]
        );
    }

    #[test]
    fn the_applications_policy_replaces_the_nodes_if_it_is_known() {
        let read = |class: &str| {
            let context = LogAggregationContext {
                policy_class: class.to_owned(),
                ..Default::default()
            };
            selection(context).policy()
        };
        assert_eq!(read(""), Policy::All);
        assert_eq!(read("x.AMOnlyLogAggregationPolicy"), Policy::AmOnly);
        assert_eq!(read("x.Mine"), Policy::All);
    }

    #[test]
    fn patterns_that_cannot_be_used_select_every_file() {
        for pattern in ["(", "(?!x)", "(a{1000}){1000}"] {
            let selection = selection(LogAggregationContext {
                include: pattern.to_owned(),
                exclude: "stderr".to_owned(),
                ..Default::default()
            });
            assert!(
                selection.selects(Phase::ApplicationFinished, "stderr"),
                "{pattern}"
            );
        }
    }
}
