//! Logins at the KDC of a realm on this machine. Each test runs in a process of its own, since the
//! library takes its configuration from the environment.

#![expect(
    clippy::unwrap_used,
    reason = "in a test a failure is to be seen where it happens"
)]

mod in_realm;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gssapi::{Login, LoginConfig, LoginStatus, read_keytab};
use test_support::realm::{REALM, Realm};
use wire::gssapi::{GssContext, GssError};
use wire::kerberos::{KerberosLibrary as _, OfferedName, Target};

use crate::in_realm::in_realm;

const NODE: &str = "nm/localhost";
const HOUR: Duration = Duration::from_secs(3600);

fn login_of(principal: &str, keytab: &Path, relogin_after: Duration) -> Login {
    let config = LoginConfig {
        principal: principal.to_owned(),
        keytab: keytab.to_owned(),
        relogin_after,
    };
    Login::start(config).unwrap()
}

fn login(keytab: &Path, relogin_after: Duration) -> Login {
    login_of(&format!("{NODE}@{REALM}"), keytab, relogin_after)
}

fn server() -> Target {
    Target::Principal(format!("rm/localhost@{REALM}"))
}

/// Makes the server's principal and the node's keytab.
fn node_keytab(realm: &Realm) -> PathBuf {
    let _unused = realm.keytab("rm.keytab", &["rm/localhost"]);
    realm.keytab("nm.keytab", &[NODE])
}

/// Begins a proof as a connection does; returns its first token.
fn first_token(login: &Login, target: &Target) -> Result<Vec<u8>, GssError> {
    login.begin(target)?.step(&[])
}

#[track_caller]
fn failure(login: &Login) -> String {
    first_token(login, &server()).unwrap_err().to_string()
}

#[test]
fn a_login_serves_many_connections() {
    in_realm("a_login_serves_many_connections", |realm| {
        let login = login(&node_keytab(&realm), HOUR);
        assert_eq!(login.status(), LoginStatus::default());
        let by_host = Target::Service(OfferedName {
            service: "rm".to_owned(),
            host: "localhost".to_owned(),
        });
        for target in [server(), by_host, server()] {
            let token = first_token(&login, &target).unwrap();
            assert!(token.len() > 100, "{} bytes", token.len());
        }
        assert_eq!(realm.logins(), 1);
        let status = login.status();
        assert!(status.last_good.is_some() && !status.is_failing);
        let mut begun: Box<dyn GssContext> = login.begin(&server()).unwrap();
        begun.step(&[]).unwrap();
        assert!(!begun.is_complete() && begun.wrap(b"x", true).is_err());
        assert!(begun.unwrap(b"x").is_err());
        let refused = begun.step(b"no token of Kerberos").unwrap_err();
        assert!(refused.to_string().contains("nvalid token"), "{refused}");
    });
}

#[test]
fn a_server_that_the_kdc_does_not_know_is_named() {
    in_realm("a_server_that_the_kdc_does_not_know_is_named", |realm| {
        let login = login(&node_keytab(&realm), HOUR);
        let unknown = Target::Principal(format!("rm/elsewhere@{REALM}"));
        let told = first_token(&login, &unknown).unwrap_err().to_string();
        let expected = format!("Server rm/elsewhere@{REALM} not found in Kerberos database");
        assert!(told.contains(&expected), "{told}");
        // It is no failure of the login.
        assert!(!login.status().is_failing);
    });
}

#[test]
fn a_failure_names_principal_and_keytab_and_says_why() {
    in_realm(
        "a_failure_names_principal_and_keytab_and_says_why",
        |realm| {
            let keytab = node_keytab(&realm);
            let none = Path::new("/nowhere/nm.keytab").to_path_buf();
            let garbage = keytab.with_file_name("garbage.keytab");
            fs::write(&garbage, "no keytab").unwrap();
            let old = realm.keytab("old.keytab", &["nm/old"]);
            realm.query("change_password -randkey nm/old");
            for (principal, keytab, why) in [
                (format!("{NODE}@{REALM}"), &none, "No such file"),
                (format!("{NODE}@{REALM}"), &garbage, "is no keytab"),
                (format!("nm/other@{REALM}"), &keytab, "has no key of this"),
                (format!("nm/old@{REALM}"), &old, "check failed"),
                (format!("{NODE}@OTHER.TEST"), &keytab, "has no key of this"),
            ] {
                let login = login_of(&principal, keytab, HOUR);
                let told = failure(&login);
                let begin = format!(
                    "no Kerberos login of {principal} by keytab {}: no ticket for this node: ",
                    keytab.display()
                );
                assert!(told.starts_with(&begin) && told.contains(why), "{told}");
                assert!(login.status().is_failing);
            }
        },
    );
}

#[test]
fn a_login_that_failed_is_made_again_when_its_time_has_come() {
    let name = "a_login_that_failed_is_made_again_when_its_time_has_come";
    in_realm(name, |mut realm| {
        let keytab = node_keytab(&realm);
        let (patient, eager) = (login(&keytab, HOUR), login(&keytab, Duration::ZERO));
        realm.stop_kdc();
        for login in [&patient, &eager] {
            let told = failure(login);
            assert!(told.contains("Cannot contact any KDC"), "{told}");
            assert_eq!(login.status().last_good, None);
        }
        realm.start_kdc();
        first_token(&eager, &server()).unwrap();
        assert!(!eager.status().is_failing);
        let told = failure(&patient);
        assert!(
            told.contains("asked again 3600s after the last time"),
            "{told}"
        );
        assert_eq!(realm.logins(), 1);
    });
}

#[test]
fn tickets_that_a_server_refuses_are_got_anew_with_the_keytab_of_the_day() {
    let name = "tickets_that_a_server_refuses_are_got_anew_with_the_keytab_of_the_day";
    in_realm(name, |realm| {
        let keytab = node_keytab(&realm);
        let (patient, eager) = (login(&keytab, HOUR), login(&keytab, Duration::ZERO));
        for login in [&patient, &eager] {
            first_token(login, &server()).unwrap();
        }
        assert_eq!(realm.logins(), 2);
        let versions = || -> Vec<_> {
            let entries = read_keytab(&keytab).unwrap();
            entries.into_iter().map(|entry| entry.version).collect()
        };
        assert_eq!(versions(), [2]);
        // Into the same file, with a new version of the key.
        realm.query(&format!("ktadd -k {} {NODE}", keytab.display()));
        assert_eq!(versions(), [2, 3]);
        for login in [&patient, &eager] {
            login.refused();
            first_token(login, &server()).unwrap();
        }
        assert_eq!(realm.logins(), 3, "the patient one has its tickets");
    });
}

#[test]
fn tickets_outlive_a_kdc_that_is_away() {
    in_realm("tickets_outlive_a_kdc_that_is_away", |mut realm| {
        let login = login(&node_keytab(&realm), Duration::ZERO);
        first_token(&login, &server()).unwrap();
        realm.stop_kdc();
        first_token(&login, &server()).unwrap();
        assert!(!login.status().is_failing);
    });
}
