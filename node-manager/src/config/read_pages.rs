//! Properties to the proof of callers of pages: `hadoop.http.authentication.…` and users' names.

use std::path::PathBuf;
use std::time::Duration;

use hadoop_conf::{Expected, PropertyReader};
use web_auth::{Mechanism, NameRules};

use super::read_kerberos::keytab_defect;
use super::read_security::{HTTP, is_accepted};
use super::sections::PageProofConfig;

const PRINCIPAL: &str = "hadoop.http.authentication.kerberos.principal";
const KEYTAB: &str = "hadoop.http.authentication.kerberos.keytab";
const OPEN_PATHS: &str = "hadoop.http.authentication.kerberos.endpoint.whitelist";
const SECRET_FILE: &str = "hadoop.http.authentication.signature.secret.file";
const VALIDITY: &str = "hadoop.http.authentication.token.validity";
const DOMAIN: &str = "hadoop.http.authentication.cookie.domain";
const PATH: &str = "hadoop.http.authentication.cookie.path";
const PERSISTENT: &str = "hadoop.http.authentication.cookie.persistent";
const RULES: &str = "hadoop.security.auth_to_local";
const MECHANISM: &str = "hadoop.security.auth_to_local.mechanism";

/// Value of the type that asks for Kerberos.
const KERBEROS: &str = "kerberos";

/// Reads how callers of pages prove who they are; `None`: their names are believed.
pub(super) fn proof(reader: &mut PropertyReader<'_>, over_tls: bool) -> Option<PageProofConfig> {
    let is_asked = reader.text(HTTP.name).as_deref() == Some(KERBEROS);
    let applies = is_asked && !is_accepted(reader, &HTTP);
    let why = "without hadoop.http.authentication.type = kerberos";
    let proof = reader.only_if(applies, why, |reader| {
        let service = service(reader);
        let keytab = reader.resolved_text(KEYTAB).map(PathBuf::from);
        let secret_file = reader.resolved_text(SECRET_FILE).map(PathBuf::from);
        let validity = Duration::from_secs(reader.u64(VALIDITY, 1));
        let cookie_attributes = cookie_attributes(reader, validity, over_tls);
        let open_paths = open_paths(reader);
        let rules = rules(reader);
        Some(PageProofConfig {
            service: service?,
            keytab: keytab?,
            secret_file,
            validity,
            cookie_attributes,
            open_paths,
            rules: rules?,
        })
    });
    if !applies {
        return None;
    }
    let proof = proof?;
    if let Some(defect) = keytab_defect(&proof.keytab) {
        reader.problem(KEYTAB, Expected::Rule(defect.into()));
    }
    Some(proof)
}

/// Returns the principal of the pages, or the service alone for every key of the keytab.
fn service(reader: &mut PropertyReader<'_>) -> Option<String> {
    let principal = reader.resolved_text(PRINCIPAL)?;
    if principal == "*" {
        return Some("HTTP".to_owned());
    }
    let (name, realm) = principal.split_once('@').unwrap_or((&principal, ""));
    let host = name.strip_prefix("HTTP/").unwrap_or_default();
    if host.is_empty() || host.contains('/') || realm.is_empty() {
        let rule = "must be HTTP with a host and a realm, as in HTTP/_HOST@REALM, or *";
        reader.problem(PRINCIPAL, Expected::Rule(rule.into()));
    }
    Some(principal)
}

fn cookie_attributes(
    reader: &mut PropertyReader<'_>,
    validity: Duration,
    over_tls: bool,
) -> String {
    let path = plain(reader, PATH).unwrap_or_else(|| "/".to_owned());
    let mut attributes = format!("; Path={path}");
    if let Some(domain) = plain(reader, DOMAIN) {
        attributes.push_str(&format!("; Domain={domain}"));
    }
    if reader.flag(PERSISTENT) {
        attributes.push_str(&format!("; Max-Age={}", validity.as_secs()));
    }
    if over_tls {
        attributes.push_str("; Secure");
    }
    attributes.push_str("; HttpOnly");
    attributes
}

/// Returns a text that becomes part of a header.
fn plain(reader: &mut PropertyReader<'_>, name: &str) -> Option<String> {
    let text = reader.resolved_text(name)?;
    if text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b';')
    {
        return Some(text);
    }
    let rule = "must be printable ASCII without blanks and semicolons";
    reader.problem(name, Expected::Rule(rule.into()));
    None
}

/// Returns the paths that need no proof, which must be such, as in Hadoop.
fn open_paths(reader: &mut PropertyReader<'_>) -> Vec<String> {
    let paths = reader.list(OPEN_PATHS);
    if paths.iter().any(|path| !path.starts_with('/')) {
        let rule = "must be paths that begin with /";
        reader.problem(OPEN_PATHS, Expected::Rule(rule.into()));
    }
    paths
}

fn rules(reader: &mut PropertyReader<'_>) -> Option<NameRules> {
    let hadoop = ("hadoop", Mechanism::Hadoop);
    let mechanism = reader.choice(MECHANISM, hadoop, &[("mit", Mechanism::Mit)]);
    let text = reader.resolved_text(RULES).unwrap_or_default();
    match NameRules::parse(&text, mechanism) {
        Ok(rules) => Some(rules),
        Err(error) => {
            let rule = format!("must be rules of Hadoop: {error}");
            reader.problem(RULES, Expected::Rule(rule.into()));
            None
        }
    }
}
