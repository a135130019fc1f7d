//! Answers that wait until what they tell is stored for the next agent.

use node_core::{Core, StartOutcome};
use records::ContainerId;
use state_store::NotStored;
use wire::exception::{HadoopException, RemoteException};

use super::ContainerManager;
use crate::core_task::Stopped;

impl ContainerManager {
    /// Waits until what an answer tells is stored.
    pub(super) async fn told(&self) -> Result<(), RemoteException> {
        let stored = self.handle.committed().await;
        stored.map_err(|error| yarn_exception(error.to_string()))
    }

    /// Waits until starts are stored; takes those back that are not.
    pub(super) async fn told_of_starts(
        &self,
        ids: &[ContainerId],
        outcomes: &mut Result<Vec<StartOutcome>, Stopped>,
    ) {
        if let (Ok(outcomes), Err(error)) = (outcomes, self.handle.committed().await) {
            self.take_back(ids, outcomes, error).await;
        }
    }

    /// Ends containers whose records are lost, and refuses them (Hadoop: a failure of the state
    /// store fails the start).
    async fn take_back(
        &self,
        ids: &[ContainerId],
        outcomes: &mut [StartOutcome],
        error: NotStored,
    ) {
        let mut lost = Vec::new();
        for (id, outcome) in ids.iter().zip(outcomes) {
            if matches!(outcome, StartOutcome::Started) {
                lost.push(*id);
                let message = format!("Container {id} cannot be recovered: {error}");
                *outcome = StartOutcome::Refused(yarn_exception(message));
            }
        }
        let end = move |core: &mut Core, now| core.take_back(&lost, now);
        // Without a core there are no containers.
        let _stopped = self.handle.run(end).await;
    }
}

fn yarn_exception(message: String) -> RemoteException {
    RemoteException::new(HadoopException::YarnException, message)
}
