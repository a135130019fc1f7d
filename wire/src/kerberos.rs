//! Which Kerberos principal a server must be, and what a client needs of a library to prove itself.
//!
//! Pure, apart from [`run`], which hands a call that may block to the library's own threads. The
//! library stands behind [`KerberosLibrary`].
//! Source: `org.apache.hadoop.security.SaslRpcClient.getServerPrincipal`,
//! `org.apache.hadoop.security.SecurityUtil`.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::gssapi::{GssContext, GssError};

/// Longest call of the library. A KDC that is silent keeps MIT's library for 27 s.
pub const LIBRARY_TIMEOUT: Duration = Duration::from_secs(30);

/// Part of a principal that stands for the canonical name of its host.
const HOST_PATTERN: &str = "_HOST";

/// A library that speaks Kerberos, logged in as one client. All calls but [`submit`](Self::submit)
/// may wait for a KDC or a name server.
pub trait KerberosLibrary: Send + Sync + fmt::Debug {
    /// Runs work on one of the library's threads, in any order.
    ///
    /// # Errors
    /// [`GssError`] when too much is queued.
    fn submit(&self, work: Box<dyn FnOnce() + Send>) -> Result<(), GssError>;

    /// Returns the canonical name of an address, in lower case and without a dot at its end; the
    /// address as text if it has none.
    fn canonical_host(&self, address: IpAddr) -> String;

    /// Begins the proof to a server, with a credential that is acquired for it.
    ///
    /// # Errors
    /// [`GssError`]: no credential, or none may be acquired yet.
    fn begin(&self, target: &Target) -> Result<Box<dyn GssContext>, GssError>;

    /// Notes that a server has refused a proof: tickets may be older than the server's keys.
    fn refused(&self);
}

/// Runs a call of the library on one of its threads and waits for the result.
///
/// # Errors
/// [`GssError`] of the call, when too much is queued, or after [`LIBRARY_TIMEOUT`].
pub async fn run<T: Send + 'static>(
    library: &Arc<dyn KerberosLibrary>,
    call: impl FnOnce(&dyn KerberosLibrary) -> Result<T, GssError> + Send + 'static,
) -> Result<T, GssError> {
    let (answer, answered) = oneshot::channel();
    let used = Arc::clone(library);
    library.submit(Box::new(move || {
        // Nobody waits for it any more after the timeout.
        let _late = answer.send(call(&*used));
    }))?;
    match timeout(LIBRARY_TIMEOUT, answered).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(GssError("the Kerberos library has panicked".to_owned())),
        Err(_) => Err(GssError(format!(
            "the Kerberos library gives no answer within {LIBRARY_TIMEOUT:?}: is a KDC silent?"
        ))),
    }
}

/// The name that a server says it has, from its offer of methods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedName {
    /// First part of its principal.
    pub service: String,
    /// Second part of its principal, a host's name.
    pub host: String,
}

/// The server that a client wants to prove itself to, and that must prove itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A whole principal, `rm/host@REALM`.
    Principal(String),
    /// A service of a host, whose realm the library finds.
    Service(OfferedName),
}

/// The principal that a server must be, from the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerPrincipal {
    /// `service/host@REALM`, whose host may be `_HOST`: the name of the address connected to.
    Exact(String),
    /// A pattern over whole principals, with `*` and `?`. Its realm is in full, or `*`.
    Pattern(String),
}

/// A server that is not the one of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerMismatch {
    /// The configuration's principal is no principal of a host.
    #[error("Kerberos principal name does NOT have the expected hostname part: {configured}")]
    Configured {
        /// The configured principal.
        configured: String,
    },
    /// Another server.
    #[error("Server has invalid Kerberos principal: {found}, expecting: {expected}")]
    Other {
        /// Name of the server, without a realm.
        found: String,
        /// The principal or pattern, with the host in it.
        expected: String,
    },
}

impl ServerPrincipal {
    /// Decides to whom the client proves itself, for a server that says this name. `host` is the
    /// canonical name of the address connected to. The realm is not the server's to choose: it is
    /// that of the configuration, and the library's proof is for it.
    ///
    /// # Errors
    /// [`ServerMismatch`].
    pub fn target(&self, offered: &OfferedName, host: &str) -> Result<Target, ServerMismatch> {
        let found = format!("{}/{}", offered.service, offered.host);
        let other = |expected: &str| ServerMismatch::Other {
            found: found.clone(),
            expected: expected.to_owned(),
        };
        match self {
            Self::Exact(configured) => {
                let expected = with_host(configured, host);
                let (name, _realm) = split_realm(&expected);
                if !name.contains('/') {
                    let configured = configured.clone();
                    return Err(ServerMismatch::Configured { configured });
                }
                if name == found {
                    Ok(Target::Principal(expected))
                } else {
                    Err(other(&expected))
                }
            }
            Self::Pattern(pattern) => {
                let (name, realm) = split_realm(pattern);
                let has_parts_of_its_own = found.matches(['/', '@']).count() > 1;
                if has_parts_of_its_own || !matches(name.as_bytes(), found.as_bytes()) {
                    return Err(other(pattern));
                }
                Ok(match realm {
                    None | Some("*") => Target::Service(offered.clone()),
                    Some(realm) => Target::Principal(format!("{found}@{realm}")),
                })
            }
        }
    }
}

/// Replaces `_HOST`, if it is the whole second of a principal's three parts, by a host's name in
/// lower case.
#[must_use]
pub fn with_host(principal: &str, host: &str) -> String {
    let (name, realm) = split_realm(principal);
    match (name.split_once('/'), realm) {
        (Some((service, HOST_PATTERN)), Some(realm)) => {
            format!("{service}/{}@{realm}", host.to_ascii_lowercase())
        }
        (Some(_) | None, _) => principal.to_owned(),
    }
}

fn split_realm(principal: &str) -> (&str, Option<&str>) {
    match principal.rsplit_once('@') {
        Some((name, realm)) => (name, Some(realm)),
        None => (principal, None),
    }
}

/// Returns whether a pattern of `*` and `?` covers a whole text. Takes as many steps as the product
/// of both lengths at most.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at_pattern, mut at_text) = (0, 0);
    // The last star, and the text that it has taken.
    let mut star = None;
    while let Some(byte) = text.get(at_text) {
        match pattern.get(at_pattern) {
            Some(b'*') => {
                star = Some((at_pattern, at_text));
                at_pattern += 1;
            }
            Some(one) if *one == b'?' || one == byte => {
                at_pattern += 1;
                at_text += 1;
            }
            Some(_) | None => {
                let Some((behind, taken)) = star else {
                    return false;
                };
                star = Some((behind, taken + 1));
                at_pattern = behind + 1;
                at_text = taken + 1;
            }
        }
    }
    pattern[at_pattern..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A library whose threads are kept by a silent KDC.
    #[derive(Default)]
    struct Stuck(Mutex<Vec<Box<dyn FnOnce() + Send>>>);

    impl fmt::Debug for Stuck {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Stuck")
        }
    }

    impl KerberosLibrary for Stuck {
        fn submit(&self, work: Box<dyn FnOnce() + Send>) -> Result<(), GssError> {
            self.0.lock().unwrap().push(work);
            Ok(())
        }

        fn canonical_host(&self, address: IpAddr) -> String {
            address.to_string()
        }

        fn begin(&self, _: &Target) -> Result<Box<dyn GssContext>, GssError> {
            Err(GssError("not asked".to_owned()))
        }

        fn refused(&self) {}
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_a_silent_kdc_keeps_is_given_up_and_its_late_end_harms_nobody() {
        let stuck = Arc::new(Stuck::default());
        let library = Arc::clone(&stuck) as Arc<dyn KerberosLibrary>;
        let begun = tokio::time::Instant::now();
        let given_up = run(&library, |_| Ok(())).await.unwrap_err();
        assert!(
            given_up.0.contains("gives no answer within 30s"),
            "{given_up}"
        );
        assert_eq!(begun.elapsed(), LIBRARY_TIMEOUT);
        let late = std::mem::take(&mut *stuck.0.lock().unwrap());
        late.into_iter().for_each(|work| work());
        // One that panics on its thread drops its end.
        let asked = run(&library, |_| Ok(()));
        let panicked = async { drop(std::mem::take(&mut *stuck.0.lock().unwrap())) };
        let (given_up, ()) = tokio::join!(asked, panicked);
        assert!(given_up.unwrap_err().0.contains("has panicked"));
    }

    fn offered(service: &str, host: &str) -> OfferedName {
        OfferedName {
            service: service.to_owned(),
            host: host.to_owned(),
        }
    }

    #[test]
    fn the_host_is_replaced_only_as_a_whole_part_of_a_whole_principal() {
        assert_eq!(with_host("nm/_HOST@R", "Node.Example"), "nm/node.example@R");
        for other in [
            "nm/_HOST",
            "nm/_HOSTS@R",
            "nm/a_HOST@R",
            "nm@R",
            "nm/x/_HOST@R",
        ] {
            assert_eq!(with_host(other, "node"), other);
        }
    }

    #[test]
    fn a_server_must_have_the_configured_service_and_the_name_of_its_address() {
        let rm = ServerPrincipal::Exact("rm/_HOST@R".to_owned());
        let target = rm.target(&offered("rm", "one"), "one");
        assert_eq!(target, Ok(Target::Principal("rm/one@R".to_owned())));
        // Another ResourceManager of a pair has a principal of its own.
        let target = rm.target(&offered("rm", "two"), "two");
        assert_eq!(target, Ok(Target::Principal("rm/two@R".to_owned())));
        for (service, host) in [("rm", "two"), ("nm", "one"), ("rm", "ONE"), ("rm", "")] {
            let refused = rm.target(&offered(service, host), "one").unwrap_err();
            let text = refused.to_string();
            assert!(text.contains("expecting: rm/one@R"), "{text}");
        }
        let alone = ServerPrincipal::Exact("rm@R".to_owned());
        assert!(matches!(
            alone.target(&offered("rm", "one"), "one"),
            Err(ServerMismatch::Configured { .. })
        ));
    }

    #[test]
    fn a_pattern_covers_the_whole_name_and_never_lets_a_server_choose_its_realm() {
        let of = |pattern: &str| ServerPrincipal::Pattern(pattern.to_owned());
        let rm = offered("rm", "one.example");
        let target = of("rm/*.example@R").target(&rm, "");
        assert_eq!(target, Ok(Target::Principal("rm/one.example@R".to_owned())));
        for any in ["*", "rm/*@*", "rm/on?.example"] {
            assert_eq!(of(any).target(&rm, ""), Ok(Target::Service(rm.clone())));
        }
        for other in ["rm/*.exampl@R", "m/*@R", "rm/?@R", "nn/*@*", ""] {
            assert!(of(other).target(&rm, "").is_err(), "{other}");
        }
        let forged = offered("rm", "evil@R/one.example");
        assert!(of("rm/*@R").target(&forged, "").is_err());
    }
}
