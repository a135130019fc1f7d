//! Refusals of calls, and the Hadoop exception for each.

use records::{ApplicationAttemptId, ApplicationId, ContainerId, Resource};
use sched::AskError;
use thiserror::Error;
use wire::convert::ConvertError;
use wire::exception::{HadoopException, RemoteException};

/// Reason for which a call is refused.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Refusal {
    /// Message that lacks a field or has one that does not parse.
    #[error(transparent)]
    Message(#[from] ConvertError),
    /// Application that was never submitted, or that finished so long ago that it is forgotten.
    #[error("Application with id '{0}' doesn't exist in RM.")]
    UnknownApplication(ApplicationId),
    /// Attempt that is not the application's current one.
    #[error("Application attempt {0} doesn't exist in ApplicationMasterService cache.")]
    UnknownAttempt(ApplicationAttemptId),
    /// Container that has completed or never existed.
    #[error("Container with id '{0}' doesn't exist in RM.")]
    UnknownContainer(ContainerId),
    /// Application id that this ResourceManager did not assign.
    #[error("{0} was not given out by this ResourceManager")]
    ForeignApplication(ApplicationId),
    /// Submission above the limit on unfinished applications.
    #[error("{0} applications are unfinished; no more are taken")]
    TooManyApplications(usize),
    /// Registration above the limit on nodes.
    #[error("{0} nodes are registered; no more are taken")]
    TooManyNodes(usize),
    /// Submission to a queue other than the only one.
    #[error("Application {application} submitted by user {user} to unknown queue: {queue}")]
    UnknownQueue {
        /// Application that was submitted.
        application: ApplicationId,
        /// User who submitted it.
        user: String,
        /// Queue that was named.
        queue: String,
    },
    /// Feature of larger cluster managers.
    #[error("{0} is not supported by this ResourceManager")]
    NotSupported(&'static str),
    /// Submission above the limit in bytes.
    #[error("the submission is longer than {0} bytes")]
    TooLong(usize),
    /// Launch context whose tokens do not parse.
    #[error("the credentials of {0} cannot be read")]
    BadCredentials(ApplicationId),
    /// Ask for a container above the largest size.
    #[error(
        "Invalid resource request! Cannot allocate containers: requested {asked}, the largest is {max}"
    )]
    TooLarge {
        /// Size that was asked for.
        asked: Resource,
        /// Largest size that is allocated.
        max: Resource,
    },
    /// Size that is invalid, such as one below 0.
    #[error("Invalid resource request, {0}")]
    Size(ConvertError),
    /// Negative number of containers.
    #[error("Invalid resource request, {0} containers")]
    NegativeCount(i32),
    /// Submission without a size for the AM.
    #[error("Invalid resource request, no size for the master of {0}")]
    NoMasterSize(ApplicationId),
    /// Asks above the limits on their number or length.
    #[error("Invalid resource request, {0}")]
    Ask(#[from] AskError),
    /// Call of an AM that has not registered.
    #[error("AM is not registered for known application attempt: {0}")]
    NotRegistered(ApplicationAttemptId),
    /// Second registration of an AM.
    #[error("Application Master is already registered : {0}")]
    AlreadyRegistered(ApplicationId),
    /// Call whose response id is neither the next nor the last.
    #[error(
        "Invalid responseId in AllocateRequest from application attempt: {attempt} expect responseId to be {expected} but get {received}"
    )]
    OutOfOrder {
        /// Attempt that called.
        attempt: ApplicationAttemptId,
        /// Response id of the last answer.
        expected: i32,
        /// Response id in the call.
        received: i32,
    },
    /// Release of a container that the attempt never had.
    #[error("Cannot release container : {0} not belonging to this application attempt")]
    ForeignRelease(ContainerId),
    /// Blacklist of any host.
    #[error("Cannot add * to the blacklist!")]
    BlacklistOfAny,
    /// Container that a node reports as its own allocation and cannot have allocated.
    #[error("no node can have allocated {container}: {fault}")]
    ForeignAllocation {
        /// Id of the container.
        container: ContainerId,
        /// Defect of the allocation.
        fault: AllocationFault,
    },
    /// Allocation above the limit on unfinished containers.
    #[error("{0} containers are allocated; no more are taken")]
    TooManyContainers(usize),
}

/// Defect for which a node cannot have allocated a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AllocationFault {
    /// Container of another attempt than the caller's.
    #[error("it belongs to another attempt")]
    OtherAttempt,
    /// Id outside the range from which nodes count down.
    #[error("its id is the ResourceManager's to give")]
    IdOfResourceManager,
    /// Container that is not opportunistic.
    #[error("it is not opportunistic")]
    NotOpportunistic,
}

impl From<Refusal> for RemoteException {
    fn from(refusal: Refusal) -> Self {
        let exception = match &refusal {
            Refusal::Message(error) => return (*error).into(),
            Refusal::UnknownApplication(_) => HadoopException::ApplicationNotFound,
            Refusal::UnknownAttempt(_) => HadoopException::ApplicationAttemptNotFound,
            Refusal::UnknownContainer(_) => HadoopException::ContainerNotFound,
            Refusal::ForeignApplication(_)
            | Refusal::TooManyApplications(_)
            | Refusal::TooManyNodes(_)
            | Refusal::UnknownQueue { .. }
            | Refusal::NotSupported(_)
            | Refusal::TooLong(_)
            | Refusal::BadCredentials(_)
            | Refusal::ForeignAllocation { .. }
            | Refusal::TooManyContainers(_) => HadoopException::YarnException,
            Refusal::TooLarge { .. }
            | Refusal::Size(_)
            | Refusal::NegativeCount(_)
            | Refusal::NoMasterSize(_)
            | Refusal::Ask(_) => HadoopException::InvalidResourceRequest,
            Refusal::NotRegistered(_) => HadoopException::ApplicationMasterNotRegistered,
            Refusal::AlreadyRegistered(_) | Refusal::OutOfOrder { .. } => {
                HadoopException::InvalidApplicationMasterRequest
            }
            Refusal::ForeignRelease(_) => HadoopException::InvalidContainerRelease,
            Refusal::BlacklistOfAny => HadoopException::InvalidResourceBlacklistRequest,
        };
        Self::new(exception, refusal.to_string())
    }
}
