//! Whether cgroups are used and what is missing: reported once at start, in the metrics, and by
//! `nm-agent check`.

use std::fmt;

use cgroup::{Controller, Missing, Root, Unusable, Version};

use super::{layout, root_config};
use crate::config::CgroupConfig;

/// Availability of cgroups on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// Containers have cgroups.
    Used {
        /// Kind of host.
        version: Version,
        /// Controllers that are configured but unusable, each with the reason. Empty: all work.
        missing: Vec<String>,
    },
    /// No property needs cgroups, and none was delegated.
    NotAskedFor,
    /// Configured but unusable: containers have process groups only.
    Unusable {
        /// Cause, with the errors behind it.
        reason: String,
    },
}

impl Availability {
    pub(super) fn with(config: &CgroupConfig, root: &Root) -> Self {
        Self::used(config, root.version(), root.missing())
    }

    fn used(config: &CgroupConfig, version: Version, missing: &[Missing]) -> Self {
        let missing = missing.iter();
        Self::Used {
            version,
            missing: missing
                .filter(|missing| is_asked_for(config, missing))
                .map(text)
                .collect(),
        }
    }

    pub(super) fn without(config: &CgroupConfig, reason: Unusable) -> Self {
        if !config.asked_for && matches!(reason, Unusable::NotDelegated) {
            return Self::NotAskedFor;
        }
        Self::Unusable {
            reason: crate::error_chain(&reason),
        }
    }

    /// Returns what a start would find, without changing anything. Whether a cgroup will be
    /// delegated cannot be known beforehand.
    #[must_use]
    pub fn foreseen(config: &CgroupConfig) -> Self {
        if !config.asked_for && config.delegated.is_none() {
            return Self::NotAskedFor;
        }
        let layout = layout(config);
        match Root::probe(&layout, &root_config(config)) {
            Ok(missing) => Self::used(config, layout.version(), &missing),
            Err(reason) => Self::without(config, reason),
        }
    }

    /// Whether containers have cgroups.
    #[must_use]
    pub fn is_used(&self) -> bool {
        match self {
            Self::Used { .. } => true,
            Self::NotAskedFor | Self::Unusable { .. } => false,
        }
    }

    /// Whether something that is configured does not work.
    #[must_use]
    pub fn lacks(&self) -> bool {
        match self {
            Self::Used { missing, .. } => !missing.is_empty(),
            Self::NotAskedFor => false,
            Self::Unusable { .. } => true,
        }
    }

    /// Logs one line.
    pub fn log(&self) {
        match self {
            Self::Used { missing, .. } if missing.is_empty() => tracing::info!("{self}"),
            Self::Used { .. } | Self::Unusable { .. } => tracing::warn!("{self}"),
            Self::NotAskedFor => tracing::debug!("{self}"),
        }
    }
}

impl fmt::Display for Availability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Used { version, missing } if missing.is_empty() => {
                write!(f, "containers run in cgroups ({version})")
            }
            Self::Used { version, missing } => {
                let missing = missing.join("; ");
                write!(
                    f,
                    "containers run in cgroups ({version}), but without {missing}"
                )
            }
            Self::NotAskedFor => {
                f.write_str("containers run without cgroups: nothing asks for them")
            }
            Self::Unusable { reason } => write!(
                f,
                "cgroups cannot be used, so containers have no limits and cannot be frozen: {reason}"
            ),
        }
    }
}

/// Whether the configuration needs one of the missing controllers.
fn is_asked_for(config: &CgroupConfig, missing: &Missing) -> bool {
    missing
        .controllers
        .iter()
        .any(|controller| match controller {
            Controller::Cpu => config.cpu,
            Controller::Memory => config.memory,
            Controller::Io => config.io,
            Controller::Pids => config.pids_max.is_some() && config.asked_for,
            Controller::Freezer => true,
            Controller::Cpuacct => false,
        })
}

fn text(missing: &Missing) -> String {
    let names: Vec<String> = missing
        .controllers
        .iter()
        .map(ToString::to_string)
        .collect();
    format!(
        "{}: {}",
        names.join(", "),
        crate::error_chain(&missing.reason)
    )
}

#[cfg(test)]
mod tests {
    use super::super::limits::tests::rules;
    use super::super::open;
    use super::*;

    #[test]
    fn cgroups_that_are_not_configured_are_not_missed() {
        let mut config = rules().config;
        config.asked_for = false;
        let layout = cgroup::Layout::of_this_process().without_unified();
        let reason = open(&config, &layout).unwrap_err();
        assert!(matches!(reason, Unusable::NotDelegated), "{reason:?}");
        let availability = Availability::without(&config, reason);
        assert_eq!(availability, Availability::NotAskedFor);
        assert!(!availability.lacks() && !availability.is_used());
    }

    #[test]
    fn missing_controllers_are_reported_with_their_reason() {
        let availability = Availability::without(&rules().config, Unusable::NotMounted);
        assert!(availability.lacks());
        let text = availability.to_string();
        assert!(text.ends_with("no cgroup hierarchy is mounted"), "{text}");
        let partly = Availability::Used {
            version: Version::V1,
            missing: vec!["memory: no right to use it".to_owned()],
        };
        assert!(partly.lacks() && partly.is_used());
    }
}
