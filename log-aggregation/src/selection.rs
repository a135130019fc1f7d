//! Selection of log files by an application's patterns. Pure.

use regex::{Regex, RegexBuilder};

use crate::policy::{Policy, UnknownPolicy};

/// Memory of a compiled pattern, in bytes. A pattern comes from whoever submits an application.
const PATTERN_BYTES_MAX: usize = 256 * 1024;

/// What an application says about its logs (Hadoop: `LogAggregationContext`). Empty texts are
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

/// A pattern that this agent cannot use: it is none, too large, or has what only Java's patterns
/// have, such as looking ahead.
#[derive(Debug, thiserror::Error)]
#[error("the pattern {pattern:?} of the application cannot be used")]
pub struct BadPattern {
    /// The pattern.
    pub pattern: String,
    /// Reason.
    #[source]
    pub source: Box<regex::Error>,
}

/// Names that one pair of patterns selects.
#[derive(Debug, Default)]
struct Pair {
    include: Option<Regex>,
    exclude: Option<Regex>,
}

impl Pair {
    fn read(include: &str, exclude: &str) -> Result<Self, BadPattern> {
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

fn compile(pattern: &str) -> Result<Option<Regex>, BadPattern> {
    if pattern.is_empty() {
        return Ok(None);
    }
    let built = RegexBuilder::new(pattern)
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .build();
    built.map(Some).map_err(|error| BadPattern {
        pattern: pattern.to_owned(),
        source: Box::new(error),
    })
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
    at_end: Pair,
    /// `None`: nothing is uploaded while the application runs.
    rolled: Option<Pair>,
}

impl Selection {
    /// Reads an application's context. `policy` is the node's, for an application without one; an
    /// application whose policy is unknown gets the node's, too, as in Hadoop.
    ///
    /// # Errors
    /// [`BadPattern`].
    pub fn read(context: &LogAggregationContext, policy: Policy) -> Result<Self, BadPattern> {
        let own = match context.policy_class.as_str() {
            "" => policy,
            class => Policy::read(class, &context.policy_parameters).unwrap_or_else(
                |error: UnknownPolicy| {
                    tracing::warn!(%error, ?policy, "the node's policy is used instead");
                    policy
                },
            ),
        };
        let rolled = (!context.rolled_include.is_empty())
            .then(|| Pair::read(&context.rolled_include, &context.rolled_exclude));
        Ok(Self {
            policy: own,
            at_end: Pair::read(&context.include, &context.exclude)?,
            rolled: rolled.transpose()?,
        })
    }

    /// Returns the policy that chooses containers.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Returns whether some files are uploaded while the application runs.
    #[must_use]
    pub fn has_rolled(&self) -> bool {
        self.rolled.is_some()
    }

    /// Returns whether a file is uploaded (Hadoop: `LogValue.getPendingLogFilesToUpload`).
    #[must_use]
    pub fn selects(&self, phase: Phase, name: &str) -> bool {
        let rolled = || self.rolled.as_ref().is_some_and(|pair| pair.selects(name));
        match phase {
            Phase::Running => rolled(),
            Phase::ContainerEnded => self.at_end.selects(name) || rolled(),
            Phase::ApplicationFinished => self.at_end.selects(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(context: &LogAggregationContext) -> Selection {
        Selection::read(context, Policy::All).unwrap()
    }

    #[test]
    fn without_a_context_every_file_is_taken_at_the_end_and_none_before() {
        let selection = selection(&LogAggregationContext::default());
        assert!(selection.selects(Phase::ApplicationFinished, "stdout"));
        assert!(selection.selects(Phase::ContainerEnded, "stdout"));
        assert!(!selection.selects(Phase::Running, "stdout"));
        assert!(!selection.has_rolled());
    }

    #[test]
    fn patterns_match_anywhere_and_exclusion_has_the_last_word() {
        let selection = selection(&LogAggregationContext {
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
            selection(&context).policy()
        };
        assert_eq!(read(""), Policy::All);
        assert_eq!(read("x.AMOnlyLogAggregationPolicy"), Policy::AmOnly);
        assert_eq!(read("x.Mine"), Policy::All);
    }

    #[test]
    fn a_pattern_that_cannot_be_used_is_named() {
        let read = |include: &str| {
            let context = LogAggregationContext {
                include: include.to_owned(),
                ..Default::default()
            };
            Selection::read(&context, Policy::All)
        };
        for pattern in ["(", "(?!x)", "(a{1000}){1000}"] {
            assert_eq!(read(pattern).unwrap_err().pattern, pattern);
        }
    }
}
