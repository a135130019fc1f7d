//! Starts masters: connects to the node as the attempt and calls `startContainers` (Hadoop: `AMLauncher`).

use std::fmt;

use records::{ApplicationAttemptId, EpochMillis, NodeId};
use thiserror::Error;
use wire::credentials::{Credentials, CredentialsError};
use wire::exception::RemoteException;
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    ContainerLaunchContextProto, StartContainerRequestProto, StartContainersRequestProto,
};
use wire::protocol::container_management::{self, StartContainers};
use wire::rpc::{ClientAuth, ClientOptions, RpcClient, RpcError};
use wire::token::Token;

/// A master to start.
pub struct Launch {
    /// Of which attempt.
    pub attempt: ApplicationAttemptId,
    /// On which node.
    pub node: NodeId,
    /// The right to talk to the node.
    pub nm_token: Token,
    /// The right to start the container.
    pub container_token: TokenProto,
    /// The master's right to talk to the scheduler.
    pub master_token: Token,
    /// As submitted.
    pub context: ContainerLaunchContextProto,
    /// When the application was submitted.
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

/// Why a master was not started.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The submitted tokens do not parse.
    #[error("the submitted credentials cannot be read")]
    Credentials(#[from] CredentialsError),
    /// The node's host has no address.
    #[error("the address of {node} cannot be found")]
    Resolve {
        /// Which node.
        node: NodeId,
        /// What the resolver says; nothing when it knows the name and no address.
        #[source]
        source: Option<std::io::Error>,
    },
    /// The node cannot be reached, or refuses the call.
    #[error("calling {node}: {source}")]
    Call {
        /// Which node.
        node: NodeId,
        /// Why.
        source: RpcError,
    },
    /// The node refuses the container.
    #[error("{node} refuses the container: {exception}")]
    Refused {
        /// Which node.
        node: NodeId,
        /// Why.
        exception: RemoteException,
    },
}

/// Starts a master; returns when the node has accepted or refused it.
///
/// # Errors
/// Why it did not start.
pub async fn launch(launch: Launch) -> Result<(), LaunchError> {
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
    let client = connect(node, nm_token).await?;
    let response = client.call::<StartContainers>(&request).await;
    let response = response.map_err(|source| LaunchError::Call {
        node: node.clone(),
        source,
    })?;
    match response.failed_requests.into_iter().next() {
        None => Ok(()),
        Some(failure) => Err(LaunchError::Refused {
            node: node.clone(),
            exception: failure.exception.unwrap_or_default().into(),
        }),
    }
}

/// Tries each address of the node's host.
async fn connect(node: &NodeId, nm_token: &Token) -> Result<RpcClient, LaunchError> {
    let unresolved = |source| LaunchError::Resolve {
        node: node.clone(),
        source,
    };
    let found = tokio::net::lookup_host((node.host.as_str(), node.port)).await;
    let addresses = found.map_err(|error| unresolved(Some(error)))?;
    let mut failure = unresolved(None);
    for address in addresses {
        let auth = ClientAuth::Token(nm_token.clone());
        let options = ClientOptions::default();
        match RpcClient::connect(address, container_management::PROTOCOL, auth, &options).await {
            Ok(client) => return Ok(client),
            Err(source) => {
                failure = LaunchError::Call {
                    node: node.clone(),
                    source,
                };
            }
        }
    }
    Err(failure)
}

/// The submitted context with what Hadoop's masters look for: two variables and the AMRMToken.
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
