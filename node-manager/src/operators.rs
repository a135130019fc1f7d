//! The node's side of the admin socket: requests of operators become jobs of the core.

use std::process;

use amrm_proxy::looks::Choice;
use node_admin::AdminNode;
use node_admin::access::Caller;
use node_admin::message::{Answer, Refusal, RefusalKind, Request};
use node_core::{Core, DRAIN_REASON_CHARS_MAX, DrainOrder};
use node_view::operator::{ApplicationExplanation, Explanation, Told};
use node_view::usage::Uses;
use records::{ApplicationId, ContainerName, ExecutionType, Now};
use sched::{CONTAINERS_MAX, QUEUE_LENGTH_MAX};

use crate::core_task::{Handle, Stopped};
use crate::reload_orders::ReloadOrders;

/// Steps of an application's story in one answer.
const STEPS_MAX: usize = 10_000;

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
            Request::Status => {
                let uses = self.handle.uses();
                self.handle
                    .asked(move |core, now| status(core, &uses, now))
                    .await
            }
            Request::Queue { first } => {
                let first = first.min(QUEUE_LENGTH_MAX);
                self.handle
                    .asked(move |core, now| Answer::Queue(core.operator_queue(first, now)))
                    .await
            }
            Request::Running { first } => {
                let (first, uses) = (first.min(CONTAINERS_MAX), self.handle.uses());
                let running = move |core: &mut Core, now| core.operator_running(first, &uses, now);
                self.handle.asked(running).await.map(Answer::Running)
            }
            Request::Explain { container } => self.explain(&container).await,
            Request::ExplainApplication { application, last } => {
                self.explain_application(&application, last).await
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

fn status(core: &mut Core, uses: &Uses, now: Now) -> Answer {
    Answer::Status(Box::new(core.operator_status(process::id(), uses, now)))
}

impl Operators {
    async fn explain(&self, container: &str) -> Result<Answer, Refusal> {
        let id: ContainerName = container.parse().map_err(|_| Refusal {
            kind: RefusalKind::BadRequest,
            message: format!("{container:?} is not the id of a container"),
        })?;
        let unknown = || Refusal {
            kind: RefusalKind::NoSuchContainer,
            message: format!(
                "{id} is not known here: it never was on this node, or has ended long ago"
            ),
        };
        let found = self.handle.explanation(id).await.map_err(stopping)?;
        Ok(Answer::Explain(Box::new(found.ok_or_else(unknown)?)))
    }

    async fn explain_application(&self, text: &str, last: usize) -> Result<Answer, Refusal> {
        let id: ApplicationId = text.parse().map_err(|_| Refusal {
            kind: RefusalKind::BadRequest,
            message: format!("{text:?} is not the id of an application"),
        })?;
        let unknown = || Refusal {
            kind: RefusalKind::NoSuchContainer,
            message: format!("{id} is not known here: none of its containers was on this node"),
        };
        let last = last.min(STEPS_MAX);
        let found = self.handle.application_explanation(id, last).await;
        let found = found.map_err(stopping)?.ok_or_else(unknown)?;
        Ok(Answer::ExplainApplication(Box::new(found)))
    }

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
        self.run(work).await.map_err(stopping)
    }

    /// Tells the story of a container: of one that is or was here, and of one that the AMRMProxy
    /// here has placed.
    ///
    /// # Errors
    /// [`Stopped`].
    pub(crate) async fn explanation(
        &self,
        id: ContainerName,
    ) -> Result<Option<Explanation>, Stopped> {
        let uses = self.uses();
        let found = self.run(move |core, now| core.operator_explanation(id, &uses, now));
        let chosen = self.proxy().and_then(|proxy| proxy.choice_of(id));
        Ok(with_choice(found.await?, chosen))
    }

    /// Tells the story of an application's containers here, with at most `last` steps.
    ///
    /// # Errors
    /// [`Stopped`].
    pub(crate) async fn application_explanation(
        &self,
        id: ApplicationId,
        last: usize,
    ) -> Result<Option<ApplicationExplanation>, Stopped> {
        let uses = self.uses();
        self.run(move |core, _| core.operator_application(id, last, &uses))
            .await
    }
}

fn stopping(Stopped: Stopped) -> Refusal {
    Refusal {
        kind: RefusalKind::Unavailable,
        message: "the agent is stopping".to_owned(),
    }
}

/// Begins the story of a container with the choice of its node, if this node's AMRMProxy has
/// chosen it: perhaps another node, which knows the rest.
fn with_choice(found: Option<Explanation>, chosen: Option<Choice>) -> Option<Explanation> {
    let Some(chosen) = chosen else {
        return found;
    };
    let step = Told {
        at_ms: chosen.at.0,
        text: chosen.to_string(),
    };
    let mut story = found.unwrap_or_else(|| Explanation {
        container: chosen.container.to_string(),
        user: Some(chosen.user),
        execution_type: Some(ExecutionType::Opportunistic.to_string()),
        memory_mb: Some(chosen.size.memory_mb),
        vcores: Some(chosen.size.vcores),
        state: format!("placed on {}", chosen.node),
        state_for_ms: None,
        place: None,
        estimated_wait_ms: None,
        exit_status: None,
        used: None,
        steps: Vec::new(),
        omitted_steps: 0,
    });
    story.steps.insert(0, step);
    Some(story)
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

#[cfg(test)]
mod tests {
    use amrm_proxy::looks::CallLooks;
    use records::{EpochMillis, Resource};

    use super::*;

    fn choice() -> Choice {
        Choice {
            container: test_support::ids::container(7).name(),
            user: "alice".to_owned(),
            size: Resource::new(512, 1),
            node: test_support::ids::node("n2"),
            sight: None,
            looks: Some(CallLooks {
                asked: 2,
                answered: 0,
                held_back: 0,
            }),
            at: EpochMillis(9),
        }
    }

    #[test]
    fn a_container_that_was_placed_elsewhere_is_explained_by_the_choice() {
        assert_eq!(with_choice(None, None), None);
        let story = with_choice(None, Some(choice())).unwrap();
        assert_eq!(story.state, "placed on n2:8041");
        assert_eq!(
            (story.user.as_deref(), story.memory_mb),
            (Some("alice"), Some(512))
        );
        assert_eq!((story.steps.len(), story.steps[0].at_ms), (1, 9));
        assert!(story.steps[0].text.starts_with("Placed on n2:8041"));
    }

    #[test]
    fn the_story_of_a_container_here_begins_with_the_choice() {
        let mut here = with_choice(None, Some(choice())).unwrap();
        here.state = "queued".to_owned();
        here.steps[0].text = "Accepted from its ApplicationMaster".to_owned();
        assert_eq!(with_choice(Some(here.clone()), None), Some(here.clone()));
        let story = with_choice(Some(here), Some(choice())).unwrap();
        let texts: Vec<_> = story.steps.iter().map(|step| &step.text[..9]).collect();
        assert_eq!(
            (story.state.as_str(), texts),
            ("queued", vec!["Placed on", "Accepted "])
        );
    }
}
