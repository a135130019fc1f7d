//! The birth of a process in the class of opportunistic containers.
//!
//! Between the moment it belongs to the class and the one it executes its program, a process shares the agent's memory,
//! and the thread that makes it sleeps. With only the processor time that is left over this may take seconds, during
//! which nobody can kill it and nobody behind it is launched. So a birth that is late hurries its class, like a death.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::shared::Shared;
use super::table::locked;

/// How long a birth takes at most where there is processor time for it. Shorter than anybody waits for room, longer than
/// a birth on a machine that is busy but not full.
const PATIENCE: Duration = Duration::from_millis(20);

/// How long its class is hurried for it at most: one that waits for a disk is not helped by processor time.
const HURRIED_MAX: Duration = Duration::from_secs(1);

/// How far a birth is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    UnderWay,
    /// Its class is hurried for it.
    Hurried,
    /// Nothing is done for it any more.
    Over,
}

/// A birth under way. It is over when this is dropped.
#[derive(Debug)]
pub(crate) struct Birth {
    shared: Arc<Shared>,
    stage: Arc<Mutex<Stage>>,
    /// Hurries the class when it is late.
    alarm: JoinHandle<()>,
}

impl Birth {
    /// One begins. `sooner` ends when its class must be hurried at once, because the container is to go.
    pub(super) fn begin(
        shared: &Arc<Shared>,
        runtime: &Handle,
        sooner: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let stage = Arc::new(Mutex::new(Stage::UnderWay));
        let (late_shared, late_stage) = (Arc::clone(shared), Arc::clone(&stage));
        let alarm = runtime.spawn(async move {
            // Whichever comes first.
            let _in_time = tokio::time::timeout(PATIENCE, sooner).await;
            let (shared, stage) = (Arc::clone(&late_shared), Arc::clone(&late_stage));
            // Writes to kernel files. Cancelled only when the runtime ends.
            let _hurried = tokio::task::spawn_blocking(move || hurry(&shared, &stage)).await;
            tokio::time::sleep(HURRIED_MAX).await;
            let _calmed = tokio::task::spawn_blocking(move || end(&late_shared, &late_stage)).await;
        });
        Self {
            shared: Arc::clone(shared),
            stage,
            alarm,
        }
    }
}

fn hurry(shared: &Shared, stage: &Mutex<Stage>) {
    let mut stage = locked(stage);
    if *stage == Stage::UnderWay {
        shared.hurry();
        *stage = Stage::Hurried;
    }
}

fn end(shared: &Shared, stage: &Mutex<Stage>) {
    let before = std::mem::replace(&mut *locked(stage), Stage::Over);
    if before == Stage::Hurried {
        shared.calm();
    }
}

impl Drop for Birth {
    fn drop(&mut self) {
        self.alarm.abort();
        end(&self.shared, &self.stage);
    }
}
