//! `nm-agent run`: the agent in this process, from its configuration to its end.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, stderr};
use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use keeper::PANICKED;
use node_manager::config::{Config, ContainerExecutor, Loaded, SHARED_USER};
use node_manager::reload::{LogLevel, Reloading};
use node_manager::{AgentError, Process};
use program::journal::{self, Journal};
use program::panics::PanickedThreads;
use program::signals::{Interruption, Signals, has_terminal};
use service::Manager;
use time::UtcOffset;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{EXIT_BAD_CONFIGURATION, LOG_OF_SERVICE, RunArguments, keeping, print_error};

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
    let log_level = start_log(&loaded, environment);
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
        environment: without_manager(environment),
        conf_dirs: arguments.conf.folders(environment),
        reloading: Reloading {
            started_with: Some(reading),
            log_level,
            ..Reloading::default()
        },
        utc_offset,
        manager,
    };
    match run_until_stopped(config, process) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            status_of(&error)
        }
    }
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

/// Starts the log. Its level is that of `NM_AGENT_LOG`, else that of the configuration, which may
/// change while the agent runs: then it is returned.
fn start_log(loaded: &Loaded, environment: &BTreeMap<String, String>) -> Option<LogLevel> {
    let fixed = environment.get("NM_AGENT_LOG").map(String::as_str);
    let configured = loaded
        .config
        .as_ref()
        .map(|config| config.log_level.as_str());
    let level = fixed.or(configured.ok()).unwrap_or(LOG_OF_SERVICE);
    let filter = match journal(environment) {
        Some(journal) => program::logging::start_in_journal(level, journal),
        None => program::logging::start(level, stderr, stderr().is_terminal()),
    };
    fixed
        .is_none()
        .then(|| LogLevel::new(move |level| filter.set(level)))
}

/// Returns the environment without what a service manager passes to this process only.
fn without_manager(environment: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut environment = environment.clone();
    environment.retain(|name, _| !service::VARIABLES.contains(&name.as_str()));
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
