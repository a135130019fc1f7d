//! The command line: arguments in, exit status out. The only reader of the process environment.

mod adopt;
mod history;
mod holding;
mod keeping;
mod operate;
mod quickstart;
mod run;
mod shell;
mod simulate;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::Context;
use clap::{Args, CommandFactory, Parser, Subcommand};
use hadoop_conf::conf_dirs;
use node_manager::config::Loaded;
use program::signals::Signals;
use tokio_util::sync::CancellationToken;

use crate::check::{self, ThisMachine};

/// Exit status for a configuration that cannot be used.
const EXIT_BAD_CONFIGURATION: u8 = 2;

/// Log level of the services unless `NM_AGENT_LOG` sets one.
const LOG_OF_SERVICE: &str = "info";

/// A YARN NodeManager whose speciality is opportunistic containers.
///
/// It registers with an unmodified Hadoop ResourceManager and runs containers for unmodified
/// ApplicationMasters. It reads Hadoop's own configuration files; its own properties begin with
/// yarn.nodemanager.agent.
#[derive(Debug, Parser)]
#[command(name = "nm-agent", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the NodeManager until it is told to stop.
    ///
    /// SIGTERM or SIGINT stops it in order: containers are ended, the ResourceManager is told; a
    /// second signal changes nothing. SIGHUP has it read its configuration again, as `nm-agent
    /// reload` does; in a terminal it means that the terminal is gone, and stops the agent. It
    /// stays ignored if it was at the start, as with nohup. Any other deadly signal, SIGQUIT too,
    /// ends the agent at once: its containers run on, and those in cgroups are ended by the next
    /// start.
    ///
    /// Exit status: 0 after an orderly stop (also when the ResourceManager decommissions the node),
    /// 2 for bad configuration (every problem is listed with its file and property), 101 when a
    /// thread of the agent has panicked, 1 for any other failure. The level of the log on standard
    /// error follows NM_AGENT_LOG (for example: debug, or nm_agent=debug,wire=info), without it
    /// yarn.nodemanager.agent.log.level; the default is info. NM_AGENT_LOG_FILE names a file for
    /// the log instead, of 256 MiB at most, beside which the last 20 stay. With
    /// NM_AGENT_LOG_FORMAT=json each line of the log is a JSON object.
    ///
    /// With yarn.nodemanager.recovery.enabled, containers go on when the agent dies, and when it is
    /// stopped with yarn.nodemanager.recovery.supervised; the next start takes them over. Two small
    /// processes then stand above the agent: this one, which passes signals on and ends as the
    /// agent ends, and a keeper of exit statuses, which stays until the containers left to it have
    /// ended.
    Run(RunArguments),
    /// Keep the exit statuses of containers that outlive their agent, which `run` starts.
    #[command(hide = true)]
    Keep(KeepArguments),
    /// Hold the control group of a service for the containers of `run`, which is another service.
    #[command(hide = true)]
    Hold,
    /// Serve file systems to the agent that started this process.
    #[command(name = file_worker::COMMAND, hide = true)]
    ServeFiles(ServeFilesArguments),
    /// Print each effective configuration value and where it came from; report what is wrong.
    ///
    /// The verdict comes first, then problems, what jobs would miss, warnings, and the properties
    /// that files set. Unknown yarn.nodemanager.* names are reported with the nearest known one.
    ///
    /// Exit status: 0 when the agent could run with it, 2 otherwise.
    ///
    /// Example: nm-agent check --conf /etc/hadoop/conf --connect
    Check(CheckArguments),
    /// Take the place of a Java NodeManager on this machine, or give it back.
    ///
    /// Without --go and --back it changes nothing. It prints what it finds of the Java node: its
    /// configuration, process, environment, how it was started, its folders and recovery state;
    /// then what would change, what jobs here would miss, what is not taken over, and each step
    /// with its way back. With --go it does that: it writes nm-agent-site.xml beside yarn-site.xml,
    /// stops the Java node as it was started, links the shell profile by which Hadoop's scripts
    /// start the agent, starts it, and waits until it is registered with the ResourceManager. If it
    /// does not register in time, everything is undone. With --back the agent is stopped, link and
    /// file are removed, and the Java node is started as before.
    ///
    /// No log and no cache is deleted: the agent has caches of its own, in the folder nm-agent
    /// below each local folder. Before each step nm-agent-adopt.json in the folder of the
    /// configuration says which one begins, so a run that was interrupted can be gone on with, or
    /// undone.
    ///
    /// Run it as root or as the node's user, who has to own the folder of the configuration.
    /// Hadoop's scripts run as the node's user.
    ///
    /// Exit status: 0 when it is done, and for a plan; 2 when nothing was done, and the text says
    /// why; 1 when a step failed, and the text says whether everything was undone.
    ///
    /// Example: nm-agent adopt --conf /etc/hadoop/conf --go
    Adopt(adopt::AdoptArguments),
    /// Print what the running node does now.
    ///
    /// Asks the agent of this machine through its admin socket, which the configuration names. Exit
    /// status: 0 with an answer, 1 for a failure, 2 for bad arguments or configuration, 3 when no
    /// agent answers, 4 when this user may not ask, 5 for a container that the node does not know.
    Status(operate::StatusArguments),
    /// List the waiting containers of the running node, with their waits so far and estimated.
    ///
    /// Exit status: as with status.
    Queue(operate::QueueArguments),
    /// Watch the running node in a terminal: its numbers, what runs and what waits.
    ///
    /// Keys: q or Esc ends it, s changes the order of the rows, a shows applications in place of
    /// containers, and containers again. When standard output is no terminal, it prints one look
    /// and says so. Exit status: as with status.
    Top(operate::top::TopArguments),
    /// Tell what the running node has decided about a container, and why.
    ///
    /// The node tells of every container that it knows, and of the last thousand others; of an
    /// application, what happened to its containers here. Exit status: as with status.
    ///
    /// Example: nm-agent explain --follow container_1763900000000_0001_01_000007
    Explain(operate::explain::ExplainArguments),
    /// Print the end of what a container of this node has printed, or follow it.
    ///
    /// Reads the files below yarn.nodemanager.log-dirs with the rights of its user. Control
    /// characters are shown as pictures, so that the output cannot steer the terminal; what is
    /// added faster than a mebibyte in half a second is left out, and said to be. Exit status: 0
    /// when something was printed, 2 for bad arguments or configuration, 4 when this user may not
    /// read, 5 when there is nothing, 1 for any other failure.
    ///
    /// Example: nm-agent logs --follow container_1763900000000_0001_01_000007 stderr
    Logs(operate::logs::LogsArguments),
    /// Take the running node out of service, or put it back with --cancel.
    ///
    /// From now on no opportunistic container starts here: those that wait are shed, those that
    /// come are rejected, and the ResourceManager is told that the queue is full. With --mode
    /// graceful everything that runs goes on; quick ends the opportunistic containers too; fast
    /// ends all, and the node reports itself unhealthy, so that the ResourceManager places nothing
    /// on it. Guaranteed containers are the ResourceManager's promise: in graceful and quick they
    /// come and go on; to stop that, decommission the node there (yarn rmadmin -refreshNodes -g). A
    /// later order replaces an earlier one. With yarn.nodemanager.recovery.enabled a drain outlives
    /// the agent; without, one that is started again is in service.
    ///
    /// Exit status: as with status; 1 also when --timeout is over before the node is drained.
    ///
    /// Example: nm-agent drain --mode quick --within 10m --reason 'new kernel' --wait
    Drain(operate::drain::DrainArguments),
    /// Have the running node read its configuration again.
    ///
    /// Prints which changed properties have taken effect, and which take effect at the next start
    /// of the agent only. Files that cannot be used change nothing. SIGHUP does the same, with the
    /// outcome in the log.
    ///
    /// Exit status: as with status; 2 also when the node's configuration cannot be used, 6 when a
    /// changed property waits for the next start.
    Reload(operate::reload::ReloadArguments),
    /// Run a small ResourceManager until it is told to stop, on Hadoop's ports or those of the
    /// configuration.
    ///
    /// It is for tests and trials: one queue, no high availability, nothing kept over a restart, no
    /// security beyond tokens. It reads the same files as the node, which must be valid for both.
    /// Exit status: 0 after SIGTERM, SIGINT or SIGHUP, 2 for bad configuration, 1 for any other
    /// failure, as when a port cannot be had. The level of the log on standard error follows
    /// NM_AGENT_LOG, as with run.
    Rm(ConfDir),
    /// Run a command in many containers of a cluster and wait for their end.
    ///
    /// The ResourceManager may be Hadoop's or `nm-agent rm`; the configuration names it. This
    /// program has to be on the nodes under the path that it has here: one of them runs the job's
    /// ApplicationMaster with it. Each container runs the command with the number of the container,
    /// from 1, as YARN_SHELL_ID; what it writes is on its node, in the files stdout and stderr of
    /// its logs. A container that is evicted, shed, preempted or lost is asked for again.
    ///
    /// Progress goes to standard error, as a bar on a terminal; a table goes to standard output at
    /// the end. Ctrl-C kills the job; a terminal that goes away ends this command and leaves the
    /// job alone. The level of the log on standard error follows NM_AGENT_LOG; the default is warn.
    /// A ResourceManager that does not answer is tried again for
    /// yarn.resourcemanager.connect.max-wait.ms; then the job is stopped, as far as it can be
    /// reached.
    ///
    /// Exit status: 0 when every command ended with 0; 1 when one failed, or the job could not be
    /// run or was lost sight of; 2 for bad arguments or configuration; 130 after Ctrl-C, 143 after
    /// SIGTERM.
    ///
    /// Example: nm-agent shell -n 20 --type mix --guaranteed 5 -- /bin/sh -c 'echo $YARN_SHELL_ID;
    /// sleep 10'
    Shell(shell::ShellArguments),
    /// The master of a job, which `shell` has a node start.
    #[command(hide = true)]
    ShellMaster,
    /// Look into the role histories of services: which nodes their containers ran on.
    #[command(subcommand)]
    History(history::Command),
    /// Simulate a whole cluster: how long jobs take under one policy or another.
    ///
    /// A scenario names cluster, jobs and policies; it is a TOML file, or one that comes with the
    /// program (--list prints them). Every policy runs the same jobs in virtual time, on the code
    /// that ships, once for each seed. A table goes to standard output; with --out, a folder gets
    /// the table, a page with charts, and every run and every job as CSV. The same scenario gives
    /// the same bytes on every machine.
    ///
    /// With --conf, the settings of that configuration are simulated beside the scenario's: first
    /// in the table, called "as configured". So `nm-agent simulate two-1000 --conf DIR` shows what
    /// a cluster of 1,000 nodes does with that configuration, and what others would do.
    ///
    /// Ctrl-C ends it after the runs that are under way; what has ended is printed and written,
    /// marked as partial. Exit status: 0 for a whole result, 1 for a failure, 2 for a scenario or
    /// a configuration that cannot be used, 130, 143 or 129 after SIGINT, SIGTERM or SIGHUP.
    Simulate(simulate::Arguments),
    /// Show what opportunistic containers do: a ResourceManager, some nodes and two jobs, all on
    /// this machine.
    ///
    /// It needs no Java, no root and no configuration, and reads none. Everything listens on
    /// 127.0.0.1 and lies in one temporary folder (below TMPDIR, or /tmp). First it prints the
    /// addresses of the pages to watch, then what happens as it happens, at last a summary; then it
    /// stays until Ctrl-C, which leaves no process and no file behind. Nodes claim to be of one
    /// size everywhere; what the containers run is real and light. The log goes to a file in the
    /// folder, or to standard error if NM_AGENT_LOG names a level. Colours follow NO_COLOR. Exit
    /// status: 0 when everything happened and succeeded, 1 when not or when it could not start, 2
    /// for bad arguments, 130, 143 or 129 after SIGINT, SIGTERM or SIGHUP before the end.
    Quickstart(quickstart::Arguments),
}

#[derive(Debug, Args)]
struct RunArguments {
    #[command(flatten)]
    conf: ConfDir,
    /// Process id of the keeper that started this agent.
    #[arg(long, hide = true, value_name = "PID")]
    keeper: Option<i32>,
    /// Descriptor of the line to the service manager.
    #[arg(long, hide = true, value_name = "NUMBER")]
    relay: Option<i32>,
}

#[derive(Debug, Args)]
struct CheckArguments {
    #[command(flatten)]
    conf: ConfDir,
    /// Print Hadoop's defaults as well
    #[arg(long)]
    all: bool,
    /// Print a JSON object, with the defaults
    #[arg(long)]
    json: bool,
    /// Take warnings and missing features for problems
    #[arg(long)]
    strict: bool,
    /// Also try the ResourceManager, the default file system, and the ports that an agent would
    /// listen on. Those of an agent that runs are taken
    #[arg(long)]
    connect: bool,
}

#[derive(Debug, Args)]
struct KeepArguments {
    #[command(flatten)]
    conf: ConfDir,
    /// Folder of the records.
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    /// Descriptor of the line to the service manager, for the agent.
    #[arg(long, value_name = "NUMBER")]
    relay: Option<i32>,
}

#[derive(Debug, Args)]
struct ServeFilesArguments {
    /// User and work that the process is for, as lists of processes show them.
    #[arg(value_name = "LABEL", allow_hyphen_values = true)]
    label: Option<String>,
}

#[derive(Debug, Args)]
struct ConfDir {
    /// Folder with core-site.xml and yarn-site.xml [default: $HADOOP_CONF_DIR, $YARN_CONF_DIR,
    /// $HADOOP_HOME/etc/hadoop, else /etc/hadoop/conf]
    #[arg(long, value_name = "DIR")]
    conf: Option<PathBuf>,
}

impl ConfDir {
    fn folders(&self, environment: &BTreeMap<String, String>) -> Vec<PathBuf> {
        conf_dirs(self.conf.as_deref(), environment)
    }

    fn read(&self, environment: &BTreeMap<String, String>) -> Loaded {
        Loaded::read(&self.folders(environment), environment)
    }
}

/// Returns the description of the command line, from which manual pages and completions are made.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the command named by the process's arguments; the exit status is as `--help` says.
#[must_use]
pub fn main() -> ExitCode {
    let started = SystemTime::now();
    program::allocator::return_large_buffers();
    let arguments = Arguments::parse();
    // A variable that is not UTF-8 can be neither a Hadoop property nor a container's variable.
    let environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    match &arguments.command {
        Command::Run(arguments) => run::run(arguments, &environment),
        Command::Keep(arguments) => keeping::keeper(arguments, &environment),
        Command::Hold => holding::hold(&environment),
        Command::ServeFiles(arguments) => serve_files(arguments),
        Command::Check(arguments) => check(arguments, &environment),
        Command::Adopt(arguments) => adopt::adopt(arguments, &environment),
        Command::Status(arguments) => operate::status(arguments, &environment),
        Command::Queue(arguments) => operate::queue(arguments, &environment),
        Command::Top(arguments) => operate::top::top(arguments, &environment),
        Command::Explain(arguments) => operate::explain::explain(arguments, &environment),
        Command::Logs(arguments) => operate::logs::logs(arguments, &environment),
        Command::Drain(arguments) => operate::drain::drain(arguments, &environment),
        Command::Reload(arguments) => operate::reload::reload(arguments, &environment),
        Command::Rm(conf) => resource_manager(conf, &environment),
        Command::Shell(arguments) => shell::shell(arguments, &environment),
        Command::ShellMaster => shell::master(&environment),
        Command::History(command) => history::run(command, &environment),
        Command::Simulate(arguments) => simulate::run(arguments, &environment),
        Command::Quickstart(arguments) => quickstart::run(arguments, environment, started),
    }
}

/// Is a file worker; the agent tells what is written to standard error.
fn serve_files(arguments: &ServeFilesArguments) -> ExitCode {
    match file_worker::serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let label = arguments.label.as_deref().unwrap_or_default();
            print_error(format_args!("serving {label}: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Returns the user in whose name this program acts (Hadoop: `UserGroupInformation` with simple
/// authentication).
fn hadoop_user(environment: &BTreeMap<String, String>) -> anyhow::Result<String> {
    let named = environment.get("HADOOP_USER_NAME");
    if let Some(user) = named.filter(|user| !user.is_empty()) {
        return Ok(user.clone());
    }
    let uid = nix::unistd::Uid::effective();
    match nix::unistd::User::from_uid(uid).context("looking up the user")? {
        Some(user) => Ok(user.name),
        None => anyhow::bail!("the user {uid} has no name: set HADOOP_USER_NAME"),
    }
}

/// Prints a line to standard error. One that cannot be written, on a full disk or to a reader that
/// is gone, is lost and changes no exit status.
fn print_error(line: fmt::Arguments<'_>) {
    let _lost = writeln!(std::io::stderr(), "{line}");
}

fn resource_manager(conf: &ConfDir, environment: &BTreeMap<String, String>) -> ExitCode {
    start_logging(environment, LOG_OF_SERVICE);
    let loaded = conf.read(environment);
    if let Err(problems) = loaded.config {
        print_error(format_args!("{problems}"));
        return ExitCode::from(EXIT_BAD_CONFIGURATION);
    }
    let config = match mini_rm::config::Config::read(&loaded.properties) {
        Ok(config) => config,
        Err(problems) => {
            print_error(format_args!("{problems}"));
            return ExitCode::from(EXIT_BAD_CONFIGURATION);
        }
    };
    match serve_until_stopped(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve_until_stopped(config: mini_rm::config::Config) -> anyhow::Result<()> {
    let open_files =
        container_runtime::open_files::raise().context("reading the limit of open files")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("nm-agent-rm")
        .build()
        .context("starting the runtime")?;
    runtime.block_on(async {
        let stop = CancellationToken::new();
        stop_on_signal(stop.clone()).context("listening for signals")?;
        mini_rm::start(config, open_files, stop.clone())
            .await?
            .join()
            .await;
        anyhow::ensure!(
            stop.is_cancelled(),
            "a part of the ResourceManager has failed"
        );
        Ok(())
    })
}

fn stop_on_signal(stop: CancellationToken) -> std::io::Result<()> {
    let mut signals = Signals::listen()?;
    tokio::spawn(async move {
        let signal = signals.next().await.as_str();
        tracing::info!("{signal}: stopping");
        stop.cancel();
        // Each step of the stop has a bound, so there is nothing that a second signal could speed
        // up but the loss of containers: it is only answered in the log.
        loop {
            let signal = signals.next().await.as_str();
            tracing::info!("{signal}: stopping already");
        }
    });
    Ok(())
}

fn check(arguments: &CheckArguments, environment: &BTreeMap<String, String>) -> ExitCode {
    let loaded = arguments.conf.read(environment);
    let report = check::examine(&loaded, &ThisMachine, arguments.connect);
    let outcome = report.outcome(arguments.strict);
    let mut out = std::io::stdout().lock();
    let written = if arguments.json {
        report.write_json(&mut out)
    } else {
        report.write_text(outcome, arguments.all, &mut out)
    };
    match written.and_then(|()| out.flush()) {
        Ok(()) => ExitCode::from(outcome.exit_code()),
        // The reader of the report has gone away: nothing is left to tell.
        Err(_) => ExitCode::FAILURE,
    }
}

fn start_logging(environment: &BTreeMap<String, String>, default: &str) {
    let filter = environment
        .get("NM_AGENT_LOG")
        .map_or(default, String::as_str);
    let is_terminal = std::io::stderr().is_terminal();
    let is_coloured = program::logging::wants_colours(is_terminal, environment);
    let _filter_stays = program::logging::start(
        filter,
        run::log_format(environment),
        std::io::stderr,
        is_coloured,
    );
}
