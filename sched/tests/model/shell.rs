//! A simulated shell: performs actions, keeps at most one process per container, and holds answers
//! back until it is asked for one. Answers of one container come in the order of its actions, those
//! of different containers in any order.

use std::collections::{BTreeMap, VecDeque};

use records::{ContainerExitStatus, ContainerId};
use sched::{Action, Completion, Event};

/// Outcome of the next action, where that is random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Luck {
    /// The action succeeds, and processes end on SIGTERM.
    Good,
    /// The action fails, and processes end only on SIGKILL.
    Bad,
    /// The action succeeds, and processes end on SIGTERM with an exit status of their own.
    OwnStatus(i32),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Process {
    /// Not created yet.
    #[default]
    None,
    /// Ordered: exists or will exist.
    Alive,
    /// Ended, or never created.
    Gone,
}

#[derive(Clone, Debug, Default)]
struct Simulated {
    process: Process,
    answers: VecDeque<Event>,
}

/// Processes, open answers and completions of all containers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shell {
    containers: BTreeMap<ContainerId, Simulated>,
    completions: BTreeMap<ContainerId, Completion>,
}

impl Shell {
    /// Performs an action. Panics if the action is impossible in the container's state.
    pub(crate) fn perform(&mut self, action: &Action, luck: Luck) {
        match action {
            Action::Localize(id) => {
                let diagnostics = "not found".to_owned();
                self.answer(
                    *id,
                    match luck {
                        Luck::Good | Luck::OwnStatus(_) => Event::Localized(*id),
                        Luck::Bad => Event::LocalizationFailed {
                            id: *id,
                            diagnostics,
                        },
                    },
                );
            }
            Action::Launch(id) => self.launch(*id, luck),
            Action::Pause(id) => {
                // All cases: measured, not measured, nothing held.
                let held_mb =
                    [None, Some(0), Some(5), Some(20)][usize::try_from(id.id % 4).unwrap()];
                self.freeze(*id, luck, Event::Paused { id: *id, held_mb });
            }
            Action::Resume(id) => self.freeze(*id, luck, Event::Resumed(*id)),
            Action::Terminate(id) => match luck {
                Luck::Good => self.exit(*id, 143),
                Luck::OwnStatus(status) => self.exit(*id, status),
                Luck::Bad => {}
            },
            Action::ForceKill(id) => self.exit(*id, 137),
            Action::CleanUp(id) => {
                let process = self.containers.entry(*id).or_default().process;
                assert_ne!(
                    process,
                    Process::Alive,
                    "{id} is cleaned up beside its process"
                );
                self.answer(*id, Event::CleanedUp(*id));
            }
            Action::Completed(completion) => {
                let before = self.completions.insert(completion.id, completion.clone());
                assert_eq!(before, None, "completed twice");
            }
            Action::ApplyLimits(_) | Action::RollBack(_) | Action::Note(_) => {}
        }
    }

    fn launch(&mut self, id: ContainerId, luck: Luck) {
        let container = self.containers.entry(id).or_default();
        assert_ne!(
            container.process,
            Process::Alive,
            "{id} is launched beside its process"
        );
        container.process = Process::Alive;
        if luck == Luck::Bad {
            container.process = Process::Gone;
            let status = ContainerExitStatus::LAUNCH_FAILED;
            self.answer(
                id,
                Event::LaunchFailed {
                    id,
                    status,
                    diagnostics: String::new(),
                },
            );
        } else {
            self.answer(id, Event::Launched(id));
        }
    }

    fn freeze(&mut self, id: ContainerId, luck: Luck, done: Event) {
        let process = self.containers.entry(id).or_default().process;
        assert_ne!(
            process,
            Process::None,
            "{id} has no process to freeze or thaw"
        );
        self.answer(
            id,
            if luck == Luck::Bad {
                Event::PauseFailed(id)
            } else {
                done
            },
        );
    }

    fn answer(&mut self, id: ContainerId, event: Event) {
        self.containers
            .entry(id)
            .or_default()
            .answers
            .push_back(event);
    }

    /// Ends a process, if it exists. If its launch is unanswered, it may turn into a failed launch.
    pub(crate) fn exit(&mut self, id: ContainerId, status: i32) {
        let container = self.containers.entry(id).or_default();
        if container.process != Process::Alive {
            return;
        }
        container.process = Process::Gone;
        let status = ContainerExitStatus(status);
        let diagnostics = String::new();
        let unanswered = container.answers.back() == Some(&Event::Launched(id));
        if unanswered && status.is_signalled() {
            container.answers.pop_back();
            self.answer(
                id,
                Event::LaunchFailed {
                    id,
                    status,
                    diagnostics,
                },
            );
        } else {
            // `ProcessesGone` is optional, so some containers omit it.
            if id.id % 3 != 0 {
                self.answer(id, Event::ProcessesGone(id));
            }
            self.answer(
                id,
                Event::Exited {
                    id,
                    status,
                    diagnostics,
                },
            );
        }
    }

    /// Takes the next answer of one of the containers that have one.
    pub(crate) fn take_answer(&mut self, which: usize) -> Option<Event> {
        let mut ready: Vec<_> = self
            .containers
            .values_mut()
            .filter(|c| !c.answers.is_empty())
            .collect();
        let which = which.checked_rem(ready.len())?;
        ready[which].answers.pop_front()
    }

    /// Returns one of the containers whose process runs.
    pub(crate) fn alive(&self, which: usize) -> Option<ContainerId> {
        let alive: Vec<_> = self
            .containers
            .iter()
            .filter(|(_, container)| container.process == Process::Alive)
            .map(|(id, _)| *id)
            .collect();
        Some(alive[which.checked_rem(alive.len())?])
    }

    /// Returns the completion of a container, if it was reported.
    pub(crate) fn completion(&self, id: ContainerId) -> Option<&Completion> {
        self.completions.get(&id)
    }
}
