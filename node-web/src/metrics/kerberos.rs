//! Gauges of the node's login to Kerberos, read when scraped.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use prometheus::{Gauge, IntCounter, IntGauge};

use super::family::Maker;

/// State of a login.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoginReading {
    /// Time since the last login that worked; `None` before the first.
    pub age: Option<Duration>,
    /// Whether the last one failed.
    pub is_failing: bool,
}

type Read = dyn Fn() -> LoginReading + Send + Sync;

struct Watched {
    age: Gauge,
    failing: IntGauge,
    refused_credentials: IntCounter,
    read: Box<Read>,
}

/// See the help texts. There are no such series before [`watch`](Self::watch), in a cluster without
/// Kerberos.
#[derive(Default)]
pub(super) struct KerberosSeries(OnceLock<Watched>);

impl KerberosSeries {
    pub(super) fn watch(&self, maker: &Maker<'_>, read: Box<Read>) {
        self.0.get_or_init(|| Watched {
            age: maker.float_gauge(
                "nm_agent_kerberos_login_age_seconds",
                "Time since the node's last login to Kerberos that worked; NaN before the first. A \
                 login is made for a connection to the RM, and not by a timer.",
            ),
            failing: maker.gauge(
                "nm_agent_kerberos_login_failing",
                "1 while the node's last login to Kerberos has failed.",
            ),
            refused_credentials: maker.counter(
                "nm_agent_kerberos_refused_credentials_total",
                "Applications whose credentials the RM sent in a heartbeat's answer and the node did \
                 not take: too many bytes, or no credentials.",
            ),
            read,
        });
    }

    pub(super) fn count_refused_credentials(&self, applications: u64) {
        if let Some(watched) = self.0.get() {
            watched.refused_credentials.inc_by(applications);
        }
    }

    pub(super) fn refresh(&self) {
        let Some(watched) = self.0.get() else {
            return;
        };
        let now = (watched.read)();
        let age = now.age.map_or(f64::NAN, |age| age.as_secs_f64());
        watched.age.set(age);
        watched.failing.set(now.is_failing.into());
    }
}

impl fmt::Debug for KerberosSeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KerberosSeries").finish_non_exhaustive()
    }
}
