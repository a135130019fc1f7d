//! An AM's calls to nodes: starts, stops, updates.

use std::collections::BTreeMap;

use bytes::Bytes;
use records::{ContainerId, ExecutionType};
use sim_agent::{Each, Start};
use wire::credentials::Credentials;
use wire::proto::hadoop_yarn::{
    ContainerLaunchContextProto, ContainerProto, LocalResourceProto, LocalResourceTypeProto,
    LocalResourceVisibilityProto, StringBytesMapProto, StringLocalResourceMapProto, UrlProto,
};
use wire::token::{Token, kind};

use super::{Master, State};
use crate::context::Context;
use crate::event::{Change, Client, Host, Reply, Request};
use crate::scenario;

/// Calls after which an AM gives a container back.
const TRIES_MAX: u32 = 3;

/// Refusals that say that an earlier call has started the container, whose answer was lost.
const STARTED_BEFORE: [&str; 3] = [
    "Attempt to relaunch the same container",
    "already is running",
    "has finished on this node",
];

/// A call to a node under way.
#[derive(Debug)]
pub(super) enum NodeCall {
    Start(Vec<ContainerId>),
    Stop(ContainerId),
    Update,
}

impl Master {
    fn call_node(&mut self, node: usize, request: Request, call: NodeCall, context: &mut Context) {
        let from = Host::Node(self.node);
        let client = Client::Master(self.attempt);
        let number = context.call(client, from, Host::Node(node), request);
        self.calls.insert(number, call);
    }

    /// Starts what can be started, in one call for each node.
    pub(super) fn start_granted(&mut self, context: &mut Context) {
        let mut by_node: BTreeMap<usize, Vec<ContainerId>> = BTreeMap::new();
        for (id, held) in &self.held {
            if matches!(held.state, State::Granted(_)) {
                by_node.entry(held.node).or_default().push(*id);
            }
        }
        for (node, ids) in by_node {
            let Some(token) = self.nm_tokens.get(&node).cloned() else {
                ids.into_iter().for_each(|id| self.release(id));
                continue;
            };
            let mut starts = Vec::with_capacity(ids.len());
            for id in &ids {
                let context = self.launch_context();
                if let Some(held) = self.held.get_mut(id)
                    && let State::Granted(tries) = held.state
                {
                    held.state = State::Starting(tries + 1);
                    let token = held.token.clone();
                    starts.push(Start { token, context });
                }
            }
            let request = Request::Start(Box::new((token, starts)));
            self.call_node(node, request, NodeCall::Start(ids), context);
        }
    }

    fn launch_context(&mut self) -> ContainerLaunchContextProto {
        let plan = scenario::task(&mut self.random);
        let has_resource = self.random.chance(300_000);
        let is_served = self.random.chance(200_000);
        let service_data = is_served.then(|| StringBytesMapProto {
            key: Some(scenario::SERVICE.to_owned()),
            value: Some(Vec::new().into()),
        });
        ContainerLaunchContextProto {
            service_data: service_data.into_iter().collect(),
            command: vec![plan.command()],
            local_resources: has_resource.then(resource).into_iter().collect(),
            tokens: Some(file_system_token()),
            ..ContainerLaunchContextProto::default()
        }
    }

    pub(super) fn stop(&mut self, id: ContainerId, context: &mut Context) {
        let node = self.held.get(&id).map(|held| held.node);
        let token = node.and_then(|node| self.nm_tokens.get(&node).cloned());
        if let (Some(node), Some(token)) = (node, token) {
            let request = Request::Stop(Box::new((token, vec![id])));
            self.call_node(node, request, NodeCall::Stop(id), context);
        }
    }

    /// Asks for a change of a running guaranteed container.
    pub(super) fn change(&mut self, id: ContainerId, context: &mut Context) {
        let node = self.held.get(&id).map(|held| held.node);
        let token = node.and_then(|node| self.nm_tokens.get(&node).cloned());
        let (Some(node), Some(token)) = (node, token) else {
            return;
        };
        let change = match self.random.below(6) {
            0 | 1 => Change::Localize(vec![resource()]),
            2 | 3 => {
                let next = Box::new(self.launch_context());
                Change::Reinitialize(next, self.random.chance(500_000))
            }
            4 => Change::Restart,
            _ if self.random.chance(500_000) => Change::RollBack,
            _ => Change::Commit,
        };
        let request = Request::Change(Box::new((token, id, change)));
        self.call_node(node, request, NodeCall::Update, context);
    }

    /// Brings a promotion to the container's node.
    pub(super) fn updated(&mut self, container: ContainerProto, context: &mut Context) {
        let id = container.id.as_ref().map(ContainerId::try_from);
        let (Some(Ok(id)), Some(token)) = (id, container.container_token.clone()) else {
            return;
        };
        let Some(held) = self.held.get_mut(&id) else {
            return;
        };
        held.version = container.version();
        held.execution_type = ExecutionType::from(container.execution_type());
        held.token.clone_from(&token);
        let node = held.node;
        if let Some(nm_token) = self.nm_tokens.get(&node).cloned() {
            let request = Request::Update(Box::new((nm_token, vec![token])));
            self.call_node(node, request, NodeCall::Update, context);
        }
    }

    /// Handles the answer of a node; `None`: none came.
    pub(super) fn node_replied(
        &mut self,
        number: u64,
        reply: Option<Reply>,
        context: &mut Context,
    ) {
        let Some(call) = self.calls.remove(&number) else {
            return;
        };
        match (call, reply) {
            (NodeCall::Start(_), Some(Reply::Each(each))) => self.started(each),
            (NodeCall::Start(ids), Some(_)) => ids.into_iter().for_each(|id| self.release(id)),
            (NodeCall::Start(ids), None) => {
                for id in ids {
                    self.try_again(id);
                }
                self.start_granted(context);
            }
            (NodeCall::Stop(id), Some(Reply::Each(each))) => {
                let is_stopped = each.iter().any(|(_, outcome)| outcome.is_ok());
                if let Some(held) = self.held.get_mut(&id).filter(|_| is_stopped) {
                    held.state = State::Ending;
                }
            }
            // A container that could not be stopped or promoted runs on.
            (NodeCall::Stop(_) | NodeCall::Update, _) => {}
        }
    }

    fn started(&mut self, each: Each) {
        for (id, outcome) in each {
            let is_started = match &outcome {
                Ok(()) => true,
                Err(why) => STARTED_BEFORE.iter().any(|text| why.contains(text)),
            };
            let held = self.held.get_mut(&id);
            match held.filter(|held| matches!(held.state, State::Starting(_))) {
                Some(held) if is_started => held.state = State::Running,
                Some(_) => self.release(id),
                None => {}
            }
        }
    }

    fn try_again(&mut self, id: ContainerId) {
        let Some(held) = self.held.get_mut(&id) else {
            return;
        };
        match held.state {
            State::Starting(tries) if tries < TRIES_MAX => held.state = State::Granted(tries),
            State::Starting(_) => self.release(id),
            State::Granted(_) | State::Running | State::Ending => {}
        }
    }
}

/// Returns a resource, which the simulation localizes from nowhere.
fn resource() -> StringLocalResourceMapProto {
    StringLocalResourceMapProto {
        key: Some("input".to_owned()),
        value: Some(LocalResourceProto {
            resource: Some(UrlProto {
                scheme: Some("file".to_owned()),
                file: Some("/input".to_owned()),
                ..UrlProto::default()
            }),
            size: Some(1),
            timestamp: Some(1),
            r#type: Some(LocalResourceTypeProto::File.into()),
            visibility: Some(LocalResourceVisibilityProto::Application.into()),
            ..LocalResourceProto::default()
        }),
    }
}

/// Returns credentials with a token for a file system.
fn file_system_token() -> Bytes {
    let token = Token {
        identifier: Bytes::from_static(b"identifier"),
        password: Bytes::from_static(b"password"),
        kind: kind::HDFS_DELEGATION_TOKEN.to_owned(),
        service: "nn:8020".to_owned(),
    };
    let mut credentials = Credentials::default();
    credentials.tokens.insert("nn:8020".to_owned(), token);
    credentials.write_v0().into()
}
