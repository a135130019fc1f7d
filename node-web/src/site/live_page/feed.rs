//! Server-sent events: one document after each change, the same bytes for all who follow.
//!
//! Without followers, none is made. An event that a follower has not taken is replaced by a
//! newer one, so that a slow follower holds one event. The server closes the connection of one that
//! takes nothing at all.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use time::UtcOffset;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::document;
use crate::overview::Overview;
use crate::source::NodeSource;

/// Open streams. Each holds a connection as long as its reader watches; most connections are left
/// for single requests.
const FOLLOWERS_MAX: usize = 16;
/// Least time between two events: what the eye follows, and a bound on what a busy node spends on
/// its watchers.
const EVENT_GAP: Duration = Duration::from_millis(250);
/// A stream without events gets a comment this often, so that proxies keep it and a dead client is
/// noticed.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_COMMENT: &[u8] = b":\n\n";
/// How long a browser waits before it opens a broken stream again.
const RETRY_MS: u64 = 2_000;

/// Everybody who can follow does already.
#[derive(Clone, Copy, Debug)]
pub(in crate::site) struct NoSlot;

/// Source of followers' events.
#[derive(Debug)]
pub(in crate::site) struct Feed {
    events: watch::Sender<Bytes>,
    slots: Arc<Semaphore>,
    joined: Notify,
    ended: CancellationToken,
}

impl Feed {
    pub(in crate::site) fn new() -> Self {
        Self {
            events: watch::Sender::new(Bytes::new()),
            slots: Arc::new(Semaphore::new(FOLLOWERS_MAX)),
            joined: Notify::new(),
            ended: CancellationToken::new(),
        }
    }

    /// Makes an event after each change while there are followers, until `shutdown`; then ends
    /// all streams.
    pub(in crate::site) async fn run<S: NodeSource>(
        &self,
        source: &S,
        offset: UtcOffset,
        shutdown: CancellationToken,
    ) {
        let _end = self.ended.clone().drop_guard();
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.publish(source, offset) => {}
        }
    }

    async fn publish<S: NodeSource>(&self, source: &S, offset: UtcOffset) {
        loop {
            while self.events.receiver_count() == 0 {
                self.joined.notified().await;
            }
            if self.publish_to_followers(source, offset).await.is_none() {
                return;
            }
        }
    }

    /// Makes events until there are no followers; `None` when nothing will change any more.
    async fn publish_to_followers<S: NodeSource>(
        &self,
        source: &S,
        offset: UtcOffset,
    ) -> Option<()> {
        let mut changes = source.changes();
        let mut last = None;
        // The first look is for changes between the newcomer's own document and this
        // moment.
        while self.events.receiver_count() > 0 {
            let overview = source.overview().await?;
            // Heartbeats and the like are changes to the core and not to what is shown.
            if last.as_ref().is_none_or(|last| overview.differs_from(last)) {
                self.events.send_replace(event(&overview, offset));
                last = Some(overview);
            }
            sleep(EVENT_GAP).await;
            tokio::select! {
                changed = changes.next() => changed?,
                () = self.events.closed() => {}
            }
        }
        Some(())
    }

    /// A place among the followers.
    pub(in crate::site) fn join(&self) -> Result<Place, NoSlot> {
        let slot = Arc::clone(&self.slots).try_acquire_owned();
        let slot = slot.map_err(|_| NoSlot)?;
        let events = self.events.subscribe();
        self.joined.notify_one();
        Ok(Place {
            events,
            ended: self.ended.clone(),
            _slot: slot,
        })
    }
}

/// Returns an overview as an event.
fn event(overview: &Overview, offset: UtcOffset) -> Bytes {
    let document = document::text(overview, offset);
    format!("retry: {RETRY_MS}\ndata: {document}\n\n").into()
}

/// A follower that has got nothing yet.
#[derive(Debug)]
pub(in crate::site) struct Place {
    events: watch::Receiver<Bytes>,
    ended: CancellationToken,
    _slot: OwnedSemaphorePermit,
}

impl Place {
    /// The follower's stream. It begins with `first`, taken after the place: so no change falls
    /// between the two.
    pub(in crate::site) fn stream(self, first: &Overview, offset: UtcOffset) -> Events {
        let first = event(first, offset);
        Events {
            next: Box::pin(async move { (Some(first), self) }),
        }
    }

    /// Waits for the next event; `None` at the end.
    async fn next(mut self) -> (Option<Bytes>, Self) {
        let next = tokio::select! {
            biased;
            () = self.ended.cancelled() => None,
            changed = self.events.changed() => changed.is_ok().then(|| self.events.borrow_and_update().clone()),
            () = sleep(KEEPALIVE) => Some(Bytes::from_static(KEEPALIVE_COMMENT)),
        };
        (next, self)
    }
}

/// A follower's stream of events.
pub(in crate::site) struct Events {
    next: Pin<Box<dyn Future<Output = (Option<Bytes>, Place)> + Send>>,
}

impl Events {
    /// The next event; `None` at the end, after which it must not be asked again.
    pub(in crate::site) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let (event, place) = ready!(self.next.as_mut().poll(cx));
        if event.is_some() {
            self.next = Box::pin(place.next());
        }
        Poll::Ready(event)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}
