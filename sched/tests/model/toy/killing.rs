//! Kills of the toy scheduler.

use records::{ContainerExitStatus, ContainerId};
use sched::KillReason;

use super::{Decision, Phase, Toy};

impl Toy {
    pub(super) fn record_kill(&mut self, id: ContainerId, reason: KillReason, now_ms: u64) {
        let is_typical = !matches!(
            reason,
            KillReason::ApplicationNotRunning | KillReason::Shutdown
        );
        let phase = self.get(id).map(|container| container.phase);
        let ends = phase
            .is_some_and(|phase| phase.has_process() && !matches!(phase, Phase::Killing { .. }));
        if is_typical && ends {
            self.record_run(id, now_ms);
        }
    }

    pub(super) fn kill(&mut self, id: ContainerId, status: i32, now_ms: u64) {
        self.kill_with_delay(id, status, now_ms, self.config.sigkill_delay_ms);
    }

    pub(super) fn kill_with_delay(
        &mut self,
        id: ContainerId,
        status: i32,
        now_ms: u64,
        delay_ms: u64,
    ) {
        let Ok(container) = self.at(id) else { return };
        let status = ContainerExitStatus(status);
        match container.phase {
            Phase::Localizing | Phase::Relaunching { .. } | Phase::Waiting { frozen: None, .. } => {
                container.status = status;
                self.end(id);
            }
            Phase::Killing { .. } | Phase::Gone { .. } | Phase::Ended | Phase::Done => {}
            Phase::Waiting {
                frozen: Some(_), ..
            }
            | Phase::Launching { .. }
            | Phase::Running { .. }
            | Phase::Resuming { .. }
            | Phase::Restarting
            | Phase::Freezing => {
                container.status = status;
                container.phase = Phase::Killing {
                    frozen: container.is_frozen(),
                };
                self.order_end(id, now_ms, delay_ms);
            }
        }
    }

    pub(super) fn order_end(&mut self, id: ContainerId, now_ms: u64, delay_ms: u64) {
        let Ok(container) = self.at(id) else { return };
        if delay_ms == 0 {
            container.force_kill_at = None;
            self.decide(Decision::ForceKill(id));
        } else {
            // One that is killed while it restarts keeps its time.
            container.force_kill_at.get_or_insert(now_ms + delay_ms);
            self.decide(Decision::Terminate(id));
        }
    }
}
