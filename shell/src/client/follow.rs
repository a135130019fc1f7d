//! Follows an application to its end.

use std::time::Duration;

use records::{ApplicationId, MonoMillis};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;
use wire::exception::HadoopException;
use wire::failover::{FailoverClient, FailoverError};
use wire::proto::hadoop_yarn::{
    ApplicationReportProto, GetApplicationReportRequestProto, YarnApplicationStateProto,
};
use wire::protocol::application_client::GetApplicationReport;

use super::Killer;
use super::endpoint::Endpoint;
use crate::error::ShellError;
use crate::progress::{Progress, Stage};
use crate::summary::Summary;

/// Shortest interval between two reports: people do not see faster changes.
const POLL_MIN: Duration = Duration::from_millis(50);

/// Longest interval between two reports, that of Hadoop's own clients.
const POLL_MAX: Duration = Duration::from_secs(1);

/// Divisor of the time for which the application has run: the quotient is the interval, so that
/// long jobs are polled less often.
const POLL_SHARE: u32 = 16;

/// Time after the loss of an AM's endpoint during which reports are polled at the shortest
/// interval: the AM has probably ended.
const FAST_POLL_PERIOD: Duration = Duration::from_secs(2);

/// Follows one application: polls its reports and publishes its progress and its AM's endpoint.
pub(super) struct Follower {
    pub(super) id: ApplicationId,
    pub(super) progress: watch::Sender<Progress>,
    pub(super) endpoint: watch::Sender<Option<Endpoint>>,
    pub(super) killer: Killer,
}

impl Follower {
    /// Follows the application until it ends or the ResourceManager is silent for too long. In the
    /// latter case stops the AM if it can be reached.
    pub(super) async fn follow(self, mut link: FailoverClient) -> Result<Summary, ShellError> {
        let watching = watch_silence(link.silence(), self.progress.clone());
        let result = tokio::select! {
            result = self.poll(&mut link) => result,
            never = watching => match never {},
        };
        if matches!(
            result,
            Err(ShellError::Lost { .. } | ShellError::Forgotten { .. })
        ) {
            self.killer.stop_master().await;
        }
        result
    }

    async fn poll(&self, link: &mut FailoverClient) -> Result<Summary, ShellError> {
        let request = GetApplicationReportRequestProto {
            application_id: Some(self.id.into()),
        };
        let began = Instant::now();
        let (lost, mut endpoint_lost) = watch::channel(0);
        let mut following: Option<AbortOnDropHandle<()>> = None;
        let mut fast_until = began;
        loop {
            let answer = link.call::<GetApplicationReport>(&request).await;
            let answer = answer.map_err(|error| gone(self.id, error))?;
            let report = answer.application_report.unwrap_or_default();
            let stage = stage(&report);
            self.progress
                .send_if_modified(|progress| update(progress, &report, stage));
            if stage == Stage::Ended {
                return outcome(self.id, &report);
            }
            let found = endpoint_of(&report);
            if *self.endpoint.borrow() != found {
                // A new attempt, or the first.
                following = found.clone().map(|endpoint| {
                    let following = endpoint.follow(self.progress.clone(), lost.clone());
                    AbortOnDropHandle::new(tokio::spawn(following))
                });
                self.endpoint.send_replace(found);
            }
            let pause = if Instant::now() < fast_until {
                POLL_MIN
            } else {
                (began.elapsed() / POLL_SHARE).clamp(POLL_MIN, POLL_MAX)
            };
            tokio::select! {
                () = sleep(pause) => {}
                Ok(()) = endpoint_lost.changed(), if following.is_some() => {
                    fast_until = Instant::now() + FAST_POLL_PERIOD;
                }
            }
        }
    }
}

pub(super) async fn watch_silence(
    mut silence: watch::Receiver<Option<Duration>>,
    progress: watch::Sender<Progress>,
) -> std::convert::Infallible {
    while silence.changed().await.is_ok() {
        let lasting = *silence.borrow_and_update();
        let lasting_ms = lasting.map(|lasting| MonoMillis::from(lasting).0);
        progress.send_modify(|progress| progress.rm_silent_ms = lasting_ms);
    }
    // The link is gone, so that no further silence can be reported.
    std::future::pending().await
}

/// Returns the AM's endpoint; a ResourceManager reports `N/A` and -1 before the AM has registered.
fn endpoint_of(report: &ApplicationReportProto) -> Option<Endpoint> {
    let port = u16::try_from(report.rpc_port())
        .ok()
        .filter(|port| *port > 0)?;
    let host = report.host();
    (stage(report) == Stage::Running && !host.is_empty()).then(|| Endpoint {
        host: host.to_owned(),
        port,
    })
}

fn gone(application: ApplicationId, source: FailoverError) -> ShellError {
    if source.is(HadoopException::ApplicationNotFound) {
        ShellError::Forgotten { application }
    } else {
        ShellError::Lost {
            application,
            source,
        }
    }
}

fn stage(report: &ApplicationReportProto) -> Stage {
    match report.yarn_application_state() {
        YarnApplicationStateProto::New
        | YarnApplicationStateProto::NewSaving
        | YarnApplicationStateProto::Submitted
        | YarnApplicationStateProto::Accepted => Stage::Submitted,
        YarnApplicationStateProto::Running => Stage::Running,
        YarnApplicationStateProto::Finished
        | YarnApplicationStateProto::Failed
        | YarnApplicationStateProto::Killed => Stage::Ended,
    }
}

/// Updates the progress; returns whether it changed.
fn update(progress: &mut Progress, report: &ApplicationReportProto, stage: Stage) -> bool {
    let mut next = progress.clone();
    next.stage = stage;
    if progress.counts.is_none() {
        next.fraction = report.progress().clamp(0.0, 1.0);
    }
    report.tracking_url().clone_into(&mut next.tracking_url);
    let is_new = next != *progress;
    *progress = next;
    is_new
}

fn outcome(
    application: ApplicationId,
    report: &ApplicationReportProto,
) -> Result<Summary, ShellError> {
    if let Some(summary) = Summary::from_diagnostics(report.diagnostics()) {
        return Ok(summary);
    }
    let diagnostics = report.diagnostics().trim().to_owned();
    if report.yarn_application_state() == YarnApplicationStateProto::Killed {
        Err(ShellError::Killed {
            application,
            diagnostics,
        })
    } else {
        Err(ShellError::MasterFailed {
            application,
            diagnostics,
        })
    }
}
