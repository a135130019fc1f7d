//! The machine as the steps use it: processes, Hadoop's scripts, the service manager, the agent.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use keeper::ProcessIdentity;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, User, geteuid};

use crate::record::Adoption;
use crate::scan::{Asked, Folders, StartedBy, scan};

/// Time between two looks at what is waited for.
const PAUSE: Duration = Duration::from_millis(100);

/// Limits on what is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time for the agent, and for the Java node, to register.
    pub register: Duration,
    /// Time for the ResourceManager to tell whether the Java node is registered.
    pub tell: Duration,
    /// Time for the Java node to listen.
    pub listen: Duration,
    /// Time for a node to end, and for a command to return.
    pub stop: Duration,
}

/// State of an agent, as the agent reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentState {
    /// Process id of the agent.
    pub pid: i32,
    /// Contact to the ResourceManager, in the agent's word.
    pub contact: String,
    /// Whether it is registered.
    pub is_registered: bool,
    /// Containers that run or wait.
    pub containers: u32,
}

/// The agent as the caller of this crate reaches it: by its configuration and its socket.
pub trait AgentView {
    /// Asks the agent that the configuration describes.
    ///
    /// # Errors
    /// The reason that no answer comes.
    fn state(&self) -> Result<AgentState, String>;

    /// Returns the folders of caches that an agent started now would use.
    ///
    /// # Errors
    /// The problems of the configuration.
    fn local_dirs(&self) -> Result<Vec<PathBuf>, String>;

    /// Returns the process that listens on a port, as far as this user may know.
    fn listener(&self, port: u16) -> Option<i32>;

    /// Returns whether the Java node that runs with the configuration is registered.
    ///
    /// # Errors
    /// The reason that it cannot be told.
    fn java_is_registered(&self) -> Result<bool, String>;
}

/// Order to the manager of the node: Hadoop's scripts or a unit of systemd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Start the node.
    Start,
    /// Stop the node.
    Stop,
    /// Tell by the exit status whether the node runs.
    Status,
}

/// Operations of the steps on the machine. A trait, so that tests can let each of them fail.
pub trait Machine {
    /// Gives the node's manager an order and waits until it returns.
    ///
    /// # Errors
    /// The manager's failure, in words.
    fn order(&self, adoption: &Adoption, order: Order) -> Result<(), String>;

    /// Sends SIGTERM to a process.
    fn terminate(&self, process: ProcessIdentity);

    /// Whether a process runs.
    fn lives(&self, process: ProcessIdentity) -> bool;

    /// Returns the Java node with the adoption's configuration, if one runs.
    fn java_node(&self, adoption: &Adoption) -> Option<ProcessIdentity>;

    /// Returns the agent as the caller sees it.
    fn agent(&self) -> &dyn AgentView;

    /// Looks again and again until `is_there` answers, for this long at most.
    fn wait(&self, limit: Duration, is_there: &mut dyn FnMut() -> bool) -> bool;
}

/// The machine that this process runs on.
pub struct ThisMachine<'a> {
    /// View of the agent.
    pub agent: &'a dyn AgentView,
    /// Environment of this process.
    pub environment: &'a BTreeMap<String, String>,
    /// Limits on what is waited for.
    pub limits: Limits,
}

impl Machine for ThisMachine<'_> {
    fn order(&self, adoption: &Adoption, order: Order) -> Result<(), String> {
        let mut command = command(adoption, order);
        if order == Order::Status {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.stdin(Stdio::null()).spawn();
        let mut child = child.map_err(|error| format!("{program}: {error}"))?;
        match self.end_of(&mut child) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("{program}: {status}")),
            None => Err(format!(
                "{program} has not returned for {} s and was killed",
                self.limits.stop.as_secs()
            )),
        }
    }

    fn terminate(&self, process: ProcessIdentity) {
        if process.lives() {
            // The process may end by itself first.
            let _gone = kill(Pid::from_raw(process.pid), Signal::SIGTERM);
        }
    }

    fn lives(&self, process: ProcessIdentity) -> bool {
        process.lives()
    }

    fn java_node(&self, adoption: &Adoption) -> Option<ProcessIdentity> {
        let scan = scan(&Asked {
            proc: Path::new("/proc"),
            conf: &adoption.conf,
            environment: self.environment,
            folders: &Folders::default(),
            main_pid: &|_| None,
        });
        scan.nodes.first().map(|node| node.process)
    }

    fn agent(&self) -> &dyn AgentView {
        self.agent
    }

    fn wait(&self, limit: Duration, is_there: &mut dyn FnMut() -> bool) -> bool {
        let begin = Instant::now();
        loop {
            if is_there() {
                return true;
            }
            if begin.elapsed() > limit {
                return false;
            }
            thread::sleep(PAUSE);
        }
    }
}

impl ThisMachine<'_> {
    /// Waits for the end of a command and kills it at the limit; `None`: it was killed.
    fn end_of(&self, child: &mut Child) -> Option<ExitStatus> {
        let mut status = None;
        let ended = self.wait(self.limits.stop, &mut || {
            status = child.try_wait().ok().flatten();
            status.is_some()
        });
        if !ended {
            let _gone = child.kill();
            let _reaped = child.wait();
        }
        status
    }
}

/// Returns the command that gives an order: `systemctl`, or Hadoop's script as the node's user.
fn command(adoption: &Adoption, order: Order) -> Command {
    if let StartedBy::Unit(unit) = &adoption.started_by {
        let verb = match order {
            Order::Start => "start",
            Order::Stop => "stop",
            Order::Status => "is-active",
        };
        let mut command = Command::new("systemctl");
        command.args([verb, "--", unit]);
        return command;
    }
    let mode = match order {
        Order::Start => "start",
        Order::Stop => "stop",
        Order::Status => "status",
    };
    let mut command = as_user(adoption.user, &adoption.yarn);
    command
        .arg("--config")
        .arg(&adoption.conf)
        .args(["--daemon", mode, "nodemanager"])
        .envs(&adoption.variables)
        // An interrupted nm-agent does not interrupt Hadoop's script.
        .process_group(0);
    command
}

/// Returns a command that runs a program as this user. The script and what it reads may be in that
/// user's hands, so root does not run it.
fn as_user(user: u32, program: &Path) -> Command {
    if geteuid().as_raw() == user {
        return Command::new(program);
    }
    let account = User::from_uid(Uid::from_raw(user)).ok().flatten();
    let group = account.map_or(user, |account| account.gid.as_raw());
    let mut command = Command::new("setpriv");
    command
        .arg(format!("--reuid={user}"))
        .arg(format!("--regid={group}"))
        .args(["--init-groups", "--"])
        .arg(program);
    command
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::record::tests::adoption;

    fn words(command: &Command) -> String {
        let words = [command.get_program()]
            .into_iter()
            .chain(command.get_args());
        let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
        words.join(" ")
    }

    #[test]
    fn hadoops_script_runs_as_the_nodes_user_with_its_configuration() {
        let own = Adoption {
            user: geteuid().as_raw(),
            ..adoption()
        };
        let script = "/hadoop/bin/yarn --config /conf --daemon stop nodemanager";
        assert_eq!(words(&command(&own, Order::Stop)), script);
        // No account has this id.
        let other = Adoption {
            user: 4_000_000_000,
            ..adoption()
        };
        let command = command(&other, Order::Stop);
        let privileges = "setpriv --reuid=4000000000 --regid=4000000000 --init-groups -- ";
        assert_eq!(words(&command), format!("{privileges}{script}"));
        let folder = OsStr::new("HADOOP_PID_DIR");
        assert!(command.get_envs().any(|(name, _)| name == folder));
    }

    #[test]
    fn a_unit_is_ordered_by_its_service_manager() {
        let adoption = Adoption {
            started_by: StartedBy::Unit("nm.service".to_owned()),
            ..adoption()
        };
        let text = words(&command(&adoption, Order::Start));
        assert_eq!(text, "systemctl start -- nm.service");
    }
}
