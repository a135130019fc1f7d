//! Clients: application ids, submissions, kills.

use prost::Message as _;
use records::{ApplicationId, Now, Resource};
use wire::convert::required;
use wire::credentials::Credentials;
use wire::proto::hadoop_yarn::ApplicationSubmissionContextProto;

use super::{Core, QUEUE};
use crate::applications::Application;
use crate::refusal::Refusal;
use crate::scheduler::normalized;

/// Limit on unfinished applications (Hadoop: `yarn.scheduler.capacity.maximum-applications`).
const APPLICATIONS_MAX: usize = 10_000;

/// Longest submission, in bytes. Hadoop's state store has the same limit
/// (`yarn.resourcemanager.zk-max-znode-size.bytes`).
const SUBMISSION_BYTES_MAX: usize = 1024 * 1024;

/// Longest user name, in characters; Linux allows 32.
const USER_CHARS_MAX: usize = 256;

impl Core {
    /// Returns a new application id, which is never returned again even if it is not used.
    pub const fn new_application(&mut self) -> ApplicationId {
        // Wraps after three weeks of a thousand ids a second.
        self.last_application = self.last_application.wrapping_add(1) & i32::MAX;
        ApplicationId::new(self.started.0, self.last_application)
    }

    /// Returns the size of the largest container.
    #[must_use]
    pub fn allocation_max(&self) -> Resource {
        self.config.allocation_max
    }

    /// Returns the size of the smallest container.
    #[must_use]
    pub fn allocation_min(&self) -> Resource {
        self.config.allocation_min
    }

    /// Accepts an application. A repeated submission has no effect.
    ///
    /// # Errors
    /// The first defect of the submission.
    pub fn submit(
        &mut self,
        submission: ApplicationSubmissionContextProto,
        user: &str,
        now: Now,
    ) -> Result<(), Refusal> {
        const MESSAGE: &str = "ApplicationSubmissionContextProto";
        let id = required(
            submission.application_id.as_ref(),
            MESSAGE,
            "application_id",
        )?;
        let id = ApplicationId::try_from(id)?;
        if self.applications.contains_key(&id) {
            return Ok(());
        }
        if id.cluster_timestamp != self.started.0 || !(1..=self.last_application).contains(&id.id) {
            return Err(Refusal::ForeignApplication(id));
        }
        if self.sessions.len() >= APPLICATIONS_MAX {
            return Err(Refusal::TooManyApplications(APPLICATIONS_MAX));
        }
        if submission.encoded_len() > SUBMISSION_BYTES_MAX {
            return Err(Refusal::TooLong(SUBMISSION_BYTES_MAX));
        }
        self.check_features(&submission, id, user)?;
        let context = required(
            submission.am_container_spec.as_ref(),
            MESSAGE,
            "am_container_spec",
        )?;
        if let Some(tokens) = &context.tokens {
            Credentials::read(tokens).map_err(|_| Refusal::BadCredentials(id))?;
        }
        let master_size = self.master_size(&submission, id)?;
        let attempts_max = self.config.master_attempts_max;
        let user = user.chars().take(USER_CHARS_MAX).collect();
        let application = Application::new(id, user, submission, master_size, attempts_max, now);
        let attempt = application.attempt().id;
        self.schedule_attempt(attempt, master_size, now)?;
        self.applications.insert(id, application);
        tracing::info!(application = %id, "application submitted");
        self.place(now);
        Ok(())
    }

    fn check_features(
        &self,
        submission: &ApplicationSubmissionContextProto,
        application: ApplicationId,
        user: &str,
    ) -> Result<(), Refusal> {
        let queue = submission.queue();
        if ![QUEUE, "root.default"].contains(&queue) {
            return Err(Refusal::UnknownQueue {
                application,
                user: user.to_owned(),
                queue: queue.chars().take(128).collect(),
            });
        }
        if !submission.node_label_expression().is_empty() {
            return Err(Refusal::NotSupported("a node label"));
        }
        if submission.reservation_id.is_some() {
            return Err(Refusal::NotSupported("a reservation"));
        }
        if submission.unmanaged_am() {
            return Err(Refusal::NotSupported("an unmanaged ApplicationMaster"));
        }
        if submission.keep_containers_across_application_attempts() {
            return Err(Refusal::NotSupported("keeping containers across attempts"));
        }
        Ok(())
    }

    fn master_size(
        &self,
        submission: &ApplicationSubmissionContextProto,
        id: ApplicationId,
    ) -> Result<Resource, Refusal> {
        let requests = &submission.am_container_resource_request;
        let any = requests
            .iter()
            .find(|request| request.resource_name() == "*");
        let asked = any.and_then(|request| request.capability.as_ref());
        let asked = asked.or(submission.resource.as_ref());
        let asked = Resource::try_from(asked.ok_or(Refusal::NoMasterSize(id))?);
        let asked = asked.map_err(Refusal::Size)?;
        normalized(asked, &self.config)
    }

    /// Kills an application. True once it has ended, which is at once.
    ///
    /// # Errors
    /// [`Refusal::UnknownApplication`].
    pub fn kill(&mut self, id: ApplicationId, why: &str, now: Now) -> Result<bool, Refusal> {
        let application = self.applications.get_mut(&id);
        let application = application.ok_or(Refusal::UnknownApplication(id))?;
        let attempt = application.attempt().id;
        // An application whose AM has unregistered is left to end by itself.
        if !application.state.is_final() {
            application.kill(why, now.wall);
            self.end_session(attempt, now);
            self.application_over(id);
            self.place(now);
        }
        Ok(true)
    }
}
