//! Why a call is refused, and the Hadoop exception that says so.

use records::{ApplicationAttemptId, ApplicationId, ContainerId, Resource};
use sched::AskError;
use thiserror::Error;
use wire::convert::ConvertError;
use wire::exception::{HadoopException, RemoteException};

/// What a caller did that cannot be.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Refusal {
    /// A message without what it is about.
    #[error(transparent)]
    Message(#[from] ConvertError),
    /// Nobody submitted it, or it ended so long ago that it is forgotten.
    #[error("Application with id '{0}' doesn't exist in RM.")]
    UnknownApplication(ApplicationId),
    /// It is not the attempt that counts.
    #[error("Application attempt {0} doesn't exist in ApplicationMasterService cache.")]
    UnknownAttempt(ApplicationAttemptId),
    /// The container has ended or never was.
    #[error("Container with id '{0}' doesn't exist in RM.")]
    UnknownContainer(ContainerId),
    /// The id is not one that this ResourceManager gave out.
    #[error("{0} was not given out by this ResourceManager")]
    ForeignApplication(ApplicationId),
    /// As many as are taken.
    #[error("{0} applications are unfinished; no more are taken")]
    TooManyApplications(usize),
    /// As many as are taken.
    #[error("{0} nodes are registered; no more are taken")]
    TooManyNodes(usize),
    /// There is one queue.
    #[error("Application {application} submitted by user {user} to unknown queue: {queue}")]
    UnknownQueue {
        /// Which.
        application: ApplicationId,
        /// Whose.
        user: String,
        /// To which.
        queue: String,
    },
    /// Something that a larger cluster manager does.
    #[error("{0} is not supported by this ResourceManager")]
    NotSupported(&'static str),
    /// More than is kept of one application.
    #[error("the submission is longer than {0} bytes")]
    TooLong(usize),
    /// The tokens of a launch context do not parse.
    #[error("the credentials of {0} cannot be read")]
    BadCredentials(ApplicationId),
    /// A container of a size that does not exist.
    #[error(
        "Invalid resource request! Cannot allocate containers: requested {asked}, the largest is {max}"
    )]
    TooLarge {
        /// What is asked for.
        asked: Resource,
        /// The most there is.
        max: Resource,
    },
    /// A size that is none, as one below 0.
    #[error("Invalid resource request, {0}")]
    Size(ConvertError),
    /// Fewer than none.
    #[error("Invalid resource request, {0} containers")]
    NegativeCount(i32),
    /// No size at all.
    #[error("Invalid resource request, no size for the master of {0}")]
    NoMasterSize(ApplicationId),
    /// More or longer asks than are kept.
    #[error("Invalid resource request, {0}")]
    Ask(#[from] AskError),
    /// A master speaks before it has registered.
    #[error("AM is not registered for known application attempt: {0}")]
    NotRegistered(ApplicationAttemptId),
    /// A master registers again.
    #[error("Application Master is already registered : {0}")]
    AlreadyRegistered(ApplicationId),
    /// A call whose number is neither the next nor the last.
    #[error(
        "Invalid responseId in AllocateRequest from application attempt: {attempt} expect responseId to be {expected} but get {received}"
    )]
    OutOfOrder {
        /// Whose.
        attempt: ApplicationAttemptId,
        /// The number of the last answer.
        expected: i32,
        /// The number that came.
        received: i32,
    },
    /// A master gives back what it never had.
    #[error("Cannot release container : {0} not belonging to this application attempt")]
    ForeignRelease(ContainerId),
    /// A blacklist that names any host.
    #[error("Cannot add * to the blacklist!")]
    BlacklistOfAny,
    /// A node says it has given out what it cannot have.
    #[error("no node can have allocated {container}: {fault}")]
    ForeignAllocation {
        /// Which.
        container: ContainerId,
        /// Why not.
        fault: AllocationFault,
    },
    /// As many as are kept.
    #[error("{0} containers are allocated; no more are taken")]
    TooManyContainers(usize),
}

/// Why a container cannot come from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AllocationFault {
    /// The call is another attempt's.
    #[error("it belongs to another attempt")]
    OtherAttempt,
    /// Its id is not below those that nodes count down from.
    #[error("its id is the ResourceManager's to give")]
    IdOfResourceManager,
    /// It is said to be guaranteed.
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
