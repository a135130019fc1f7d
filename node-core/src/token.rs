//! Container tokens, as far as the scheduler is concerned.

use records::{ContainerId, Resource};
use sched::ContainerSpec;
use wire::convert::ConvertError;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::ContainerTokenIdentifierProto;

/// Reads the fields of a container token that the scheduler needs.
///
/// # Errors
/// `YarnException` naming the field that is missing or makes no sense.
pub fn read_spec(token: &ContainerTokenIdentifierProto) -> Result<ContainerSpec, RemoteException> {
    let unreadable = |error: ConvertError| {
        RemoteException::new(
            HadoopException::YarnException,
            format!("Invalid ContainerToken: {error}"),
        )
    };
    let id = token
        .container_id
        .as_ref()
        .map(ContainerId::try_from)
        .transpose()
        .map_err(unreadable)?;
    let id = id.ok_or_else(|| {
        RemoteException::new(
            HadoopException::YarnException,
            "Invalid ContainerToken: no container id",
        )
    })?;
    let resource = token
        .resource
        .as_ref()
        .map(Resource::try_from)
        .transpose()
        .map_err(unreadable)?;
    Ok(ContainerSpec {
        id,
        resource: resource.unwrap_or_default(),
        execution_type: token.execution_type().into(),
        version: token.version(),
    })
}
