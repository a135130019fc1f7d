//! Claims about back-pressure: full queues make senders wait, hold a bounded number of entries, and
//! cannot block the two directions against each other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use container_runtime::launch::LaunchEvent;
use test_support::ids::container;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::*;
use crate::core::tests::{RM_IDENTIFIER, core_with};
use crate::worker_event::{self, EVENTS_MAX, WorkerSenders};

/// Senders of a core whose task has not been started yet.
struct Waiting {
    handle: Handle,
    senders: WorkerSenders,
    inbox: Inbox,
    events: WorkerEvents,
}

impl Waiting {
    fn new() -> Self {
        let (handle, inbox) = channel();
        let (senders, events) = worker_event::channels();
        Self {
            handle,
            senders,
            inbox,
            events,
        }
    }

    /// Starts the task with a performer that drops effects.
    fn start(self) -> (Handle, WorkerSenders) {
        let core = core_with(&Arc::default());
        let perform: Perform = Box::new(|_| None);
        tokio::spawn(run(core, perform, self.inbox, self.events, Clock::start()));
        (self.handle, self.senders)
    }
}

#[tokio::test]
async fn callers_of_a_core_with_a_full_queue_wait_and_lose_nothing() {
    let waiting = Waiting::new();
    let done = Arc::new(AtomicUsize::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..JOBS_MAX + 10 {
        let (handle, done) = (waiting.handle.clone(), Arc::clone(&done));
        callers.spawn(async move {
            let count = move |_: &mut Core, _| done.fetch_add(1, Ordering::Relaxed);
            handle.run(count).await
        });
    }
    // On a runtime of one thread each caller runs until it has to wait.
    while waiting.handle.jobs.capacity() > 0 {
        tokio::task::yield_now().await;
    }
    let one_more = waiting.handle.run(|_, _| ());
    assert!(timeout(Duration::from_millis(50), one_more).await.is_err());
    assert_eq!(
        waiting.inbox.jobs.len(),
        JOBS_MAX,
        "the others wait outside"
    );
    let _running = waiting.start();
    while let Some(result) = callers.join_next().await {
        assert!(result.unwrap().is_ok());
    }
    assert_eq!(done.load(Ordering::Relaxed), JOBS_MAX + 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_with_a_full_channel_waits_until_the_core_takes_its_events() {
    let waiting = Waiting::new();
    let launches = waiting.senders.launches.clone();
    let total = EVENTS_MAX + 100;
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let worker = thread::spawn(move || {
        for _ in 0..total {
            let event = LaunchEvent::ProcessesGone(container(1));
            launches.blocking_send(event).unwrap();
            counter.fetch_add(1, Ordering::SeqCst);
        }
    });
    while sent.load(Ordering::SeqCst) < EVENTS_MAX {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(sent.load(Ordering::SeqCst), EVENTS_MAX, "the worker waits");
    let _running = waiting.start();
    tokio::task::spawn_blocking(move || worker.join().unwrap())
        .await
        .unwrap();
    assert_eq!(sent.load(Ordering::SeqCst), total);
}

/// Each order that the core gives is answered by a worker over a full channel, while callers fill
/// the other: with a core that waited for its workers this would stand still.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_from_callers_and_workers_at_once_ends() {
    let waiting = Waiting::new();
    let (handle, senders) = (waiting.handle.clone(), waiting.senders.clone());
    let _running = waiting.start();
    let registered = |core: &mut Core, now| core.registered(RM_IDENTIFIER, None, now);
    handle.run(registered).await.unwrap();
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let launches = senders.launches.clone();
            thread::spawn(move || {
                for n in 0..3 * EVENTS_MAX {
                    let id = container(i64::try_from(n).unwrap());
                    let event = LaunchEvent::ProcessesGone(id);
                    launches.blocking_send(event).unwrap();
                }
            })
        })
        .collect();
    let mut callers = JoinSet::new();
    for _ in 0..3 * JOBS_MAX {
        let handle = handle.clone();
        callers.spawn(async move { handle.run(|core, now| core.heartbeat_report(now)).await });
    }
    let ended = timeout(Duration::from_secs(60), async {
        while let Some(result) = callers.join_next().await {
            assert!(result.unwrap().is_ok());
        }
        let joined = tokio::task::spawn_blocking(|| {
            workers
                .into_iter()
                .for_each(|worker| worker.join().unwrap());
        });
        joined.await.unwrap();
    });
    assert!(ended.await.is_ok(), "callers or workers wait for ever");
}
