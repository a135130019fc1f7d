//! Conversions between messages and the agent's types: requests in, refusals out. Pure.

use std::collections::HashSet;

use container_runtime::launch::ContainerSignal;
use launch_context::LaunchContext;
use node_core::recovery::{ContextRecord, StartRecord};
use node_core::{Asker, ReinitRequest, ServiceMetadata, StartRequest, UpdateRequest, read_spec};
use prost::Message;
use records::ContainerId;
use sched::ContainerSpec;
use wire::convert::ConvertError;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    ContainerExceptionMapProto, ContainerIdProto, ContainerLaunchContextProto,
    ContainerTokenIdentifierProto, NmTokenIdentifierProto, SerializedExceptionProto,
    SignalContainerCommandProto, StringBytesMapProto,
};
use wire::rpc::Caller;

use super::CONTAINERS_PER_CALL_MAX;
use crate::core_task::Stopped;
use crate::secrets::{NodeSecrets, nm_token_attempt};

/// A signal's command as the launcher knows it.
pub(crate) fn read_signal(command: SignalContainerCommandProto) -> ContainerSignal {
    match command {
        SignalContainerCommandProto::OutputThreadDump => ContainerSignal::OutputThreadDump,
        SignalContainerCommandProto::GracefulShutdown => ContainerSignal::GracefulShutdown,
        SignalContainerCommandProto::ForcefulShutdown => ContainerSignal::ForcefulShutdown,
    }
}

/// Container token that was verified.
#[derive(Debug)]
pub struct Verified {
    /// Id, size, type and version from the token.
    pub spec: ContainerSpec,
    /// Identifier of the token.
    pub token: ContainerTokenIdentifierProto,
    /// Bytes of the identifier, as they were signed.
    pub identifier: Vec<u8>,
}

impl From<Verified> for UpdateRequest {
    fn from(verified: Verified) -> Self {
        Self {
            spec: verified.spec,
            token: verified.token.into(),
            identifier: verified.identifier,
        }
    }
}

/// Verifies a container token over the bytes received, and reads it.
///
/// # Errors
/// `InvalidToken` as of [`NodeSecrets::verify_container_token`], or `YarnException` naming the
/// field that is missing or makes no sense.
pub fn verified(secrets: &NodeSecrets, signed: &TokenProto) -> Result<Verified, RemoteException> {
    let token = secrets.verify_container_token(signed)?;
    Ok(Verified {
        spec: read_spec(&token)?,
        token,
        identifier: signed.identifier.to_vec(),
    })
}

/// Makes the request for the core from a verified token and a launch context. `received_us`: time
/// at which the call arrived, in microseconds of the agent's clock.
#[must_use]
pub fn start_request(
    verified: Verified,
    context: ContainerLaunchContextProto,
    keeps_records: bool,
    received_us: u64,
) -> StartRequest {
    let record = keeps_records.then(|| {
        Box::new(StartRecord {
            token: verified.identifier,
            context: context.encode_to_vec(),
            ..StartRecord::default()
        })
    });
    StartRequest {
        spec: verified.spec,
        token: verified.token.into(),
        context: LaunchContext::read(context),
        record,
        received_us,
    }
}

/// Reads the launch context of a re-initialization, with its record if records are kept.
///
/// # Errors
/// Those of [`LaunchContext::read`].
pub fn read_reinit(
    context: ContainerLaunchContextProto,
    auto_commit: bool,
    keeps_records: bool,
) -> Result<ReinitRequest, RemoteException> {
    let record = keeps_records.then(|| {
        let context = context.encode_to_vec();
        Box::new(ContextRecord { context })
    });
    Ok(ReinitRequest {
        context: LaunchContext::read(context)?,
        auto_commit,
        record,
    })
}

/// Returns the attempt and key of the NMToken that the connection was opened with.
///
/// # Errors
/// `InvalidToken` or `YarnException` when the token names no attempt, or another than the caller.
pub fn read_asker(caller: &Caller) -> Result<Asker, RemoteException> {
    let identifier = caller.token_identifier.as_deref().unwrap_or_default();
    let token = NmTokenIdentifierProto::decode(identifier)
        .map_err(|_| RemoteException::new(HadoopException::YarnException, "Invalid NMToken"))?;
    let attempt = nm_token_attempt(&token)?;
    if caller.user != attempt.to_string() {
        return Err(RemoteException::new(
            HadoopException::YarnException,
            format!(
                "Expected applicationAttemptId: {}Found: {attempt}",
                caller.user
            ),
        ));
    }
    Ok(Asker {
        attempt,
        key_id: token.key_id(),
        address: caller.peer.ip(),
    })
}

/// Returns the refusal of an id that is missing or makes no sense.
pub(super) fn unreadable_id(error: ConvertError) -> RemoteException {
    RemoteException::new(HadoopException::YarnException, error.to_string())
}

pub(super) fn bound(count: usize) -> Result<(), RemoteException> {
    if count <= CONTAINERS_PER_CALL_MAX {
        return Ok(());
    }
    tracing::warn!(
        count,
        "a call names more containers than {CONTAINERS_PER_CALL_MAX} and is refused"
    );
    Err(RemoteException::new(
        HadoopException::YarnException,
        format!("{count} containers in one call, at most {CONTAINERS_PER_CALL_MAX} are allowed"),
    ))
}

/// Reads the ids of a call, each once: a repetition would cost the same answer again.
pub(super) fn read_ids(
    ids: Vec<ContainerIdProto>,
) -> (Vec<ContainerId>, Vec<ContainerExceptionMapProto>) {
    let mut read = Vec::with_capacity(ids.len());
    let mut failed = Vec::new();
    let mut seen = HashSet::new();
    for id in ids {
        match ContainerId::try_from(&id) {
            Ok(id) if seen.insert(id) => read.push(id),
            Ok(_repeated) => {}
            Err(error) => {
                let error = RemoteException::new(HadoopException::YarnException, error.to_string());
                failed.push(failure(Some(id), error));
            }
        }
    }
    (read, failed)
}

/// The id that an unverified token claims, for the answer only.
pub(super) fn claimed_id(token: &TokenProto) -> Option<ContainerIdProto> {
    ContainerTokenIdentifierProto::decode(&*token.identifier)
        .ok()?
        .container_id
}

/// Returns the container that a token claims to be for, verified or not.
pub(super) fn claimed_container(token: &TokenProto) -> Option<ContainerId> {
    ContainerId::try_from(&claimed_id(token)?).ok()
}

pub(super) fn failure(
    container_id: Option<ContainerIdProto>,
    error: RemoteException,
) -> ContainerExceptionMapProto {
    let exception = SerializedExceptionProto {
        message: Some(error.message),
        class_name: Some(error.class_name),
        ..Default::default()
    };
    ContainerExceptionMapProto {
        container_id,
        exception: Some(exception),
    }
}

/// Returns what auxiliary services publish, as every answer to `startContainers` has it.
pub(super) fn published(metadata: &ServiceMetadata) -> Vec<StringBytesMapProto> {
    let entries = metadata.iter().map(|(name, data)| StringBytesMapProto {
        key: Some(name.clone()),
        value: Some(data.clone().into()),
    });
    entries.collect()
}

/// Keeps the last failure of each container, as in Hadoop, whose answers have a map of failures
/// (`ContainerUpdateResponse.getFailedRequests`): a token that is repeated is not answered again.
pub(super) fn last_of_each(
    failed: Vec<ContainerExceptionMapProto>,
) -> Vec<ContainerExceptionMapProto> {
    let mut seen = HashSet::new();
    let id = |failure: &ContainerExceptionMapProto| {
        let id = failure.container_id.as_ref();
        id.map(ContainerIdProto::encode_to_vec)
    };
    let latest_first = failed.into_iter().rev();
    let mut last: Vec<_> = latest_first
        .filter(|failure| seen.insert(id(failure)))
        .collect();
    last.reverse();
    last
}

pub(crate) fn stopping(_: Stopped) -> RemoteException {
    RemoteException::new(
        HadoopException::YarnException,
        "Container start failed as the NodeManager is in the process of shutting down",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_once_however_often_a_call_names_it() {
        let id = |n| test_support::ids::container(n);
        let repeated = [2, 1, 2, 2, 1].map(|n| id(n).into());
        let (read, failed) = read_ids(repeated.to_vec());
        assert_eq!(read, [id(2), id(1)]);
        assert!(failed.is_empty());
    }
}
