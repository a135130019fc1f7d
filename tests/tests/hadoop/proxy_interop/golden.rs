//! A master's whole life through Hadoop's own proxy and through ours, call by call: the answers are
//! the same bytes, except for tokens, ids and times. And fields that neither end's version knows
//! pass unchanged.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use records::Resource;
use test_support::scripted::ScriptedAmRmClient;
use test_support::scripted::connect_scheduler;
use test_support::scripted::{IdleScheduler, answering};
use tests::cluster::{SLOT_MB, STATE_DEADLINE};
use tests::node::NodeKind;
use tests::proxy_cluster::ProxyCluster;
use tests::require;
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::ExecutionTypeProto::{Guaranteed, Opportunistic};
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerProto, ContainerTokenIdentifierProto,
    DistributedSchedulingAllocateRequestProto, DistributedSchedulingAllocateResponseProto,
    ExecutionTypeProto, FinalApplicationStatusProto, FinishApplicationMasterRequestProto,
    FinishApplicationMasterResponseProto, NmTokenIdentifierProto,
    RegisterApplicationMasterRequestProto, RegisterApplicationMasterResponseProto,
    ResourceRequestProto,
};
use wire::protocol::application_master::{PROTOCOL, VERSION};
use wire::rpc::RpcClient;

use crate::proxy_interop::cluster::{Cluster, here};
use crate::proxy_interop::{agent, distributed, proxied};

/// Time in which a container that does nothing ends.
const STOP_DEADLINE: Duration = Duration::from_secs(60);

/// Pause between two looks for a container.
const BEAT: Duration = Duration::from_millis(200);

/// An answer with content, and the call that it answers.
type Answers = Vec<(&'static str, String)>;

/// A master that keeps the answers without what differs from run to run.
struct Script {
    client: RpcClient,
    runtime: tokio::runtime::Runtime,
    response_id: i32,
    answers: Answers,
}

impl Script {
    fn call<M: Message + Default + Debug>(&self, method: &str, request: &impl Message) -> M {
        let request = Bytes::from(request.encode_to_vec());
        let call = self.client.call_raw(method, PROTOCOL, VERSION, request);
        let raw = self.runtime.block_on(call);
        let raw = raw.unwrap_or_else(|error| panic!("{method}: {error}"));
        let answer = M::decode(raw.clone()).unwrap();
        // So the bytes have nothing that a comparison of the values would miss.
        assert_eq!(answer.encode_to_vec(), raw, "{method}: {answer:?}");
        answer
    }

    fn allocate(&mut self, request: AllocateRequestProto) -> AllocateResponseProto {
        let request = AllocateRequestProto {
            response_id: Some(self.response_id),
            progress: Some(0.25),
            ..request
        };
        let answer: AllocateResponseProto = self.call("allocate", &request);
        assert_eq!(answer.response_id(), self.response_id + 1);
        self.response_id += 1;
        answer
    }

    fn keep(&mut self, what: &'static str, answer: AllocateResponseProto) {
        self.answers
            .push((what, format!("{:#?}", without_chance(answer))));
    }

    /// Calls until an answer has content, which is kept.
    fn allocate_until(
        &mut self,
        what: &'static str,
        request: AllocateRequestProto,
        is_it: impl Fn(&AllocateResponseProto) -> bool,
    ) -> AllocateResponseProto {
        let begin = std::time::Instant::now();
        let mut answer = self.allocate(request);
        while !is_it(&answer) {
            assert!(begin.elapsed() < STATE_DEADLINE, "no {what}: {answer:?}");
            std::thread::sleep(BEAT);
            answer = self.allocate(AllocateRequestProto::default());
        }
        self.keep(what, answer.clone());
        answer
    }

    fn ask(&mut self, what: &'static str, kind: ExecutionTypeProto) -> AllocateResponseProto {
        let request = AllocateRequestProto {
            ask: vec![ScriptedAmRmClient::ask(1, Resource::new(128, 1), kind)],
            ..AllocateRequestProto::default()
        };
        self.allocate_until(what, request, |answer| {
            !answer.allocated_containers.is_empty()
        })
    }
}

/// Runs a whole life on the only node of the cluster.
fn live(cluster: &Cluster, kinds: &[(&'static str, ExecutionTypeProto)]) -> Answers {
    let (node, launched) = cluster.launch();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let proxy = here(node.site.ports.amrm_proxy);
    let client = runtime
        .block_on(connect_scheduler(proxy, &launched.token))
        .unwrap();
    let mut script = Script {
        client,
        runtime,
        response_id: 0,
        answers: Vec::new(),
    };
    let registration = RegisterApplicationMasterRequestProto {
        host: Some("here".to_owned()),
        rpc_port: Some(7),
        tracking_url: Some("http://here:7/".to_owned()),
        ..RegisterApplicationMasterRequestProto::default()
    };
    let answer: RegisterApplicationMasterResponseProto =
        script.call("registerApplicationMaster", &registration);
    script.answers.push(("register", format!("{answer:#?}")));
    let answer = script.allocate(AllocateRequestProto::default());
    script.keep("nothing asked for", answer);
    for (what, kind) in kinds {
        let answer = script.ask(what, *kind);
        let ids = answer.allocated_containers.into_iter();
        let release = AllocateRequestProto {
            release: ids.filter_map(|container| container.id).collect(),
            ..AllocateRequestProto::default()
        };
        let is_it =
            |answer: &AllocateResponseProto| !answer.completed_container_statuses.is_empty();
        script.allocate_until("released", release, is_it);
    }
    let end = FinishApplicationMasterRequestProto {
        final_application_status: Some(FinalApplicationStatusProto::AppSucceeded.into()),
        diagnostics: Some("well done".to_owned()),
        ..FinishApplicationMasterRequestProto::default()
    };
    let mut answer = FinishApplicationMasterResponseProto::default();
    while !answer.is_unregistered() {
        answer = script.call("finishApplicationMaster", &end);
    }
    script.answers.push(("finish", format!("{answer:#?}")));
    script.answers
}

/// Returns the answer without tokens' secrets, ids and times. The rest of the tokens stays.
fn without_chance(mut answer: AllocateResponseProto) -> (AllocateResponseProto, Vec<String>) {
    let mut said = Vec::new();
    answer.response_id = Some(0);
    // What is free and what the cluster has are sums that the ResourceManager was in the middle of
    // changing; that they are there is no chance.
    answer.limit = answer.limit.map(|_| Default::default());
    answer.enhanced_headroom = answer.enhanced_headroom.map(|_| Default::default());
    for container in &mut answer.allocated_containers {
        said.push(without_ids(container));
    }
    for status in &mut answer.completed_container_statuses {
        let id = status.container_id.take().unwrap_or_default();
        let id = records::ContainerId::try_from(&id).unwrap().to_string();
        let diagnostics = status.diagnostics().replace(&id, "CONTAINER");
        status.diagnostics = Some(diagnostics);
    }
    for nm_token in &mut answer.nm_tokens {
        nm_token.node_id = None;
        let token = nm_token.token.as_mut().unwrap();
        let mut identifier = NmTokenIdentifierProto::decode(token.identifier.clone()).unwrap();
        identifier.app_attempt_id = None;
        identifier.node_id = None;
        identifier.key_id = None;
        said.push(format!("{identifier:#?}"));
        empty(token);
    }
    (answer, said)
}

fn without_ids(container: &mut ContainerProto) -> String {
    container.id = None;
    container.node_id = None;
    container.node_http_address = None;
    let token = container.container_token.as_mut().unwrap();
    let read = ContainerTokenIdentifierProto::decode(token.identifier.clone()).unwrap();
    assert_eq!(read.encode_to_vec(), token.identifier, "{read:?}");
    empty(token);
    let identifier = ContainerTokenIdentifierProto {
        container_id: None,
        nm_host_addr: None,
        expiry_time_stamp: None,
        master_key_id: None,
        rm_identifier: None,
        creation_time: None,
        ..read
    };
    format!("{identifier:#?}")
}

fn empty(token: &mut TokenProto) {
    assert!(!token.password.is_empty() && !token.service.is_empty());
    token.identifier = Bytes::new();
    token.password = Bytes::new();
    token.service.clear();
}

fn assert_same_answers(
    options: tests::conf::Options,
    kinds: &[(&'static str, ExecutionTypeProto)],
) {
    // Without it the largest container is the largest node's memory, but not from the beginning.
    let options = options.with("yarn.scheduler.maximum-allocation-mb", 4 * SLOT_MB);
    let mut cluster = Cluster::start(&[NodeKind::Java], options);
    let hadoops = live(&cluster, kinds);
    let mut node = cluster.nodes.remove(0);
    node.process.terminate();
    node.wait_state(&cluster.rm, "SHUTDOWN", STOP_DEADLINE);
    drop(node);
    cluster.add_node(&agent());
    let ours = live(&cluster, kinds);
    assert_eq!(hadoops.len(), ours.len());
    for (hadoops, ours) in hadoops.iter().zip(&ours) {
        let (what, (hadoops, ours)) = (hadoops.0, (&hadoops.1, &ours.1));
        assert!(hadoops == ours, "{what}, Hadoop's: {hadoops}\nours: {ours}");
    }
}

#[test]
fn a_life_through_our_proxy_has_the_same_answers_as_through_hadoops() {
    require!(java, hadoop);
    assert_same_answers(
        proxied(),
        &[("guaranteed", Guaranteed), ("opportunistic", Opportunistic)],
    );
}

#[test]
fn a_life_with_distributed_scheduling_has_the_same_answers_as_through_hadoops() {
    require!(java, hadoop);
    assert_same_answers(
        distributed(),
        &[("guaranteed", Guaranteed), ("opportunistic", Opportunistic)],
    );
}

/// Returns a field of number 1000 with these bytes, as a newer version may send it.
fn newer_field(content: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    prost::encoding::encode_varint(1000 << 3 | 2, &mut bytes);
    prost::encoding::encode_varint(content.len() as u64, &mut bytes);
    bytes.extend_from_slice(content.as_bytes());
    bytes
}

/// Returns a message with such a field at its end.
fn newer(message: &impl Message, content: &str) -> Bytes {
    let mut bytes = message.encode_to_vec();
    bytes.extend(newer_field(content));
    bytes.into()
}

/// Returns a message that holds `field`, a message, between other fields.
fn nested(number: u64, message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    prost::encoding::encode_varint(number << 3 | 2, &mut bytes);
    prost::encoding::encode_varint(message.len() as u64, &mut bytes);
    bytes.extend_from_slice(message);
    bytes
}

/// Requests at the scheduler, by method.
type Seen = Arc<Mutex<BTreeMap<String, Bytes>>>;

/// Returns a scheduler that adds a field to each answer, at the top and, in that of the distributed
/// protocol, around it.
fn newer_scheduler(seen: &Seen) -> Arc<test_support::scripted::Script> {
    let seen = Arc::clone(seen);
    answering(move |call| {
        let request = call.request.clone();
        seen.lock().unwrap().insert(call.method.to_owned(), request);
        let answer = IdleScheduler::default().answer(call)?;
        let bytes = match call.method {
            "allocateForDistributedScheduling" => {
                let answer = DistributedSchedulingAllocateResponseProto::decode(answer).unwrap();
                let inner = newer(&answer.allocate_response.unwrap(), "from the scheduler");
                nested(1, &inner)
            }
            "registerApplicationMasterForDistributedScheduling" => return Ok(answer),
            _ => [answer.to_vec(), newer_field("from the scheduler")].concat(),
        };
        Ok(bytes.into())
    })
}

/// Returns an `allocate` request of a newer version, with an ask of one.
fn newer_allocate() -> Bytes {
    let ask: ResourceRequestProto = ScriptedAmRmClient::ask(1, Resource::new(128, 1), Guaranteed);
    let ask = newer(&ask, "in an ask");
    let call = AllocateRequestProto {
        response_id: Some(0),
        ..AllocateRequestProto::default()
    };
    let call = newer(&call, "in the call");
    [nested(1, &ask), call.to_vec()].concat().into()
}

#[test]
fn fields_that_nobody_here_knows_come_out_at_the_other_end() {
    for is_distributed in [false, true] {
        let seen = Seen::default();
        let peers = ProxyCluster::start(&agent(), newer_scheduler(&seen), |site| {
            site.set(
                "yarn.nodemanager.distributed-scheduling.enabled",
                is_distributed,
            );
        });
        let launched = peers.launch(1);
        let runtime = peers.rm.runtime();
        let client = runtime
            .block_on(connect_scheduler(peers.proxy, &launched.token))
            .unwrap();
        let call = |method: &str, request: Bytes| {
            let call = client.call_raw(method, PROTOCOL, VERSION, request);
            runtime.block_on(call).unwrap()
        };
        let registration = newer(
            &RegisterApplicationMasterRequestProto::default(),
            "from the AM",
        );
        call("registerApplicationMaster", registration.clone());
        let answer = call("allocate", newer_allocate());
        let expected = AllocateResponseProto {
            response_id: Some(1),
            num_cluster_nodes: Some(1),
            ..AllocateResponseProto::default()
        };
        assert_eq!(answer, newer(&expected, "from the scheduler"));
        let finish = newer(
            &FinishApplicationMasterRequestProto::default(),
            "at the end",
        );
        call("finishApplicationMaster", finish.clone());
        let seen = seen.lock().unwrap();
        assert_eq!(seen["finishApplicationMaster"], finish);
        if is_distributed {
            let method = "registerApplicationMasterForDistributedScheduling";
            assert_eq!(seen[method], registration);
            let outer = &seen["allocateForDistributedScheduling"];
            assert_eq!(*outer, nested(1, &newer_allocate()));
            DistributedSchedulingAllocateRequestProto::decode(outer.clone()).unwrap();
        } else {
            assert_eq!(seen["registerApplicationMaster"], registration);
            assert_eq!(seen["allocate"], newer_allocate());
        }
    }
}
