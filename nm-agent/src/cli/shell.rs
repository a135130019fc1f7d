//! `nm-agent shell`: a command in many containers.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use shell::{Cluster, Job, Outcome, ShellError, Submitted, Summary};
use tokio::signal::unix::{SignalKind, signal};

use super::{ConfDir, EXIT_BAD_CONFIGURATION, start_logging};

/// Exit status after Ctrl-C: 128 and SIGINT, as shells have it.
const EXIT_INTERRUPTED: u8 = 130;

/// Which execution types a job has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Type {
    Guaranteed,
    Opportunistic,
    Mix,
}

#[derive(Debug, Args)]
pub(super) struct ShellArguments {
    /// How many containers.
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    number: u32,
    /// Execution type of the containers; mix makes half of them guaranteed
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t = Type::Guaranteed)]
    execution_type: Type,
    /// Of a mix, how many are guaranteed [default: half]
    #[arg(long, value_name = "K")]
    guaranteed: Option<u32>,
    /// Memory of each container, in MiB
    #[arg(long, value_name = "MB", default_value_t = 256)]
    memory: u64,
    /// Virtual cores of each container
    #[arg(long, value_name = "V", default_value_t = 1)]
    vcores: u32,
    #[command(flatten)]
    conf: ConfDir,
    /// What to run: the program and its arguments, exactly as given, without a shell
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl ShellArguments {
    fn job(&self) -> Job {
        let half = self.number.div_ceil(2);
        let guaranteed = match self.execution_type {
            Type::Guaranteed => self.number,
            Type::Opportunistic => 0,
            Type::Mix => self.guaranteed.unwrap_or(half).min(self.number),
        };
        Job {
            guaranteed,
            opportunistic: self.number - guaranteed,
            memory_mb: self.memory,
            vcores: self.vcores,
            ..Job::new(self.command.clone())
        }
    }
}

/// Runs a job; the exit status is as `--help` says.
pub(super) fn shell(
    arguments: &ShellArguments,
    environment: &BTreeMap<String, String>,
) -> ExitCode {
    start_logging(environment);
    let loaded = arguments.conf.read(environment);
    let lookup = |name: &str| Some(loaded.properties.get(name).ok()??.text);
    let cluster = match cluster(&lookup, environment) {
        Ok(cluster) => cluster,
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::from(EXIT_BAD_CONFIGURATION);
        }
    };
    match run(&cluster, &arguments.job()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn cluster(
    lookup: &dyn Fn(&str) -> Option<String>,
    environment: &BTreeMap<String, String>,
) -> anyhow::Result<Cluster> {
    let program = std::env::current_exe().context("finding the path of this program")?;
    let user = match environment
        .get("HADOOP_USER_NAME")
        .filter(|user| !user.is_empty())
    {
        Some(user) => user.clone(),
        None => current_user()?,
    };
    Ok(Cluster::read(lookup, user, program)?)
}

fn current_user() -> anyhow::Result<String> {
    let uid = nix::unistd::Uid::effective();
    match nix::unistd::User::from_uid(uid).context("looking up the user")? {
        Some(user) => Ok(user.name),
        None => bail!("the user {uid} has no name: set HADOOP_USER_NAME"),
    }
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")
}

fn run(cluster: &Cluster, job: &Job) -> anyhow::Result<ExitCode> {
    let runtime = runtime()?;
    let code = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
        let mut submitted = shell::submit(cluster, job).await?;
        eprintln!("{} submitted", submitted.application_id());
        tokio::select! {
            summary = submitted.wait() => report(summary),
            _ = interrupt.recv() => interrupted(&submitted).await,
        }
    });
    runtime.shutdown_background();
    code
}

async fn interrupted(submitted: &Submitted) -> anyhow::Result<ExitCode> {
    eprintln!("killing {}", submitted.application_id());
    if let Err(error) = submitted.kill().await {
        eprintln!("{:#}", anyhow::Error::from(error));
    }
    Ok(ExitCode::from(EXIT_INTERRUPTED))
}

fn report(summary: Result<Summary, ShellError>) -> anyhow::Result<ExitCode> {
    let summary = summary?;
    println!("{summary:#?}");
    Ok(match summary.outcome {
        Outcome::Succeeded => ExitCode::SUCCESS,
        Outcome::Failed | Outcome::Stopped => ExitCode::FAILURE,
    })
}

/// Runs the master of a job; its own variables tell it everything.
pub(super) fn master(environment: &BTreeMap<String, String>) -> ExitCode {
    start_logging(environment);
    let result = runtime().and_then(|runtime| {
        let result = runtime.block_on(shell::master::run(environment));
        // Nodes that hang are not waited for.
        runtime.shutdown_background();
        Ok(result?)
    });
    match result {
        Ok(Outcome::Succeeded) => ExitCode::SUCCESS,
        Ok(Outcome::Failed | Outcome::Stopped) => ExitCode::FAILURE,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
