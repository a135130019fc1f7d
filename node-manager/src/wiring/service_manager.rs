//! The agreement with the service manager: readiness, a status line, sockets that are kept over a
//! restart, and the watchdog over the parts that could get stuck.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use container_runtime::launch::Launcher;
use node_view::snapshot::{Counts, RmContact};
use node_web::site::StuckParts;
use node_web::source::NodeSource as _;
use service::{Limits, Manager, Message, Sign, Vitals, Watchdog};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use wire::server::{RpcServer, RpcServerBuilder};

use super::error::{AgentError, starting};
use super::shared::Shared;
use crate::core_task::Handle;

/// Shortest time between two status lines.
const STATUS_PAUSE: Duration = Duration::from_secs(1);

/// Time between two questions to the core.
const PROBE_PAUSE: Duration = Duration::from_secs(5);

/// Limits of the core and of the runtime. Their work takes milliseconds; without them, the
/// ResourceManager takes the node for lost after ten minutes.
const TASK_LIMITS: Limits = Limits {
    reported: Duration::from_secs(20),
    fatal: Some(Duration::from_secs(40)),
};

/// Limits of a single launch. One that waits for a disk, or an opportunistic one without CPU time,
/// delays nobody else.
const LAUNCH_LIMITS: Limits = Limits {
    reported: Duration::from_secs(60),
    fatal: None,
};

/// Limits of all launches of guaranteed containers together: none can start any more.
const LAUNCHES_LIMITS: Limits = Limits {
    reported: Duration::from_secs(60),
    fatal: Some(Duration::from_secs(300)),
};

/// Sockets that the service manager keeps.
pub(super) struct Sockets<'a>(pub(super) &'a Manager);

impl Sockets<'_> {
    pub(super) const fn manager(&self) -> &Manager {
        self.0
    }

    /// Takes the socket that an earlier agent listened on.
    pub(super) fn take(&self, name: &str, address: SocketAddr) -> Option<TcpListener> {
        self.0.take_listener(name, address)
    }

    /// Has a socket kept for the next agent.
    pub(super) fn keep(&self, name: &str, socket: &impl AsFd) {
        self.0.keep(name, socket.as_fd());
    }

    /// Listens for calls, on the socket of an earlier agent if one was kept.
    pub(super) async fn rpc(
        &self,
        name: &str,
        server: RpcServerBuilder,
        address: SocketAddr,
    ) -> io::Result<(RpcServer, SocketAddr)> {
        let listening = match self.take(name, address) {
            Some(kept) => server.listening(kept),
            None => server.bind(address).await,
        }?;
        self.keep(name, &listening.0);
        Ok(listening)
    }
}

/// Returns a reader of the stuck parts, for `/health`.
pub(super) fn stuck_parts(vitals: &Vitals) -> StuckParts {
    let vitals = vitals.clone();
    StuckParts::new(move || {
        let stuck = vitals.stuck(Instant::now());
        stuck.iter().map(ToString::to_string).collect()
    })
}

/// The watchdog and the parts that it looks at by itself.
pub(super) struct Supervision {
    watchdog: Watchdog,
    _launches: [Sign; 2],
}

impl Supervision {
    /// Starts the watchdog.
    pub(super) fn start(
        vitals: &Vitals,
        manager: &Manager,
        launcher: &Arc<Launcher>,
    ) -> Result<Self, AgentError> {
        let (one, all) = (Arc::downgrade(launcher), Arc::downgrade(launcher));
        let one = move || one.upgrade()?.busy_since();
        let all = move || all.upgrade()?.exhausted_since();
        let watchdog = Watchdog::start(vitals.clone(), manager.clone());
        Ok(Self {
            watchdog: watchdog.map_err(starting("the watchdog's thread"))?,
            _launches: [
                vitals.watch("a launch", LAUNCH_LIMITS, one),
                vitals.watch("the launch of guaranteed containers", LAUNCHES_LIMITS, all),
            ],
        })
    }

    pub(super) fn stop(self) {
        self.watchdog.stop();
    }
}

/// Starts the tasks that show progress and keep the status line current.
pub(super) fn start_tasks(
    tasks: &mut JoinSet<&'static str>,
    shared: &Shared,
    manager: &Manager,
    reloaded: watch::Receiver<Option<String>>,
    stop: &CancellationToken,
) {
    let (vitals, handle) = (shared.vitals.clone(), shared.handle.clone());
    tasks.spawn(probe(vitals, handle.clone(), stop.clone()));
    if manager.exists() {
        tasks.spawn(show_status(manager.clone(), handle, reloaded, stop.clone()));
    }
}

/// Shows that the runtime runs tasks and that the core answers, as long as they do.
async fn probe(vitals: Vitals, handle: Handle, stop: CancellationToken) -> &'static str {
    let sign = |name| vitals.sign(name, TASK_LIMITS, Instant::now());
    let (runtime, core) = (sign("the runtime"), sign("the core"));
    let core_answers = async {
        while handle.run(|_, _| ()).await.is_ok() {
            core.alive(Instant::now());
            sleep(PROBE_PAUSE).await;
        }
        // The core has ended, which its owner sees.
        std::future::pending::<()>().await;
    };
    let tasks_run = async {
        while !stop.is_cancelled() {
            runtime.alive(Instant::now());
            sleep(PROBE_PAUSE).await;
        }
    };
    let probing = async { tokio::join!(core_answers, tasks_run) };
    let _stopped = stop.run_until_cancelled(probing).await;
    "the probe of the core"
}

/// Keeps the manager's status line current, at most a line a second.
async fn show_status(
    manager: Manager,
    handle: Handle,
    mut reloaded: watch::Receiver<Option<String>>,
    stop: CancellationToken,
) -> &'static str {
    let mut shown = String::new();
    let mut changes = handle.changes();
    let showing = async {
        loop {
            let read = handle.run(|core, _| core.glance());
            if let Ok((contact, counts)) = read.await {
                let reload = reloaded.borrow_and_update().clone();
                let line = status_line(contact, counts, reload.as_deref());
                if line != shown {
                    manager.notify(Message::Status(&line));
                    shown = line;
                }
            }
            sleep(STATUS_PAUSE).await;
            tokio::select! {
                changed = changes.next() => if changed.is_none() {
                    return;
                },
                // Fails once the agent stops, as the core will too.
                Ok(()) = reloaded.changed() => {}
            }
        }
    };
    // The core may end before this task is told to.
    let _stopped = stop.run_until_cancelled(showing).await;
    stop.cancelled().await;
    "the status line"
}

fn status_line(contact: RmContact, counts: Counts, reload: Option<&str>) -> String {
    let Counts {
        running_guaranteed: guaranteed,
        running_opportunistic: opportunistic,
        waiting,
    } = counts;
    let contact = match contact {
        RmContact::Registering => "registering with the ResourceManager",
        RmContact::Registered => "registered with the ResourceManager",
        RmContact::Silent => "the ResourceManager does not answer",
    };
    let line = format!(
        "{} running ({guaranteed} guaranteed, {opportunistic} opportunistic), {waiting} queued; \
         {contact}",
        guaranteed + opportunistic
    );
    match reload {
        Some(reload) => format!("{line}; {reload}"),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_line_has_running_queued_and_the_contact() {
        let counts = Counts {
            running_guaranteed: 2,
            running_opportunistic: 1,
            waiting: 7,
        };
        assert_eq!(
            status_line(RmContact::Silent, counts, None),
            "3 running (2 guaranteed, 1 opportunistic), 7 queued; the ResourceManager does not \
             answer"
        );
    }
}
