//! Vocabulary of calls that start containers: who asks for what, and what comes of it.

use std::net::IpAddr;

use launch_context::LaunchContext;
use records::ApplicationAttemptId;
use sched::ContainerSpec;
use wire::exception::RemoteException;

use crate::recovery::StartRecord;
use crate::token::ContainerToken;

/// Caller of an RPC: the attempt of its NMToken, the key that signed the token, and where the call
/// came from.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// Attempt that the token names.
    pub attempt: ApplicationAttemptId,
    /// Id of the key that signed the NMToken.
    pub key_id: i32,
    /// Address of the other end of the connection.
    pub address: IpAddr,
}

/// Result of one request of the batch.
#[derive(Debug)]
pub enum StartOutcome {
    /// Accepted: localization and launch follow.
    Started,
    /// Refused; the others of the batch are not affected.
    Refused(RemoteException),
    /// Refused, and the rest of the call with it (Hadoop: `InvalidToken` leaves the loop; its
    /// clients repeat a call only if all of it failed).
    CallFailed(RemoteException),
}

/// Request of a `startContainers` call for one container, with a verified token.
#[derive(Debug)]
pub struct StartRequest {
    /// Id, size, type and version from the token.
    pub spec: ContainerSpec,
    /// The rest of the token.
    pub token: ContainerToken,
    /// Launch context, or its refusal: sent to the AM only after the checks that come
    /// first.
    pub context: Result<LaunchContext, RemoteException>,
    /// Token and context as they came, if records are kept.
    pub record: Option<Box<StartRecord>>,
    /// When the call arrived, in microseconds of the agent's clock.
    pub received_us: u64,
}

/// Request to change a container, with a token that is verified or came from the ResourceManager.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateRequest {
    /// Id, new size, type and version from the token.
    pub spec: ContainerSpec,
    /// The rest of the token.
    pub token: ContainerToken,
    /// The token's identifier as it came, for the record of the container.
    pub identifier: Vec<u8>,
}
