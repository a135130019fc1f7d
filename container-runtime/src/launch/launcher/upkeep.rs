//! Tasks that look again and again for what is late: processes to reap, starts to continue.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crate::launch::process_tree::adopts_orphans;
use crate::launch::registry::Registry;
use crate::launch::scanner::Scanner;
use crate::launch::shared::PanicAlarm;

/// Interval between two looks for dead orphans to reap, which hold nothing but their pid. Scans for
/// the end of a container reap them too. SIGCHLD would be earlier, at the price of a signal, a
/// message and a wake-up for the end of each container.
const ORPHAN_REAP_INTERVAL: Duration = Duration::from_secs(1);

/// Time within which a process of another user executes its program, a thousand times as long as
/// it takes, and interval between two looks for later ones.
const LATE_START: Duration = Duration::from_secs(1);

/// Reaps orphans that end while their container goes on, so that they do not pile up as zombies,
/// and leaders that a tracer had when their containers ended.
pub(super) async fn reap_late(
    registry: Arc<Registry>,
    scanner: Scanner,
    _alarm: PanicAlarm,
) -> Infallible {
    let adopts = adopts_orphans();
    loop {
        tokio::time::sleep(ORPHAN_REAP_INTERVAL).await;
        registry.reap_traced();
        if adopts {
            scanner.reap().await;
        }
    }
}

/// Continues processes that a user has stopped before they became the user's container: a launch
/// thread waits for each.
pub(super) async fn continue_late_starts(_alarm: PanicAlarm) -> Infallible {
    loop {
        tokio::time::sleep(LATE_START).await;
        let continued = cgroup::continue_late_children(LATE_START);
        if continued > 0 {
            tracing::warn!(continued, "starts of containers are late; sent SIGCONT");
        }
    }
}
