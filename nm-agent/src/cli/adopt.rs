//! `nm-agent adopt`: the place of a Java NodeManager, taken and given back.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use adopt::{
    Adoption, AgentState, AgentView, Asked, ConfFolder, Findings, Folders, Intent, Limits,
    PerformError, Plan, Record, Stage, Step, shown,
};
use clap::Args;
use hadoop_conf::ConfigProblems;
use nix::unistd::{AccessFlags, access, geteuid};
use node_admin::client::ask;
use node_admin::message::{Answer, Request};
use node_manager::config::{Config, Loaded, load_admin};
use program::holder;
use records::error_chain;

use super::{ConfDir, EXIT_BAD_CONFIGURATION, print_error};
use crate::check::{self, ThisMachine};
use crate::java_node;

/// Time for a node to end. Hadoop's scripts kill one after five seconds unless they are told
/// otherwise.
const STOP_LIMIT: Duration = Duration::from_secs(120);

/// Time for a Java node to come up on a busy machine, with much to recover.
const LISTEN_LIMIT: Duration = Duration::from_secs(300);

/// Time for a ResourceManager that is being started again to tell of the Java node.
const TELL_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(super) struct AdoptArguments {
    #[command(flatten)]
    conf: ConfDir,
    /// Do what is printed without it; an interrupted --go goes on
    #[arg(long, conflicts_with = "back")]
    go: bool,
    /// Undo what --go has done, or has begun to do
    #[arg(long)]
    back: bool,
    /// Let containers that run be lost
    #[arg(long)]
    lose_containers: bool,
    /// Hadoop's script [default: $HADOOP_YARN_HOME/bin/yarn, $HADOOP_HOME/bin/yarn, else yarn of
    /// $PATH]
    #[arg(long, value_name = "FILE")]
    yarn: Option<PathBuf>,
    /// Shell profile by which Hadoop's scripts start the agent
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/usr/lib/nm-agent/shellprofile.d/nm-agent.sh"
    )]
    profile: PathBuf,
    /// Time in seconds for a node to register
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    wait_s: u64,
}

type Environment = BTreeMap<String, String>;

/// Reason that nothing was done.
type Refused = String;

pub(super) fn adopt(arguments: &AdoptArguments, environment: &Environment) -> ExitCode {
    let folders = arguments.conf.folders(environment);
    let result = match &folders[..] {
        [conf] => run(arguments, conf, environment),
        _ => Err("no configuration of Hadoop was found: name its folder with --conf".to_owned()),
    };
    result.unwrap_or_else(|why| {
        print_error(format_args!("nm-agent: {why}"));
        ExitCode::from(EXIT_BAD_CONFIGURATION)
    })
}

fn run(
    arguments: &AdoptArguments,
    conf: &Path,
    environment: &Environment,
) -> Result<ExitCode, Refused> {
    let conf = std::path::absolute(conf).map_err(|error| format!("{}: {error}", conf.display()))?;
    let agent = Agent {
        conf_dirs: vec![conf.clone()],
        environment,
    };
    let folder = ConfFolder::open(&conf).map_err(|error| error_chain(&error))?;
    let record = folder.record().map_err(|error| error_chain(&error))?;
    if arguments.go || arguments.back {
        folder.writable().map_err(|error| error.to_string())?;
        let _lock = folder.lock().map_err(|error| error_chain(&error))?;
        // Another run may have ended meanwhile.
        let record = folder.record().map_err(|error| error_chain(&error))?;
        let record = match (record, arguments.back) {
            (Some(record), _) => resumed(arguments, record, &conf, &agent)?,
            (None, true) => {
                return Err(format!(
                    "there is no record of a --go in {}: nothing to go back from",
                    conf.display()
                ));
            }
            (None, false) => match planned(arguments, &conf, &folder, &agent) {
                plan if plan.refusals.is_empty() => {
                    Record::new(Stage::Going(Step::WriteSite), plan.adoption)
                }
                plan => return Ok(print_plan(&plan, EXIT_BAD_CONFIGURATION)),
            },
        };
        return Ok(perform(arguments, &record, &folder, &agent));
    }
    match record {
        Some(record) => Ok(print_record(&record)),
        None => Ok(print_plan(&planned(arguments, &conf, &folder, &agent), 0)),
    }
}

/// Returns the record of an earlier run if this one may go on with it.
fn resumed(
    arguments: &AdoptArguments,
    record: Record,
    conf: &Path,
    agent: &Agent<'_>,
) -> Result<Record, Refused> {
    let Adoption { user, .. } = record.adoption;
    let own = geteuid().as_raw();
    if ![0, user].contains(&own) {
        return Err(format!(
            "the node is the user id {user}'s: be root or that user, not the user id {own}"
        ));
    }
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if real(&record.adoption.conf) != real(conf) {
        return Err(format!(
            "the record in {} is of another folder, {}: it was copied",
            conf.display(),
            shown(&record.adoption.conf.to_string_lossy())
        ));
    }
    if !arguments.back {
        return match record.stage {
            Stage::Going(_) => Ok(record),
            Stage::Done => Err("the agent has the place already; --back gives it back".to_owned()),
            Stage::Returning(_) => {
                Err("a --back was interrupted here: --back goes on with it".to_owned())
            }
        };
    }
    let containers = agent.state().map_or(0, |state| state.containers);
    if containers > 0 && !arguments.lose_containers {
        return Err(format!(
            "containers run or wait here ({containers}), and the Java node does not take them over: \
             drain the node and wait, or lose them with --lose-containers"
        ));
    }
    Ok(record)
}

fn planned(
    arguments: &AdoptArguments,
    conf: &Path,
    folder: &ConfFolder,
    agent: &Agent<'_>,
) -> Plan {
    let loaded = Loaded::read(&agent.conf_dirs, agent.environment);
    let report = check::examine(&loaded, &ThisMachine, false);
    let config = loaded.config.as_ref().ok();
    let folders = config.map(folders_of).unwrap_or_default();
    let scan = adopt::scan(&Asked {
        proc: Path::new("/proc"),
        conf,
        environment: agent.environment,
        folders: &folders,
        main_pid: &adopt::unit_main_pid,
    });
    let findings = Findings {
        problems: report.problems().to_vec(),
        missing: report.missing().to_vec(),
    };
    let intent = Intent {
        user: geteuid().as_raw(),
        names_conf: arguments.conf.conf.is_some(),
        yarn: yarn(arguments, agent.environment),
        program: std::env::current_exe().unwrap_or_default(),
        profile: absolute(&arguments.profile),
        profile_exists: arguments.profile.is_file(),
        names_socket: config.is_some_and(|config| config.admin.is_required),
        loses_containers: arguments.lose_containers,
        agent_answers: agent.state().is_ok(),
        has_site: folder.has_site(),
        has_profile: folder.has_profile(),
        has_profiles: folder.has_profiles(),
        unwritable: folder.writable().err().map(|error| error.to_string()),
    };
    adopt::plan(scan, &findings, &intent)
}

fn folders_of(config: &Config) -> Folders {
    let recovery = &config.recovery;
    Folders {
        local_dirs: config.dirs.local_dirs.clone(),
        log_dirs: config.dirs.log_dirs.clone(),
        recovery: recovery.enabled.then(|| recovery.dir.clone()),
        port: config.addresses.node_bind().port,
    }
}

/// Returns Hadoop's script. It is sought in this process's environment only: the Java node's may be
/// from anybody.
fn yarn(arguments: &AdoptArguments, environment: &Environment) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| path.is_file() && access(path, AccessFlags::X_OK).is_ok();
    if let Some(named) = &arguments.yarn {
        return Some(absolute(named)).filter(is_program);
    }
    let homes = ["HADOOP_YARN_HOME", "HADOOP_HOME"].into_iter();
    let homes = homes.filter_map(|name| environment.get(name).filter(|it| !it.is_empty()));
    let in_homes = homes.map(|home| Path::new(home).join("bin/yarn"));
    let path = environment.get("PATH").map_or("", String::as_str);
    let on_path = std::env::split_paths(path).map(|folder| folder.join("yarn"));
    let mut all = in_homes.chain(on_path).filter(|path| path.is_absolute());
    all.find(is_program)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn perform(
    arguments: &AdoptArguments,
    record: &Record,
    folder: &ConfFolder,
    agent: &Agent<'_>,
) -> ExitCode {
    let limits = Limits {
        register: Duration::from_secs(arguments.wait_s),
        listen: LISTEN_LIMIT,
        tell: TELL_LIMIT,
        stop: STOP_LIMIT,
    };
    let machine = adopt::ThisMachine {
        agent,
        environment: agent.environment,
        limits,
    };
    let mut say = |line: fmt::Arguments<'_>| {
        // Nobody may read any more, and the steps go on.
        let _lost = writeln!(io::stdout(), "{line}");
    };
    let mut run = adopt::Run {
        folder,
        machine: &machine,
        limits,
        say: &mut say,
    };
    let result: Result<(), PerformError> = if arguments.back {
        run.back(record)
    } else {
        run.go(record)
    };
    match result {
        Ok(()) if arguments.back => {
            say(format_args!(
                "The node is as before. The agent's logs stay, and its caches, in the folders nm-agent of the local folders."
            ));
            ExitCode::SUCCESS
        }
        Ok(()) => {
            say(format_args!(
                "The agent has the place and is registered. nm-agent adopt --back gives it back."
            ));
            ExitCode::SUCCESS
        }
        Err(error) => {
            print_error(format_args!("nm-agent: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn print_plan(plan: &Plan, status: u8) -> ExitCode {
    let mut out = io::stdout().lock();
    match plan.write_text(&mut out).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::from(status),
        // The reader has gone away: nothing is left to tell.
        Err(_) => ExitCode::FAILURE,
    }
}

fn print_record(record: &Record) -> ExitCode {
    let text = match record.stage {
        Stage::Going(_) => {
            "A --go was interrupted here. --go goes on with it, and --back undoes it."
        }
        Stage::Done => "The agent has the place of the Java node. --back gives it back.",
        Stage::Returning(_) => "A --back was interrupted here. --back goes on with it.",
    };
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The agent as its configuration describes it, read anew at each question.
struct Agent<'a> {
    conf_dirs: Vec<PathBuf>,
    environment: &'a Environment,
}

impl AgentView for Agent<'_> {
    fn state(&self) -> Result<AgentState, String> {
        let admin = load_admin(&self.conf_dirs, self.environment).map_err(|it| one_line(&it))?;
        let socket = admin.socket.ok_or("it has no admin socket")?;
        let answer = ask(&socket, &Request::Status).map_err(|error| error_chain(&error))?;
        let Answer::Status(status) = answer else {
            return Err("it answers another question".to_owned());
        };
        Ok(AgentState {
            pid: i32::try_from(status.pid).map_err(|error| error.to_string())?,
            is_registered: status.resource_manager == "registered",
            contact: status.resource_manager,
            containers: status.running_guaranteed + status.running_opportunistic + status.waiting,
        })
    }

    fn local_dirs(&self) -> Result<Vec<PathBuf>, String> {
        let config = Config::load(&self.conf_dirs, self.environment);
        Ok(config.map_err(|it| one_line(&it))?.dirs.local_dirs)
    }

    fn java_is_registered(&self) -> Result<bool, String> {
        let config = Config::load(&self.conf_dirs, self.environment);
        let config = config.map_err(|it| one_line(&it))?;
        let managers = config.rm.endpoints.iter().map(|rm| rm.webapp.clone());
        java_node::is_registered(&config.addresses.web, &managers.collect::<Vec<_>>())
    }

    fn listener(&self, port: u16) -> Option<i32> {
        holder::of_port(port).map(|holder| holder.pid)
    }
}

fn one_line(problems: &ConfigProblems) -> String {
    let texts: Vec<_> = problems.list().iter().map(ToString::to_string).collect();
    texts.join("; ")
}
