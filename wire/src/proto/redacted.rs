//! `Debug` of the messages that carry secrets, so that no log can show them: sizes and names
//! instead of contents.
//!
//! The build leaves the derived `Debug` out for exactly these messages. Every field is destructured
//! below, so a new field does not compile until it is classified here.

use std::fmt;

use bytes::Bytes;

use super::hadoop_common::rpc_sasl_proto::SaslAuth;
use super::hadoop_common::{CredentialsKvProto, RpcSaslProto, TokenProto};
use super::hadoop_yarn::{
    ContainerLaunchContextProto, MasterKeyProto, RegisterApplicationMasterResponseProto,
    StringBytesMapProto, SystemCredentialsForAppsProto,
};

/// The size of a secret, in place of the secret.
struct Hidden(usize);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0)
    }
}

fn hidden(secret: Option<&Bytes>) -> Option<Hidden> {
    secret.map(|secret| Hidden(secret.len()))
}

impl fmt::Debug for TokenProto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            identifier,
            password,
            kind,
            service,
        } = self;
        // The identifier is not secret, but long and unreadable.
        f.debug_struct("TokenProto")
            .field("identifier", &Hidden(identifier.len()))
            .field("password", &Hidden(password.len()))
            .field("kind", kind)
            .field("service", service)
            .finish()
    }
}

impl fmt::Debug for CredentialsKvProto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            alias,
            token,
            secret,
        } = self;
        f.debug_struct("CredentialsKvProto")
            .field("alias", alias)
            .field("token", token)
            .field("secret", &hidden(secret.as_ref()))
            .finish()
    }
}

impl fmt::Debug for RpcSaslProto {
    /// Hides the token: its digest is enough to try passwords against.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            version,
            state,
            token,
            auths,
        } = self;
        f.debug_struct("RpcSaslProto")
            .field("version", version)
            .field("state", state)
            .field("token", &hidden(token.as_ref()))
            .field("auths", auths)
            .finish()
    }
}

impl fmt::Debug for SaslAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            method,
            mechanism,
            protocol,
            server_id,
            challenge,
        } = self;
        f.debug_struct("SaslAuth")
            .field("method", method)
            .field("mechanism", mechanism)
            .field("protocol", protocol)
            .field("server_id", server_id)
            .field("challenge", &hidden(challenge.as_ref()))
            .finish()
    }
}

impl fmt::Debug for MasterKeyProto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key_id, bytes } = self;
        f.debug_struct("MasterKeyProto")
            .field("key_id", key_id)
            .field("bytes", &hidden(bytes.as_ref()))
            .finish()
    }
}

impl fmt::Debug for SystemCredentialsForAppsProto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            app_id,
            credentials_for_app,
        } = self;
        f.debug_struct("SystemCredentialsForAppsProto")
            .field("app_id", app_id)
            .field("credentials_for_app", &hidden(credentials_for_app.as_ref()))
            .finish()
    }
}

impl fmt::Debug for StringBytesMapProto {
    /// Hides the values: the shuffle service's, for example, is a job's token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value } = self;
        f.debug_struct("StringBytesMapProto")
            .field("key", key)
            .field("value", &hidden(value.as_ref()))
            .finish()
    }
}

impl fmt::Debug for ContainerLaunchContextProto {
    /// Shows only the names of the environment and only the length of the command, since both may
    /// contain passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            local_resources,
            tokens,
            service_data,
            environment,
            command,
            application_ac_ls,
            container_retry_context,
            tokens_conf,
        } = self;
        let names: Vec<_> = environment.iter().map(|variable| variable.key()).collect();
        let command_bytes = command.iter().map(String::len).sum();
        f.debug_struct("ContainerLaunchContextProto")
            .field("local_resources", local_resources)
            .field("tokens", &hidden(tokens.as_ref()))
            .field("service_data", service_data)
            .field("environment", &names)
            .field("command", &Hidden(command_bytes))
            .field("application_ac_ls", application_ac_ls)
            .field("container_retry_context", container_retry_context)
            .field("tokens_conf", &hidden(tokens_conf.as_ref()))
            .finish()
    }
}

impl fmt::Debug for RegisterApplicationMasterResponseProto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            maximum_capability,
            client_to_am_token_master_key,
            application_ac_ls,
            containers_from_previous_attempts,
            queue,
            nm_tokens_from_previous_attempts,
            scheduler_resource_types,
            resource_profiles,
            resource_types,
        } = self;
        f.debug_struct("RegisterApplicationMasterResponseProto")
            .field("maximum_capability", maximum_capability)
            .field(
                "client_to_am_token_master_key",
                &hidden(client_to_am_token_master_key.as_ref()),
            )
            .field("application_ac_ls", application_ac_ls)
            .field(
                "containers_from_previous_attempts",
                containers_from_previous_attempts,
            )
            .field("queue", queue)
            .field(
                "nm_tokens_from_previous_attempts",
                nm_tokens_from_previous_attempts,
            )
            .field("scheduler_resource_types", scheduler_resource_types)
            .field("resource_profiles", resource_profiles)
            .field("resource_types", resource_types)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::hadoop_yarn::{
        NmTokenProto, NodeHeartbeatResponseProto, StartContainerRequestProto, StringStringMapProto,
    };
    use super::*;

    const SECRET: &str = "correct horse battery staple";

    fn secret() -> Bytes {
        Bytes::from_static(SECRET.as_bytes())
    }

    /// Asserts that the secret is shown neither as text nor as a list of numbers.
    #[track_caller]
    fn assert_hides(message: &impl fmt::Debug) {
        let shown = format!("{message:?} {message:#?}");
        assert!(!shown.contains("horse"), "{shown}");
        assert!(!shown.contains(&format!("{:?}", &SECRET.as_bytes()[..4]).replace(['[', ']'], "")));
        assert!(shown.contains("<28 bytes>"), "{shown}");
    }

    fn token() -> TokenProto {
        TokenProto {
            identifier: Bytes::new(),
            password: secret(),
            kind: "NMToken".to_owned(),
            service: "node:1".to_owned(),
        }
    }

    #[test]
    fn tokens_and_keys_are_shown_without_their_bytes() {
        assert_hides(&token());
        assert_hides(&NmTokenProto {
            token: Some(token()),
            ..NmTokenProto::default()
        });
        assert_hides(&CredentialsKvProto {
            secret: Some(secret()),
            ..CredentialsKvProto::default()
        });
        assert_hides(&RpcSaslProto {
            token: Some(secret()),
            ..RpcSaslProto::default()
        });
        assert_hides(&NodeHeartbeatResponseProto {
            nm_token_master_key: Some(MasterKeyProto {
                key_id: Some(1),
                bytes: Some(secret()),
            }),
            ..NodeHeartbeatResponseProto::default()
        });
        assert_hides(&SystemCredentialsForAppsProto {
            credentials_for_app: Some(secret()),
            ..SystemCredentialsForAppsProto::default()
        });
        assert_hides(&RegisterApplicationMasterResponseProto {
            client_to_am_token_master_key: Some(secret()),
            ..RegisterApplicationMasterResponseProto::default()
        });
    }

    #[test]
    fn a_container_to_start_is_shown_without_what_it_may_know() {
        let contexts = [
            ContainerLaunchContextProto {
                tokens: Some(secret()),
                ..ContainerLaunchContextProto::default()
            },
            ContainerLaunchContextProto {
                service_data: vec![StringBytesMapProto {
                    key: Some("mapreduce_shuffle".to_owned()),
                    value: Some(secret()),
                }],
                ..ContainerLaunchContextProto::default()
            },
            ContainerLaunchContextProto {
                environment: vec![StringStringMapProto::from(("PASSWORD", SECRET))],
                command: vec![SECRET.to_owned()],
                ..ContainerLaunchContextProto::default()
            },
        ];
        for context in contexts {
            assert_hides(&StartContainerRequestProto {
                container_launch_context: Some(context),
                container_token: None,
            });
        }
    }

    #[test]
    fn names_of_variables_are_shown() {
        let context = ContainerLaunchContextProto {
            environment: vec![StringStringMapProto::from(("PASSWORD", SECRET))],
            ..ContainerLaunchContextProto::default()
        };
        assert!(format!("{context:?}").contains("PASSWORD"));
    }
}
