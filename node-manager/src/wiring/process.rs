//! Facts about the process in which the agent runs, and the release that it stands in for.

use std::collections::BTreeMap;
use std::path::PathBuf;

use node_web::site::LogLevels;
use service::Manager;
use time::UtcOffset;

use crate::reload::Reloading;

/// The Hadoop release whose NodeManager this agent stands in for: the version that it registers
/// with.
pub const HADOOP_VERSION: &str = "3.4.2";

/// Time at which that release was built, as its NodeManager's REST reports it.
pub(super) const HADOOP_BUILT_ON: &str = "2025-08-20T10:30Z";

/// Facts about the process in which the agent runs. Nothing below the program asks the process for
/// them.
#[derive(Clone, Debug)]
pub struct Process {
    /// Environment of the process: the source of the variables that
    /// `yarn.nodemanager.env-whitelist` lets containers have.
    pub environment: BTreeMap<String, String>,
    /// Folders of the configuration, for what is read again while the agent runs; empty: nothing
    /// is.
    pub conf_dirs: Vec<PathBuf>,
    /// Means to read the configuration again.
    pub reloading: Reloading,
    /// Levels of the log, for `/logLevel`; `None`: something else decides them.
    pub log_levels: Option<LogLevels>,
    /// Local time's distance from UTC, for times that people read.
    pub utc_offset: UtcOffset,
    /// Service manager of the process.
    pub manager: Manager,
}
