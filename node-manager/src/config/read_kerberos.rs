//! Properties to the node's identity in a secure cluster.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use hadoop_conf::{Expected, PropertyReader};
use wire::kerberos::ServerPrincipal;

use super::read_policy::AUTHORIZATION;
use super::sections::KerberosConfig;

/// Property that makes a cluster secure.
pub(super) const AUTHENTICATION: &str = "hadoop.security.authentication";

const PRINCIPAL: &str = "yarn.nodemanager.principal";
const KEYTAB: &str = "yarn.nodemanager.keytab";
const RM_PRINCIPAL: &str = "yarn.resourcemanager.principal";
const RM_PATTERN: &str = "yarn.resourcemanager.principal.pattern";

/// Rights of all users but the owner and the group.
const OTHERS: u32 = 0o007;

/// Returns whether the cluster is secure. An unknown word is a problem.
pub(super) fn is_secure(reader: &mut PropertyReader<'_>) -> bool {
    let method = reader.text(AUTHENTICATION).unwrap_or_default();
    match method.to_ascii_lowercase().as_str() {
        "simple" | "" => false,
        "kerberos" => true,
        _ => {
            let known = vec!["simple", "kerberos"];
            reader.problem(AUTHENTICATION, Expected::OneOf(known));
            false
        }
    }
}

/// Reads the node's identity; `None` in a cluster that is not secure, or without one.
pub(super) fn kerberos(reader: &mut PropertyReader<'_>) -> Option<KerberosConfig> {
    let is_secure = is_secure(reader);
    let why = "without hadoop.security.authentication = kerberos";
    let identity = reader.only_if(is_secure, why, |reader| {
        let first_login_within_ms =
            reader.u64("yarn.nodemanager.agent.kerberos.first-login-within-ms", 0);
        let falls_back_to_simple = reader.flag("ipc.client.fallback-to-simple-auth-allowed");
        let relogin_after_s = reader.u64("hadoop.kerberos.min.seconds.before.relogin", 0);
        let principal = principal(reader);
        let keytab = reader.resolved_text(KEYTAB).map(PathBuf::from);
        let resource_manager = resource_manager(reader);
        Some(KerberosConfig {
            principal: principal?,
            keytab: keytab?,
            resource_manager: resource_manager?,
            falls_back_to_simple,
            relogin_after_s,
            first_login_within_ms,
        })
    });
    if !is_secure {
        return None;
    }
    tell_missing(reader);
    tell_open_registration(reader);
    let identity = identity?;
    if let Some(defect) = keytab_defect(&identity.keytab) {
        reader.problem(KEYTAB, Expected::Rule(defect.into()));
    }
    Some(identity)
}

fn tell_missing(reader: &mut PropertyReader<'_>) {
    let has_pattern = reader.text(RM_PATTERN).is_some();
    let required = [PRINCIPAL, KEYTAB, RM_PRINCIPAL];
    let required = &required[..if has_pattern { 2 } else { 3 }];
    for name in required {
        if reader.text(name).is_none() {
            reader.missing((*name).to_owned(), "a cluster with Kerberos needs it");
        }
    }
}

/// Warns of a cluster that is less secure than it seems.
fn tell_open_registration(reader: &mut PropertyReader<'_>) {
    if !reader.flag(AUTHORIZATION) {
        let what = "a ResourceManager of which this is true as well gives the keys of all nodes to \
                    anyone with a ticket who registers one";
        reader.consequence(AUTHORIZATION, what);
    }
}

fn principal(reader: &mut PropertyReader<'_>) -> Option<String> {
    let principal = reader.resolved_text(PRINCIPAL)?;
    let (name, realm) = principal.split_once('@').unwrap_or((&principal, ""));
    if name.is_empty() || realm.is_empty() {
        let rule = "must have a name and a realm, as in nm/_HOST@REALM";
        reader.problem(PRINCIPAL, Expected::Rule(rule.into()));
    }
    Some(principal)
}

/// Returns the end of a sentence that begins with the property, if a keytab cannot be used.
pub(super) fn keytab_defect(keytab: &Path) -> Option<String> {
    let opened = fs::metadata(keytab).and_then(|status| File::open(keytab).map(|_| status));
    let status = match opened {
        Ok(status) => status,
        Err(error) => {
            return Some(format!(
                "must be a file that the agent can read ({error}): copy the node's keytab there"
            ));
        }
    };
    if !status.is_file() {
        return Some("must be a file with the node's keys".to_owned());
    }
    let mode = status.mode() & 0o777;
    (mode & OTHERS != 0).then(|| {
        format!(
            "must be closed to others, since its reader is this node for the whole cluster, and \
             has mode {mode:04o}: chmod 0400 {}",
            keytab.display()
        )
    })
}

fn resource_manager(reader: &mut PropertyReader<'_>) -> Option<ServerPrincipal> {
    if let Some(pattern) = reader.resolved_text(RM_PATTERN) {
        let realm = pattern.rsplit_once('@').map(|(_, realm)| realm);
        let realm_is_open = realm.is_some_and(|realm| realm != "*" && realm.contains(['*', '?']));
        if pattern.contains(['[', ']', '{', '}', '\\']) || realm_is_open {
            let rule = "must be made of text, * and ?, with a realm in full or *";
            reader.problem(RM_PATTERN, Expected::Rule(rule.into()));
        }
        return Some(ServerPrincipal::Pattern(pattern));
    }
    let principal = reader.resolved_text(RM_PRINCIPAL)?;
    let (name, realm) = principal.split_once('@').unwrap_or((&principal, ""));
    if realm.is_empty() || name.split('/').count() != 2 {
        let rule = "must have a service, a host and a realm, as in rm/_HOST@REALM";
        reader.problem(RM_PRINCIPAL, Expected::Rule(rule.into()));
    }
    Some(ServerPrincipal::Exact(principal))
}
