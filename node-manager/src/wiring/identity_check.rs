//! The node's identity in a secure cluster, tried without a node.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use gssapi::{Library, Login, LoginConfig, read_keytab};
use hadoop_fs::{FileSystems, FsConfig, SecureAccess};
use namenode_access::{Access, Proof};
use records::error_chain;
use tokio::runtime;
use wire::client::{ClientAuth, KerberosAuth, RpcClient, RpcError};
use wire::failover::LinkConfig;
use wire::gssapi::GssError;
use wire::kerberos::{self, KerberosLibrary};
use wire::sasl::SaslError;

use super::kerberos::{login_config, read_keytab as read_keytab_file};
use super::slices;
use crate::config::{Config, KerberosConfig};

/// Finding about the node's identity, as a sentence that begins with a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityFinding {
    /// The identity works.
    Note(String),
    /// The node could not register so.
    Problem(String),
}

use IdentityFinding::{Note, Problem};

const AUTHENTICATION: &str = "hadoop.security.authentication";
const PRINCIPAL: &str = "yarn.nodemanager.principal";
const KEYTAB: &str = "yarn.nodemanager.keytab";
const RM_PRINCIPAL: &str = "yarn.resourcemanager.principal";

/// Parts of texts of the library and of ResourceManagers, with what an operator can do. The first
/// that fits counts.
const ADVICE: [(&str, &str); 12] = [
    (
        "check failed",
        "write the keytab anew: the KDC has another key (kadmin: ktadd)",
    ),
    (
        "reauthentication failed",
        "write the keytab anew: the KDC has another key (kadmin: ktadd)",
    ),
    (
        "Cannot contact any KDC",
        "look at krb5.conf, at the network and the firewall (port 88)",
    ),
    ("Cannot find KDC", "name the realm's KDC in krb5.conf"),
    (
        "gives no answer within",
        "look at krb5.conf, at the network and the firewall (port 88)",
    ),
    (
        "lock skew too great",
        "set the clock of this machine: Kerberos takes 300 s",
    ),
    (
        "not found in Kerberos database",
        "make the principal (kadmin: addprinc), or correct the property",
    ),
    (
        "invalid Kerberos principal",
        "correct the property, or the reverse name of the address",
    ),
    (
        "cannot authenticate via",
        "set hadoop.security.authentication there as here",
    ),
    (
        "fall back to SIMPLE",
        "set hadoop.security.authentication there as here",
    ),
    (
        "No common protection layer",
        "set hadoop.rpc.protection there as here",
    ),
    (
        "GSS initiate failed",
        "look at the log there: an old keytab, or a clock that is off",
    ),
];

fn with_advice(text: &str) -> String {
    let known = ADVICE.iter().find(|(part, _)| text.contains(part));
    known.map_or_else(
        || text.to_owned(),
        |(_, advice)| format!("{text}: {advice}"),
    )
}

/// Looks at the library and the keytab of this machine, and asks the name service for its name. If
/// it `connects`, also gets a ticket, and has each ResourceManager that takes connections prove
/// itself; it registers no node. Finds nothing in a cluster that is not secure.
///
/// # Errors
/// No thread can be had.
pub fn check_identity(config: &Config, connects: bool) -> io::Result<Vec<IdentityFinding>> {
    let Some(kerberos) = &config.kerberos else {
        return Ok(Vec::new());
    };
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut findings = Vec::new();
    runtime.block_on(check(config, kerberos, connects, &mut findings));
    // What hangs in the library or in the name service is left behind.
    runtime.shutdown_background();
    Ok(findings)
}

async fn check(
    config: &Config,
    kerberos: &KerberosConfig,
    connects: bool,
    findings: &mut Vec<IdentityFinding>,
) {
    if let Err(error) = Library::load() {
        findings.push(Problem(format!(
            "{AUTHENTICATION}: {}",
            error_chain(&error)
        )));
        return;
    }
    let login = match login_config(kerberos).await {
        Ok(login) => login,
        Err(error) => {
            findings.push(Problem(format!("{PRINCIPAL}: {}", error_chain(&error))));
            return;
        }
    };
    let found = look_at_keytab(&login);
    let is_sound = matches!(found, Note(_));
    findings.push(found);
    if is_sound && connects {
        try_out(config, kerberos, login, findings).await;
    }
}

/// Returns the file systems of a node for a program beside it, which proves itself by the node's
/// keytab in a secure cluster. A process has these once. Asks the name service for this machine's
/// name.
///
/// # Errors
/// This machine has no name, or the keytab cannot be read.
pub fn own_file_systems(config: &Config, step_limit: Duration) -> io::Result<FileSystems> {
    let fs_config = FsConfig {
        step_limit,
        ..config.file_systems.clone()
    };
    let Some(kerberos) = &config.kerberos else {
        return Ok(FileSystems::new(fs_config));
    };
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let login = runtime.block_on(login_config(kerberos));
    let login = login.map_err(io::Error::other)?;
    let principal = login.principal;
    let access = Access::new(Proof::Keytab { principal }, &fs_config.client_properties)?;
    access.take(&read_keytab_file(&login.keytab)?)?;
    let access: Arc<dyn SecureAccess> = Arc::new(access);
    Ok(FileSystems::with_access(fs_config, Some(access)))
}

fn look_at_keytab(config: &LoginConfig) -> IdentityFinding {
    let LoginConfig {
        principal, keytab, ..
    } = config;
    let shown = keytab.display();
    let entries = match read_keytab(keytab) {
        Ok(entries) => entries,
        Err(error) => return Problem(format!("{KEYTAB}: {shown}: {error}")),
    };
    let (own, others): (Vec<_>, Vec<_>) = entries
        .into_iter()
        .partition(|entry| entry.principal == *principal);
    if own.is_empty() {
        let mut others: Vec<_> = others.into_iter().map(|entry| entry.principal).collect();
        others.dedup();
        return Problem(format!(
            "{KEYTAB}: {shown} has no key of {principal}, which {PRINCIPAL} is on this machine; it \
             has keys of: {}",
            others.join(", ")
        ));
    }
    let mut versions: Vec<_> = own.iter().map(|entry| entry.version.to_string()).collect();
    versions.dedup();
    Note(format!(
        "{PRINCIPAL}: this node is {principal}; {shown} has its key, of version {}",
        versions.join(", ")
    ))
}

async fn try_out(
    config: &Config,
    kerberos: &KerberosConfig,
    of_login: LoginConfig,
    findings: &mut Vec<IdentityFinding>,
) {
    let principal = of_login.principal.clone();
    let login = match Login::start(of_login) {
        Ok(login) => Arc::new(login),
        Err(error) => {
            findings.push(Problem(format!(
                "{AUTHENTICATION}: {}",
                error_chain(&error)
            )));
            return;
        }
    };
    let library = Arc::clone(&login) as Arc<dyn KerberosLibrary>;
    let logged_in = kerberos::run(&library, move |_| login.log_in()).await;
    let is_logged_in = logged_in.is_ok();
    findings.push(ticket(&principal, logged_in));
    if !is_logged_in {
        return;
    }
    let auth = ClientAuth::Kerberos(KerberosAuth {
        library,
        server: kerberos.resource_manager.clone(),
        fall_back_to: None,
    });
    let link = slices::rm_link(config, auth);
    for endpoint in &config.rm.endpoints {
        let address = &endpoint.resource_tracker;
        findings.extend(proof(&link, kerberos, (&address.host, address.port)).await);
    }
}

fn ticket(principal: &str, logged_in: Result<(), GssError>) -> IdentityFinding {
    match logged_in {
        Ok(()) => Note(format!("{PRINCIPAL}: the KDC gives {principal} a ticket")),
        Err(error) => Problem(with_advice(&format!("{PRINCIPAL}: {error}"))),
    }
}

/// Has a ResourceManager prove itself; `None` if it takes no connection.
async fn proof(
    link: &LinkConfig,
    kerberos: &KerberosConfig,
    (host, port): (&str, u16),
) -> Option<IdentityFinding> {
    let (protocol, auth) = (link.protocol, link.auth.clone());
    let connected = RpcClient::connect_host(host, port, protocol, auth, &link.options).await;
    match connected {
        Ok(_proven) => Some(Note(format!(
            "{RM_PRINCIPAL}: {host}:{port} has proven itself, and takes this node's ticket"
        ))),
        Err(RpcError::Sasl {
            source: SaslError::NoProof,
            ..
        }) if kerberos.falls_back_to_simple => Some(Note(format!(
            "{RM_PRINCIPAL}: {host}:{port} asks for no proof, which \
             ipc.client.fallback-to-simple-auth-allowed allows"
        ))),
        Err(error @ RpcError::Sasl { .. }) => {
            let text = format!("{RM_PRINCIPAL}: {host}:{port}: {}", error_chain(&error));
            Some(Problem(with_advice(&text)))
        }
        // Told by whoever asks whether it listens.
        Err(
            RpcError::Remote(_)
            | RpcError::Dial(_)
            | RpcError::ConnectionLost { .. }
            | RpcError::Timeout { .. }
            | RpcError::RequestTooLong(_)
            | RpcError::Decode { .. },
        ) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_has_each_text_that_has_an_advice() {
        let manual = include_str!("../../../docs/kerberos.md");
        for (part, _) in ADVICE {
            assert!(manual.contains(part), "{part}");
        }
        let told = with_advice("x: Clock skew too great");
        assert!(told.ends_with("Kerberos takes 300 s"), "{told}");
        assert_eq!(with_advice("another"), "another");
    }
}
