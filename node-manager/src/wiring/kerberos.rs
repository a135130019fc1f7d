//! The node's login to Kerberos: started with the agent, used by the first connection.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use file_worker::{Identity as FileIdentity, Proof, Secret, Security};
use gssapi::{Login, LoginConfig, LoginStatus};
use hadoop_fs::Caller;
use node_web::metrics::{LoginReading, Metrics};
use rand::RngExt as _;
use wire::client::{ClientAuth, KerberosAuth};
use wire::kerberos::with_host;

use super::error::AgentError;
use crate::application_tokens::ApplicationTokens;
use crate::config::KerberosConfig;
use crate::node_identity::{self, IdentityError};

/// Longest keytab, in bytes: one has some dozen keys of some hundred bytes.
const KEYTAB_MAX: u64 = 1 << 20;

/// The identity with which the node calls the ResourceManager.
pub(super) struct Identity {
    pub(super) auth: ClientAuth,
    /// Pause before the first login: the nodes of a large cluster may start together.
    pub(super) first_pause: Duration,
}

/// Loads the library in a secure cluster. Asks the name service for this machine's name, and no
/// KDC.
pub(super) async fn identity(
    config: Option<&KerberosConfig>,
    metrics: &Metrics,
) -> Result<Identity, AgentError> {
    let user = node_identity::own_user();
    let Some(config) = config else {
        return Ok(Identity {
            auth: ClientAuth::Simple { user },
            first_pause: Duration::ZERO,
        });
    };
    let login = Login::start(login_config(config).await?);
    let login = Arc::new(login.map_err(AgentError::Kerberos)?);
    let watched = Arc::clone(&login);
    metrics.watch_login(move || {
        let LoginStatus {
            last_good,
            is_failing,
        } = watched.status();
        LoginReading {
            age: last_good,
            is_failing,
        }
    });
    let pause_ms = rand::rng().random_range(0..=config.first_login_within_ms);
    Ok(Identity {
        auth: ClientAuth::Kerberos(KerberosAuth {
            library: Arc::clone(&login) as _,
            server: config.resource_manager.clone(),
            fall_back_to: config.falls_back_to_simple.then_some(user),
        }),
        first_pause: Duration::from_millis(pause_ms),
    })
}

/// Returns how file workers prove themselves in a secure cluster: with the keytab for the node's
/// own work, and with the tokens of an application for its user.
pub(super) async fn security(
    config: Option<&KerberosConfig>,
    environment: &BTreeMap<String, String>,
    tokens: &Arc<ApplicationTokens>,
) -> Result<Option<Security>, IdentityError> {
    let Some(config) = config else {
        return Ok(None);
    };
    let LoginConfig {
        principal, keytab, ..
    } = login_config(config).await?;
    let tokens = Arc::clone(tokens);
    let identity_of = move |caller: Caller<'_>| {
        if !caller.is_own {
            return Ok(FileIdentity {
                proof: Proof::Tokens,
                secret: tokens.secret(caller.work),
            });
        }
        let content = read_keytab(&keytab)
            .map_err(|error| format!("cannot read {}: {error}", keytab.display()))?;
        Ok(FileIdentity {
            proof: Proof::Keytab {
                principal: principal.clone(),
            },
            secret: Some(Secret(content.into())),
        })
    };
    Ok(Some(Security {
        identity_of: Box::new(identity_of),
        kerberos_file: environment.get("KRB5_CONFIG").map(OsString::from),
    }))
}

/// Reads the keytab, at each use: a new one needs no restart.
pub(super) fn read_keytab(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let file = File::open(path)?;
    let read = file.take(KEYTAB_MAX + 1).read_to_end(&mut content)?;
    if read as u64 > KEYTAB_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(content)
}

/// Returns the login of the configuration, for the name that the name service has for this machine.
pub(super) async fn login_config(config: &KerberosConfig) -> Result<LoginConfig, IdentityError> {
    let host = node_identity::host_of_machine().await?;
    Ok(LoginConfig {
        principal: with_host(&config.principal, &host),
        keytab: config.keytab.clone(),
        relogin_after: Duration::from_secs(config.relogin_after_s),
    })
}
