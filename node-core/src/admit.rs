//! `startContainers`: the checks that need the agent's state, in Hadoop's order, and what a start
//! sets going.
//!
//! The token itself was verified before (`container_manager`). Here, where registrations are
//! handled too, a container cannot slip between two of them.

use std::sync::Arc;

use launch_context::LaunchContext;
use localize::UserName;
use records::{ApplicationAttemptId, ContainerId, ContainerState, EpochMillis, Now};
use sched::{ContainerRetryContext, ContainerSpec, Event, Refusal};
use wire::exception::{HadoopException, RemoteException};

use super::Core;
use super::effect::Observed;
use super::stories::Happening;
use crate::applications::Added;
use crate::call::{Asker, StartOutcome, StartRequest};
use crate::container::Container;
use crate::setups::Setups;
use crate::token::ContainerToken;

/// Call that presents a container token. Hadoop's refusals name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The token starts a container in `startContainers`.
    Start,
    /// The token changes a container in `updateContainer`.
    Update,
}

/// Start of the message of a token that may not be used.
const UNAUTHORIZED: &str = "Unauthorized request to ";

/// Returns whether a token was refused because its holder may not use it, or not any more.
#[must_use]
pub fn is_unauthorized(error: &RemoteException) -> bool {
    error.message.starts_with(UNAUTHORIZED)
}

impl Purpose {
    fn unauthorized(self, why: &str) -> RemoteException {
        let what = match self {
            Self::Start => "start container.",
            Self::Update => "increase container resource.",
        };
        yarn_exception(format!("{UNAUTHORIZED}{what}\n{why}"))
    }
}

impl Core {
    /// Starts containers in order; one outcome each, fewer when one fails the whole call.
    pub fn start_all(
        &mut self,
        asker: Asker,
        requests: Vec<StartRequest>,
        now: Now,
    ) -> Vec<StartOutcome> {
        let mut outcomes = Vec::with_capacity(requests.len());
        for request in requests {
            let outcome = self.start(asker, request, now);
            let call_failed = matches!(outcome, StartOutcome::CallFailed(_));
            outcomes.push(outcome);
            if call_failed {
                break;
            }
        }
        outcomes
    }

    /// Starts one container, if all checks pass. A refused one may be tried again with the same
    /// token.
    pub fn start(&mut self, asker: Asker, request: StartRequest, now: Now) -> StartOutcome {
        self.forget_uses(now);
        if let Err(outcome) = self.admit(asker, &request, now) {
            return outcome;
        }
        let id = request.spec.id;
        let expiry = request.token.expiry;
        let accepted = request.context.and_then(|context| {
            self.accept(
                request.spec,
                request.token,
                context,
                request.received_us,
                now,
            )
        });
        // One whose application is over may have ended by now, and be forgotten: a record of its
        // start would bring it back.
        if accepted.is_ok() && self.scheduler.container(&id).is_some() {
            self.recorder
                .accepted(id, request.record, now, &mut self.effects);
        }
        match accepted {
            Ok(()) => {
                self.started.remember(id.name(), expiry);
                self.observe(Observed::Accepted { id, asker });
                StartOutcome::Started
            }
            Err(refusal) => StartOutcome::Refused(refusal),
        }
    }

    /// The checks from the application to the auxiliary services, and that the agent is not
    /// stopping.
    fn admit(
        &mut self,
        asker: Asker,
        request: &StartRequest,
        now: Now,
    ) -> Result<(), StartOutcome> {
        let id = request.spec.id;
        let refused = |exception| Err(StartOutcome::Refused(exception));
        authorize_token(Purpose::Start, asker.attempt, &id).map_err(StartOutcome::Refused)?;
        if self.was_accepted_before(&id) {
            return Err(StartOutcome::Started);
        }
        if self.started.is_used(&id, now.wall) {
            return refused(Purpose::Start.unauthorized(&format!(
                " Attempt to relaunch the same container with id {id}."
            )));
        }
        check_expiry(Purpose::Start, &request.token, now.wall).map_err(StartOutcome::Refused)?;
        match self.is_of_this_registration(&request.token) {
            Ok(true) => {}
            Ok(false) => return refused(previous_rm(&id)),
            Err(not_registered) => return Err(StartOutcome::CallFailed(not_registered)),
        }
        if self.scheduler.withholds(&id.name()) {
            return refused(RemoteException::new(
                HadoopException::NmNotYetReady,
                format!("processes of an earlier start of {id} are being ended; try again"),
            ));
        }
        if let Err(invalid_token) = self.attempts.remember(asker.attempt, asker.key_id) {
            return Err(StartOutcome::CallFailed(invalid_token));
        }
        let mut names = request
            .context
            .iter()
            .flat_map(|context| context.service_data.keys());
        let services = &self.config.service_metadata;
        if let Some(name) = names.find(|name| !services.contains_key(*name)) {
            return refused(RemoteException::new(
                HadoopException::InvalidAuxService,
                format!("The auxService:{name} does not exist"),
            ));
        }
        if self.applications.is_stopping() {
            return refused(yarn_exception(
                "Container start failed as the NodeManager is in the process of shutting down"
                    .to_owned(),
            ));
        }
        if self.started.is_full(now.wall) {
            return refused(RemoteException::new(
                HadoopException::NmNotYetReady,
                "too many containers were started within the life of their tokens; try again",
            ));
        }
        Ok(())
    }

    /// Returns whether the RM of the current registration issued a token.
    ///
    /// # Errors
    /// The node is not registered, so that this cannot be told yet. Hadoop's clients repeat a call
    /// that fails with `NMNotYetReadyException`; a Java node calls the token that of a previous RM.
    fn is_of_this_registration(&self, token: &ContainerToken) -> Result<bool, RemoteException> {
        let current = self.registration.identifier().ok_or_else(|| {
            RemoteException::new(
                HadoopException::NmNotYetReady,
                "the node is registering with the ResourceManager; try again",
            )
        })?;
        Ok(token.rm_identifier == current)
    }

    /// Checks that the token has not expired, and that the RM of the current registration issued
    /// it.
    pub(super) fn check_expiry_and_registration(
        &self,
        purpose: Purpose,
        token: &ContainerToken,
        id: &ContainerId,
        now: EpochMillis,
    ) -> Result<(), RemoteException> {
        check_expiry(purpose, token, now)?;
        if !self.is_of_this_registration(token)? {
            return Err(previous_rm(id));
        }
        Ok(())
    }

    fn accept(
        &mut self,
        spec: ContainerSpec,
        token: ContainerToken,
        context: LaunchContext,
        received_us: u64,
        now: Now,
    ) -> Result<(), RemoteException> {
        let id = spec.id;
        let user: UserName = token
            .submitter
            .parse()
            .map_err(|error| yarn_exception(format!("container {id}: {error}")))?;
        self.require_new(&id)?;
        if self.scheduler.len() >= sched::CONTAINERS_MAX {
            // Before its application is made, whose end would never be ordered.
            let refusal = Refusal::TooManyContainers(self.scheduler.len());
            return Err(refusal_to_exception(&refusal));
        }
        let context = Arc::new(self.contexts.hold(&user, context)?);
        let policy = context.context.retry.clone();
        let added = self.applications.add_container(id, &user);
        if added == Added::Refused {
            return Err(yarn_exception(format!(
                "this node knows {} applications already, which is its limit",
                crate::applications::APPLICATIONS_MAX
            )));
        }
        if added == Added::ToNewApplication {
            let acls = context.context.acls.clone();
            self.keep_view_list(id.application_id(), &user, &acls);
            let context = token.log_context.as_deref();
            self.begin_logs(id.application_id(), user.clone(), context, acls);
        }
        // All containers of an application live under the folders of its first one's user.
        let user = self
            .applications
            .get(&id.application_id())
            .map_or(user, |app| app.user.clone());
        let (application, log_context) = (id.application_id(), token.log_context);
        let is_new = self
            .recorder
            .context_came(application, &user, log_context, &context.context);
        let has_new_tokens = self.pass_tokens(application, &context.context.file_system_tokens);
        if is_new || has_new_tokens {
            self.remember_application(application, now);
        }
        self.containers.insert(
            id,
            Container {
                accepted_us: received_us,
                ..Container::new(token.facts, user, Setups::new(Some(context)))
            },
        );
        self.stories.begin(id, Happening::Accepted, now.wall);
        // Before it is started, so that its room is not offered to another.
        self.reserved_container_came(id, spec.execution_type, spec.resource);
        if let Err(refusal) = self.feed(Event::Start(spec), now) {
            self.containers.remove(&id);
            self.recorder.left_out(&id);
            self.stories.drop_story(id);
            self.applications.container_forgotten(&id);
            self.finish_application_if_ready(&id.application_id(), now);
            return Err(refusal_to_exception(&refusal));
        }
        self.follow_policy(id, policy, now);
        self.tell_run_profile(id, now);
        Ok(())
    }

    /// Lets a container follow the retry policy of its launch context, if that has one.
    pub(super) fn follow_policy(
        &mut self,
        id: ContainerId,
        policy: ContainerRetryContext,
        now: Now,
    ) {
        if policy != ContainerRetryContext::default() {
            self.must_feed(Event::RetryPolicy { id, policy }, now);
        }
    }

    /// Requires that no container has the name of this one: folders, cgroups and records are
    /// called by it.
    fn require_new(&self, id: &ContainerId) -> Result<(), RemoteException> {
        let known = id.name().ids().find_map(|id| self.scheduler.container(&id));
        let Some(view) = known else {
            return Ok(());
        };
        let running = view.state.container_state() != ContainerState::Complete;
        let what = if running {
            "already is running on this node!!"
        } else {
            "has finished on this node"
        };
        Err(yarn_exception(format!("Container {id} {what}")))
    }
}

fn check_expiry(
    purpose: Purpose,
    token: &ContainerToken,
    now: EpochMillis,
) -> Result<(), RemoteException> {
    let expiry = token.expiry;
    if expiry < now {
        return Err(purpose.unauthorized(&format!(
            "This token is expired. current time is {} found {}\n\
             Note: System times on machines may be out of sync. Check system time and time zones.",
            now.0, expiry.0
        )));
    }
    Ok(())
}

fn previous_rm(id: &ContainerId) -> RemoteException {
    RemoteException::new(
        HadoopException::InvalidContainer,
        format!("\nContainer {id} rejected as it is allocated by a previous RM"),
    )
}

/// An NMToken is good for the containers of its application, whichever attempt they belong to.
pub(super) fn authorize_token(
    purpose: Purpose,
    attempt: ApplicationAttemptId,
    id: &ContainerId,
) -> Result<(), RemoteException> {
    if attempt.application_id == id.application_id() {
        return Ok(());
    }
    let doing = match purpose {
        Purpose::Start => "starting",
        Purpose::Update => "increasing resource of",
    };
    Err(purpose.unauthorized(&format!(
        "NMToken for application attempt : {attempt} was used for {doing} container with container token issued for \
         application attempt : {}",
        id.attempt
    )))
}

/// A refusal of the scheduler as the AM sees it.
pub(super) fn refusal_to_exception(refusal: &Refusal) -> RemoteException {
    let message = match refusal {
        // Hadoop's text, which AMs may search for.
        Refusal::VersionNotGreater {
            id,
            current,
            requested,
        } => {
            format!(
                "Container {id} has update version [{current}] >= requested version [{requested}]"
            )
        }
        Refusal::UnknownContainer(id) => {
            format!("Container {id} is not handled by this NodeManager")
        }
        Refusal::AlreadyKnown(id) => format!("Container {id} already is running on this node!!"),
        Refusal::TooManyContainers(_)
        | Refusal::NotRunning { .. }
        | Refusal::UnexpectedAnswer { .. } => refusal.to_string(),
    };
    yarn_exception(message)
}

pub(super) fn yarn_exception(message: String) -> RemoteException {
    RemoteException::new(HadoopException::YarnException, message)
}
