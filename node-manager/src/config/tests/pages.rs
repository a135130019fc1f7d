//! The proof of callers of pages by Kerberos.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use super::*;

const ON: (&str, &str) = ("hadoop.http.authentication.type", "kerberos");
const PREFIX: &str = "hadoop.http.authentication.";
const RULES: &str = "hadoop.security.auth_to_local";

fn keytab() -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("http.keytab");
    fs::write(&path, [5, 2]).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).unwrap();
    let path = path.display().to_string();
    (folder, path)
}

/// Adds what proven callers need; properties are named without their common beginning.
fn proven(keytab: &str, pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let keytab = ("kerberos.keytab", keytab);
    let all = [("type", "kerberos"), keytab].into_iter();
    let all = all.chain(pairs.iter().copied());
    all.map(|(name, value)| {
        let is_full = name.starts_with("hadoop.") || name.starts_with("yarn.");
        let prefix = if is_full { "" } else { PREFIX };
        (format!("{prefix}{name}"), value.to_owned())
    })
    .collect()
}

fn borrowed(pairs: &[(String, String)]) -> Vec<(&str, &str)> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

#[test]
fn the_proof_is_read_where_it_is_asked_for_alone() {
    let (_folder, keytab) = keytab();
    assert_eq!(config(&[]).web.proof, None);
    let own = ("hadoop.http.authentication.kerberos.principal", "nonsense");
    assert_eq!(config(&[own]).web.proof, None);
    let read = config(&borrowed(&proven(&keytab, &[]))).web.proof.unwrap();
    assert_eq!(read.service, "HTTP/_HOST@LOCALHOST");
    assert_eq!(read.keytab, PathBuf::from(&keytab));
    let secret = read.secret_file.unwrap();
    assert!(secret.ends_with("hadoop-http-auth-signature-secret"));
    assert_eq!(read.validity, Duration::from_secs(36_000));
    assert_eq!(read.cookie_attributes, "; Path=/; HttpOnly");
    assert!(read.open_paths.is_empty());
    let all = proven(
        &keytab,
        &[
            ("kerberos.principal", "*"),
            ("kerberos.endpoint.whitelist", "/metrics, /jmx"),
            ("token.validity", "60"),
            ("cookie.path", "/x"),
            ("cookie.domain", "example.com"),
            ("cookie.persistent", "true"),
        ],
    );
    let read = config(&borrowed(&all)).web.proof.unwrap();
    assert_eq!(read.service, "HTTP");
    assert_eq!(read.open_paths, ["/metrics", "/jmx"]);
    let attributes = "; Path=/x; Domain=example.com; Max-Age=60; HttpOnly";
    assert_eq!(read.cookie_attributes, attributes);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let (_folder, keytab) = keytab();
    for (name, value, part) in [
        (
            "kerberos.principal",
            "nm/_HOST@R",
            "must be HTTP with a host",
        ),
        (
            "kerberos.principal",
            "HTTP/_HOST",
            "must be HTTP with a host",
        ),
        ("kerberos.principal", "HTTP/@R", "must be HTTP with a host"),
        ("kerberos.keytab", "/nowhere/keytab", "must be a file"),
        (
            "kerberos.endpoint.whitelist",
            "/jmx,metrics",
            "begin with /",
        ),
        ("cookie.domain", "a;b", "without blanks and semicolons"),
        ("cookie.path", "/a b", "without blanks and semicolons"),
        ("token.validity", "0", "from 1"),
        (RULES, "RULE:[1:$1](?=a)", "that this agent cannot use"),
        (RULES, "nonsense", "invalid rule: nonsense"),
        (
            "hadoop.security.auth_to_local.mechanism",
            "x",
            "one of hadoop, mit",
        ),
    ] {
        let mut all = proven(&keytab, &[]);
        let set = proven(&keytab, &[(name, value)]).pop().unwrap();
        all.retain(|(known, _)| *known != set.0);
        all.push(set);
        let told = problems(&borrowed(&all));
        assert!(
            told.len() == 1 && told[0].contains(part),
            "{name} = {value}: {told:?}"
        );
    }
}

#[test]
fn open_pages_may_still_be_accepted_by_name() {
    let (_folder, keytab) = keytab();
    let accepted = ("yarn.nodemanager.agent.accept-unsafe", ON.0);
    let all = proven(&keytab, &[accepted]);
    assert_eq!(config(&borrowed(&all)).web.proof, None);
    let told = warnings(&borrowed(&all)).join("\n");
    assert!(
        told.contains("web pages are served without authentication"),
        "{told}"
    );
}

#[test]
fn lists_of_access_are_not_called_weak_where_every_caller_is_known() {
    let (_folder, keytab) = keytab();
    let acl = ("yarn.acl.enable", "true");
    assert_eq!(warnings(&[acl]).len(), 1);
    assert!(warnings(&borrowed(&proven(&keytab, &[acl]))).is_empty());
}
