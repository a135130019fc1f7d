//! Orders that effects carry to workers.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use launch_context::HeldContext;
use localize::{ContainerDirs, LocalizedResource, UserName};
use log_aggregation::Application;
use log_aggregation::policy::{ContainerEnd, ContainerRole};
use records::{ApplicationId, ContainerId, ContainerName, EpochMillis};
use sched::ContainerSpec;

use crate::recovery::{
    ApplicationRecord, ContextRecord, DrainRecord, LearntRunsRecord, StartRecord, StateRecord,
    SuspectsRecord,
};

/// Order to make links in a container's work folder.
#[derive(Debug)]
pub struct LinkOrder {
    /// Id of the container.
    pub id: ContainerId,
    /// User of the container's application.
    pub user: UserName,
    /// Folders of the container, made by its first launch.
    pub dirs: ContainerDirs,
    /// Localized resources and the names of their links.
    pub resources: Vec<LocalizedResource>,
}

/// Order to launch a container.
#[derive(Debug)]
pub struct LaunchOrder {
    /// Id, size and type of the container.
    pub spec: ContainerSpec,
    /// User of the container's application.
    pub user: UserName,
    /// Commands, environment and credentials.
    pub context: Arc<HeldContext>,
    /// Localized resources and the names of their links.
    pub localized: Vec<LocalizedResource>,
    /// Folders of the container; empty until its first launch has made them.
    pub dirs: Arc<OnceLock<ContainerDirs>>,
    /// Duration of the localization; zero for a container without resources.
    pub localized_in: Duration,
}

/// Order to the threads that aggregate logs.
#[derive(Debug)]
pub enum LogOrder {
    /// The first container of an application was accepted.
    Begin(Box<Application>),
    /// A container has a process.
    ContainerStarted(ContainerName, ContainerRole),
    /// A container has ended.
    ContainerEnded(ContainerEnd),
    /// The last container of an application has ended, and no other will start.
    Finish(ApplicationId),
}

/// Order to store or forget a record.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreOrder {
    /// A container was accepted.
    Start(ContainerId, Box<StartRecord>),
    /// The state of a container has changed.
    State(ContainerId, Box<StateRecord>),
    /// A launch context of a re-initialization, with its number, which is 1 or more; `None`: the
    /// container cannot return to it.
    Context(ContainerId, u64, Option<Box<ContextRecord>>),
    /// A container is forgotten, but for the use of its token until this time.
    Forget(ContainerId, Option<EpochMillis>),
    /// The uses of these containers' tokens are forgotten.
    ForgetUses(Vec<ContainerName>),
    /// The state of an application has changed; `None`: it is forgotten.
    Application(ApplicationId, Option<Box<ApplicationRecord>>),
    /// Nothing of an ended container's logs is to be uploaded.
    LogsSettled(ContainerName),
    /// The node is drained; `None`: it is in service.
    Drain(Option<Box<DrainRecord>>),
    /// Run lengths of containers that were learnt.
    LearntRuns(Box<LearntRunsRecord>),
    /// Works that may have crashed the agent; `None`: none is known.
    Suspects(Option<Box<SuspectsRecord>>),
}
