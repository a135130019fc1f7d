//! Launch of AMs: connects to the node as the attempt and calls `startContainers` (Hadoop:
//! `AMLauncher`).

use std::fmt;

use records::{ApplicationAttemptId, EpochMillis, NodeId};
use thiserror::Error;
use wire::credentials::{Credentials, CredentialsError};
use wire::exception::RemoteException;
use wire::protection::Protections;
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    ContainerLaunchContextProto, StartContainerRequestProto, StartContainersRequestProto,
};
use wire::protocol::container_management::{self, StartContainers};
use wire::rpc::{ClientAuth, ClientOptions, RpcClient, RpcError};
use wire::token::Token;

/// An AM to start.
pub struct Launch {
    /// Attempt of the AM.
    pub attempt: ApplicationAttemptId,
    /// Node to start the AM on.
    pub node: NodeId,
    /// NMToken of the attempt for the node.
    pub nm_token: Token,
    /// Token that allows the start of the container.
    pub container_token: TokenProto,
    /// AMRMToken with which the AM calls the ResourceManager.
    pub master_token: Token,
    /// Launch context as submitted.
    pub context: ContainerLaunchContextProto,
    /// Time at which the application was submitted.
    pub submitted: EpochMillis,
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Tokens, and a context that may hold secrets, stay out of logs.
        f.debug_struct("Launch")
            .field("attempt", &self.attempt)
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

/// Reason for which an AM was not started.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The submitted tokens do not parse.
    #[error("the submitted credentials cannot be read")]
    Credentials(#[from] CredentialsError),
    /// The node cannot be reached, or refuses the call.
    #[error("calling {node}: {source}")]
    Call {
        /// Node that was called.
        node: NodeId,
        /// Reason of the failure.
        source: RpcError,
    },
    /// The node refuses the container.
    #[error("{node} refuses the container: {exception}")]
    Refused {
        /// Node that was called.
        node: NodeId,
        /// Reason that the node gives.
        exception: RemoteException,
    },
}

/// Starts an AM; returns when the node has accepted or refused it.
///
/// # Errors
/// [`LaunchError`].
pub async fn launch(launch: Launch, protections: Protections) -> Result<(), LaunchError> {
    let Launch {
        node,
        nm_token,
        container_token,
        ..
    } = &launch;
    let request = StartContainersRequestProto {
        start_container_request: vec![StartContainerRequestProto {
            container_launch_context: Some(completed(&launch)?),
            container_token: Some(container_token.clone()),
        }],
    };
    let failed = |source| LaunchError::Call {
        node: node.clone(),
        source,
    };
    let NodeId { host, port } = node;
    let protocol = container_management::PROTOCOL;
    let auth = ClientAuth::Token(nm_token.clone());
    let options = ClientOptions {
        protections,
        ..ClientOptions::default()
    };
    let client = RpcClient::connect_host(host, *port, protocol, auth, &options).await;
    let client = client.map_err(failed)?;
    let response = client.call::<StartContainers>(&request).await;
    let response = response.map_err(failed)?;
    match response.failed_requests.into_iter().next() {
        None => Ok(()),
        Some(failure) => Err(LaunchError::Refused {
            node: node.clone(),
            exception: failure.exception.unwrap_or_default().into(),
        }),
    }
}

/// Returns the submitted context with two variables and the AMRMToken, which Hadoop's AMs expect.
fn completed(launch: &Launch) -> Result<ContainerLaunchContextProto, CredentialsError> {
    let mut context = launch.context.clone();
    let id = launch.attempt.application_id;
    set(
        &mut context,
        "APPLICATION_WEB_PROXY_BASE",
        format!("/proxy/{id}"),
    );
    set(
        &mut context,
        "APP_SUBMIT_TIME_ENV",
        launch.submitted.0.to_string(),
    );
    let mut credentials = match &context.tokens {
        Some(tokens) => Credentials::read(tokens)?,
        None => Credentials::default(),
    };
    // The alias is the token's service, which is empty.
    credentials
        .tokens
        .insert(String::new(), launch.master_token.clone());
    context.tokens = Some(credentials.write_v0().into());
    Ok(context)
}

fn set(context: &mut ContainerLaunchContextProto, name: &str, value: String) {
    context
        .environment
        .retain(|variable| variable.key() != name);
    context.environment.push((name, value).into());
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use records::ApplicationId;
    use wire::token::{MasterKey, kind};

    use super::*;

    fn sample(context: ContainerLaunchContextProto) -> Launch {
        let key = MasterKey::new(1, Bytes::from_static(b"key"));
        let token = |kind| Token::sign(&key, Bytes::from_static(b"id"), kind, "");
        Launch {
            attempt: ApplicationId::new(5, 7).attempt(1),
            node: NodeId {
                host: "n".to_owned(),
                port: 1,
            },
            nm_token: token(kind::NM_TOKEN),
            container_token: token(kind::CONTAINER_TOKEN).into(),
            master_token: token(kind::AM_RM_TOKEN),
            context,
            submitted: EpochMillis(42),
        }
    }

    #[test]
    fn a_master_finds_its_token_beside_those_that_were_submitted() {
        let mut submitted = Credentials::default();
        submitted
            .secrets
            .insert("s".to_owned(), Bytes::from_static(b"v"));
        let launch = sample(ContainerLaunchContextProto {
            tokens: Some(submitted.write_v0().into()),
            ..ContainerLaunchContextProto::default()
        });
        let context = completed(&launch).unwrap();
        let credentials = Credentials::read(context.tokens.as_ref().unwrap()).unwrap();
        assert_eq!(credentials.tokens.get(""), Some(&launch.master_token));
        assert_eq!(credentials.secrets, submitted.secrets);
    }

    #[test]
    fn a_submission_cannot_choose_its_own_submit_time() {
        let mut context = ContainerLaunchContextProto::default();
        set(&mut context, "APP_SUBMIT_TIME_ENV", "1".to_owned());
        let context = completed(&sample(context)).unwrap();
        let times = context
            .environment
            .iter()
            .filter(|v| v.key() == "APP_SUBMIT_TIME_ENV");
        assert_eq!(times.map(|v| v.value()).collect::<Vec<_>>(), ["42"]);
    }

    #[test]
    fn nothing_secret_shows_in_debug_output() {
        let text = format!("{:?}", sample(ContainerLaunchContextProto::default()));
        assert!(!text.contains("token"), "{text}");
    }
}
