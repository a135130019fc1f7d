//! The ResourceManager: the shipped core of `mini-rm`, and a model of the task around it.

use std::collections::BTreeMap;
use std::sync::Arc;

use mini_rm::config::Config;
use mini_rm::core::{Core, Effect, QUEUE};
use mini_rm::nodes::DEFAULT_RACK;
use mini_rm::refusal::Refusal;
use prost::Message as _;
use records::{ApplicationAttemptId, ContainerId, Now, Resource};
use sim::{Clock, Random};
use sim_agent::Start;
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    AllocateResponseProto, ApplicationSubmissionContextProto, ContainerLaunchContextProto,
    ContainerTokenIdentifierProto, FinishApplicationMasterRequestProto,
    RegisterApplicationMasterRequestProto,
};
use wire::secrets::AmrmTokenSecretManager;

use crate::context::Context;
use crate::event::{Call, Client, Event, Host, Reply, Request};
use crate::observation::Observation;
use crate::plan::Plan;
use crate::planted::Planted;

/// Milliseconds between two ticks.
const TICK_MS: u64 = 500;

/// Size of an AM's container.
const MASTER: Resource = Resource::new(512, 1);

/// User of all applications.
const USER: &str = "alice";

/// The ResourceManager.
pub struct ResourceManager {
    core: Core,
    config: Arc<Config>,
    clock: Clock,
    random: Random,
    /// Number of starts.
    incarnation: u32,
    /// AMs whose launch is under way, by the number of the call.
    launches: BTreeMap<u64, ApplicationAttemptId>,
    /// Times at which the processes of the registered AMs began.
    masters: BTreeMap<ApplicationAttemptId, u64>,
}

impl ResourceManager {
    /// Starts a ResourceManager.
    #[must_use]
    pub fn new(config: Config, mut random: Random) -> Self {
        let config = Arc::new(config);
        let clock = Clock::default();
        let core = core(&config, &mut random, clock.now(0));
        Self {
            core,
            config,
            clock,
            random,
            incarnation: 1,
            launches: BTreeMap::new(),
            masters: BTreeMap::new(),
        }
    }

    /// Ends the ResourceManager, which has no memory of its own, and starts another.
    pub fn restart(&mut self, context: &mut Context) {
        self.incarnation += 1;
        self.clock.started_ms = context.now_ms();
        self.launches.clear();
        self.masters.clear();
        let mut config = Config::clone(&self.config);
        config.epoch += 1;
        self.config = Arc::new(config);
        let mut now = self.clock.now(context.now_ms());
        if context.is_planted(Planted::IdsReused) {
            now.wall = Clock::default().now(0).wall;
            Arc::make_mut(&mut self.config).epoch -= 1;
        }
        self.core = core(&self.config, &mut self.random, now);
        context.observe(Observation::ResourceManagerRestarted);
        self.begin_ticks(context);
    }

    /// Plans the first tick.
    pub fn begin_ticks(&self, context: &mut Context) {
        let tick = Event::RmTick(self.incarnation);
        context.queue.push_in(TICK_MS, tick);
    }

    /// Does what is due, if this incarnation is meant.
    pub fn tick(&mut self, incarnation: u32, context: &mut Context) {
        if incarnation == self.incarnation {
            self.core.tick(self.clock.now(context.now_ms()));
            self.perform(context);
            self.begin_ticks(context);
        }
    }

    /// Submits an application.
    pub fn submit(&mut self, context: &mut Context) {
        let id = self.core.new_application();
        let submission = ApplicationSubmissionContextProto {
            application_id: Some(id.into()),
            queue: Some(QUEUE.to_owned()),
            am_container_spec: Some(ContainerLaunchContextProto {
                command: vec![Plan::master().command()],
                ..ContainerLaunchContextProto::default()
            }),
            resource: Some(MASTER.into()),
            ..ApplicationSubmissionContextProto::default()
        };
        let now = self.clock.now(context.now_ms());
        let submitted = self.core.submit(submission, USER, now);
        submitted.expect("the simulation submits what a ResourceManager accepts");
        self.perform(context);
    }

    /// Returns the number of applications that have not ended.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        let applications = self.core.applications();
        applications.filter(|app| !app.state.is_final()).count()
    }

    /// Handles a call.
    pub fn called(&mut self, call: Call, request: Request, context: &mut Context) {
        let now = self.clock.now(context.now_ms());
        let reply = match request {
            Request::RegisterNode(request) => {
                let registered = self.core.register_node(&request, DEFAULT_RACK, now);
                registered.map(|response| Reply::NodeRegistered(Box::new(response)))
            }
            Request::Heartbeat(request) => {
                let response = self.core.heartbeat(*request, now);
                Ok(Reply::Heartbeat(Box::new(response)))
            }
            Request::RegisterMaster(attempt, began_ms) => {
                self.register_master(attempt, began_ms, now)
            }
            Request::Allocate(attempt, request) => {
                let allocated = self.core.allocate(attempt, b"", &request, now);
                allocated.map(|mut response| {
                    self.spoil(&mut response, context);
                    Reply::Allocated(Box::new(response))
                })
            }
            Request::FinishMaster(attempt) => {
                let request = FinishApplicationMasterRequestProto::default();
                let finished = self.core.finish_master(attempt, &request, now);
                finished.map(|_| Reply::Done)
            }
            Request::Start(_) | Request::Stop(_) | Request::Update(_) | Request::Change(_) => {
                return;
            }
        };
        let reply = reply.unwrap_or_else(|refusal| Reply::Refused(refusal.to_string()));
        context.reply(Host::Rm, call, reply);
        self.perform(context);
    }

    /// Registers an AM. A repeated call, whose first answer was lost, is answered again. Another
    /// process of the same attempt is refused, as AMs know nothing of what came before their
    /// process: a machine that has ended may launch the AM's container again.
    fn register_master(
        &mut self,
        attempt: ApplicationAttemptId,
        began_ms: u64,
        now: Now,
    ) -> Result<Reply, Refusal> {
        let request = RegisterApplicationMasterRequestProto::default();
        match self.core.register_master(attempt, &request, now) {
            Ok(_) => {
                self.masters.insert(attempt, began_ms);
                Ok(Reply::Done)
            }
            Err(Refusal::AlreadyRegistered(_)) if self.masters.get(&attempt) == Some(&began_ms) => {
                Ok(Reply::Done)
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Changes an answer as a planted fault does.
    fn spoil(&mut self, response: &mut AllocateResponseProto, context: &Context) {
        if context.is_planted(Planted::EndRepeated) {
            let ended = &mut response.completed_container_statuses;
            let repeated = self.random.chance(50_000).then(|| ended.first().cloned());
            ended.extend(repeated.flatten());
        }
    }

    fn perform(&mut self, context: &mut Context) {
        for effect in self.core.take_effects() {
            let Effect::Launch(launch) = effect;
            let node = crate::scenario::index_of(&launch.node);
            let id = container_of(&launch.container_token);
            context.observe(Observation::MasterLaunched { id, node });
            let start = Start {
                token: launch.container_token,
                context: launch.context,
            };
            let request = Request::Start(Box::new((launch.nm_token, vec![start])));
            let node = Host::Node(node);
            let client = Client::Launcher(self.incarnation);
            let number = context.call(client, Host::Rm, node, request);
            self.launches.insert(number, launch.attempt);
        }
    }

    /// Handles the answer to a launch, or its absence.
    pub fn launched(
        &mut self,
        incarnation: u32,
        number: u64,
        reply: Option<Reply>,
        context: &mut Context,
    ) {
        if incarnation != self.incarnation {
            return;
        }
        let Some(attempt) = self.launches.remove(&number) else {
            return;
        };
        let outcome = match reply {
            Some(Reply::Each(each)) => each.into_iter().try_for_each(|(_, outcome)| outcome),
            Some(Reply::Refused(why)) => Err(why),
            _ => Err("no answer".to_owned()),
        };
        let now = self.clock.now(context.now_ms());
        self.core.master_launched(attempt, outcome, now);
        self.perform(context);
    }
}

/// Reads the id in a container token.
fn container_of(token: &TokenProto) -> ContainerId {
    let identifier = ContainerTokenIdentifierProto::decode(&*token.identifier);
    let id = identifier.ok().and_then(|token| token.container_id);
    let id = id.and_then(|id| ContainerId::try_from(&id).ok());
    id.expect("the ResourceManager makes container tokens with an id")
}

fn core(config: &Arc<Config>, random: &mut Random, now: Now) -> Core {
    let secrets = AmrmTokenSecretManager::new(config.master_keys, now.mono);
    Core::new(Arc::clone(config), Arc::new(secrets), random.seed(), now)
}

#[cfg(test)]
mod tests {
    use sim::{Network, Streams};
    use wire::proto::hadoop_yarn::RegisterNodeManagerRequestProto;

    use super::*;
    use crate::checkers::Facts;
    use crate::scenario::{self, Scenario, Size};
    use crate::watch::Watch;

    #[test]
    fn an_attempts_second_process_is_refused_and_a_repeated_call_is_not() {
        let size = Size {
            nodes: 1,
            seconds: 1,
        };
        let (scenario, streams) = (Scenario::of(1, size), Streams::new(1));
        let network = Network::new(scenario.link, streams.stream("network", 0));
        let facts = Facts {
            capacity: scenario::CAPACITY,
            nodes: 1,
            sigkill_delay_ms: scenario::SIGKILL_DELAY_MS,
        };
        let mut context = Context::new(network, Watch::new(&facts, None), None);
        let mut rm = ResourceManager::new(scenario.rm_config(), streams.stream("rm", 0));
        let now = rm.clock.now(0);
        let node = RegisterNodeManagerRequestProto {
            node_id: Some((&scenario::node_id(0)).into()),
            resource: Some(scenario::CAPACITY.into()),
            ..RegisterNodeManagerRequestProto::default()
        };
        rm.core.register_node(&node, DEFAULT_RACK, now).unwrap();
        rm.submit(&mut context);
        let attempt = *rm.launches.values().next().unwrap();
        assert!(rm.register_master(attempt, 100, now).is_ok());
        assert!(rm.register_master(attempt, 100, now).is_ok());
        let refusal = rm.register_master(attempt, 200, now).unwrap_err();
        assert!(
            matches!(refusal, Refusal::AlreadyRegistered(_)),
            "{refusal}"
        );
    }
}
