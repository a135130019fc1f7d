//! The plan of a launch, made on a launch thread; and launches that wait without a thread for what
//! their plan lacks.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use records::ContainerId;
use tokio::sync::watch;

use super::not_launched::NotLaunched;
use super::{Worker, unless_ordered_to_end};
use crate::launch::context::{LaunchEvent, LaunchPlan};
use crate::launch::error::{LaunchError, NoPlan};
use crate::launch::lanes::LaneEnd;
use crate::launch::registry::Order;
use crate::launch::shared::PanicAlarm;

/// Makes a plan on a launch thread, where it may wait for disks; or says why it cannot.
pub type MakePlan = Box<dyn FnOnce() -> Result<Planned, NoPlan> + Send>;

/// Wait for what a plan lacks. Its end gives the next try to make the plan. Dropped when the
/// container is ordered to end.
pub type Later = Pin<Box<dyn Future<Output = MakePlan> + Send>>;

/// Result of the try to make a plan.
pub enum Planned {
    /// The plan to launch.
    Ready(Box<LaunchPlan>),
    /// Something takes longer than a launch thread may wait, for example a download.
    Later(Later),
}

/// Launch in a lane.
pub(super) struct Job {
    pub(super) id: ContainerId,
    pub(super) make_plan: MakePlan,
    pub(super) orders: watch::Receiver<Order>,
    pub(super) queued: Instant,
}

/// Launch that a thread has taken.
pub(super) struct Taken {
    pub(super) id: ContainerId,
    pub(super) orders: watch::Receiver<Order>,
    pub(super) queued: Instant,
    pub(super) taken: Instant,
}

/// Waits until a container is ordered to end, or is known no more.
async fn ordered_to_end(orders: &mut watch::Receiver<Order>) {
    drop(orders.wait_for(|order| *order != Order::Run).await);
}

impl Worker {
    /// Launches a container whose plan can be made, and has the others wait.
    pub(super) fn serve(self: &Arc<Self>, lane: &LaneEnd<Job>, job: Job) {
        let Job {
            id,
            make_plan,
            orders,
            queued,
        } = job;
        let taken = Taken {
            id,
            orders,
            queued,
            taken: Instant::now(),
        };
        let planned = unless_ordered_to_end(&taken.orders)
            .and_then(|()| Ok(make_plan().map_err(LaunchError::NoPlan)?));
        let launched = match planned {
            Ok(Planned::Ready(plan)) => self.launch(taken, *plan),
            Ok(Planned::Later(later)) => {
                let waiting = Arc::clone(self).wait(lane.clone(), taken, later);
                self.runtime.spawn(waiting);
                return;
            }
            Err(reason) => Err(reason),
        };
        if let Err(reason) = launched {
            let event = self.gave_up(id, &reason);
            // This thread is no task: waiting for room in the channel is what back-pressure is for.
            if self.shared.events.blocking_send(event).is_err() {
                tracing::debug!(container = %id, "nobody takes launch events any more");
            }
        }
    }

    /// Queues a launch again once it has what its plan lacks, unless the container is ordered to
    /// end before.
    async fn wait(self: Arc<Self>, lane: LaneEnd<Job>, taken: Taken, later: Later) {
        let _alarm = PanicAlarm(Arc::clone(&self.shared.broken));
        let Taken {
            id,
            mut orders,
            queued,
            ..
        } = taken;
        let make_plan = tokio::select! {
            biased;
            () = ordered_to_end(&mut orders) => None,
            make_plan = later => Some(make_plan),
        };
        // The lane has room for every container that the scheduler knows.
        let is_queued = make_plan.is_some_and(|make_plan| {
            lane.push(Job {
                id,
                make_plan,
                orders,
                queued,
            })
        });
        if !is_queued {
            let event = self.gave_up(id, &NotLaunched::Terminated);
            self.shared.report(event).await;
        }
    }

    /// Forgets a container that gets no process, and returns the event that says so.
    fn gave_up(&self, id: ContainerId, reason: &NotLaunched) -> LaunchEvent {
        if let Some(isolation) = &self.config.isolation {
            isolation.forget(id);
        }
        self.shared.registry.remove(id);
        reason.event(id)
    }
}
