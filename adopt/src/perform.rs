//! Does the steps of an adoption, and undoes them.
//!
//! Before each step the record says which one begins, so a run that is killed anywhere can be gone
//! on with, by `--go` or by `--back`. For that, each step and its way back may be done again.

use std::fmt;

use keeper::ProcessIdentity;
use records::error_chain;
use thiserror::Error;

use crate::aside;
use crate::conf_folder::{ConfFolder, FolderError, Removed};
use crate::machine::{Limits, Machine, Order};
use crate::record::{Adoption, Record, Stage, Step};
use crate::scan::StartedBy;
use crate::text::{shown, shown_path};

/// Failure of a run.
#[derive(Debug, Error)]
pub enum PerformError {
    /// A step failed and everything was undone.
    #[error("{0}: went back, as it was before")]
    WentBack(String),
    /// A step failed, and so did a step back.
    #[error("{why}: going back failed too, and --back goes on with it: {back}")]
    Stuck {
        /// Reason of the step.
        why: String,
        /// Reason of the step back.
        back: String,
    },
    /// A step back failed.
    #[error("{0}: --back goes on from here")]
    Back(String),
}

/// A run in a folder, on a machine.
pub struct Run<'a> {
    /// Folder of the configuration, locked.
    pub folder: &'a ConfFolder,
    /// The machine.
    pub machine: &'a dyn Machine,
    /// Limits on what is waited for.
    pub limits: Limits,
    /// Gets a line before each step.
    pub say: &'a mut dyn FnMut(fmt::Arguments<'_>),
}

impl Run<'_> {
    /// Gives the agent the place, from the stage of the record on; goes back by itself when a step
    /// fails.
    ///
    /// # Errors
    /// [`PerformError::WentBack`] and [`PerformError::Stuck`].
    pub fn go(&mut self, record: &Record) -> Result<(), PerformError> {
        let adoption = &record.adoption;
        let mut stage = record.stage;
        let mut result = Ok(());
        for step in record.stage.to_do() {
            stage = Stage::Going(step);
            result = self
                .store(stage, adoption)
                .and_then(|()| self.step(step, adoption));
            if result.is_err() {
                break;
            }
        }
        let result = result.and_then(|()| self.store(Stage::Done, adoption));
        let Err(why) = result else {
            return Ok(());
        };
        (self.say)(format_args!("{why}: going back"));
        match self.undo(stage, adoption) {
            Ok(()) => Err(PerformError::WentBack(why)),
            Err(back) => Err(PerformError::Stuck { why, back }),
        }
    }

    /// Gives the place back, from the stage of the record on, and removes the record.
    ///
    /// # Errors
    /// [`PerformError::Back`].
    pub fn back(&mut self, record: &Record) -> Result<(), PerformError> {
        let result = self.undo(record.stage, &record.adoption);
        result.map_err(PerformError::Back)
    }

    fn store(&self, stage: Stage, adoption: &Adoption) -> Result<(), String> {
        let record = Record::new(stage, adoption.clone());
        self.folder.store(&record).map_err(text)
    }

    fn step(&mut self, step: Step, adoption: &Adoption) -> Result<(), String> {
        match step {
            Step::WriteSite => self.write_site(adoption),
            Step::StopJava => self.stop_java(adoption),
            Step::LinkProfile => {
                (self.say)(format_args!("linking the shell profile"));
                self.folder.link_profile(&adoption.profile).map_err(text)
            }
            Step::StartAgent => self.start_agent(adoption),
        }
    }

    fn undo(&mut self, stage: Stage, adoption: &Adoption) -> Result<(), String> {
        for step in stage.to_undo() {
            self.store(Stage::Returning(step), adoption)?;
            match step {
                Step::WriteSite => self.remove_site(adoption)?,
                Step::StopJava => self.start_java(adoption)?,
                Step::LinkProfile => self.unlink_profile(adoption)?,
                Step::StartAgent => self.stop_agent(adoption)?,
            }
        }
        self.folder.forget().map_err(text)
    }

    fn write_site(&mut self, adoption: &Adoption) -> Result<(), String> {
        (self.say)(format_args!("writing nm-agent-site.xml"));
        self.folder.write_site(&adoption.site).map_err(text)?;
        // A property of theirs may be final.
        let found = self.machine.agent().local_dirs()?;
        if found == adoption.agent_local_dirs {
            return Ok(());
        }
        let found: Vec<_> = found.iter().map(|path| shown_path(path)).collect();
        Err(format!(
            "the agent would use {} all the same, and empty the Java node's caches: is \
             yarn.nodemanager.local-dirs final?",
            found.join(", ")
        ))
    }

    fn remove_site(&mut self, adoption: &Adoption) -> Result<(), String> {
        let removed = self.folder.remove_site(&adoption.site).map_err(text)?;
        if removed == Removed::Changed {
            (self.say)(format_args!(
                "nm-agent-site.xml was changed and stays; the Java node does not read it"
            ));
        }
        Ok(())
    }

    fn unlink_profile(&mut self, adoption: &Adoption) -> Result<(), String> {
        let made = adoption.makes_profile_folder;
        let removed = self.folder.unlink_profile(&adoption.profile, made);
        match removed.map_err(text)? {
            Removed::Gone => Ok(()),
            Removed::Changed => Err(
                "shellprofile.d/nm-agent.sh is another file than was linked: Hadoop's scripts would \
                 start what it says; remove it"
                    .to_owned(),
            ),
        }
    }

    fn stop_java(&mut self, adoption: &Adoption) -> Result<(), String> {
        let Some(java) = adoption.java.map(crate::record::JavaProcess::identity) else {
            return Ok(());
        };
        if !self.machine.lives(java) {
            return Ok(());
        }
        (self.say)(format_args!("stopping the Java node"));
        match adoption.started_by {
            StartedBy::Hand => self.machine.terminate(java),
            StartedBy::Daemon | StartedBy::Unit(_) => self.stop(Some(java), adoption)?,
        }
        self.wait_end(java, "the Java node")
    }

    /// Starts the Java node if it ran before, and keeps its logs from it where it would delete
    /// them.
    fn start_java(&mut self, adoption: &Adoption) -> Result<(), String> {
        let Some(java) = adoption.java.map(crate::record::JavaProcess::identity) else {
            return Ok(());
        };
        // A node that an interrupted run was stopping is not up.
        let limit = self.limits.stop;
        let machine = self.machine;
        let stays = |running: ProcessIdentity| {
            running != java || !machine.wait(limit, &mut || !machine.lives(java))
        };
        if !machine.java_node(adoption).is_some_and(stays) {
            (self.say)(format_args!("starting the Java node"));
            for logs in &adoption.emptied_logs {
                aside::set_aside(logs, adoption.user).map_err(|error| of_logs(logs, &error))?;
            }
            // The logs are moved back also when the node does not start.
            let started = machine.order(adoption, Order::Start);
            let started = started.and_then(|()| self.wait_java(adoption));
            self.restore_logs(adoption)?;
            started?;
        } else {
            self.wait_java(adoption)?;
            self.restore_logs(adoption)?;
        }
        self.wait_java_registered()
    }

    fn restore_logs(&self, adoption: &Adoption) -> Result<(), String> {
        let mut logs = adoption.emptied_logs.iter();
        logs.try_for_each(|logs| {
            aside::restore(logs, adoption.user).map_err(|error| of_logs(logs, &error))
        })
    }

    /// Waits until the Java node is registered, as far as that can be told: its ResourceManager may
    /// be down, or show its pages to users with a ticket only.
    fn wait_java_registered(&mut self) -> Result<(), String> {
        let machine = self.machine;
        let mut unknown = None;
        let mut is_registered = false;
        let is_told = machine.wait(self.limits.tell, &mut || match machine
            .agent()
            .java_is_registered()
        {
            Ok(registered) => {
                (is_registered, unknown) = (registered, None);
                true
            }
            Err(why) => {
                unknown = Some(why);
                false
            }
        });
        if let (false, Some(why)) = (is_told, unknown) {
            let why = shown(&why);
            (self.say)(format_args!(
                "whether the Java node is registered cannot be told ({why}): see yarn node -list"
            ));
            return Ok(());
        }
        let limit = self.limits.register;
        if is_registered
            || machine.wait(limit, &mut || {
                machine.agent().java_is_registered() == Ok(true)
            })
        {
            return Ok(());
        }
        Err(format!(
            "the Java node has not registered within {} s: its log says why",
            limit.as_secs()
        ))
    }

    /// Waits until a Java node listens for ApplicationMasters, which it does after it has emptied
    /// its folders.
    fn wait_java(&self, adoption: &Adoption) -> Result<(), String> {
        let machine = self.machine;
        let is_up = machine.wait(self.limits.listen, &mut || {
            let node = machine.java_node(adoption);
            let listens = |node: ProcessIdentity| {
                adoption.port == 0 || machine.agent().listener(adoption.port) == Some(node.pid)
            };
            node.is_some_and(listens)
        });
        if is_up {
            return Ok(());
        }
        Err(format!(
            "no Java node listens on port {} within {} s: its log says why",
            adoption.port,
            self.limits.listen.as_secs()
        ))
    }

    fn start_agent(&mut self, adoption: &Adoption) -> Result<(), String> {
        (self.say)(format_args!("starting the agent"));
        let machine = self.machine;
        if machine.agent().state().is_err() {
            machine.order(adoption, Order::Start)?;
        }
        let mut last = String::new();
        let mut silent = 0_u32;
        let mut has_ended = false;
        let is_up = machine.wait(
            self.limits.register,
            &mut || match machine.agent().state() {
                Ok(state) => {
                    last = format!("it is {}", shown(&state.contact));
                    silent = 0;
                    state.is_registered
                }
                Err(why) => {
                    last = why;
                    silent += 1;
                    // An agent that is being started does not answer yet.
                    has_ended = silent.is_multiple_of(10)
                        && machine.order(adoption, Order::Status).is_err();
                    has_ended
                }
            },
        );
        match (is_up, has_ended) {
            (_, true) => Err("the agent has ended; its log says why".to_owned()),
            (true, false) => Ok(()),
            (false, false) => Err(format!(
                "the agent has not registered within {} s: {last}",
                self.limits.register.as_secs()
            )),
        }
    }

    fn stop_agent(&mut self, adoption: &Adoption) -> Result<(), String> {
        let agent = self.machine.agent().state().ok();
        let agent = agent.and_then(|state| ProcessIdentity::of(state.pid));
        (self.say)(format_args!("stopping the agent"));
        self.stop(agent, adoption)?;
        agent.map_or(Ok(()), |agent| self.wait_end(agent, "the agent"))
    }

    /// Has a node stopped by its manager. Where the manager knows of no node, as with a file of the
    /// id of another process, its stop could end that one: then the process gets SIGTERM itself.
    fn stop(&self, node: Option<ProcessIdentity>, adoption: &Adoption) -> Result<(), String> {
        let machine = self.machine;
        if machine.order(adoption, Order::Status).is_ok() {
            return machine.order(adoption, Order::Stop);
        }
        if let Some(node) = node {
            machine.terminate(node);
        }
        Ok(())
    }

    fn wait_end(&self, process: ProcessIdentity, name: &str) -> Result<(), String> {
        let machine = self.machine;
        if machine.wait(self.limits.stop, &mut || !machine.lives(process)) {
            return Ok(());
        }
        Err(format!(
            "{name}, process {}, has not ended within {} s",
            process.pid,
            self.limits.stop.as_secs()
        ))
    }
}

fn of_logs(logs: &std::path::Path, error: &std::io::Error) -> String {
    format!("keeping the logs in {}: {error}", shown_path(logs))
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the argument of Result::map_err"
)]
fn text(error: FolderError) -> String {
    error_chain(&error)
}

#[cfg(test)]
mod tests;
