//! The client: submits an application, follows it to its end, kills it.

mod endpoint;
mod follow;
mod submission;

use std::time::Duration;

use records::{ApplicationId, Resource};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;
use wire::convert::required;
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
use crate::cluster::{Cluster, Patience};
use crate::error::ShellError;
use crate::job::Job;
use crate::progress::{Progress, Stage};
use crate::rm_link::{LinkConfig, RmLink};
use crate::spec::Spec;
use crate::summary::Summary;

/// Between two questions whether an application that is being killed has ended.
const KILL_POLL: Duration = Duration::from_millis(50);

/// Longest wait for the end of an application that is being killed: whoever kills it wants to go.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// An application that was submitted and is being followed. Dropping it ends the following, not the application.
#[derive(Debug)]
pub struct Submitted {
    id: ApplicationId,
    follower: AbortOnDropHandle<Result<Summary, ShellError>>,
    killer: Killer,
}

/// Submits a job; returns when the ResourceManager has taken it. `progress` is told how it goes, from now until the job's
/// end.
///
/// # Errors
/// [`ShellError`]; unless the ResourceManager fell silent in the middle, nothing was submitted then.
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
        secret: submission::new_secret(),
    };
    let mut link = RmLink::new(link_config(cluster, cluster.patience));
    let watching = watch_silence(link.silence(), progress.clone());
    let id = tokio::select! {
        taken = hand_over(&mut link, job, program, &spec) => taken?,
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
        config: link_config(cluster, patience),
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

/// Gets an id for the job and submits it under that.
async fn hand_over(
    link: &mut RmLink,
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

fn link_config(cluster: &Cluster, patience: Patience) -> LinkConfig {
    LinkConfig {
        addresses: cluster.resource_managers.clone(),
        protocol: application_client::PROTOCOL,
        auth: ClientAuth::Simple {
            user: cluster.user.clone(),
        },
        patience,
    }
}

fn read_new(
    new: &GetNewApplicationResponseProto,
) -> Result<(ApplicationId, Option<Resource>), wire::convert::ConvertError> {
    const MESSAGE: &str = "GetNewApplicationResponseProto";
    let id = required(new.application_id.as_ref(), MESSAGE, "application_id")?;
    let largest = new.maximum_capability.as_ref().map(Resource::try_from);
    Ok((id.try_into()?, largest.transpose()?))
}

/// What no node could give is not submitted.
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
    /// The application's id.
    #[must_use]
    pub const fn application_id(&self) -> ApplicationId {
        self.id
    }

    /// Waits for its end. May be called again when it was dropped before it returned, not after.
    ///
    /// # Errors
    /// [`ShellError`]: it ended without a summary, or nobody knows whether it ended.
    pub async fn wait(&mut self) -> Result<Summary, ShellError> {
        match (&mut self.follower).await {
            Ok(result) => result,
            // It is only aborted when this is dropped.
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }

    /// Kills it; returns when it has ended, or been told to by its master when no ResourceManager answers.
    ///
    /// # Errors
    /// [`ShellError::ResourceManager`]: neither could be told within 5 seconds.
    pub async fn kill(&self) -> Result<(), ShellError> {
        self.killer.kill().await
    }
}

/// Ends an application.
#[derive(Clone)]
struct Killer {
    id: ApplicationId,
    config: LinkConfig,
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
    /// By the ResourceManager, else by the master itself.
    async fn kill(&self) -> Result<(), ShellError> {
        match self.kill_at_rm().await {
            Ok(()) => Ok(()),
            Err(_) if self.stop_master().await => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether the master has heard that it is to stop its job.
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
        let mut link = RmLink::new(self.config.clone());
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
            // What has been ordered will come about, though perhaps after this client has gone.
            if answer.is_kill_completed() || Instant::now() >= deadline {
                return Ok(());
            }
            sleep(KILL_POLL).await;
        }
    }
}
