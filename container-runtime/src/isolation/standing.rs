//! Whether cgroups are used and what is missing: told once at start, in the metrics, and by `nm-agent check`.

use std::fmt;

use cgroup::{Controller, Missing, Root, Unusable, Version};

use super::{layout, root_config};
use crate::config::CgroupConfig;

/// How it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Containers have cgroups.
    Used {
        /// Of which kind the host is.
        version: Version,
        /// What was asked for and is not to be had, with the reason. Empty: all is there.
        missing: Vec<String>,
    },
    /// Nothing asks for them, and none was delegated.
    NotAskedFor,
    /// They were asked for and cannot be had: containers have process groups only.
    Unusable {
        /// Why.
        reason: String,
    },
}

impl Standing {
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
        if !config.asked_for {
            return Self::NotAskedFor;
        }
        Self::Unusable {
            reason: crate::error_chain(&reason),
        }
    }

    /// What a start would find, without changing anything. Whether a cgroup will be delegated cannot be seen beforehand.
    #[must_use]
    pub fn foreseen(config: &CgroupConfig) -> Self {
        if !config.asked_for {
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

    /// Whether something that was asked for cannot be had.
    #[must_use]
    pub fn lacks(&self) -> bool {
        match self {
            Self::Used { missing, .. } => !missing.is_empty(),
            Self::NotAskedFor => false,
            Self::Unusable { .. } => true,
        }
    }

    /// One line for the log.
    pub fn log(&self) {
        match self {
            Self::Used { missing, .. } if missing.is_empty() => tracing::info!("{self}"),
            Self::Used { .. } | Self::Unusable { .. } => tracing::warn!("{self}"),
            Self::NotAskedFor => tracing::debug!("{self}"),
        }
    }
}

impl fmt::Display for Standing {
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

/// What the configuration does not ask for need not be missed.
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
