//! The user that containers run as: Hadoop's executor, and the rules of its setuid helper.
//!
//! The helper's file `container-executor.cfg` is looked for in the configuration's folders. It says
//! who may run containers, so only the agent's user and root may be able to change it.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use hadoop_conf::{Expected, PropertyReader};
use users::{ExecutorCfg, Rules, RunAs, UserPattern};

use super::keys;
use super::read_kerberos::is_secure;
use super::read_security::{CONTAINER_EXECUTOR, is_accepted, unprotected};
use super::sections::{ContainerExecutor, UsersConfig};

/// Name of the helper's file.
const EXECUTOR_CFG: &str = "container-executor.cfg";
/// Limit on its length in bytes. Hadoop's own has some 2 KiB.
const EXECUTOR_CFG_BYTES_MAX: u64 = 1 << 20;
/// Mode bits with which others than the owner may change a file.
const OTHERS_WRITE: u32 = 0o022;

/// Hadoop's executor that the configuration names, whoever containers run as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExecutorClass {
    /// `DefaultContainerExecutor`.
    Default,
    /// `LinuxContainerExecutor`.
    Linux,
}

/// Reads the class of the executor; `None`: another one.
pub(super) fn executor_class(reader: &mut PropertyReader<'_>) -> Option<ExecutorClass> {
    const PACKAGE: &str = "org.apache.hadoop.yarn.server.nodemanager.";
    let class = reader.text(CONTAINER_EXECUTOR.name).unwrap_or_default();
    match class.strip_prefix(PACKAGE).unwrap_or(&class) {
        "DefaultContainerExecutor" => Some(ExecutorClass::Default),
        "LinuxContainerExecutor" => Some(ExecutorClass::Linux),
        _ => None,
    }
}

/// Reads which user containers run as.
pub(super) fn executor(
    reader: &mut PropertyReader<'_>,
    conf_dirs: &[PathBuf],
) -> ContainerExecutor {
    const NAME: &str = CONTAINER_EXECUTOR.name;
    let class = executor_class(reader);
    let is_linux = class == Some(ExecutorClass::Linux);
    let users = reader.only_if(is_linux, "without LinuxContainerExecutor", users);
    match class {
        Some(ExecutorClass::Default) => {
            // Containers of all users could read the node's keytab.
            if is_secure(reader) {
                unprotected(reader, &CONTAINER_EXECUTOR);
            }
            ContainerExecutor::Own
        }
        Some(ExecutorClass::Linux) => {
            if is_accepted(reader, &CONTAINER_EXECUTOR) {
                return ContainerExecutor::Own;
            }
            let Some(mut users) = users else {
                return ContainerExecutor::Own;
            };
            if let Err(defect) = apply_file(conf_dirs, &mut users) {
                reader.problem(NAME, Expected::Rule(defect.into()));
            }
            ContainerExecutor::Users(users)
        }
        None => {
            let known = vec!["DefaultContainerExecutor", "LinuxContainerExecutor"];
            reader.problem(NAME, Expected::OneOf(known));
            ContainerExecutor::Own
        }
    }
}

/// Reads the properties; `None` if one of them is a problem.
fn users(reader: &mut PropertyReader<'_>) -> Option<UsersConfig> {
    const PATTERN: &str = "yarn.nodemanager.linux-container-executor.nonsecure-mode.user-pattern";
    const LOCAL_USER: &str = "yarn.nodemanager.linux-container-executor.nonsecure-mode.local-user";
    let is_limited =
        reader.flag("yarn.nodemanager.linux-container-executor.nonsecure-mode.limit-users");
    let local_user = reader.text(LOCAL_USER).unwrap_or_default();
    let group = reader.text("yarn.nodemanager.linux-container-executor.group");
    // In a secure cluster the user is proven, and what limits unproven ones has no meaning, as in
    // Hadoop.
    let is_secure = is_secure(reader);
    let why = "with hadoop.security.authentication = kerberos";
    let pattern = reader.only_if(!is_secure, why, |reader| {
        let text = reader.text(PATTERN).unwrap_or_default();
        UserPattern::new(&text).map_err(|error| {
            let rule = format!("must be a regular expression without look-around: {error}");
            reader.problem(PATTERN, Expected::Rule(rule.into()));
        })
    });
    if is_secure {
        let by_default = keys::find(PATTERN).and_then(|key| key.default);
        let pattern = UserPattern::new(by_default.unwrap_or_default()).ok()?;
        let rules = Rules::new(RunAs::Submitter, pattern);
        return Some(UsersConfig { rules, group });
    }
    let run_as = if is_limited {
        RunAs::One(local_user)
    } else {
        RunAs::Submitter
    };
    let rules = Rules::new(run_as, pattern.ok()?);
    Some(UsersConfig { rules, group })
}

/// Applies the first `container-executor.cfg` of the folders, if there is one.
///
/// # Errors
/// The end of a sentence that begins with the property: the file cannot be used.
fn apply_file(conf_dirs: &[PathBuf], users: &mut UsersConfig) -> Result<(), String> {
    let mut paths = conf_dirs.iter().map(|folder| folder.join(EXECUTOR_CFG));
    let Some(path) = paths.find(|path| path.exists()) else {
        return Ok(());
    };
    let shown = path.display();
    let text = read(&path).map_err(|error| format!("needs {shown} to be readable: {error}"))?;
    let cfg = ExecutorCfg::parse(&text).map_err(|error| format!("needs {shown}: {error}"))?;
    cfg.apply(&mut users.rules);
    match (&users.group, cfg.group) {
        (Some(of_property), Some(of_file)) if *of_property != of_file => Err(format!(
            "needs one group: yarn.nodemanager.linux-container-executor.group is {of_property} \
             here and {of_file} in {shown}"
        )),
        (None, of_file) => {
            users.group = of_file;
            Ok(())
        }
        (Some(_), _) => Ok(()),
    }
}

fn read(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    let status = file.metadata()?;
    let own = nix::unistd::geteuid().as_raw();
    let may_change = status.uid() != 0 && status.uid() != own || status.mode() & OTHERS_WRITE != 0;
    if !status.is_file() || may_change {
        let why = "the file must belong to root or the agent's user, and nobody else may write it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let mut text = String::new();
    file.take(EXECUTOR_CFG_BYTES_MAX)
        .read_to_string(&mut text)?;
    Ok(text)
}
