//! Addresses of the names in lists, asked of the system within a time limit.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use dns_lookup::LookupErrorKind;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

/// How long an answer of the name service holds.
const REMEMBERED: Duration = Duration::from_secs(60);
/// How long a caller waits for the name service.
const LOOK_UP_WAIT: Duration = Duration::from_secs(5);
/// Threads that may wait for the name service.
const LOOK_UPS_MAX: usize = 4;

/// Source that a look-up asks: the system, or a test's own names. Returns `None` if it has no
/// answer at the moment. Blocks.
type LookUp = fn(&str) -> Option<Vec<IpAddr>>;

/// Addresses of names, remembered for a minute. Names are those of the configuration, so that their
/// number is bounded.
#[derive(Debug)]
pub(crate) struct Names {
    look_up: LookUp,
    known: Mutex<HashMap<String, (Instant, Vec<IpAddr>)>>,
    threads: Arc<Semaphore>,
}

impl Default for Names {
    fn default() -> Self {
        Self::by(addresses_of_system)
    }
}

impl Names {
    pub(crate) fn by(look_up: LookUp) -> Self {
        Self {
            look_up,
            known: Mutex::default(),
            threads: Arc::new(Semaphore::new(LOOK_UPS_MAX)),
        }
    }

    /// Returns the addresses of a name, none if it does not exist; `None` if the name service does
    /// not tell within five seconds.
    pub(crate) async fn addresses(&self, name: &str) -> Option<Vec<IpAddr>> {
        if let Some(addresses) = self.remembered(name).await {
            return Some(addresses);
        }
        let Ok(found) = timeout(LOOK_UP_WAIT, self.ask(name)).await else {
            tracing::warn!(
                name,
                "the name service does not tell the addresses of a host"
            );
            return None;
        };
        found
    }

    /// Forgets all names.
    pub(crate) async fn forget(&self) {
        self.known.lock().await.clear();
    }

    async fn remembered(&self, name: &str) -> Option<Vec<IpAddr>> {
        let known = self.known.lock().await;
        let (at, addresses) = known.get(name)?;
        (at.elapsed() < REMEMBERED).then(|| addresses.clone())
    }

    async fn ask(&self, name: &str) -> Option<Vec<IpAddr>> {
        let permit = Arc::clone(&self.threads).acquire_owned().await.ok()?;
        // Whoever had the thread before may have asked the same.
        if let Some(addresses) = self.remembered(name).await {
            return Some(addresses);
        }
        let (look_up, asked) = (self.look_up, name.to_owned());
        // The thread keeps its permit for as long as the system takes, whoever waits.
        let asking = spawn_blocking(move || {
            let _permit = permit;
            look_up(&asked)
        });
        let addresses = asking.await.ok()??;
        let answer = (Instant::now(), addresses.clone());
        self.known.lock().await.insert(name.to_owned(), answer);
        Some(addresses)
    }
}

/// Returns the addresses of a name by the system's own rules (`getaddrinfo(3)`).
fn addresses_of_system(name: &str) -> Option<Vec<IpAddr>> {
    match dns_lookup::lookup_host(name) {
        Ok(addresses) => Some(addresses.collect()),
        Err(error) => {
            let is_told = matches!(
                error.kind(),
                LookupErrorKind::NoName | LookupErrorKind::NoData
            );
            is_told.then(Vec::new)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn the_system_knows_this_machine_and_no_name_that_cannot_be() {
        let names = Names::default();
        let found = names.addresses("localhost").await.expect("an answer");
        assert!(found.iter().any(IpAddr::is_loopback), "{found:?}");
        // A name with a zero byte is none that the system can be asked for.
        assert_ne!(names.addresses("a\0b").await, Some(found));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_remembered_and_no_answer_is_not() {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        let names = Names::by(|name| {
            ASKED.fetch_add(1, Ordering::Relaxed);
            (name == "known").then(|| vec![Ipv4Addr::LOCALHOST.into()])
        });
        for _ in 0..3 {
            assert!(names.addresses("known").await.is_some());
        }
        assert_eq!(ASKED.load(Ordering::Relaxed), 1);
        tokio::time::advance(REMEMBERED).await;
        names.addresses("known").await;
        assert_eq!(ASKED.load(Ordering::Relaxed), 2);
        for _ in 0..2 {
            assert_eq!(names.addresses("unanswered").await, None);
        }
        assert_eq!(ASKED.load(Ordering::Relaxed), 4);
    }
}
