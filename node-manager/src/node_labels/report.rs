//! When labels or attributes are sent, and what the ResourceManager makes of them (Hadoop:
//! `NodeStatusUpdaterImpl.CachedNodeDescriptorHandler`). Pure but for the log.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::value::Described;

/// Answer of the ResourceManager to what the node says of itself.
#[derive(Debug)]
pub(super) struct Verdict<'a> {
    /// Whether the ResourceManager took it.
    pub(super) is_accepted: bool,
    /// Text of the ResourceManager; may be empty.
    pub(super) diagnostics: &'a str,
}

/// Newest labels or attributes, and what the ResourceManager knows of them.
#[derive(Debug)]
pub(super) struct Report<T> {
    /// The provider's newest value; `None` before the first.
    newest: watch::Receiver<Option<T>>,
    /// Interval at which a value is sent again that has not changed.
    resync_interval: Duration,
    /// Value of the call under way.
    sent: Option<T>,
    /// Value that the ResourceManager has answered last, and when.
    answered: Option<(T, Instant)>,
}

impl<T: Described> Report<T> {
    pub(super) const fn new(newest: watch::Receiver<Option<T>>, resync_interval: Duration) -> Self {
        Self {
            newest,
            resync_interval,
            sent: None,
            answered: None,
        }
    }

    /// Returns the provider's newest value.
    #[cfg(test)]
    pub(super) const fn newest(&self) -> &watch::Receiver<Option<T>> {
        &self.newest
    }

    /// Waits for the provider's first value; for ever if the provider has ended.
    pub(super) async fn wait_first(&mut self) {
        if self.newest.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns what a registration says; `None` leaves the ResourceManager with what it knows.
    pub(super) fn for_registration(&mut self) -> Option<T> {
        self.sent = self.newest.borrow().clone();
        self.sent.clone()
    }

    /// Returns what a heartbeat says; `None` if nothing has changed and nothing is due again. A
    /// value that was sent with a lost heartbeat is sent again.
    pub(super) fn for_heartbeat(&mut self, now: Instant) -> Option<T> {
        let newest = self.newest.borrow();
        let is_due = match (&*newest, &self.answered) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(newest), Some((answered, at))) => {
                newest != answered || now.duration_since(*at) > self.resync_interval
            }
        };
        self.sent = newest.as_ref().filter(|_| is_due).cloned();
        self.sent.clone()
    }

    /// Takes the answer to the last registration or heartbeat, and logs a verdict that is new.
    pub(super) fn answered(&mut self, verdict: &Verdict<'_>, now: Instant) {
        let Some(sent) = self.sent.take() else {
            return;
        };
        if !verdict.is_accepted {
            tracing::error!(
                sent = %sent,
                diagnostics = refusals::cut(verdict.diagnostics),
                "the ResourceManager does not accept the {}", T::WHAT
            );
        } else if self
            .answered
            .as_ref()
            .is_none_or(|(before, _)| *before != sent)
        {
            tracing::info!(sent = %sent, "the ResourceManager accepts the {}", T::WHAT);
        }
        self.answered = Some((sent, now));
    }
}

#[cfg(test)]
mod tests {
    use super::super::value::NodeLabels;
    use super::*;

    const RESYNC: Duration = Duration::from_secs(120);
    const TAKEN: Verdict<'_> = Verdict {
        is_accepted: true,
        diagnostics: "",
    };

    fn labels(name: &str) -> NodeLabels {
        NodeLabels::from_property(name).unwrap()
    }

    /// Returns a report whose provider has this value, and the provider's end.
    fn report(first: Option<&str>) -> (watch::Sender<Option<NodeLabels>>, Report<NodeLabels>) {
        let (sender, newest) = watch::channel(first.map(labels));
        (sender, Report::new(newest, RESYNC))
    }

    #[test]
    fn nothing_is_said_before_the_first_value() {
        let now = Instant::now();
        let (sender, mut report) = report(None);
        assert_eq!(report.for_registration(), None);
        report.answered(&TAKEN, now);
        assert_eq!(report.for_heartbeat(now), None);
        sender.send_replace(Some(labels("")));
        assert_eq!(report.for_heartbeat(now), Some(labels("")));
    }

    #[test]
    fn a_value_is_sent_once_until_it_changes_or_the_interval_is_over() {
        let now = Instant::now();
        let (sender, mut report) = report(Some("a"));
        assert_eq!(report.for_registration(), Some(labels("a")));
        report.answered(&TAKEN, now);
        assert_eq!(report.for_heartbeat(now + RESYNC), None);
        sender.send_replace(Some(labels("b")));
        assert_eq!(report.for_heartbeat(now), Some(labels("b")));
        report.answered(&TAKEN, now);
        assert_eq!(report.for_heartbeat(now), None);
        let later = now + RESYNC + Duration::from_millis(1);
        assert_eq!(report.for_heartbeat(later), Some(labels("b")));
        report.answered(&TAKEN, later);
        assert_eq!(report.for_heartbeat(later), None);
    }

    #[test]
    fn a_lost_heartbeat_is_made_up_for_and_a_refusal_is_not() {
        let now = Instant::now();
        let (sender, mut report) = report(Some("a"));
        let _ = report.for_registration();
        report.answered(&TAKEN, now);
        sender.send_replace(Some(labels("b")));
        assert_eq!(report.for_heartbeat(now), Some(labels("b")));
        assert_eq!(report.for_heartbeat(now), Some(labels("b")));
        let refused = Verdict {
            is_accepted: false,
            diagnostics: "no",
        };
        report.answered(&refused, now);
        assert_eq!(report.for_heartbeat(now), None);
    }

    #[test]
    fn every_registration_says_it_again() {
        let now = Instant::now();
        let (_sender, mut report) = report(Some("a"));
        let _ = report.for_registration();
        report.answered(&TAKEN, now);
        assert_eq!(report.for_registration(), Some(labels("a")));
    }
}
