//! Pages that follow the node.

use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;

struct Lab {
    source: Arc<Changing>,
    feed: Arc<Feed>,
    shutdown: CancellationToken,
    run: JoinHandle<()>,
}

impl Lab {
    fn start() -> Self {
        let source = Arc::new(Changing::new());
        let feed = Arc::new(Feed::new());
        let shutdown = CancellationToken::new();
        let run = tokio::spawn({
            let (source, feed, shutdown) = (source.clone(), feed.clone(), shutdown.clone());
            async move { feed.run(&*source, UTC, shutdown).await }
        });
        Self {
            source,
            feed,
            shutdown,
            run,
        }
    }

    fn follow(&self) -> Events {
        let place = self.feed.join().unwrap();
        place.stream(&self.source.view.lock().unwrap(), UTC)
    }

    fn wait(&self, waiting: u32) {
        self.source
            .change(|view| view.node.numbers.counts.waiting = waiting);
    }
}

async fn next(events: &mut Events) -> Option<Bytes> {
    std::future::poll_fn(|cx| events.poll_next(cx)).await
}

/// Returns the queue's length in the next event; `None` for a comment.
async fn next_waiting(events: &mut Events) -> Option<u64> {
    let event = next(events).await.unwrap();
    let event = std::str::from_utf8(&event).unwrap();
    assert!(event.ends_with("\n\n"), "{event:?}");
    let (_, data) = event.split_once("\ndata: ")?;
    let document: serde_json::Value = serde_json::from_str(data.trim_end()).unwrap();
    document["queue"]["length"].as_u64()
}

#[tokio::test(start_paused = true)]
async fn a_stream_begins_with_the_picture_and_goes_on_with_each_change() {
    let lab = Lab::start();
    let mut events = lab.follow();
    assert_eq!(next_waiting(&mut events).await, Some(2));
    lab.wait(5);
    assert_eq!(next_waiting(&mut events).await, Some(5));
    lab.wait(6);
    assert_eq!(next_waiting(&mut events).await, Some(6));
}

#[tokio::test(start_paused = true)]
async fn changes_in_a_burst_come_together_and_a_slow_follower_gets_only_the_newest() {
    let lab = Lab::start();
    let mut events = lab.follow();
    next(&mut events).await;
    lab.wait(10);
    assert_eq!(next_waiting(&mut events).await, Some(10));
    let begun = Instant::now();
    for waiting in 11..100 {
        lab.wait(waiting);
    }
    assert_eq!(next_waiting(&mut events).await, Some(99));
    assert!(
        begun.elapsed() >= Duration::from_millis(240),
        "{:?}",
        begun.elapsed()
    );
    for waiting in 100..110 {
        lab.wait(waiting);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(next_waiting(&mut events).await, Some(109));
}

#[tokio::test(start_paused = true)]
async fn without_a_change_there_is_only_a_comment_now_and_then() {
    let lab = Lab::start();
    let mut events = lab.follow();
    next(&mut events).await;
    lab.wait(3);
    next(&mut events).await;
    // A heartbeat changes the core's revision and nothing that is shown; time changes nothing.
    lab.source.change(|view| view.now.mono.0 += 60_000);
    let begun = Instant::now();
    assert_eq!(next_waiting(&mut events).await, None);
    assert_eq!(begun.elapsed().as_secs(), 15);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_server_ends_all_streams() {
    let lab = Lab::start();
    let mut events = lab.follow();
    next(&mut events).await;
    lab.shutdown.cancel();
    assert_eq!(next(&mut events).await, None);
    lab.run.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn followers_are_bounded_and_one_that_leaves_makes_room() {
    let lab = Lab::start();
    let mut all: Vec<Events> = std::iter::from_fn(|| {
        let place = lab.feed.join().ok()?;
        Some(place.stream(&lab.source.view.lock().unwrap(), UTC))
    })
    .take(100)
    .collect();
    assert_eq!(all.len(), 16);
    all.pop();
    assert!(lab.feed.join().is_ok());
}
