//! A launch that is ready for its process.

use std::ffi::CString;
use std::sync::Arc;

use users::Account;

use crate::launch::context::PlanError;
use crate::launch::debug_info::{DebugJob, DebugTicket, Undescribed};
use crate::launch::environment::ContainerEnvironment;
use crate::launch::files::Directory;
use crate::launch::links::ResolvedLink;
use crate::launch::spawn::Bash;

/// A launch whose files for bash are all on disk.
pub(super) struct Prepared {
    pub(super) work_dir: Directory,
    pub(super) log_dir: Directory,
    pub(super) environment: ContainerEnvironment,
    /// Path of the script, for bash.
    pub(super) script_path: CString,
    /// Bash that runs the command, where the script need not run.
    pub(super) one_bash: Option<Bash>,
    pub(super) script: String,
    pub(super) links: Vec<ResolvedLink>,
    /// Account of the process; `None`: the agent's own.
    pub(super) run_as: Option<Arc<Account>>,
}

impl Prepared {
    /// Returns the bash that runs the script.
    pub(super) fn script_bash(&self) -> Result<Bash, PlanError> {
        Ok(Bash {
            arguments: vec![self.script_path.clone()],
            environment: self.environment.process_environment()?,
            pid_entry: None,
        })
    }

    /// Returns the description to make once the process exists.
    pub(super) fn into_description(self) -> (DebugTicket, Undescribed) {
        DebugTicket::of(DebugJob {
            script: self.script,
            work_dir: self.work_dir,
            log_dir: self.log_dir,
            links: self.links,
            run_as: self.run_as,
        })
    }
}
