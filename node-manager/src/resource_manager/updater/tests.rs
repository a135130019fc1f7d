//! Claims about the loop: a ResourceManager of a few lines, a real core whose effects are only
//! recorded, and a clock that jumps.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use container_runtime::launch::LaunchEvent;
use container_runtime::monitor::Sample;
use node_core::Effect;
use node_web::metrics::Metrics;
use records::{ContainerId, NodeId, Resource};
use test_support::ids::container as container_id;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::super::messages::NodeDescription;
use super::*;
use crate::clock::Clock;
use crate::config::MinimumVersion;
use crate::core_fixture::{asker, core_with, request};
use crate::core_task::{self, Handle};
use crate::node_labels::NodeReports;
use crate::secrets::NodeSecrets;
use crate::worker_channels::{self, WorkerSenders};

mod scripted_tracker;

use self::scripted_tracker::{Behaviour, Call, Rm, ScriptedTracker};

const INTERVAL: Duration = Duration::from_secs(1);

struct World {
    rm: Arc<Mutex<Rm>>,
    began: Instant,
    handle: Handle,
    workers: WorkerSenders,
    /// Containers whose launches were ordered, in the order of the effects.
    launches: Arc<Mutex<Vec<ContainerId>>>,
    stop: CancellationToken,
    updater: Option<NodeStatusUpdater<ScriptedTracker>>,
}

impl World {
    fn new(script: &[Behaviour]) -> Self {
        Self::with(script, 1, |_| {})
    }

    fn with(
        script: &[Behaviour],
        addresses: usize,
        change: impl FnOnce(&mut UpdaterConfig),
    ) -> Self {
        let began = Instant::now();
        let rm = Arc::new(Mutex::new(Rm {
            script: script.iter().cloned().collect(),
            ..Rm::default()
        }));
        let tracker = ScriptedTracker {
            rm: Arc::clone(&rm),
            began,
            addresses,
            response_id: 0,
        };
        let (workers, events) = worker_channels::channels();
        let (handle, inbox) = core_task::channel();
        let launches = Arc::<Mutex<Vec<ContainerId>>>::default();
        let ordered = Arc::clone(&launches);
        let perform = Box::new(move |effect: Effect| {
            if let Effect::Launch(order) = effect {
                let mut ordered = ordered.lock().unwrap_or_else(PoisonError::into_inner);
                ordered.push(order.spec.id);
            }
            None
        });
        let secrets = Arc::<NodeSecrets>::default();
        let core = core_with(&secrets);
        let clock = Clock::start();
        tokio::spawn(core_task::run(core, perform, inbox, events, clock));
        let mut config = UpdaterConfig {
            first_pause: Duration::ZERO,
            heartbeat_interval: INTERVAL,
            heartbeat_interval_max: Duration::from_secs(600),
            retry_interval: Duration::from_secs(30),
            give_up_after: Some(Duration::from_secs(900)),
            keep_containers_on_resync: true,
            minimum_version: MinimumVersion::None,
            kill_patience: Duration::from_secs(6),
        };
        change(&mut config);
        let stop = CancellationToken::new();
        let resource = Resource::new(8192, 8);
        let updater = NodeStatusUpdater::new(UpdaterParts {
            config,
            node: NodeDescription {
                node_id: NodeId {
                    host: "node1".to_owned(),
                    port: 8041,
                },
                http_port: 8042,
                capability: resource,
                physical: resource,
                version: "3.4.2".to_owned(),
            },
            tracker,
            handle: handle.clone(),
            secrets,
            metrics: Arc::new(Metrics::new()),
            heartbeat_now: Arc::default(),
            utilization: watch::channel(Sample::default()).1,
            node_reports: NodeReports::default(),
            clock,
            stop: stop.clone(),
        });
        Self {
            rm,
            began,
            handle,
            workers,
            launches,
            stop,
            updater: Some(updater),
        }
    }

    fn take_launches(&self) -> Vec<ContainerId> {
        std::mem::take(&mut *self.launches.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn spawn(&mut self) -> tokio::task::JoinHandle<Result<Ended, UpdaterError>> {
        let mut updater = self.updater.take().unwrap();
        tokio::spawn(async move { updater.run(|| ()).await })
    }

    fn rm(&self) -> std::sync::MutexGuard<'_, Rm> {
        self.rm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the calls since the last look, with their times.
    fn calls(&self) -> Vec<(Duration, Call)> {
        std::mem::take(&mut self.rm().calls)
    }

    async fn start_container(&self, n: i64) {
        let start = move |core: &mut Core, now| core.start_all(asker(), vec![request(n)], now);
        let outcomes = self.handle.run(start).await.unwrap();
        assert!(
            matches!(outcomes[..], [node_core::StartOutcome::Started]),
            "{outcomes:?}"
        );
        assert!(self.take_launches().contains(&container_id(n)));
    }

    fn exit(&self, n: i64) {
        let exited = LaunchEvent::Exited {
            id: container_id(n),
            status: records::ContainerExitStatus(0),
            cause: String::new(),
            diagnostics: String::new(),
        };
        self.workers.launches.try_send(exited).unwrap();
    }
}

fn heartbeats(calls: Vec<(Duration, Call)>) -> Vec<(i32, Vec<i64>)> {
    let beat = |(_, call)| match call {
        Call::Heartbeat(id, completed) => Some((id, completed)),
        Call::Register | Call::Unregister => None,
    };
    calls.into_iter().filter_map(beat).collect()
}

fn gaps(calls: &[(Duration, Call)]) -> Vec<Duration> {
    calls.windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
}

#[tokio::test(start_paused = true)]
async fn a_node_that_waits_for_its_rm_is_back_within_the_time_that_the_rm_waits() {
    let mut world = World::new(&[]);
    world.rm().always = Some(Behaviour::Refused);
    let running = world.spawn();
    sleep(Duration::from_secs(120)).await;
    let gaps = gaps(&world.calls());
    assert!(
        gaps.iter().all(|gap| *gap <= Duration::from_secs(6)),
        "{gaps:?}"
    );
    assert!(gaps.len() < 60, "and it is not hammered: {}", gaps.len());
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn lost_heartbeats_are_retried_with_the_same_response_id_and_growing_pauses() {
    let mut world = World::new(&[Behaviour::Normal, Behaviour::Normal]);
    let running = world.spawn();
    sleep(INTERVAL / 2).await;
    world.calls();
    world.rm().always = Some(Behaviour::Refused);
    sleep(Duration::from_secs(60)).await;
    let calls = world.calls();
    let pauses = gaps(&calls);
    assert!(
        pauses.iter().all(|gap| *gap <= Duration::from_secs(6)),
        "{pauses:?}"
    );
    assert!(pauses.len() >= 10 && pauses.len() <= 26, "{pauses:?}");
    assert!(heartbeats(calls).iter().all(|(id, _)| *id == 1));
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn the_standby_is_left_for_the_active_one_without_a_pause() {
    let mut world = World::with(&[Behaviour::Standby], 2, |_| {});
    let running = world.spawn();
    sleep(Duration::from_millis(1)).await;
    let calls = world.calls();
    assert_eq!(calls[1], (Duration::ZERO, Call::Register), "{calls:?}");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn patience_ends_with_the_last_failure() {
    let mut world = World::new(&[]);
    world.rm().always = Some(Behaviour::Refused);
    let ended = world.spawn().await.unwrap();
    assert!(
        matches!(ended, Err(UpdaterError::GaveUp { .. })),
        "{ended:?}"
    );
    let waited = world.began.elapsed();
    assert!(waited >= Duration::from_secs(900) && waited < Duration::from_secs(910));
}

#[tokio::test(start_paused = true)]
async fn an_rm_that_fails_heartbeats_is_asked_again_at_the_usual_interval() {
    let mut world = World::new(&[]);
    world.rm().script = VecDeque::from([Behaviour::Normal]);
    world.rm().always = Some(Behaviour::Exception);
    let running = world.spawn();
    sleep(Duration::from_secs(1000)).await;
    let count = world.calls().len();
    assert!((1000..=1003).contains(&count), "{count}");
    assert!(!running.is_finished());
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_completion_during_an_unanswered_heartbeat_outlives_its_repetition() {
    let mut world = World::new(&[]);
    let running = world.spawn();
    sleep(INTERVAL / 2).await;
    world.start_container(1).await;
    world.rm().script = VecDeque::from([Behaviour::AnswerLost]);
    sleep(INTERVAL).await;
    world.exit(1);
    world.calls();
    sleep(INTERVAL * 4).await;
    let reported = heartbeats(world.calls());
    // The first is a repetition for the RM, which does not look at it; the second is surely taken
    // in.
    assert_eq!(reported[0], (1, vec![1]), "{reported:?}");
    assert_eq!(reported[1], (2, vec![1]), "{reported:?}");
    assert_eq!(reported[2], (3, vec![]), "{reported:?}");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_resync_registers_at_once_and_endless_resyncs_are_paced() {
    let mut world = World::new(&[Behaviour::Normal, Behaviour::Normal, Behaviour::Resync]);
    let running = world.spawn();
    sleep(Duration::from_millis(1500)).await;
    let calls = world.calls();
    assert_eq!(calls[3].1, Call::Register, "{calls:?}");
    assert_eq!(calls[2].0, calls[3].0, "at once");
    assert_eq!(calls[4].1, Call::Heartbeat(0, vec![]), "{calls:?}");
    // As when another node has the same name.
    world.rm().always = Some(Behaviour::Resync);
    sleep(Duration::from_secs(60)).await;
    let registrations = world
        .calls()
        .iter()
        .filter(|(_, call)| *call == Call::Register)
        .count();
    assert!((10..40).contains(&registrations), "{registrations}");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_resync_that_keeps_nothing_registers_when_the_containers_have_ended() {
    let mut world = World::with(&[], 1, |config| config.keep_containers_on_resync = false);
    let running = world.spawn();
    sleep(INTERVAL / 2).await;
    world.start_container(1).await;
    world.rm().script = VecDeque::from([Behaviour::Resync]);
    sleep(INTERVAL * 2).await;
    let registered = |calls: &[(Duration, Call)]| calls.iter().any(|(_, c)| *c == Call::Register);
    let calls = world.calls();
    assert!(!registered(&calls[1..]), "{calls:?}");
    world.exit(1);
    sleep(INTERVAL).await;
    assert!(registered(&world.calls()));
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn stopping_sends_one_more_heartbeat_with_the_last_completions() {
    let mut world = World::new(&[]);
    let running = world.spawn();
    sleep(INTERVAL / 2).await;
    world.start_container(1).await;
    world.calls();
    world.exit(1);
    // The core takes the exit before it answers this.
    tokio::task::yield_now().await;
    let stop = |core: &mut Core, now| core.stop(now);
    world.handle.run_until_ended(stop).await.unwrap();
    world.stop.cancel();
    let ended = running.await.unwrap().unwrap();
    assert_eq!(ended, Ended::Stopping);
    assert_eq!(heartbeats(world.calls()), [(1, vec![1])]);
}

#[tokio::test(start_paused = true)]
async fn no_call_under_way_holds_a_stop_back() {
    for script in [
        vec![Behaviour::Silent],
        vec![Behaviour::Refused],
        vec![Behaviour::Normal, Behaviour::Silent],
        vec![Behaviour::Normal, Behaviour::Refused],
    ] {
        let mut world = World::new(&script);
        world.rm().always = Some(Behaviour::Silent);
        let running = world.spawn();
        sleep(Duration::from_millis(100)).await;
        world.stop.cancel();
        let began = Instant::now();
        assert_eq!(running.await.unwrap().unwrap(), Ended::Stopping);
        let took = began.elapsed();
        assert!(took <= LAST_CALL_TIMEOUT, "{script:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn unregistering_has_a_bound() {
    let mut world = World::new(&[Behaviour::Silent]);
    world.updater.as_mut().unwrap().unregister().await;
    assert_eq!(world.began.elapsed(), LAST_CALL_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn the_rms_interval_is_obeyed_within_reason() {
    for (interval_ms, expected) in [(3000, 3), (0, 1), (-5, 1), (i64::MAX, 600)] {
        let mut world = World::new(&[]);
        world.rm().interval_ms = interval_ms;
        let running = world.spawn();
        sleep(Duration::from_secs(2000)).await;
        let calls = world.calls();
        let beats = &calls[1..];
        let expected = Duration::from_secs(expected);
        let gaps = gaps(beats);
        assert!(
            gaps.iter()
                .all(|gap| *gap >= expected && *gap < expected + Duration::from_millis(10)),
            "{interval_ms}: {:?}",
            &gaps[..3]
        );
        running.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn heartbeats_out_of_band_are_rarer_with_more_containers() {
    for (containers, expected_ms) in [(1, 2), (500, 56)] {
        let mut world = World::new(&[]);
        let heartbeat_now = Arc::clone(&world.updater.as_ref().unwrap().parts.heartbeat_now);
        let running = world.spawn();
        sleep(INTERVAL / 2).await;
        let requests = (1..=containers).map(request).collect();
        let start = move |core: &mut Core, now| core.start_all(asker(), requests, now);
        world.handle.run(start).await.unwrap();
        sleep(INTERVAL).await;
        world.calls();
        for _ in 0..300 {
            heartbeat_now.notify_one();
            sleep(Duration::from_millis(1)).await;
        }
        let gaps = gaps(&world.calls());
        // The test asks for a heartbeat each millisecond.
        let expected = Duration::from_millis(expected_ms)..Duration::from_millis(expected_ms + 2);
        assert!(gaps.len() >= 4, "{gaps:?}");
        assert!(gaps.iter().all(|gap| expected.contains(gap)), "{gaps:?}");
        running.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_manager_that_is_too_old_is_not_worked_for() {
    let outcome = async |minimum: &str| {
        let version = MinimumVersion::AtLeast(minimum.to_owned());
        let mut world = World::with(&[], 1, |config| config.minimum_version = version);
        let running = world.spawn();
        sleep(INTERVAL * 3).await;
        world.stop.cancel();
        running.await.unwrap()
    };
    let refused = outcome("3.5.0").await.unwrap_err();
    assert!(
        refused.to_string().contains("3.4.2, less than 3.5.0"),
        "{refused}"
    );
    assert_eq!(outcome("3.4.2").await.unwrap(), Ended::Stopping);
}
