//! Tests of the role history between an AM and a ResourceManager: nodes are named and given up, and
//! the AM gets exactly what it asked for.

mod guaranteed;
mod learning;

use std::collections::BTreeMap;

use hadoop_fs::Uri;
use prost::Message as _;
use records::{ContainerId, EpochMillis, MonoMillis};
use role_history::{SavedEntry, SavedHistory, Snapshot};
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerIdProto, ContainerProto,
    ContainerStatusProto, ExecutionTypeProto, ExecutionTypeRequestProto, NodeIdProto,
    NodeReportProto, NodeStateProto, PriorityProto, RegisterApplicationMasterResponseProto,
    ResourceProto, ResourceRequestProto,
};

use super::*;
use crate::config::FilesConfig;
use crate::testing::{ATTEMPT, Requested, allocate, answer, context, raw};

const PRIORITY: i32 = 1;

fn config() -> HistoryConfig {
    HistoryConfig {
        files: FilesConfig {
            directory: Uri::file("/dev/null/histories"),
            user_bytes_max: 1 << 20,
        },
        placement_timeout_ms: 30_000,
        rules: Vec::new(),
    }
}

fn line(name: &str, count: i32) -> ResourceRequestProto {
    ResourceRequestProto {
        priority: Some(PriorityProto {
            priority: Some(PRIORITY),
        }),
        resource_name: Some(name.to_owned()),
        capability: Some(ResourceProto {
            memory: Some(512),
            virtual_cores: Some(1),
            ..ResourceProto::default()
        }),
        num_containers: Some(count),
        relax_locality: Some(true),
        allocation_request_id: Some(0),
        ..ResourceRequestProto::default()
    }
}

fn opportunistic(name: &str, count: i32) -> ResourceRequestProto {
    ResourceRequestProto {
        execution_type_request: Some(ExecutionTypeRequestProto {
            execution_type: Some(ExecutionTypeProto::Opportunistic.into()),
            enforce_execution_type: Some(true),
        }),
        ..line(name, count)
    }
}

/// Lines of an ask as texts: `n1 1`, and `* 2 strict` for one that does not relax.
fn shown(line: &ResourceRequestProto) -> String {
    let flag = if line.relax_locality() { "" } else { " strict" };
    format!("{} {}{flag}", line.resource_name(), line.num_containers())
}

/// An AM with its interceptor, and a ResourceManager that answers what a test says.
struct Talk {
    interceptor: ServiceHistory,
    response_id: i32,
    now_ms: u64,
    actions: Requested<Effect>,
}

impl Talk {
    fn new(is_guaranteed: bool, policy: &str) -> Self {
        let opt_in = OptIn {
            service: "store".to_owned(),
            is_guaranteed,
            policy: policy.to_owned(),
        };
        let now = context(0).now;
        Self {
            interceptor: ServiceHistory::new(&config(), ATTEMPT, "alice", opt_in, now),
            response_id: 0,
            now_ms: 0,
            actions: Requested::new(),
        }
    }

    /// Loads a history in which the role last ran on these hosts, the last one the longest ago.
    fn loaded(mut self, hosts: &[&str]) -> Self {
        self.load(hosts);
        self
    }

    fn load(&mut self, hosts: &[&str]) {
        let names = BTreeMap::from([("priority-1".to_owned(), 1)]);
        let saved = EpochMillis(1_600_000_000_000);
        let mut history = SavedHistory::new(saved, 1, Some(names));
        for (ago, host) in (1..).zip(hosts) {
            let entry = SavedEntry {
                role: 1,
                active: false,
                last_used: EpochMillis(saved.0 - ago),
            };
            history.push(host, entry);
        }
        let news = HistoryNews::Loaded {
            history: Some(history),
            skipped: 0,
        };
        self.news(news);
    }

    fn news(&mut self, news: HistoryNews) {
        let context = context(self.now_ms);
        self.interceptor
            .on_event(news, &context, &mut self.actions.actions());
    }

    /// Sends a call and returns it as the ResourceManager sees it.
    fn send(&mut self, asks: Vec<ResourceRequestProto>) -> Request {
        let mut request = allocate(&AllocateRequestProto {
            ask: asks,
            response_id: Some(self.response_id),
            ..AllocateRequestProto::default()
        });
        self.interceptor
            .on_request(
                &mut request,
                &context(self.now_ms),
                &mut self.actions.actions(),
            )
            .unwrap();
        request
    }

    /// Sends a call and returns the lines of its asks.
    fn ask(&mut self, asks: Vec<ResourceRequestProto>) -> Vec<String> {
        let request = self.send(asks);
        let sent = AllocateRequestProto::decode(request.message.encode()).unwrap();
        sent.ask.iter().map(shown).collect()
    }

    /// Answers the last call and returns the answer as the AM sees it.
    fn answer(&mut self, message: &AllocateResponseProto) -> AllocateResponseProto {
        let mut outcome: Outcome = Ok(answer(message));
        let context = context(self.now_ms);
        self.interceptor.on_response(
            AmMethod::Allocate,
            &mut outcome,
            &context,
            &mut self.actions.actions(),
        );
        self.response_id += 1;
        AllocateResponseProto::decode(outcome.unwrap().message.encode()).unwrap()
    }

    /// Answers the last call with containers on these hosts.
    fn give(&mut self, containers: &[(i64, &str)]) -> Vec<i64> {
        let given = self.answer(&allocated(containers));
        let ids = given.allocated_containers.iter();
        ids.map(|container| container.id.as_ref().unwrap().id())
            .collect()
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
    }

    fn events(&self) -> Vec<HistoryEvent> {
        let observed = self.actions.chain.iter().filter_map(|action| {
            if let Action::Observe(Observation::History(event)) = action {
                Some(*event)
            } else {
                None
            }
        });
        observed.collect()
    }
}

fn id(number: i64) -> ContainerId {
    ATTEMPT.container(number)
}

fn allocated(containers: &[(i64, &str)]) -> AllocateResponseProto {
    let container = |&(number, host): &(i64, &str)| ContainerProto {
        id: Some(ContainerIdProto::from(id(number))),
        node_id: Some(NodeIdProto {
            host: Some(host.to_owned()),
            port: Some(45454),
        }),
        priority: Some(PriorityProto {
            priority: Some(PRIORITY),
        }),
        allocation_request_id: Some(0),
        ..ContainerProto::default()
    };
    AllocateResponseProto {
        allocated_containers: containers.iter().map(container).collect(),
        ..AllocateResponseProto::default()
    }
}

fn completed(containers: &[(i64, i32)]) -> AllocateResponseProto {
    let status = |&(number, exit_status): &(i64, i32)| ContainerStatusProto {
        container_id: Some(ContainerIdProto::from(id(number))),
        exit_status: Some(exit_status),
        ..ContainerStatusProto::default()
    };
    AllocateResponseProto {
        completed_container_statuses: containers.iter().map(status).collect(),
        ..AllocateResponseProto::default()
    }
}
