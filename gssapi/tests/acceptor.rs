//! Callers who prove themselves to a service, by tickets of a realm on this machine. Each test runs
//! in a process of its own, since the library takes its configuration from the environment.

#![expect(
    clippy::unwrap_used,
    reason = "in a test a failure is to be seen where it happens"
)]

mod in_realm;

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use gssapi::{Accepted, Acceptor, AcceptorConfig, Library, Login, LoginConfig, NotAccepted};
use test_support::realm::{REALM, Realm};
use wire::kerberos::{KerberosLibrary as _, Target};

use crate::in_realm::in_realm;

const SERVICE: &str = "HTTP/localhost";

/// Services with keys in one keytab, and a user.
struct Lab {
    services: PathBuf,
    alice: Login,
    _realm: Realm,
}

impl Lab {
    fn new(realm: Realm) -> Self {
        let services = realm.keytab("http.keytab", &[SERVICE, "HTTP/other", "nm/localhost"]);
        let alice = Login::start(LoginConfig {
            principal: format!("alice@{REALM}"),
            keytab: realm.keytab("alice.keytab", &["alice"]),
            relogin_after: Duration::ZERO,
        });
        Self {
            services,
            alice: alice.unwrap(),
            _realm: realm,
        }
    }

    fn token(&self, service: &str) -> Vec<u8> {
        let target = Target::Principal(format!("{service}@{REALM}"));
        self.alice.begin(&target).unwrap().step(&[]).unwrap()
    }

    fn judge(&self, service: &str, token: Vec<u8>) -> Result<Accepted, NotAccepted> {
        judge(service, &self.services, token)
    }
}

fn judge(service: &str, keytab: &Path, token: Vec<u8>) -> Result<Accepted, NotAccepted> {
    let acceptor = Acceptor::start(AcceptorConfig {
        service: service.to_owned(),
        keytab: keytab.to_owned(),
    });
    let (tell, told) = mpsc::channel();
    let acceptor = acceptor.unwrap();
    acceptor
        .submit(token, move |verdict| tell.send(verdict).unwrap())
        .unwrap();
    told.recv().unwrap()
}

fn refusal(verdict: Result<Accepted, NotAccepted>) -> String {
    match verdict {
        Err(NotAccepted::Refused(why)) => why.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_caller_with_a_ticket_for_the_service_is_known_once() {
    let name = "a_caller_with_a_ticket_for_the_service_is_known_once";
    in_realm(name, |realm| {
        let lab = Lab::new(realm);
        assert_eq!(Library::load().unwrap().default_realm().unwrap(), REALM);
        let service = format!("{SERVICE}@{REALM}");
        let token = lab.token(SERVICE);
        let accepted = lab.judge(&service, token.clone()).unwrap();
        assert_eq!(accepted.principal, format!("alice@{REALM}"));
        assert!(!accepted.answer.is_empty(), "the service proves itself");
        // Who has listened cannot use it again.
        let told = refusal(lab.judge(&service, token));
        assert!(told.contains("replay"), "{told}");
        // The service alone: each of its hosts, and no other service of the keytab.
        for other in [SERVICE, "HTTP/other"] {
            assert!(lab.judge("HTTP", lab.token(other)).is_ok(), "{other}");
        }
        refusal(lab.judge("HTTP", lab.token("nm/localhost")));
        refusal(lab.judge(&service, lab.token("nm/localhost")));
        refusal(lab.judge(&service, lab.token("HTTP/other")));
    });
}

#[test]
fn what_is_no_token_is_refused_and_a_service_without_a_key_says_so() {
    let name = "what_is_no_token_is_refused_and_a_service_without_a_key_says_so";
    in_realm(name, |realm| {
        let lab = Lab::new(realm);
        let service = format!("{SERVICE}@{REALM}");
        let token = lab.token(SERVICE);
        let mut changed = lab.token(SERVICE);
        let middle = changed.len() / 2;
        changed[middle] ^= 1;
        for wrong in [
            b"garbage".to_vec(),
            vec![0x60; 64 * 1024],
            token[..token.len() - 1].to_vec(),
            changed,
        ] {
            refusal(lab.judge(&service, wrong));
        }
        // The library answers with what it can do, and no context is kept for the next token.
        let nothing = lab.judge(&service, Vec::new());
        assert!(
            matches!(nothing, Err(NotAccepted::Incomplete(_))),
            "{nothing:?}"
        );
        for (service, keytab) in [
            (format!("HTTP/elsewhere@{REALM}"), lab.services.clone()),
            (service, PathBuf::from("/nowhere/http.keytab")),
        ] {
            let verdict = judge(&service, &keytab, lab.token(SERVICE));
            assert!(matches!(verdict, Err(NotAccepted::NoKey(_))), "{verdict:?}");
        }
    });
}
