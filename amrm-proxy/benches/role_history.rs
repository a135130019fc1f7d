//! Time that a role history adds to a call of an ApplicationMaster with 10 to 10,000 outstanding
//! containers, whose guaranteed asks name the nodes of a history with ten times as many.
//!
//! Units: time of the interceptor's two hooks together. Three kinds of calls: nothing new; an
//! answer brings a container, so that lines change; the ApplicationMaster asks for one more, so
//! that a line is added. Goal: below 0.1 ms at the median and 1 ms at the 99th percentile, whatever
//! is outstanding. A walk over the nodes of the asks in each changing call would take several.

use std::hint::black_box;
use std::time::{Duration, Instant};

use amrm_proxy::call::{AmMethod, Outcome, Request, Response, Timing};
use amrm_proxy::config::{FilesConfig, HistoryConfig, OptIn};
use amrm_proxy::interceptor::{Action, Actions, Context, Interceptor as _};
use amrm_proxy::role_history::ServiceHistory;
use amrm_proxy::role_history::files::HistoryNews;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use hadoop_fs::Uri;
use prost::Message;
use records::{ApplicationId, EpochMillis, MonoMillis, Now};
use role_history::{SavedEntry, SavedHistory};
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerProto, NodeIdProto, ResourceRequestProto,
};
use wire::raw_message::RawMessage;

const SAVED: EpochMillis = EpochMillis(1_452_081_600_000);

/// Time between two calls of an ApplicationMaster.
const CALL_MS: u64 = 100;

/// Calls of each kind whose times are sorted.
const CALLS: usize = 1_000;

/// An attempt with its outstanding containers.
struct Attempt {
    history: ServiceHistory,
    id: records::ApplicationAttemptId,
    calls: i32,
    containers: i64,
    roles: i32,
    /// Containers of each role that are outstanding.
    share: i32,
    hosts: Vec<String>,
}

fn raw(message: &impl Message) -> RawMessage {
    RawMessage::parse(message.encode_to_vec().into()).expect("just encoded")
}

impl Attempt {
    /// Returns an attempt that asks for this many containers of as many `roles`.
    fn new(outstanding: usize, roles: i32) -> Self {
        let id = ApplicationId::new(1, 1).attempt(1);
        let config = HistoryConfig {
            files: FilesConfig {
                directory: Uri::file("/"),
                user_bytes_max: 1 << 30,
            },
            placement_timeout_ms: 86_400_000,
            rules: Vec::new(),
        };
        let opt_in = OptIn {
            service: "store".to_owned(),
            is_guaranteed: true,
            policy: String::new(),
        };
        let now = Now {
            mono: MonoMillis(0),
            wall: SAVED,
        };
        let nodes = 10 * outstanding;
        let hosts = (0..nodes).map(|node| format!("node-{node:06}.example.org"));
        let mut attempt = Self {
            history: ServiceHistory::new(&config, id, "alice", opt_in, now),
            id,
            calls: 0,
            containers: 1,
            roles,
            share: i32::try_from(outstanding).expect("few") / roles,
            hosts: hosts.collect(),
        };
        attempt.load();
        let of_roles = 0..usize::try_from(roles).expect("few");
        let lines = of_roles.map(|role| attempt.line_of(role)).collect();
        attempt.call(lines, None);
        attempt
    }

    /// Returns the line for any node of the role that ran on the host with this number.
    fn line_of(&self, host: usize) -> ResourceRequestProto {
        let role = i32::try_from(host).expect("few") % self.roles;
        ResourceRequestProto {
            priority: Some(role.into()),
            resource_name: Some("*".to_owned()),
            num_containers: Some(self.share),
            ..ResourceRequestProto::default()
        }
    }

    /// Loads a history in which each host ran one role.
    fn load(&mut self) {
        let roles = self.roles;
        let names = (0..roles).map(|role| (format!("priority-{role}"), role));
        let mut saved = SavedHistory::new(SAVED, roles, Some(names.collect()));
        for (node, role) in self.hosts.iter().zip((0..roles).cycle()) {
            let entry = SavedEntry {
                role,
                active: true,
                last_used: SAVED,
            };
            saved.push(node, entry);
        }
        let news = HistoryNews::Loaded {
            history: Some(saved),
            skipped: 0,
        };
        let context = self.context();
        let mut actions = Actions {
            chain: &mut Vec::new(),
            own: &mut Vec::new(),
        };
        self.history.on_event(news, &context, &mut actions);
    }

    fn context(&self) -> Context<'static> {
        let at = CALL_MS * u64::try_from(self.calls).expect("calls count up");
        Context {
            attempt: self.id,
            user: "alice",
            now: Now {
                mono: MonoMillis(at),
                wall: EpochMillis(SAVED.0 + i64::from(self.calls)),
            },
            keys: None,
            timing: Timing::default(),
            renewed_token: None,
        }
    }

    /// Makes a call, which a container on the host with this number answers. Returns the time of
    /// both hooks.
    fn call(&mut self, ask: Vec<ResourceRequestProto>, on: Option<usize>) -> Duration {
        let call = AllocateRequestProto {
            ask,
            response_id: Some(self.calls),
            ..AllocateRequestProto::default()
        };
        self.calls += 1;
        let given = on.map(|host| {
            self.containers += 1;
            let role = i32::try_from(host).expect("few") % self.roles;
            ContainerProto {
                id: Some(self.id.container(self.containers).into()),
                node_id: Some(NodeIdProto {
                    host: Some(self.hosts[host].clone()),
                    port: Some(1),
                }),
                priority: Some(role.into()),
                ..ContainerProto::default()
            }
        });
        let answer = AllocateResponseProto {
            response_id: Some(self.calls),
            allocated_containers: given.into_iter().collect(),
            ..AllocateResponseProto::default()
        };
        let mut request = Request::new(AmMethod::Allocate, raw(&call));
        let mut outcome: Outcome = Ok(Response {
            message: raw(&answer),
            ..Response::default()
        });
        let context = self.context();
        let (mut chain, mut own) = (Vec::<Action>::new(), Vec::new());
        let mut actions = Actions {
            chain: &mut chain,
            own: &mut own,
        };
        let begin = Instant::now();
        let passed = self
            .history
            .on_request(&mut request, &context, &mut actions);
        self.history
            .on_response(AmMethod::Allocate, &mut outcome, &context, &mut actions);
        let took = begin.elapsed();
        passed.expect("a history refuses nothing");
        let _ = black_box((request, outcome, chain, own));
        took
    }
}

/// Prints the percentiles of one kind of call.
fn print(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let of = |percent: usize| times[times.len() * percent / 100];
    println!(
        "{what}: p50 {:?}, p99 {:?}, maximum {:?}, {} calls",
        of(50),
        of(99),
        times[times.len() - 1],
        times.len()
    );
}

fn calls(c: &mut Criterion) {
    let mut group = c.benchmark_group("call");
    for (outstanding, roles) in [(10, 1), (100, 1), (1_000, 1), (10_000, 1), (10_000, 100)] {
        let mut attempt = Attempt::new(outstanding, roles);
        let what = format!("{outstanding} outstanding, {roles} roles");
        let idle = (0..CALLS).map(|_| attempt.call(Vec::new(), None));
        print(&format!("{what}, nothing new"), idle.collect());
        let (mut served, mut asked) = (Vec::new(), Vec::new());
        for host in 0..CALLS {
            served.push(attempt.call(Vec::new(), Some(host % attempt.hosts.len())));
            // Asks for what was served, so that as many stay outstanding.
            asked.push(attempt.call(vec![attempt.line_of(host)], None));
        }
        print(&format!("{what}, a container"), served);
        print(&format!("{what}, one more asked for"), asked);
        group.bench_function(BenchmarkId::new("nothing new", what), |b| {
            b.iter(|| attempt.call(Vec::new(), None));
        });
    }
    group.finish();
}

criterion_group!(benches, calls);
criterion_main!(benches);
