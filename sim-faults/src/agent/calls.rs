//! Calls of AMs and of the ResourceManager's launcher, in the steps of `ContainerManager`.

use launch_context::read_resources;
use node_manager::container_manager::{read_reinit, verified};
use records::ContainerId;
use sim_agent::{Each, Start};
use wire::exception::RemoteException;
use wire::proto::hadoop_common::TokenProto;
use wire::token::Token;

use super::{Agent, Ground, Promise, Waiting};
use crate::context::Context;
use crate::event::{Call, Change, Event, Host, Reply, Request};
use crate::fault::Fault;
use crate::faults;
use crate::observation::Observation;
use crate::planted::Planted;

/// Milliseconds between the last answer of an agent and its end, at most.
const LAST_ACT_MS: u64 = 50;

type Refused = Result<(Each, Promise), RemoteException>;

impl Agent {
    /// Handles a call; the answer waits until it may be told.
    pub fn called(
        &mut self,
        call: Call,
        request: Request,
        ground: &mut Ground<'_>,
        context: &mut Context,
    ) {
        let outcome = match request {
            Request::Start(start) => self.accept(&start.0, start.1, context),
            Request::Stop(stop) => self.stop(&stop.0, &stop.1, context),
            Request::Update(update) => self.update(&update.0, &update.1, context),
            Request::Change(change) => {
                let (token, id, change) = *change;
                self.change(&token, id, change, context)
            }
            Request::RegisterNode(_)
            | Request::Heartbeat(_)
            | Request::RegisterMaster(..)
            | Request::Allocate(..)
            | Request::FinishMaster(_) => return,
        };
        self.settle(ground, context);
        let waiting = match outcome {
            Ok((each, promise)) => {
                let accepted = each.iter().filter(|(_, outcome)| outcome.is_ok());
                let ids = accepted.map(|(id, _)| *id).collect();
                Waiting::Answer(call, Reply::Each(each), ids, promise)
            }
            Err(error) => {
                let reply = Reply::Refused(error.message);
                Waiting::Answer(call, reply, Vec::new(), Promise::Nothing)
            }
        };
        if context.is_planted(Planted::ToldBeforeStored)
            && let Waiting::Answer(call, reply, ids, promise) = waiting
        {
            self.promise(&ids, promise, ground, context);
            context.reply(Host::Node(self.node), call, reply);
            return;
        }
        self.after_commit(waiting, ground, context);
        self.commit(ground, context);
    }

    fn accept(&mut self, token: &Token, starts: Vec<Start>, context: &Context) -> Refused {
        let now = self.now(context);
        let each = self.shell.start(token, starts, now)?;
        Ok((each, Promise::Started))
    }

    fn stop(&mut self, token: &Token, ids: &[ContainerId], context: &Context) -> Refused {
        let asker = self.shell.asker(token)?;
        let now = self.now(context);
        let mut stop = |id| {
            let stopped = self.shell.core.stop_container(asker, id, now);
            (id, stopped.map_err(|error| error.message))
        };
        let each = ids.iter().map(|id| stop(*id)).collect();
        Ok((each, Promise::Stopped))
    }

    fn update(&mut self, token: &Token, tokens: &[TokenProto], context: &Context) -> Refused {
        let asker = self.shell.asker(token)?;
        let now = self.now(context);
        let mut each = Each::new();
        for token in tokens {
            let update = verified(&self.shell.secrets, token)?;
            let id = update.spec.id;
            let updated = self.shell.core.update_container(asker, update.into(), now);
            each.push((id, updated.map_err(|error| error.message)));
        }
        Ok((each, Promise::Nothing))
    }

    fn change(
        &mut self,
        token: &Token,
        id: ContainerId,
        change: Change,
        context: &mut Context,
    ) -> Refused {
        let asker = self.shell.asker(token)?;
        let now = self.now(context);
        let restarts = !matches!(change, Change::Localize(_) | Change::Commit);
        let changed = match change {
            Change::Localize(resources) => read_resources(resources)
                .and_then(|resources| self.shell.core.localize_more(asker, id, resources)),
            Change::Reinitialize(context, commits) => read_reinit(*context, commits, true)
                .and_then(|next| self.shell.core.reinitialize(asker, id, next, now)),
            Change::Restart => self.shell.core.restart_container(asker, id, now),
            Change::RollBack => self.shell.core.roll_back_reinit(asker, id, now),
            Change::Commit => self.shell.core.commit_reinit(asker, id, now),
        };
        if changed.is_ok() && restarts {
            let node = self.node;
            context.observe(Observation::Restarts { node, id });
        }
        let outcome = changed.map_err(|error| error.message);
        Ok((vec![(id, outcome)], Promise::Nothing))
    }

    /// Notes what an answer promises. Now and then, this is the agent's last act.
    pub(super) fn promise(
        &self,
        ids: &[ContainerId],
        promise: Promise,
        ground: &mut Ground<'_>,
        context: &mut Context,
    ) {
        let node = self.node;
        for id in ids {
            match promise {
                Promise::Started => {
                    context.observe(Observation::StartAcknowledged { node, id: *id });
                }
                Promise::Stopped => {
                    context.observe(Observation::StopAcknowledged { node, id: *id });
                }
                Promise::Nothing => {}
            }
        }
        let fails = match promise {
            Promise::Started => ground.failures.after_start,
            Promise::Stopped => ground.failures.after_stop,
            Promise::Nothing => 0,
        };
        if context.now_ms() < ground.failures.agents_until_ms && ground.random.chance(fails) {
            let crash = Fault::AgentCrash(node, faults::agent_down_ms(ground.random));
            let delay = ground.random.within(0..=LAST_ACT_MS);
            context.queue.push_in(delay, Event::Fault(crash));
        }
    }
}
