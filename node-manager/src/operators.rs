//! The node's side of the admin socket: requests of operators become jobs of the core.

use std::process;

use node_admin::AdminNode;
use node_admin::access::Caller;
use node_admin::message::{Answer, Refusal, RefusalKind, Request};
use node_core::{Core, DRAIN_REASON_CHARS_MAX, DrainOrder};
use records::{ContainerName, Now};
use sched::{CONTAINERS_MAX, QUEUE_LENGTH_MAX};

use crate::core_task::{Handle, Stopped};
use crate::wiring::ReloadOrders;

/// Node that operators ask.
pub(crate) struct Operators {
    /// Access to the core.
    pub(crate) handle: Handle,
    /// Way to have the configuration read again.
    pub(crate) reloads: ReloadOrders,
}

impl AdminNode for Operators {
    async fn answer(&self, request: Request, caller: &Caller) -> Result<Answer, Refusal> {
        match request {
            Request::Status => self.handle.asked(status).await,
            Request::Queue { first } => {
                let first = first.min(QUEUE_LENGTH_MAX);
                self.handle
                    .asked(move |core, now| Answer::Queue(core.operator_queue(first, now)))
                    .await
            }
            Request::Running { first } => {
                let first = first.min(CONTAINERS_MAX);
                self.handle
                    .asked(move |core, now| Answer::Running(core.operator_running(first, now)))
                    .await
            }
            Request::Explain { container } => {
                let id: ContainerName = container.parse().map_err(|_| Refusal {
                    kind: RefusalKind::BadRequest,
                    message: format!("{container:?} is not the id of a container"),
                })?;
                let found = self
                    .handle
                    .asked(move |core, now| core.operator_explanation(id, now));
                let unknown = || Refusal {
                    kind: RefusalKind::NoSuchContainer,
                    message: format!(
                        "{id} is not known here: it never was on this node, or has ended long ago"
                    ),
                };
                let found = found.await?.ok_or_else(unknown)?;
                Ok(Answer::Explain(Box::new(found)))
            }
            Request::Drain {
                mode,
                within_ms,
                reason,
            } => {
                let order = DrainOrder {
                    mode,
                    within_ms,
                    reason: checked_reason(reason)?,
                    by: caller.name(),
                };
                tracing::info!(?order, "an operator drains this node");
                let drain = move |core: &mut Core, now| core.operator_drain(order, now);
                let drained = self.handle.asked(drain).await?;
                self.stored().await;
                Ok(Answer::Drain(drained))
            }
            Request::CancelDrain => {
                let by = caller.name();
                tracing::info!(by, "an operator cancels the drain of this node");
                let cancel = move |core: &mut Core, now| Answer::CancelDrain {
                    was_drained: core.cancel_drain(&by, now),
                };
                let cancelled = self.handle.asked(cancel).await?;
                self.stored().await;
                Ok(cancelled)
            }
            Request::Reload => {
                let reloaded = self.reloads.reload(caller.name()).await;
                reloaded.map(Answer::Reload)
            }
        }
    }
}

fn status(core: &mut Core, now: Now) -> Answer {
    Answer::Status(Box::new(core.operator_status(process::id(), now)))
}

impl Operators {
    /// Waits until a drain or its end is on the disk, where records are kept.
    async fn stored(&self) {
        if self.handle.committed().await.is_err() {
            tracing::warn!("the order is followed, but the next agent will not know it");
        }
    }
}

impl Handle {
    async fn asked<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Core, Now) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        self.run(work).await.map_err(|Stopped| Refusal {
            kind: RefusalKind::Unavailable,
            message: "the agent is stopping".to_owned(),
        })
    }
}

/// Checks a reason, which heartbeats and pages carry.
fn checked_reason(reason: String) -> Result<String, Refusal> {
    let is_bad =
        reason.chars().any(char::is_control) || reason.chars().count() > DRAIN_REASON_CHARS_MAX;
    if is_bad {
        return Err(Refusal {
            kind: RefusalKind::BadRequest,
            message: format!(
                "the reason must be one line of at most {DRAIN_REASON_CHARS_MAX} characters"
            ),
        });
    }
    Ok(reason)
}
