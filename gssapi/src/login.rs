//! The login of one client: a credential for each connection, and when a KDC may be asked for it.
//!
//! A credential is acquired anew for each connection. The library then answers from the tickets of
//! this login until half of their life is over. Its KDC is asked more often only after a failure
//! or a refusal of a server, and then not more often than the configuration says. A held credential
//! would end with its ticket; a keytab that was replaced is read at the next login.

use std::ffi::{CString, NulError};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use wire::gssapi::{GssContext, GssError};
use wire::kerberos::{KerberosLibrary, OfferedName, Target};

use crate::context::Initiator;
use crate::keytab::{KeytabEntry, read_keytab};
use crate::library::{Credential, HOST_BASED_SERVICE, Library, LoadError, PRINCIPAL_NAME};
use crate::names;
use crate::workers::Workers;

/// Difference by which the end of a ticket must have moved for another login: the library rounds
/// to seconds.
const ROUNDING: Duration = Duration::from_secs(5);

/// Principal, key, and patience.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginConfig {
    /// Principal in full, without `_HOST`.
    pub principal: String,
    /// File with the principal's key.
    pub keytab: PathBuf,
    /// Shortest time between two logins that a failure leads to
    /// (`hadoop.kerberos.min.seconds.before.relogin`).
    pub relogin_after: Duration,
}

/// Reason for which there is no login at all.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No library.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// No threads.
    #[error("threads for the Kerberos library cannot be started")]
    Threads(#[from] io::Error),
    /// A name with a byte 0.
    #[error("a keytab's path has a byte 0")]
    Path(#[from] NulError),
}

/// State of a login, for people and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginStatus {
    /// Time since the last login that succeeded; `None` before the first.
    pub last_good: Option<Duration>,
    /// Whether the last one failed.
    pub is_failing: bool,
}

#[derive(Debug, Default)]
struct Status {
    /// Time of the last login that succeeded.
    last_good: Option<Instant>,
    /// Text of the last failure, if no login has succeeded since.
    failure: Option<String>,
}

#[derive(Debug, Default)]
struct Attempts {
    /// Time of the last login that may have asked a KDC because of a failure.
    last: Option<Instant>,
    /// End of the ticket, as far as known.
    good_until: Option<Instant>,
}

/// A client's login.
#[derive(Debug)]
pub struct Login {
    library: Library,
    workers: Workers,
    config: LoginConfig,
    keytab: CString,
    /// Cache of this login's tickets, in the process's memory.
    cache: CString,
    /// Held while a KDC is asked.
    attempts: Mutex<Attempts>,
    status: Mutex<Status>,
    /// A server has refused the tickets. Its own, since the one who sets it may not wait for a KDC.
    is_stale: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change leaves a whole value behind.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Login {
    /// Loads the library and starts its threads. No KDC is asked before the first connection.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(config: LoginConfig) -> Result<Self, StartError> {
        static LOGINS: AtomicU64 = AtomicU64::new(0);
        let number = LOGINS.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            library: Library::load()?,
            workers: Workers::start()?,
            keytab: CString::new(format!("FILE:{}", config.keytab.display()))?,
            cache: CString::new(format!("MEMORY:nm-agent-{number}"))?,
            config,
            attempts: Mutex::default(),
            status: Mutex::default(),
            is_stale: AtomicBool::new(false),
        })
    }

    /// Returns the state of the login; never waits for a KDC.
    #[must_use]
    pub fn status(&self) -> LoginStatus {
        let status = lock(&self.status);
        LoginStatus {
            last_good: status.last_good.map(|at| at.elapsed()),
            is_failing: status.failure.is_some(),
        }
    }

    /// Logs in, or finds that the tickets are still good. May wait for a KDC.
    ///
    /// # Errors
    /// [`GssError`].
    pub fn log_in(&self) -> Result<(), GssError> {
        self.acquire().map(drop)
    }

    /// Returns the end of a sentence on a failure, if the keytab is not one for the principal. The
    /// library would say that there is no cache.
    fn keytab_defect(&self) -> Option<String> {
        match read_keytab(&self.config.keytab) {
            Err(error) => Some(format!("; the keytab: {error}")),
            Ok(entries) => {
                let is_own = |entry: &KeytabEntry| entry.principal == self.config.principal;
                let lacks = !entries.iter().any(is_own);
                lacks.then(|| "; the keytab has no key of this principal".to_owned())
            }
        }
    }

    /// Acquires the credential, from tickets or from a KDC.
    fn acquire(&self) -> Result<Credential, GssError> {
        let mut attempts = lock(&self.attempts);
        let now = Instant::now();
        let failure = lock(&self.status).failure.clone();
        let may_ask = attempts
            .last
            .is_none_or(|last| now.duration_since(last) >= self.config.relogin_after);
        if !may_ask && let Some(failure) = failure {
            let limit = self.config.relogin_after;
            return Err(GssError(format!(
                "{failure} (asked again {limit:?} after the last time)"
            )));
        }
        let is_due = attempts.good_until.is_none_or(|until| until <= now);
        if may_ask && (self.is_stale.swap(false, Ordering::Relaxed) || is_due) {
            attempts.last = Some(now);
            self.library.destroy_cache(&self.cache);
        }
        let principal = &self.config.principal;
        let acquired = self
            .library
            .name(principal, PRINCIPAL_NAME)
            .and_then(|name| Credential::acquire(self.library, &name, &self.keytab, &self.cache));
        match acquired {
            Ok(credential) => {
                let lifetime = Duration::from_secs(credential.lifetime_s.into());
                self.succeeded(&mut attempts, now, lifetime);
                Ok(credential)
            }
            Err(error) => {
                attempts.last = Some(now);
                attempts.good_until = None;
                Err(self.failed(&error))
            }
        }
    }

    fn succeeded(&self, attempts: &mut Attempts, now: Instant, lifetime: Duration) {
        let until = now.checked_add(lifetime);
        let is_new = match (attempts.good_until, until) {
            (Some(known), Some(until)) => until > known + ROUNDING,
            (None, _) | (_, None) => true,
        };
        attempts.good_until = until;
        let mut status = lock(&self.status);
        let was_failing = status.failure.take().is_some();
        if is_new {
            let is_first = status.last_good.is_none();
            status.last_good = Some(now);
            let principal = &self.config.principal;
            if is_first || was_failing {
                tracing::info!(%principal, ticket_s = lifetime.as_secs(), "logged in to Kerberos");
            } else {
                tracing::debug!(%principal, ticket_s = lifetime.as_secs(), "logged in again");
            }
        }
    }

    fn failed(&self, error: &GssError) -> GssError {
        // The library's own text names neither.
        let text = format!(
            "no Kerberos login of {} by keytab {}: {error}{}",
            self.config.principal,
            self.config.keytab.display(),
            self.keytab_defect().unwrap_or_default()
        );
        let mut status = lock(&self.status);
        if status.failure.is_none() {
            tracing::warn!("{text}");
        }
        status.failure = Some(text.clone());
        GssError(text)
    }
}

impl Drop for Login {
    fn drop(&mut self) {
        self.library.destroy_cache(&self.cache);
    }
}

impl KerberosLibrary for Login {
    fn submit(&self, work: Box<dyn FnOnce() + Send>) -> Result<(), GssError> {
        self.workers.submit(work)
    }

    fn canonical_host(&self, address: IpAddr) -> String {
        names::canonical_host(address)
    }

    fn begin(&self, target: &Target) -> Result<Box<dyn GssContext>, GssError> {
        let credential = self.acquire()?;
        let name = match target {
            Target::Principal(principal) => self.library.name(principal, PRINCIPAL_NAME)?,
            Target::Service(OfferedName { service, host }) => {
                let text = format!("{service}@{host}");
                self.library.name(&text, HOST_BASED_SERVICE)?
            }
        };
        let context = Initiator::new(self.library, credential, name);
        Ok(Box::new(context))
    }

    fn refused(&self) {
        self.is_stale.store(true, Ordering::Relaxed);
    }
}
