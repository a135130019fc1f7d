//! Client: submits an application, follows it to its end, kills it.

mod endpoint;
mod follow;
mod submission;

use std::time::Duration;

use records::{ApplicationId, Resource};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;
use wire::convert::required;
use wire::failover::{FailoverClient, LinkConfig};
use wire::proto::hadoop_yarn::{
    GetNewApplicationRequestProto, GetNewApplicationResponseProto, KillApplicationRequestProto,
    SubmitApplicationRequestProto,
};
use wire::protocol::application_client::{
    self, ForceKillApplication, GetNewApplication, SubmitApplication,
};
use wire::rpc::{ClientAuth, Method as _};

use self::endpoint::Endpoint;
use self::follow::{Follower, watch_silence};
use crate::cluster::{Cluster, Patience, Protections};
use crate::error::ShellError;
use crate::job::Job;
use crate::progress::{Progress, Stage};
use crate::rm_link;
use crate::spec::Spec;
use crate::summary::Summary;

/// Interval between polls for the end of an application that is being killed.
const KILL_POLL: Duration = Duration::from_millis(50);

/// Longest wait for the end of an application that is being killed, short since the caller wants to
/// exit.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// An application that was submitted and is being followed. Dropping the handle ends the following,
/// not the application.
#[derive(Debug)]
pub struct Submitted {
    id: ApplicationId,
    follower: AbortOnDropHandle<Result<Summary, ShellError>>,
    killer: Killer,
}

/// Submits a job; returns when the ResourceManager has accepted it. Sends updates to `progress`
/// from now until the job's end.
///
/// # Errors
/// [`ShellError`]; then nothing was submitted, unless the ResourceManager fell silent in the
/// middle.
pub async fn submit(
    cluster: &Cluster,
    job: &Job,
    progress: watch::Sender<Progress>,
) -> Result<Submitted, ShellError> {
    job.check()?;
    let program = cluster.program.to_str().ok_or(ShellError::ProgramPath)?;
    let spec = Spec {
        job: job.clone(),
        user: cluster.user.clone(),
        schedulers: cluster.schedulers.clone(),
        patience: cluster.patience,
        protections: cluster
            .protections
            .iter()
            .map(|level| level.name().to_owned())
            .collect(),
        secret: submission::new_secret(),
    };
    let config = link_config(cluster);
    let mut link = rm_link::client(config.clone(), cluster.patience);
    let watching = watch_silence(link.silence(), progress.clone());
    let id = tokio::select! {
        submitted = submit_application(&mut link, job, program, &spec) => submitted?,
        never = watching => match never {},
    };
    progress.send_modify(|progress| {
        progress.stage = Stage::Submitted;
        progress.rm_silent_ms = None;
    });
    let (endpoint, endpoint_known) = watch::channel(None);
    let patience = Patience {
        give_up_after: Some(KILL_PATIENCE),
        ..cluster.patience
    };
    let killer = Killer {
        id,
        config,
        patience,
        endpoint: endpoint_known,
        secret: spec.secret,
    };
    let follower = Follower {
        id,
        progress,
        endpoint,
        killer: killer.clone(),
    };
    Ok(Submitted {
        id,
        follower: AbortOnDropHandle::new(tokio::spawn(follower.follow(link))),
        killer,
    })
}

/// Gets an application id and submits the job under it.
async fn submit_application(
    link: &mut FailoverClient,
    job: &Job,
    program: &str,
    spec: &Spec,
) -> Result<ApplicationId, ShellError> {
    let new = link
        .call::<GetNewApplication>(&GetNewApplicationRequestProto::default())
        .await
        .map_err(|source| ShellError::ResourceManager {
            doing: "asking for an application id",
            source,
        })?;
    let (id, largest) = read_new(&new).map_err(|source| ShellError::Answer {
        method: GetNewApplication::NAME,
        source,
    })?;
    check_sizes(job, largest)?;
    let request = SubmitApplicationRequestProto {
        application_submission_context: Some(submission::context(id, program, spec)?),
    };
    let submitted = link.call::<SubmitApplication>(&request).await;
    submitted.map_err(|source| ShellError::ResourceManager {
        doing: "submitting the application",
        source,
    })?;
    Ok(id)
}

fn link_config(cluster: &Cluster) -> LinkConfig {
    let auth = ClientAuth::Simple {
        user: cluster.user.clone(),
    };
    let addresses = cluster.resource_managers.clone();
    rm_link::link_config(
        addresses,
        application_client::PROTOCOL,
        auth,
        Protections::default(),
    )
}

fn read_new(
    new: &GetNewApplicationResponseProto,
) -> Result<(ApplicationId, Option<Resource>), wire::convert::ConvertError> {
    const MESSAGE: &str = "GetNewApplicationResponseProto";
    let id = required(new.application_id.as_ref(), MESSAGE, "application_id")?;
    let largest = new.maximum_capability.as_ref().map(Resource::try_from);
    Ok((id.try_into()?, largest.transpose()?))
}

/// Refuses sizes above the largest container, which would never be allocated.
fn check_sizes(job: &Job, largest: Option<Resource>) -> Result<(), ShellError> {
    let Some(largest) = largest else {
        return Ok(());
    };
    let master = Resource::new(job.master_memory_mb, 1);
    for (what, asked) in [("a container", job.size()), ("the master", master)] {
        if !asked.fits_in(largest) {
            return Err(ShellError::TooLarge {
                what,
                asked,
                largest,
            });
        }
    }
    Ok(())
}

impl Submitted {
    /// Returns the id of the application.
    #[must_use]
    pub const fn application_id(&self) -> ApplicationId {
        self.id
    }

    /// Waits for the end of the application. May be called again if the future was dropped before
    /// it returned, not after.
    ///
    /// # Errors
    /// [`ShellError`]: the application ended without a summary, or its end is unknown.
    pub async fn wait(&mut self) -> Result<Summary, ShellError> {
        match (&mut self.follower).await {
            Ok(result) => result,
            // The task is aborted only when `self` is dropped, so it has panicked.
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }

    /// Kills the application. Returns when it has ended or, if no ResourceManager answers, when the
    /// AM has accepted the order to stop.
    ///
    /// # Errors
    /// [`ShellError::ResourceManager`]: neither was reached within 5 seconds.
    pub async fn kill(&self) -> Result<(), ShellError> {
        self.killer.kill().await
    }
}

/// Kills an application, from the handle as well as from the follower.
#[derive(Clone)]
struct Killer {
    id: ApplicationId,
    config: LinkConfig,
    patience: Patience,
    endpoint: watch::Receiver<Option<Endpoint>>,
    secret: String,
}

impl std::fmt::Debug for Killer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Killer")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Killer {
    /// Kills the application through the ResourceManager, else stops its AM directly.
    async fn kill(&self) -> Result<(), ShellError> {
        match self.kill_at_rm().await {
            Ok(()) => Ok(()),
            Err(_) if self.stop_master().await => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Asks the AM to stop its job; returns whether it accepted.
    async fn stop_master(&self) -> bool {
        let endpoint = self.endpoint.borrow().clone();
        let Some(endpoint) = endpoint else {
            return false;
        };
        let stopped = endpoint.stop(&self.secret).await;
        stopped
            .inspect_err(|error| tracing::debug!(%error, "stopping the master"))
            .is_ok()
    }

    async fn kill_at_rm(&self) -> Result<(), ShellError> {
        let mut link = rm_link::client(self.config.clone(), self.patience);
        let request = KillApplicationRequestProto {
            application_id: Some(self.id.into()),
            diagnostics: Some("Killed by its client.".to_owned()),
        };
        let deadline = Instant::now() + KILL_PATIENCE;
        loop {
            let answer = link.call::<ForceKillApplication>(&request).await;
            let answer = answer.map_err(|source| ShellError::ResourceManager {
                doing: "killing the application",
                source,
            })?;
            // The ResourceManager carries out an accepted kill, though perhaps after this client
            // has exited.
            if answer.is_kill_completed() || Instant::now() >= deadline {
                return Ok(());
            }
            sleep(KILL_POLL).await;
        }
    }
}
