//! `nm-agent shell`: a command in many containers of a cluster.

mod display;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use hadoop_conf::{ConfigProblems, Site, shared};
use program::signals::{Interruption, Signals};
use shell::{Cluster, Job, Outcome, RoleHistoryOptIn, Submitted, Summary, text};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{ConfDir, EXIT_BAD_CONFIGURATION, hadoop_user, start_logging};

/// Longest wait for a submission that is under way when the user interrupts: it may be on record
/// already, and then has to be killed.
const SUBMISSION_PATIENCE: Duration = Duration::from_secs(5);

/// Longest wait for a ResourceManager at an address that nobody has named.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(5);

/// Log level of this command unless `NM_AGENT_LOG` sets one. Progress shows the rest.
const LOG_OF_CLIENT: &str = "warn";

/// Mix of execution types of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Type {
    Guaranteed,
    Opportunistic,
    Mix,
}

#[derive(Debug, Args)]
pub(super) struct ShellArguments {
    /// How many containers
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    number: u32,
    /// Execution type of the containers; mix is some of each
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t = Type::Guaranteed)]
    execution_type: Type,
    /// How many of a mix are guaranteed [default: half]
    #[arg(long, value_name = "K")]
    guaranteed: Option<u32>,
    /// Memory of each container, in MiB
    #[arg(long, value_name = "MB", default_value_t = 256)]
    memory: u64,
    /// Virtual cores of each container
    #[arg(long, value_name = "V", default_value_t = 1)]
    vcores: u32,
    /// How often each container is asked for again after it was evicted, shed, preempted or lost
    #[arg(long, value_name = "TIMES", default_value_t = 50)]
    retries: u32,
    /// Have opportunistic containers promoted that have waited on their node for so many
    /// milliseconds
    #[arg(long, value_name = "MS")]
    promote_after: Option<u64>,
    /// Keep a role history of this name, so that opportunistic containers of the next run with the
    /// name go back to the nodes of this one. The configuration has to name the AMRMProxy of the
    /// nodes as yarn.resourcemanager.scheduler.address
    #[arg(long, value_name = "NAME")]
    role_history: Option<String>,
    /// Bring guaranteed containers back, too. An ask waits for such a node until a timeout, 30 s
    /// unless the node sets another, and then accepts any node
    #[arg(long, requires = "role_history")]
    role_history_guaranteed: bool,
    /// Placement policies of the history's roles, such as `*=timeout:10` or `*=strict`. A node that
    /// cannot read them keeps to the defaults
    #[arg(long, value_name = "POLICIES", requires = "role_history")]
    role_history_policy: Option<String>,
    /// A variable of the command's environment; may be given again
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    environment: Vec<(String, String)>,
    /// Name of the job on the ResourceManager's pages
    #[arg(long, value_name = "NAME", default_value = "nm-agent shell")]
    name: String,
    /// The queue to submit to
    #[arg(long, value_name = "QUEUE", default_value = "default")]
    queue: String,
    /// Memory of the job's ApplicationMaster, in MiB
    #[arg(long, value_name = "MB", default_value_t = 128)]
    master_memory: u64,
    #[command(flatten)]
    conf: ConfDir,
    /// The program and its arguments, run exactly as given, without a shell
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn variable(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE is expected")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl ShellArguments {
    fn job(&self) -> anyhow::Result<Job> {
        let guaranteed = match (self.execution_type, self.guaranteed) {
            (Type::Guaranteed, None) => self.number,
            (Type::Opportunistic, None) => 0,
            (Type::Mix, None) => self.number.div_ceil(2),
            (Type::Mix, Some(guaranteed)) if guaranteed <= self.number => guaranteed,
            (Type::Mix, Some(guaranteed)) => bail!(
                "--guaranteed {guaranteed} is more than the {} containers of --number",
                self.number
            ),
            (Type::Guaranteed | Type::Opportunistic, Some(_)) => {
                bail!("--guaranteed is for --type mix")
            }
        };
        let job = Job {
            name: self.name.clone(),
            queue: self.queue.clone(),
            environment: self.environment.iter().cloned().collect(),
            guaranteed,
            opportunistic: self.number - guaranteed,
            memory_mb: self.memory,
            vcores: self.vcores,
            master_memory_mb: self.master_memory,
            retries_max: self.retries,
            promote_after_ms: self.promote_after,
            role_history: self.role_history.clone().map(|service| RoleHistoryOptIn {
                service,
                guaranteed: self.role_history_guaranteed,
                policy: self.role_history_policy.clone(),
            }),
            ..Job::new(self.command.clone())
        };
        job.check()?;
        Ok(job)
    }
}

/// Runs a job; the exit status is as `--help` says.
pub(super) fn shell(
    arguments: &ShellArguments,
    environment: &BTreeMap<String, String>,
) -> ExitCode {
    start_logging(environment, LOG_OF_CLIENT);
    let read = arguments.job().and_then(|job| {
        let cluster = cluster(&arguments.conf, environment)?;
        Ok((job, cluster))
    });
    let (job, cluster) = match read {
        Ok(read) => read,
        Err(error) => {
            tell(&format!("{error:#}"));
            return ExitCode::from(EXIT_BAD_CONFIGURATION);
        }
    };
    match run(&cluster, &job) {
        Ok(code) => code,
        Err(error) => {
            tell(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// The cluster that the files name. What is wrong with them only for a node does not matter here.
fn cluster(conf: &ConfDir, environment: &BTreeMap<String, String>) -> anyhow::Result<Cluster> {
    let folders = conf.folders(environment);
    let site = Site::read(&folders, environment, &shared::TABLE);
    if let Some(problems) = ConfigProblems::new(site.problems) {
        return Err(problems.into());
    }
    let program = std::env::current_exe().context("finding the path of this program")?;
    let user = hadoop_user(environment)?;
    Ok(Cluster::read(&site.properties, user, program)?)
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
        let mut signals = Signals::listen_to_people().context("listening for signals")?;
        submit_and_wait(cluster, job, &mut signals).await
    });
    // Everything has ended in order. A name service that hangs is not waited for.
    runtime.shutdown_background();
    code
}

async fn submit_and_wait(
    cluster: &Cluster,
    job: &Job,
    signals: &mut Signals,
) -> anyhow::Result<ExitCode> {
    if !cluster.is_named {
        look_for_default(cluster).await?;
    }
    let progress = watch::Sender::default();
    tell(&format!(
        "submitting to {}",
        cluster.resource_managers.join(", ")
    ));
    let mut submitting = std::pin::pin!(shell::submit(cluster, job, progress.clone()));
    let submitted = tokio::select! {
        submitted = &mut submitting => Ok(submitted?),
        signal = signals.next() => Err(exit_code(signal)),
        () = display::show(progress.subscribe()) => unreachable!("progress is shown until it is dropped"),
    };
    let mut submitted = match submitted {
        Ok(submitted) => submitted,
        Err(code) => {
            tell("stopping as soon as it is known whether the job was submitted");
            let taken = tokio::select! {
                taken = timeout(SUBMISSION_PATIENCE, submitting) => taken,
                _ = signals.next() => return Ok(code),
            };
            return match taken {
                Ok(Ok(submitted)) => Ok(interrupted(&submitted, signals, code).await),
                Ok(Err(_)) | Err(_) => Ok(code),
            };
        }
    };
    tell(&format!("{} submitted", submitted.application_id()));
    let showing = display::show(progress.subscribe());
    let ended = tokio::select! {
        summary = submitted.wait() => Ok(summary),
        signal = signals.next() => Err(exit_code(signal)),
        () = showing => unreachable!("progress is shown until it is dropped"),
    };
    match ended {
        Ok(summary) => Ok(report(&summary?)),
        Err(code) => Ok(interrupted(&submitted, signals, code).await),
    }
}

/// Fails at once where no ResourceManager listens at Hadoop's default address. Retries are for one
/// that somebody has named.
async fn look_for_default(cluster: &Cluster) -> anyhow::Result<()> {
    let address = cluster.resource_managers.join(", ");
    let reason = match timeout(DEFAULT_PATIENCE, TcpStream::connect(&address)).await {
        Ok(Ok(_listens)) => return Ok(()),
        Ok(Err(error)) => error.to_string(),
        Err(_late) => format!("no answer within {} s", DEFAULT_PATIENCE.as_secs()),
    };
    bail!(
        "no ResourceManager at {address}: {reason}\n\
         No configuration names another, so this is Hadoop's default: give --conf DIR or set \
         HADOOP_CONF_DIR to the folder with the cluster's yarn-site.xml"
    )
}

fn exit_code(signal: Interruption) -> ExitCode {
    ExitCode::from(signal.exit_status())
}

/// Kills the application; a second signal is not waited with.
async fn interrupted(submitted: &Submitted, signals: &mut Signals, code: ExitCode) -> ExitCode {
    let id = submitted.application_id();
    tell(&format!("killing {id}"));
    tokio::select! {
        killed = submitted.kill() => match killed {
            Ok(()) => tell(&format!("{id} was killed")),
            Err(error) => tell(&format!("{id} may still run: {:#}", anyhow::Error::from(error))),
        },
        _ = signals.next() => tell(&format!("{id} may still run")),
    }
    code
}

/// A line for whoever still reads standard error. A terminal that was closed does not change what
/// becomes of the job.
fn tell(line: &str) {
    let _unread = writeln!(std::io::stderr(), "{line}");
}

fn report(summary: &Summary) -> ExitCode {
    let table = text::summary_table(summary);
    // Whether anybody reads it does not change how the job went.
    let _unread = std::io::stdout().write_all(table.as_bytes());
    match summary.outcome {
        Outcome::Succeeded => ExitCode::SUCCESS,
        Outcome::Failed | Outcome::Stopped => ExitCode::FAILURE,
    }
}

/// Runs the master of a job; its own variables tell it everything.
pub(super) fn master(environment: &BTreeMap<String, String>) -> ExitCode {
    start_logging(environment, super::LOG_OF_SERVICE);
    let result = runtime().and_then(|runtime| {
        let result = runtime.block_on(shell::master::run(environment));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn unnamed(address: String) -> Cluster {
        Cluster {
            resource_managers: vec![address],
            is_named: false,
            schedulers: Vec::new(),
            user: "joe".to_owned(),
            program: "/bin/true".into(),
            patience: Default::default(),
            protections: Default::default(),
        }
    }

    #[tokio::test]
    async fn nobody_waits_for_a_resource_manager_that_no_file_names() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        look_for_default(&unnamed(address)).await.unwrap();
        // Bound and not listening, so that no other process gets the port.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap().to_string();
        let error = look_for_default(&unnamed(address.clone()))
            .await
            .unwrap_err();
        let text = format!("{error:#}");
        for part in [&*address, "refused", "--conf", "HADOOP_CONF_DIR"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
