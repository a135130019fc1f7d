//! Orders and left-over processes of a container in a cgroup. The rules are those without a cgroup,
//! but the cgroup lists the container's processes, and SIGKILL reaches all of them at once.

use std::time::Duration;

use cgroup::CgroupError;
use tokio::sync::watch;
use tokio::time::Instant;

use super::registry::Order;
use super::sweep::GIVE_UP;
use crate::isolation::Confined;

/// Maximum wait for an end before a check for a stronger order.
const SLICE: Duration = Duration::from_millis(100);

/// Carries out an order, on a thread that may wait for the kernel. Returns whether the leader was
/// among the signalled processes.
pub(super) async fn obey(
    confined: &Confined,
    order: Order,
    leader: i32,
) -> Result<bool, CgroupError> {
    let result = blocking(confined, move |confined| {
        // If that cannot be seen, it is told twice.
        let is_inside = confined.holds(leader).unwrap_or(false);
        tell(confined, order).map(|()| is_inside)
    });
    result.await.unwrap_or(Ok(true))
}

fn tell(confined: &Confined, order: Order) -> Result<(), CgroupError> {
    match order {
        Order::Run => Ok(()),
        Order::Terminate => confined.signal(libc::SIGTERM).map(drop),
        Order::ForceKill => confined.kill(),
    }
}

/// Ends what the leader left behind: SIGTERM, SIGKILL after the delay or on order (Hadoop:
/// `ContainerCleanup`).
pub(super) async fn end_left_overs(
    confined: &Confined,
    orders: &mut watch::Receiver<Order>,
    sigkill_delay: Duration,
) {
    let begin = Instant::now();
    let mut terminated = false;
    loop {
        match blocking(confined, |confined| confined.is_populated()).await {
            Some(Ok(true)) => {}
            Some(Ok(false)) | None => return,
            Some(Err(error)) => {
                let error = crate::error_chain(&error);
                tracing::warn!(
                    ?confined,
                    error,
                    "it cannot be seen what a container left behind"
                );
                return;
            }
        }
        let elapsed = begin.elapsed();
        if elapsed >= sigkill_delay + GIVE_UP {
            tracing::warn!(?confined, "processes survive SIGKILL");
            return;
        }
        let kill = elapsed >= sigkill_delay || *orders.borrow_and_update() == Order::ForceKill;
        let order = if kill {
            Some(Order::ForceKill)
        } else {
            (!std::mem::replace(&mut terminated, true)).then_some(Order::Terminate)
        };
        if let Some(order) = order
            && let Some(Err(error)) =
                blocking(confined, move |confined| tell(confined, order)).await
        {
            let error = crate::error_chain(&error);
            tracing::warn!(
                ?confined,
                error,
                "what a container left behind cannot be signalled"
            );
        }
        let wait = if kill {
            SLICE
        } else {
            SLICE.min(sigkill_delay.saturating_sub(elapsed))
        };
        let empty = blocking(confined, move |confined| confined.wait_empty(wait));
        tokio::select! {
            // Whether they ended or not: the next look tells.
            _ = empty => {}
            // After a stronger order, too; and nobody can order once the registry is gone.
            Ok(()) = orders.changed() => {}
        }
    }
}

/// `None`: the runtime is shutting down.
async fn blocking<T: Send + 'static>(
    confined: &Confined,
    act: impl FnOnce(&Confined) -> T + Send + 'static,
) -> Option<T> {
    let confined = confined.clone();
    let task = tokio::task::spawn_blocking(move || act(&confined));
    match task.await {
        Ok(result) => Some(result),
        Err(error) => {
            tracing::debug!(%error, "a cgroup's task did not run");
            None
        }
    }
}
