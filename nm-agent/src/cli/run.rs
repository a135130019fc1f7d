//! `nm-agent run`: the agent in this process, from its configuration to its end.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, stderr};
use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use hadoop_conf::HostPort;
use keeper::PANICKED;
use node_manager::config::{Config, ContainerExecutor, Loaded, SHARED_USER};
use node_manager::reload::{LogLevel, Reloading};
use node_manager::{AgentError, LogLevels, Process};
use program::journal::{self, Journal};
use program::log_file::{self, LogFile};
use program::logging::{Filter, Format};
use program::panics::PanickedThreads;
use program::signals::{Interruption, Signals, has_terminal};
use service::Manager;
use time::UtcOffset;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::check;

use super::{ConfDir, EXIT_BAD_CONFIGURATION, LOG_OF_SERVICE, RunArguments, keeping, print_error};

/// Variable by which Hadoop's programs find their configuration.
const CONF_DIR: &str = "HADOOP_CONF_DIR";

/// Runs the agent, below a keeper if containers are to outlive it.
pub(super) fn run(arguments: &RunArguments, environment: &BTreeMap<String, String>) -> ExitCode {
    let loaded = arguments.conf.read(environment);
    match (arguments.keeper, &loaded.config) {
        (None, Ok(config)) if config.recovery.enabled => {
            return keeping::run_kept(&arguments.conf, &config.recovery.dir, environment);
        }
        (Some(keeper), _) => {
            keeping::show_name();
            if let Err(error) = keeper::die_with_parent(keeper) {
                print_error(format_args!("nm-agent: {error}"));
                return ExitCode::FAILURE;
            }
        }
        (None, Ok(_) | Err(_)) => {}
    }
    let manager = match arguments.relay {
        Some(relay) => Manager::over_relay(relay),
        None => Manager::of_environment(environment),
    };
    let manager = match manager {
        Ok(manager) => manager,
        Err(error) => {
            print_error(format_args!(
                "nm-agent: the service manager cannot be reached: {error}"
            ));
            return ExitCode::FAILURE;
        }
    };
    let (log_level, log_levels) = start_log(&loaded, environment);
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    for (name, origin) in &loaded.ignored {
        tracing::debug!(%origin, "{name} means nothing to this agent");
    }
    let (config, reading) = loaded.into_config_and_reading();
    let config = match config {
        Ok(config) => config,
        Err(problems) => {
            print_error(format_args!("{problems}"));
            return ExitCode::from(EXIT_BAD_CONFIGURATION);
        }
    };
    if config.launch.executor == ContainerExecutor::Own {
        tracing::warn!("{SHARED_USER}");
    }
    // Asked before there are threads: the C library's answer is not safe beside a thread that sets
    // variables.
    let utc_offset = UtcOffset::current_local_offset().unwrap_or(UtcOffset::UTC);
    let process = Process {
        environment: of_containers(&arguments.conf, environment),
        conf_dirs: arguments.conf.folders(environment),
        reloading: Reloading {
            started_with: Some(reading),
            log_level,
            ..Reloading::default()
        },
        log_levels: Some(log_levels),
        utc_offset,
        manager,
    };
    let ports = check::ports(&config);
    match run_until_stopped(config, process) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log_end(&error, &ports);
            status_of(&error)
        }
    }
}

/// Logs the error that has ended the agent, and who has its ports if one could not be had.
fn log_end(error: &anyhow::Error, ports: &[(String, HostPort)]) {
    tracing::error!("{error:#}");
    if error.chain().any(is_address_in_use) {
        for line in check::taken(ports) {
            tracing::error!("{line}");
        }
    }
}

fn is_address_in_use(cause: &(dyn std::error::Error + 'static)) -> bool {
    let error = cause.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
}

/// Returns the exit status of an agent that an error has ended.
fn status_of(error: &anyhow::Error) -> ExitCode {
    let of_agent = error.downcast_ref::<AgentError>();
    if of_agent.is_some_and(AgentError::is_of_configuration) {
        return ExitCode::from(EXIT_BAD_CONFIGURATION);
    }
    if error.is::<ThreadPanicked>() || matches!(of_agent, Some(AgentError::TaskEnded(_))) {
        return ExitCode::from(PANICKED);
    }
    ExitCode::FAILURE
}

/// A thread of the agent has panicked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ThreadPanicked(String);

/// Returns the way to the journal if standard error leads there already; then its lines can have
/// fields of their own.
fn journal(environment: &BTreeMap<String, String>) -> Option<Journal> {
    let stream = environment.get("JOURNAL_STREAM").map(String::as_str);
    let leads_there = journal::is_stream_to_journal(stream, &stderr());
    // Without it, the lines go to the journal by standard error.
    let open = || Journal::open(Path::new(journal::SOCKET), "nm-agent").ok();
    leads_there.then(open).flatten()
}

/// Opens the file that the environment names for the log (`NM_AGENT_LOG_FILE`). One that cannot be
/// had ends no node: its lines go where they go without it.
fn log_file(environment: &BTreeMap<String, String>) -> Option<LogFile> {
    let path = environment
        .get("NM_AGENT_LOG_FILE")
        .filter(|path| !path.is_empty())?;
    match LogFile::open(path.into(), log_file::AS_HADOOP) {
        Ok(file) => Some(file),
        Err(error) => {
            print_error(format_args!(
                "nm-agent: {path} (NM_AGENT_LOG_FILE) cannot be written: {error}; the log goes to standard error"
            ));
            None
        }
    }
}

/// Returns the form of the log's lines that the environment names (`NM_AGENT_LOG_FORMAT`). Another
/// word ends no node.
pub(super) fn log_format(environment: &BTreeMap<String, String>) -> Format {
    let named = environment.get("NM_AGENT_LOG_FORMAT");
    let name = named.map(String::as_str).unwrap_or_default();
    Format::of_name(name).unwrap_or_else(|| {
        print_error(format_args!(
            "nm-agent: NM_AGENT_LOG_FORMAT is text or json, not {name}; the log is text"
        ));
        Format::Text
    })
}

/// Starts the log. Its level is that of `NM_AGENT_LOG`, else that of the configuration. Returns the
/// level for readings of the configuration while the agent runs, `None` where the environment
/// decides it, and the levels for operators.
fn start_log(
    loaded: &Loaded,
    environment: &BTreeMap<String, String>,
) -> (Option<LogLevel>, LogLevels) {
    let fixed = environment.get("NM_AGENT_LOG").map(String::as_str);
    let configured = loaded
        .config
        .as_ref()
        .map(|config| config.log_level.as_str());
    let level = fixed.or(configured.ok()).unwrap_or(LOG_OF_SERVICE);
    let format = log_format(environment);
    let filter = match (log_file(environment), journal(environment)) {
        (Some(file), _) => program::logging::start(level, format, Mutex::new(file), false),
        // The journal has the fields of each entry by themselves, whatever the format.
        (None, Some(journal)) => program::logging::start_in_journal(level, journal),
        (None, None) => {
            let is_terminal = stderr().is_terminal();
            let is_coloured = program::logging::wants_colours(is_terminal, environment);
            program::logging::start(level, format, stderr, is_coloured)
        }
    };
    let levels = levels(&filter);
    let level = fixed
        .is_none()
        .then(|| LogLevel::new(move |level| filter.set(level)));
    (level, levels)
}

/// Returns the levels of this filter, for operators.
fn levels(filter: &Filter) -> LogLevels {
    let (read, set) = (filter.clone(), filter.clone());
    LogLevels::new(
        move |target| read.level(target).to_string().to_uppercase(),
        move |target, level| {
            let level = level.parse().map_err(|_| format!("{level} is no level"))?;
            set.set_level(target, level)
                .map_err(|error| error.to_string())
        },
    )
}

/// Returns the environment from which containers inherit: without what a service manager passes to
/// this process only, and with the folder of the configuration that the command line names, as
/// `yarn --config` passes it, unless a variable names another.
fn of_containers(
    conf: &ConfDir,
    environment: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut environment = environment.clone();
    environment.retain(|name, _| !service::VARIABLES.contains(&name.as_str()));
    let named = conf.conf.as_deref().map(std::path::absolute);
    if let Some(Ok(folder)) = named
        && let Ok(folder) = folder.into_os_string().into_string()
    {
        environment.entry(CONF_DIR.to_owned()).or_insert(folder);
    }
    environment
}

fn run_until_stopped(config: Config, process: Process) -> anyhow::Result<()> {
    let open_files =
        container_runtime::open_files::raise().context("reading the limit of open files")?;
    tracing::debug!(open_files, "this process may have so many");
    container_runtime::launch::adopt_orphans()
        .context("becoming the parent of orphaned container processes")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("nm-agent")
        .build()
        .context("starting the runtime")?;
    let mut threads = PanickedThreads::watch();
    program::allocator::return_freed_memory_regularly()?;
    let result = runtime.block_on(async {
        let stop = CancellationToken::new();
        follow_signals(stop.clone(), Arc::clone(&process.reloading.order))
            .context("listening for signals")?;
        let mut agent = pin!(node_manager::run(config, process, stop.clone()));
        tokio::select! {
            ended = &mut agent => Ok(ended?),
            panicked = threads.next() => {
                tracing::error!("{panicked}: stopping");
                stop.cancel();
                agent.await?;
                Err(ThreadPanicked(panicked).into())
            }
        }
    });
    // Everything has ended in order. A thread that hangs all the same, in a name service or on a
    // disk, is not waited for.
    runtime.shutdown_background();
    result
}

/// Stops the agent on SIGTERM and SIGINT, and has it read its configuration again on SIGHUP, which
/// in a terminal means that the terminal is gone.
fn follow_signals(stop: CancellationToken, reload: Arc<Notify>) -> std::io::Result<()> {
    let mut signals = Signals::listen()?;
    let in_terminal = has_terminal();
    tokio::spawn(async move {
        loop {
            let signal = signals.next().await;
            let name = signal.as_str();
            if signal == Interruption::HangUp && !in_terminal {
                reload.notify_one();
            } else if stop.is_cancelled() {
                // Each step of the stop has a bound, so there is nothing that a second signal
                // could speed up but the loss of containers.
                tracing::info!("{name}: stopping already");
            } else {
                tracing::info!("{name}: stopping");
                stop.cancel();
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf_dir_of_containers(named: Option<&str>, set: &[(&str, &str)]) -> Option<String> {
        let conf = ConfDir {
            conf: named.map(Into::into),
        };
        let owned = set
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()));
        of_containers(&conf, &owned.collect()).remove(CONF_DIR)
    }

    #[test]
    fn containers_get_the_folder_of_the_configuration_unless_a_variable_names_another() {
        let set = [(CONF_DIR, "/of/variable")];
        assert_eq!(conf_dir_of_containers(None, &[]), None);
        assert_eq!(conf_dir_of_containers(Some("/a"), &[]).unwrap(), "/a");
        assert_eq!(
            conf_dir_of_containers(Some("/a"), &set).unwrap(),
            "/of/variable"
        );
        let relative = conf_dir_of_containers(Some("conf"), &[]).unwrap();
        assert!(Path::new(&relative).is_absolute() && relative.ends_with("/conf"));
    }
}
