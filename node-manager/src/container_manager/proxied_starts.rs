//! Starts of ApplicationMasters through the AMRMProxy: the exchange of their AMRMTokens.
//!
//! Source: `ContainerManagerImpl.startContainers`, which hands an AM's request to the
//! `AMRMProxyService`.

use std::sync::Arc;

use amrm_proxy::config::OptIn;
use amrm_proxy::{Admission, AdmitError, AmStart, AmrmProxy, PendingStart};
use node_core::StartOutcome;
use records::ContainerId;
use wire::exception::RemoteException;
use wire::proto::hadoop_yarn::{
    ContainerLaunchContextProto, ContainerTokenIdentifierProto, ContainerTypeProto,
};

/// The variable of an AM's environment that has its application's tags, with commas between them.
/// YARN keeps an application's own tags to the ResourceManager; jobs set this one beside them.
pub const TAGS_VARIABLE: &str = "NM_AGENT_APPLICATION_TAGS";

/// Tags of one application. They are kept with its pipeline.
const TAGS_MAX: usize = 64;

/// Longest tag, in bytes (YARN's own limit for a tag is 100 characters).
const TAG_BYTES_MAX: usize = 400;

/// Admission of AMs to the AMRMProxy, if there is one.
pub(super) struct ProxiedStarts(pub(super) Option<Arc<AmrmProxy>>);

impl ProxiedStarts {
    /// Exchanges the AMRMToken of an AM that is to be started, and makes its pipeline, which ends
    /// unless the returned start is confirmed. Other containers, and AMs without such a token, are
    /// left as they are.
    ///
    /// # Errors
    /// `YarnException` when the node has all the pipelines it takes, or runs a later attempt.
    pub(super) fn admit(
        &self,
        id: ContainerId,
        token: &ContainerTokenIdentifierProto,
        context: &mut ContainerLaunchContextProto,
    ) -> Result<Option<PendingStart>, RemoteException> {
        let Some(proxy) = &self.0 else {
            return Ok(None);
        };
        if token.container_type() != ContainerTypeProto::ApplicationMaster {
            return Ok(None);
        }
        let attempt = id.attempt;
        let start = AmStart {
            attempt,
            user: token.app_submitter(),
            tags: tags(context),
            role_history: OptIn::from_environment(|name| variable(context, name)),
            credentials: context.tokens(),
        };
        if start.credentials.is_empty() {
            tracing::warn!(%attempt, "an ApplicationMaster has no credentials and is not proxied");
            return Ok(None);
        }
        match proxy.admit(&start) {
            Ok(Admission::Admitted { credentials, start }) => {
                context.tokens = Some(credentials.0.into());
                Ok(Some(start))
            }
            Ok(Admission::NoToken) => {
                tracing::warn!(%attempt, "an ApplicationMaster has no AMRMToken and is not proxied");
                Ok(None)
            }
            // The launch context is refused for them, with Hadoop's text.
            Err(AdmitError::Credentials { .. }) => Ok(None),
            Err(error @ (AdmitError::TooMany | AdmitError::Superseded { .. })) => Err(error.into()),
        }
    }
}

/// Returns the value of a variable in an AM's environment.
fn variable<'a>(context: &'a ContainerLaunchContextProto, name: &str) -> Option<&'a str> {
    let mut variables = context.environment.iter();
    let found = variables.find(|variable| variable.key() == name);
    found.map(|variable| variable.value())
}

fn tags(context: &ContainerLaunchContextProto) -> Vec<String> {
    let text = variable(context, TAGS_VARIABLE).unwrap_or_default();
    text.split(',')
        .map(str::trim)
        .filter(|tag| !tag.is_empty() && tag.len() <= TAG_BYTES_MAX)
        .take(TAGS_MAX)
        .map(str::to_owned)
        .collect()
}

/// Keeps the pipelines of the AMs that were started. The others are dropped with their
/// [`PendingStart`].
pub(super) fn confirm_pipelines(
    proxied: Vec<(ContainerId, PendingStart)>,
    ids: &[ContainerId],
    outcomes: &[StartOutcome],
) {
    for (master, start) in proxied {
        let mut outcomes = ids.iter().zip(outcomes);
        if outcomes.any(|(id, outcome)| *id == master && matches!(outcome, StartOutcome::Started)) {
            start.succeeded();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_from_the_environment_and_bounded() {
        let mut context = ContainerLaunchContextProto::default();
        assert_eq!(tags(&context), Vec::<String>::new());
        let long = "x".repeat(TAG_BYTES_MAX + 1);
        let text = format!(" nightly ,,batch,{long}");
        context.environment.push((TAGS_VARIABLE, text).into());
        assert_eq!(tags(&context), ["nightly", "batch"]);
        context.environment[0].value = Some("t,".repeat(1000));
        assert_eq!(tags(&context).len(), TAGS_MAX);
    }
}
