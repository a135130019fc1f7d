//! A container's launch context as the AM sent it, checked and in our own types, and the account of
//! the memory that all of them take.
//!
//! - [`LaunchContext`]: commands, environment, files, credentials; read from the message, and what
//!   its texts mean is for the launch to find out
//! - [`ContextBudget`]: limits on each context and on all that the node keeps; a [`HeldContext`]
//!   takes its share, which its drop returns from whatever thread has launched the container
//!
//! - [`LaunchContext::run_profile`]: what a context tells of how long its container runs
//!
//! In: messages of `wire`, and users. Out: values, or the refusal for the AM. Owns the account and
//! nothing else. May not know containers, their states, or who keeps a context for how long.

mod budget;
mod run_profile;

pub use budget::{
    ContextBudget, ContextLimits, ContextRefused, ContextShare, HeldContext, HeldList,
};

pub use run_profile::EXPECTED_RUN_VARIABLE;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Instant;

use log_aggregation::aggregated_log::{AccessType, Acls};
use wire::credentials::Credentials;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::{
    ApplicationAccessTypeProto, ApplicationAclMapProto, ContainerLaunchContextProto,
    ContainerRetryContextProto, ContainerRetryPolicyProto, LocalResourceProto,
    LocalResourceTypeProto, LocalResourceVisibilityProto, StringLocalResourceMapProto,
};
use wire::token::{Token, kind};

use localize::{ResourceKind, ResourceSpec, ResourceUrl, Visibility};
use records::ContainerExitStatus;
use refusals::Pace;
use sched::{ContainerRetryContext, RetryOn};

/// Exit statuses that a container can have. Other codes of a retry policy match no end.
const EXIT_STATUSES: RangeInclusive<i32> = ContainerExitStatus::INVALID.0..=255;

/// Bytes of an access control list, which is kept while its application runs: a thousand users.
const ACL_BYTES_MAX: usize = 16 * 1024;

/// Lines about lists that are too long: one call may bring ten thousand contexts.
static LONG_LISTS: Pace = Pace::new(1);

/// Commands of a container, with the environment, files and credentials that they need.
#[derive(Clone, Default)]
pub struct LaunchContext {
    /// Joined by spaces and given to bash, which interprets them.
    pub commands: Vec<String>,
    /// The container's own variables.
    pub environment: BTreeMap<String, String>,
    /// Link name in the work directory and the resource behind it.
    pub resources: Vec<(String, ResourceSpec)>,
    /// A token storage stream for the container, or empty. Secret.
    pub credentials: Vec<u8>,
    /// Tokens among the credentials by which file systems know the user.
    pub file_system_tokens: Vec<Token>,
    /// Who may see and end the application, besides its user and the administrators.
    pub acls: Acls,
    /// Data for auxiliary services, by the service's name.
    pub service_data: BTreeMap<String, ServiceData>,
    /// Failures after which the container is launched again.
    pub retry: ContainerRetryContext,
}

/// Data that a container brings for an auxiliary service. Secret.
#[derive(Clone, PartialEq, Eq)]
pub struct ServiceData(pub Vec<u8>);

impl std::fmt::Debug for ServiceData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ServiceData({} bytes)", self.0.len())
    }
}

impl std::fmt::Debug for LaunchContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Environments and commands often carry passwords, credentials always do.
        f.debug_struct("LaunchContext")
            .field("resources", &self.resources.len())
            .field("service_data", &self.service_data)
            .finish_non_exhaustive()
    }
}

impl LaunchContext {
    /// Reads a launch context, whose texts are moved and not copied.
    ///
    /// # Errors
    /// `YarnException` with Hadoop's texts when a resource lacks a part, or when the credentials
    /// are no token storage.
    pub fn read(context: ContainerLaunchContextProto) -> Result<Self, RemoteException> {
        let resources = read_resources(context.local_resources)?;
        let credentials: Vec<u8> = context.tokens.unwrap_or_default().into();
        let file_system_tokens = if credentials.is_empty() {
            Vec::new()
        } else {
            let read = Credentials::read(&credentials)
                .map_err(|error| yarn_exception(format!("java.io.IOException: {error}")))?;
            let tokens = read.tokens.into_values();
            tokens
                .filter(|token| token.kind == kind::HDFS_DELEGATION_TOKEN)
                .collect()
        };
        Ok(Self {
            commands: context.command,
            environment: context
                .environment
                .into_iter()
                .map(|entry| {
                    (
                        entry.key.unwrap_or_default(),
                        entry.value.unwrap_or_default(),
                    )
                })
                .collect(),
            resources,
            credentials,
            file_system_tokens,
            acls: read_acls(context.application_ac_ls),
            service_data: context
                .service_data
                .into_iter()
                .map(|entry| {
                    let data = ServiceData(entry.value.unwrap_or_default().into());
                    (entry.key.unwrap_or_default(), data)
                })
                .collect(),
            retry: context
                .container_retry_context
                .map(read_retry)
                .unwrap_or_default(),
        })
    }
}

/// Reads the resources of a call, each with the name of its link.
///
/// # Errors
/// `YarnException` with Hadoop's texts when a resource lacks a part.
pub fn read_resources(
    resources: Vec<StringLocalResourceMapProto>,
) -> Result<Vec<(String, ResourceSpec)>, RemoteException> {
    let read = |entry: StringLocalResourceMapProto| {
        read_resource(entry.key.unwrap_or_default(), entry.value)
    };
    resources.into_iter().map(read).collect()
}

/// Reads who may see and end the application; of several lists for one right the last counts, as in
/// Hadoop. A list that is too long is left out, so that nobody but user and administrators has it.
fn read_acls(entries: Vec<ApplicationAclMapProto>) -> Acls {
    let mut acls = BTreeMap::new();
    for entry in entries {
        let access = match entry.access_type() {
            ApplicationAccessTypeProto::AppaccessViewApp => AccessType::ViewApp,
            ApplicationAccessTypeProto::AppaccessModifyApp => AccessType::ModifyApp,
        };
        acls.insert(access, entry.acl.unwrap_or_default());
    }
    acls.retain(|access, list| {
        let fits = list.len() <= ACL_BYTES_MAX;
        if !fits && let Some(earlier) = LONG_LISTS.due(Instant::now()) {
            let (access, bytes) = (access.as_str(), list.len());
            tracing::warn!(
                access,
                bytes,
                earlier,
                "an access control list is too long and left out"
            );
        }
        fits
    });
    acls.into_iter().collect()
}

fn read_resource(
    link: String,
    resource: Option<LocalResourceProto>,
) -> Result<(String, ResourceSpec), RemoteException> {
    let missing = |what| yarn_exception(format!("Null resource {what} for local resource {link}"));
    let mut resource = resource.ok_or_else(|| missing("URL"))?;
    let url = resource.resource.take().ok_or_else(|| missing("URL"))?;
    if resource.r#type.is_none() {
        return Err(missing("type"));
    }
    if resource.visibility.is_none() {
        return Err(missing("visibility"));
    }
    let kind = match resource.r#type() {
        LocalResourceTypeProto::File => ResourceKind::File,
        LocalResourceTypeProto::Archive => ResourceKind::Archive,
        LocalResourceTypeProto::Pattern => ResourceKind::Pattern(resource.pattern.take()),
    };
    let visibility = match resource.visibility() {
        LocalResourceVisibilityProto::Public => Visibility::Public,
        LocalResourceVisibilityProto::Private => Visibility::Private,
        LocalResourceVisibilityProto::Application => Visibility::Application,
    };
    let url = ResourceUrl {
        scheme: url.scheme,
        user_info: url.user_info,
        host: url.host,
        // Hadoop writes -1 where a URL has no port.
        port: url
            .port
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port != 0),
        path: url.file.unwrap_or_default(),
    };
    let (size, timestamp_ms) = (resource.size(), resource.timestamp());
    Ok((
        link,
        ResourceSpec {
            url,
            size,
            timestamp_ms,
            kind,
            visibility,
        },
    ))
}

/// Reads a retry policy. A negative limit other than -1 allows no retry, as in Hadoop.
fn read_retry(context: ContainerRetryContextProto) -> ContainerRetryContext {
    let max_retries = context.max_retries();
    ContainerRetryContext {
        on: match context.retry_policy() {
            ContainerRetryPolicyProto::NeverRetry => RetryOn::Never,
            ContainerRetryPolicyProto::RetryOnAllErrors => RetryOn::AllErrors,
            ContainerRetryPolicyProto::RetryOnSpecificErrorCodes => {
                let codes = context.error_codes.iter().copied();
                let codes = codes.filter(|code| EXIT_STATUSES.contains(code));
                RetryOn::ErrorCodes(codes.collect())
            }
        },
        max_retries: (max_retries != -1).then(|| u32::try_from(max_retries).unwrap_or(0)),
        interval_ms: u64::try_from(context.retry_interval()).unwrap_or(0),
        failures_validity_ms: u64::try_from(context.failures_validity_interval())
            .ok()
            .filter(|validity_ms| *validity_ms > 0),
    }
}

fn yarn_exception(message: String) -> RemoteException {
    RemoteException::new(HadoopException::YarnException, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_list_of_a_right_counts_unless_it_is_too_long() {
        let entry = |access: ApplicationAccessTypeProto, list: &str| ApplicationAclMapProto {
            access_type: Some(access.into()),
            acl: Some(list.to_owned()),
        };
        use ApplicationAccessTypeProto::{AppaccessModifyApp, AppaccessViewApp};
        let acls = read_acls(vec![
            entry(AppaccessViewApp, "ann"),
            entry(AppaccessModifyApp, &"x".repeat(ACL_BYTES_MAX + 1)),
            entry(AppaccessViewApp, "bob ops"),
        ]);
        assert_eq!(acls, [(AccessType::ViewApp, "bob ops".to_owned())]);
    }
}
