//! Orders and left-over processes of a container in a cgroup. The rules are those without a cgroup,
//! but the cgroup lists the container's processes, and SIGKILL reaches all of them at once.

use std::time::Duration;

use cgroup::CgroupError;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::blocking::blocking;
use super::registry::Order;
use super::tracer::{Looks, end_tracers};
use crate::isolation::Confined;

/// Longest pause between two looks whether a cgroup is empty, and time between two kills.
const SLICE: Duration = Duration::from_millis(100);
/// Shortest pause between two looks. Quick ends are seen at once, and slow ones late by at most an
/// eighth of their time.
const PAUSE: Duration = Duration::from_millis(1);
/// Maximum time that an order waits for the kernel's files, before it is carried out without them.
const OBEY_WAIT: Duration = Duration::from_secs(5);

/// Carries out an order, on a thread that may wait for the kernel. Returns whether the leader was
/// among the signalled processes.
pub(super) async fn obey(
    confined: &Confined,
    order: Order,
    leader: i32,
) -> Result<bool, CgroupError> {
    let result = with(confined, move |confined| {
        // If that cannot be seen, it is told twice.
        let is_inside = confined.holds(leader).unwrap_or(false);
        tell(confined, order).map(|()| is_inside)
    });
    // Late, or the runtime is shutting down: signalled twice.
    let result = timeout(OBEY_WAIT, result).await.unwrap_or(Some(Ok(false)));
    result.unwrap_or(Ok(true))
}

fn tell(confined: &Confined, order: Order) -> Result<(), CgroupError> {
    match order {
        Order::Run => Ok(()),
        Order::Terminate => confined.signal(libc::SIGTERM).map(drop),
        Order::ForceKill => confined.kill(),
    }
}

/// Kills whatever is in the cgroup once more. Returns what is there.
pub(super) async fn kill_again(confined: &Confined) -> Vec<i32> {
    let killed = with(confined, |confined| {
        confined.kill()?;
        confined.left()
    });
    match killed.await {
        Some(Ok(left)) => left,
        Some(Err(error)) => {
            let error = crate::error_chain(&error);
            tracing::debug!(?confined, error, "cannot be killed again");
            Vec::new()
        }
        None => Vec::new(),
    }
}

/// Ends what the leader left behind: SIGTERM, SIGKILL after the delay or on order (Hadoop:
/// `ContainerCleanup`), and the end of its tracers where that has no effect. Returns whether
/// nothing is left; `give_up` after SIGKILL is due it is `false` whatever is left.
pub(super) async fn end_left_overs(
    confined: &Confined,
    orders: &mut watch::Receiver<Order>,
    (sigkill_delay, give_up): (Duration, Duration),
    agent: i32,
) -> bool {
    let begin = Instant::now();
    let mut told: Option<(Order, Instant)> = None;
    let mut looks = Looks::default();
    loop {
        match with(confined, |confined| confined.is_populated()).await {
            Some(Ok(true)) => {}
            Some(Ok(false)) | None => return true,
            Some(Err(error)) => {
                let error = crate::error_chain(&error);
                tracing::warn!(
                    ?confined,
                    error,
                    "it cannot be seen what a container left behind"
                );
                return true;
            }
        }
        let now = Instant::now();
        let elapsed = now - begin;
        if elapsed >= sigkill_delay + give_up {
            return false;
        }
        let kill = elapsed >= sigkill_delay || *orders.borrow_and_update() == Order::ForceKill;
        let order = if kill {
            Order::ForceKill
        } else {
            Order::Terminate
        };
        let is_due = match told {
            Some((last, at)) => last != order || (kill && now >= at + SLICE),
            None => true,
        };
        if is_due {
            told = Some((order, now));
            if let Some(Err(error)) = with(confined, move |confined| tell(confined, order)).await {
                let error = crate::error_chain(&error);
                tracing::warn!(
                    ?confined,
                    error,
                    "what a container left behind cannot be signalled"
                );
            }
        }
        if kill && looks.is_due(now) {
            let left = kill_again(confined).await;
            blocking(move || end_tracers(&left, agent)).await;
        }
        let since = told.map_or(elapsed, |(_, at)| now - at);
        let until_kill = sigkill_delay.saturating_sub(elapsed).max(PAUSE);
        let pause = (since / 8).clamp(PAUSE, SLICE);
        let pause = if kill { pause } else { pause.min(until_kill) };
        tokio::select! {
            // The next look tells.
            () = sleep(pause) => {}
            // After a stronger order, too; and nobody can order once the registry is gone.
            Ok(()) = orders.changed() => {}
        }
    }
}

/// Acts on a container's cgroups on a thread that may wait for the kernel. `None`: the runtime is
/// shutting down.
async fn with<T: Send + 'static>(
    confined: &Confined,
    act: impl FnOnce(&Confined) -> T + Send + 'static,
) -> Option<T> {
    let confined = confined.clone();
    blocking(move || act(&confined)).await
}
