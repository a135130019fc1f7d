//! Claims about back-pressure: full queues make senders wait, hold a bounded number of entries, and
//! cannot block the two directions against each other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use container_runtime::launch::LaunchEvent;
use node_core::StartOutcome;
use records::{ContainerExitStatus, ContainerId};
use test_support::ids::container;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::*;
use crate::core_fixture::{RM_IDENTIFIER, asker, core_that_uploads, core_with, request};
use crate::worker_channels::{self, EVENTS_MAX, WorkerSenders};

/// Functions perform effects, and answer nothing that is not one.
impl<F: FnMut(Effect) -> Option<WorkerEvent> + Send> Perform for F {
    fn perform(&mut self, effect: Effect) -> Option<WorkerEvent> {
        self(effect)
    }

    fn answer_localization(&mut self, _: LocalizationQuery) {}
}

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
        let (senders, events) = worker_channels::channels();
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
        let perform = Box::new(|_: Effect| None);
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

/// What a worker reports at the end of the agent is often half of a work: the core orders the rest.
/// Repeated, because a task that leaves something takes one of two ways at random.
#[tokio::test]
async fn what_was_reported_before_the_last_handle_went_is_handled() {
    for _ in 0..32 {
        let Waiting {
            handle,
            senders,
            inbox,
            events,
        } = Waiting::new();
        let (deleted, deletions) = std::sync::mpsc::channel();
        let perform = Box::new(move |effect: Effect| {
            if let Effect::DeleteLogs(id) = effect {
                deleted.send(id).unwrap();
            }
            None
        });
        let (core, application) = core_that_uploads();
        let outcome = log_aggregation::Outcome {
            application,
            result: Ok(log_aggregation::upload::Uploaded::default()),
            is_last: true,
        };
        senders.logs.send(outcome).await.unwrap();
        drop(handle);
        run(core, perform, inbox, events, Clock::start()).await;
        assert_eq!(deletions.try_recv(), Ok(application));
    }
}

/// Answers each launch with a failure, over the channel that another thread keeps full.
fn failing_launcher(
    launches: mpsc::Sender<LaunchEvent>,
) -> (std::sync::mpsc::Sender<ContainerId>, thread::JoinHandle<()>) {
    let (orders, ordered) = std::sync::mpsc::channel();
    let launcher = thread::spawn(move || {
        for id in ordered {
            let failed = LaunchEvent::LaunchFailed {
                id,
                status: ContainerExitStatus::LAUNCH_FAILED,
                diagnostics: String::new(),
                is_of_node: false,
            };
            launches.blocking_send(failed).unwrap();
        }
    });
    (orders, launcher)
}

/// Callers and workers keep both channels full, while each start makes the core order work from a
/// worker that waits for the core. If the core waited for a worker, this test would never end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_from_callers_and_workers_at_once_ends() {
    let Waiting {
        handle,
        senders,
        inbox,
        events,
    } = Waiting::new();
    let (orders, launcher) = failing_launcher(senders.launches.clone());
    let perform = Box::new(move |effect: Effect| {
        if let Effect::Launch(order) = effect {
            orders.send(order.spec.id).unwrap();
        }
        None
    });
    let core = core_with(&Arc::default());
    tokio::spawn(run(core, perform, inbox, events, Clock::start()));
    let registered = |core: &mut Core, now| core.registered(RM_IDENTIFIER, None, now);
    handle.run(registered).await.unwrap();
    let noise = thread::spawn(move || {
        for _ in 0..4 * EVENTS_MAX {
            let event = LaunchEvent::ProcessesGone(container(-1));
            senders.launches.blocking_send(event).unwrap();
        }
    });
    let mut callers = JoinSet::new();
    for n in 1..=2 * i64::try_from(JOBS_MAX).unwrap() {
        let handle = handle.clone();
        let start = move |core: &mut Core, now| core.start(asker(), request(n), now);
        callers.spawn(async move { handle.run(start).await });
    }
    let ended = timeout(Duration::from_secs(60), async {
        while let Some(result) = callers.join_next().await {
            assert!(matches!(result.unwrap(), Ok(StartOutcome::Started)));
        }
        while handle.run(|core, _| core.live_containers()).await.unwrap() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::task::spawn_blocking(|| noise.join().unwrap())
            .await
            .unwrap();
    });
    assert!(ended.await.is_ok(), "callers or workers wait for ever");
    // The core ends with its last handle, and the launcher with the core's performer.
    drop(handle);
    tokio::task::spawn_blocking(|| launcher.join().unwrap())
        .await
        .unwrap();
}
