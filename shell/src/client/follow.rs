//! Follows an application to its end.

use std::time::Duration;

use records::ApplicationId;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use wire::exception::HadoopException;
use wire::proto::hadoop_yarn::{
    ApplicationReportProto, GetApplicationReportRequestProto, YarnApplicationStateProto,
};
use wire::protocol::application_client::GetApplicationReport;

use crate::error::ShellError;
use crate::progress::{Progress, Stage};
use crate::rm_link::{LinkError, RmLink};
use crate::summary::Summary;

/// Between two reports, at least: a person sees no faster.
const POLL_MIN: Duration = Duration::from_millis(50);

/// Between two reports, at most: Hadoop's own clients ask once a second.
const POLL_MAX: Duration = Duration::from_secs(1);

/// The pause is so much of the time that the application has run: long jobs are looked at less often.
const POLL_SHARE: u32 = 16;

/// Follows an application until it ends or patience does.
pub(super) async fn follow(
    mut link: RmLink,
    id: ApplicationId,
    progress: watch::Sender<Progress>,
) -> Result<Summary, ShellError> {
    let silence = link.silence();
    let watching = watch_silence(silence, progress.clone());
    tokio::select! {
        result = poll(&mut link, id, &progress) => result,
        never = watching => match never {},
    }
}

async fn watch_silence(
    mut silence: watch::Receiver<Option<u64>>,
    progress: watch::Sender<Progress>,
) -> std::convert::Infallible {
    while silence.changed().await.is_ok() {
        let lasting = *silence.borrow_and_update();
        progress.send_modify(|progress| progress.rm_silent_ms = lasting);
    }
    // The link is gone, and with it what there is to watch.
    std::future::pending().await
}

async fn poll(
    link: &mut RmLink,
    id: ApplicationId,
    progress: &watch::Sender<Progress>,
) -> Result<Summary, ShellError> {
    let request = GetApplicationReportRequestProto {
        application_id: Some(id.into()),
    };
    let began = Instant::now();
    loop {
        let answer = link.call::<GetApplicationReport>(&request).await;
        let answer = answer.map_err(|error| gone(id, error))?;
        let report = answer.application_report.unwrap_or_default();
        let stage = stage(&report);
        progress.send_if_modified(|progress| update(progress, &report, stage));
        if stage == Stage::Ended {
            return outcome(id, &report);
        }
        sleep((began.elapsed() / POLL_SHARE).clamp(POLL_MIN, POLL_MAX)).await;
    }
}

fn gone(application: ApplicationId, source: LinkError) -> ShellError {
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

/// Takes over what is new; whether anything is.
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
