//! Cost of the list of nodes in the ResourceManager's answer to each call of an ApplicationMaster.
//!
//! Unit: time to split an answer and to pass it to the distributed scheduler, which is what a call
//! without asks takes of the proxy beside the network. Three kinds of calls: the list of the last
//! call, as most of them have; another one, that this node sees for the first time; another one
//! that an attempt before has received already, which is a hundred attempts' call after a sort.
//! Goal for the first: below 0.05 ms whatever the list.

use std::hint::black_box;

use amrm_proxy::call::{AmMethod, Outcome, Response, Timing};
use amrm_proxy::distributed_scheduler::DistributedScheduler;
use amrm_proxy::interceptor::{Actions, Context, Interceptor as _};
use amrm_proxy::node_lists::NodeLists;
use amrm_proxy::rm_forwarder::read_answer;
use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use prost::Message;
use records::{
    ApplicationAttemptId, ApplicationId, EpochMillis, MonoMillis, NodeId, Now, Resource,
};
use sched::DistributedAllocatorConfig;
use wire::proto::hadoop_yarn::{
    AllocateResponseProto, DistributedSchedulingAllocateResponseProto,
    RegisterApplicationMasterResponseProto, RegisterDistributedSchedulingAmResponseProto,
    RemoteNodeProto,
};

/// Lists that come one after the other before the first comes again. More than are kept, so that
/// each is new.
const LISTS: usize = 8;

/// Attempts that receive a list one after the other.
const ATTEMPTS: i32 = 100;

fn node(number: usize) -> RemoteNodeProto {
    let id = NodeId {
        host: format!("node-{number:05}.example.org"),
        port: 8041,
    };
    RemoteNodeProto {
        http_address: Some(format!("{}:8042", id.host)),
        node_id: Some((&id).into()),
        rack_name: Some(format!("/rack-{}", number / 40)),
        node_partition: Some(String::new()),
    }
}

/// Returns answers whose lists have the same nodes in other orders.
fn answers(nodes: usize) -> Vec<Bytes> {
    let answer = |first: usize| {
        let mut list: Vec<_> = (0..nodes).map(node).collect();
        list.rotate_left(first);
        let answer = DistributedSchedulingAllocateResponseProto {
            allocate_response: Some(AllocateResponseProto {
                response_id: Some(7),
                num_cluster_nodes: i32::try_from(nodes).ok(),
                ..AllocateResponseProto::default()
            }),
            nodes_for_scheduling: list,
        };
        Bytes::from(answer.encode_to_vec())
    };
    (0..LISTS).map(answer).collect()
}

/// An attempt's scheduler.
struct Attempt {
    id: ApplicationAttemptId,
    scheduler: DistributedScheduler,
    calls: u64,
}

impl Attempt {
    fn new(number: i32, lists: &NodeLists) -> Self {
        let id = ApplicationId::new(1, number).attempt(1);
        let config = DistributedAllocatorConfig::default();
        let mut attempt = Self {
            id,
            scheduler: DistributedScheduler::new(id, config),
            calls: 0,
        };
        let answer = RegisterDistributedSchedulingAmResponseProto {
            register_response: Some(RegisterApplicationMasterResponseProto::default()),
            min_container_resource: Some(Resource::new(128, 1).into()),
            max_container_resource: Some(Resource::new(8_192, 8).into()),
            container_token_expiry_interval: Some(600_000),
            container_id_start: Some(1 << 40),
            ..RegisterDistributedSchedulingAmResponseProto::default()
        };
        let granted = attempt.receive(AmMethod::Register, answer.encode_to_vec().into(), lists);
        granted.expect("an answer as ResourceManagers write it");
        attempt
    }

    fn receive(&mut self, method: AmMethod, answer: Bytes, lists: &NodeLists) -> Outcome {
        self.calls += 1;
        let response = read_answer(true, method, answer, lists);
        let mut outcome: Outcome = Ok(response.unwrap_or_else(|_| Response::default()));
        let context = Context {
            attempt: self.id,
            user: "alice",
            now: Now {
                mono: MonoMillis(self.calls),
                wall: EpochMillis(0),
            },
            keys: None,
            timing: Timing::default(),
            renewed_token: None,
        };
        let mut actions = Actions {
            chain: &mut Vec::new(),
            own: &mut Vec::new(),
        };
        self.scheduler
            .on_response(method, &mut outcome, &context, &mut actions);
        outcome
    }
}

fn calls(c: &mut Criterion) {
    let mut group = c.benchmark_group("answer");
    for nodes in [10, 100, 1_000, 10_000] {
        let lists = NodeLists::default();
        let answers = answers(nodes);
        let mut attempt = Attempt::new(1, &lists);
        group.bench_function(BenchmarkId::new("the same list", nodes), |b| {
            b.iter(|| {
                let answer = answers[0].clone();
                let _ = black_box(attempt.receive(AmMethod::Allocate, answer, &lists));
            });
        });
        let mut turns = answers.iter().cycle();
        group.bench_function(BenchmarkId::new("another list", nodes), |b| {
            b.iter(|| {
                let answer = turns.next().expect("an endless cycle").clone();
                let _ = black_box(attempt.receive(AmMethod::Allocate, answer, &lists));
            });
        });
        let mut attempts: Vec<_> = (1..=ATTEMPTS).map(|n| Attempt::new(n, &lists)).collect();
        group.bench_function(BenchmarkId::new("another list, 100 attempts", nodes), |b| {
            b.iter(|| {
                let answer = turns.next().expect("an endless cycle");
                for attempt in &mut attempts {
                    let answer = answer.clone();
                    let _ = black_box(attempt.receive(AmMethod::Allocate, answer, &lists));
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, calls);
criterion_main!(benches);
