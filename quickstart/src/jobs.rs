//! The two jobs of the story: submitted through the distributed shell like any job, and followed to
//! their end.

use std::path::Path;

use records::error_chain;
use shell::{Job, Outcome, Summary};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::plan;
use super::story::{JobName, JobSight};

/// A container that had to go is asked for again as long as it takes.
const RETRIES_MAX: u32 = shell::job::RETRIES_MAX;

/// A submitted job. Dropping the value stops following the job; the job goes on.
#[derive(Debug, Default)]
pub(super) struct Followed(Option<(watch::Receiver<JobSight>, AbortOnDropHandle<()>)>);

impl Followed {
    /// Submits a job and follows it in a task.
    pub(super) fn submit(cluster: shell::Cluster, job: Job) -> Self {
        let (sender, sight) = watch::channel(JobSight::Unknown);
        let task = tokio::spawn(async move {
            let end = run(&cluster, &job, &sender).await;
            sender.send_replace(end);
        });
        Self(Some((sight, AbortOnDropHandle::new(task))))
    }

    /// How it is doing.
    pub(super) fn sight(&self) -> JobSight {
        match &self.0 {
            Some((sight, _)) => sight.borrow().clone(),
            None => JobSight::Unknown,
        }
    }
}

async fn run(cluster: &shell::Cluster, job: &Job, sight: &watch::Sender<JobSight>) -> JobSight {
    // What the nodes do tells more.
    let progress = watch::Sender::default();
    let mut submitted = match shell::submit(cluster, job, progress).await {
        Ok(submitted) => submitted,
        Err(error) => return JobSight::Failed(error_chain(&error)),
    };
    let id = submitted.application_id();
    sight.send_replace(JobSight::Submitted(id));
    match submitted.wait().await {
        Ok(summary) if summary.outcome == Outcome::Succeeded => JobSight::Succeeded(id),
        Ok(summary) => JobSight::Failed(failure(&summary)),
        Err(error) => JobSight::Failed(error_chain(&error)),
    }
}

fn failure(summary: &Summary) -> String {
    let counts = summary.counts;
    let first = summary.failures.first();
    let reason = first.map_or("no reason is known", |failure| failure.reason.as_str());
    format!(
        "{} of {} containers did not succeed; the first: {reason}",
        counts.failed, counts.tasks
    )
}

/// Returns the specification of a job of the story. The guaranteed job ends when the file `gate`
/// appears.
pub(super) fn job(name: JobName, nodes: u16, gate: &Path) -> Job {
    let script = |script: &str| vec!["bash".to_owned(), "-c".to_owned(), script.to_owned()];
    match name {
        JobName::Batch => Job {
            name: "opportunistic batch".to_owned(),
            opportunistic: plan::tasks(u32::from(nodes)),
            memory_mb: plan::TASK.memory_mb,
            vcores: plan::TASK.vcores,
            master_memory_mb: plan::MASTER_MEMORY_MB,
            retries_max: RETRIES_MAX,
            ..Job::new(script(plan::TASK_SCRIPT))
        },
        JobName::Urgent => {
            let mut command = script(plan::URGENT_SCRIPT);
            // The folder's path is UTF-8: it was made from a variable that is, or from a constant.
            command.extend(["urgent".to_owned(), gate.display().to_string()]);
            Job {
                name: "guaranteed".to_owned(),
                guaranteed: 1,
                memory_mb: plan::URGENT.memory_mb,
                vcores: plan::URGENT.vcores,
                master_memory_mb: plan::MASTER_MEMORY_MB,
                retries_max: RETRIES_MAX,
                ..Job::new(command)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_jobs_can_be_run() {
        for name in [JobName::Batch, JobName::Urgent] {
            let job = job(name, 16, Path::new("/tmp/a 'b/release"));
            assert_eq!(job.check(), Ok(()), "{job:?}");
        }
    }
}
