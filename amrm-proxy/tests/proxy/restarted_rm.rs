//! A ResourceManager that forgets attempts, which AMs must not notice.

use std::sync::{Arc, Mutex};

use amrm_proxy::observe::Observation;
use bytes::Bytes;
use prost::Message;
use records::Resource;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerProto,
    DistributedSchedulingAllocateRequestProto, DistributedSchedulingAllocateResponseProto,
    FinishApplicationMasterRequestProto, FinishApplicationMasterResponseProto,
    RegisterApplicationMasterRequestProto, RegisterApplicationMasterResponseProto,
    RegisterDistributedSchedulingAmResponseProto, ResourceRequestProto,
};

use crate::node::{Am, Node, config, start_scheduler};
use test_support::ids::attempt;
use test_support::scripted::{ScriptedScheduler, answering};

/// Memory of the ResourceManager about its one attempt.
#[derive(Default)]
struct Known {
    /// Id of the last answer; -1 before the registration.
    response_id: i32,
    last: Bytes,
    /// Containers for the next answer.
    gives: Vec<ContainerProto>,
}

/// A ResourceManager that counts calls like Hadoop's.
struct Rm {
    known: Arc<Mutex<Known>>,
    scripted: ScriptedScheduler,
}

fn refused<T>(kind: HadoopException, text: impl Into<String>) -> Result<T, RemoteException> {
    Err(RemoteException::new(kind, text))
}

fn wrong_id(expected: i32, received: i32) -> String {
    let attempt = attempt(1);
    format!(
        "Invalid responseId in AllocateRequest from application attempt: {attempt} expect responseId to be {expected} but get {received}"
    )
}

impl Known {
    fn answer(&mut self, method: &str, request: Bytes) -> Result<Bytes, RemoteException> {
        match method {
            "registerApplicationMaster" => {
                self.register()?;
                Ok(RegisterApplicationMasterResponseProto::default()
                    .encode_to_vec()
                    .into())
            }
            "registerApplicationMasterForDistributedScheduling" => {
                self.register()?;
                let answer = RegisterDistributedSchedulingAmResponseProto {
                    register_response: Some(RegisterApplicationMasterResponseProto::default()),
                    ..RegisterDistributedSchedulingAmResponseProto::default()
                };
                Ok(answer.encode_to_vec().into())
            }
            _ if self.response_id < 0 => refused(
                HadoopException::ApplicationMasterNotRegistered,
                "AM should re-register.",
            ),
            "allocate" => {
                let request = AllocateRequestProto::decode(request).unwrap();
                self.allocate(&request)
            }
            "allocateForDistributedScheduling" => {
                let outer = DistributedSchedulingAllocateRequestProto::decode(request).unwrap();
                let answer = self.allocate(&outer.allocate_request.unwrap())?;
                let answer = DistributedSchedulingAllocateResponseProto {
                    allocate_response: Some(AllocateResponseProto::decode(answer).unwrap()),
                    nodes_for_scheduling: Vec::new(),
                };
                Ok(answer.encode_to_vec().into())
            }
            _ => {
                let answer = FinishApplicationMasterResponseProto {
                    is_unregistered: Some(true),
                };
                Ok(answer.encode_to_vec().into())
            }
        }
    }

    fn register(&mut self) -> Result<(), RemoteException> {
        if self.response_id >= 0 {
            let kind = HadoopException::InvalidApplicationMasterRequest;
            return refused(kind, "Application Master is already registered : app");
        }
        self.response_id = 0;
        Ok(())
    }

    fn allocate(&mut self, request: &AllocateRequestProto) -> Result<Bytes, RemoteException> {
        let received = request.response_id();
        if received.wrapping_add(1) & i32::MAX == self.response_id {
            return Ok(self.last.clone());
        }
        if received != self.response_id {
            let kind = HadoopException::InvalidApplicationMasterRequest;
            return refused(kind, wrong_id(self.response_id, received));
        }
        self.response_id += 1;
        let answer = AllocateResponseProto {
            response_id: Some(self.response_id),
            allocated_containers: std::mem::take(&mut self.gives),
            ..AllocateResponseProto::default()
        };
        self.last = answer.encode_to_vec().into();
        Ok(self.last.clone())
    }
}

impl Rm {
    async fn start() -> Self {
        let known = Arc::new(Mutex::new(Known {
            response_id: -1,
            ..Known::default()
        }));
        let of_script = Arc::clone(&known);
        let script = answering(move |call| {
            let mut known = of_script.lock().unwrap();
            known.answer(call.method, call.request.clone())
        });
        Self {
            known,
            scripted: start_scheduler(script).await,
        }
    }

    /// Forgets the attempt, as a restart does.
    fn forget(&self) {
        *self.known.lock().unwrap() = Known {
            response_id: -1,
            ..Known::default()
        };
    }

    fn set_containers(&self, containers: Vec<ContainerProto>) {
        self.known.lock().unwrap().gives = containers;
    }

    fn methods(&self) -> Vec<String> {
        let calls = self.scripted.calls();
        calls.into_iter().map(|call| call.method).collect()
    }

    /// Returns the last `allocate` request.
    fn last_said(&self) -> AllocateRequestProto {
        let call = self.scripted.calls().pop().unwrap();
        assert_eq!(call.method, "allocate");
        AllocateRequestProto::decode(call.request).unwrap()
    }

    /// Starts a node, and an AM on it that has registered.
    async fn with_am(&self) -> (Node, Am) {
        let node = Node::start(config(&[self.scripted.address])).await;
        let am = self.am_on(&node).await;
        (node, am)
    }

    async fn am_on(&self, node: &Node) -> Am {
        let token = self.scripted.token(attempt(1));
        let am = node.connect(node.admit(attempt(1), token)).await;
        let am = am.unwrap();
        register(&am).await;
        am
    }
}

fn registration() -> Vec<u8> {
    RegisterApplicationMasterRequestProto {
        host: Some("am".to_owned()),
        rpc_port: Some(7),
        ..RegisterApplicationMasterRequestProto::default()
    }
    .encode_to_vec()
}

async fn register(am: &Am) {
    let registered = am.call("registerApplicationMaster", registration()).await;
    registered.unwrap();
}

fn ask(priority: i32, count: i32) -> ResourceRequestProto {
    ResourceRequestProto {
        priority: Some(priority.into()),
        resource_name: Some("*".to_owned()),
        capability: Some(Resource::new(100, 1).into()),
        num_containers: Some(count),
        ..ResourceRequestProto::default()
    }
}

fn container(priority: i32) -> ContainerProto {
    ContainerProto {
        resource: Some(Resource::new(128, 1).into()),
        priority: Some(priority.into()),
        ..ContainerProto::default()
    }
}

async fn allocate(
    am: &Am,
    response_id: i32,
    ask: Vec<ResourceRequestProto>,
) -> Result<AllocateResponseProto, RemoteException> {
    let request = AllocateRequestProto {
        ask,
        response_id: Some(response_id),
        ..AllocateRequestProto::default()
    };
    let answer = am.call("allocate", request.encode_to_vec()).await?;
    Ok(AllocateResponseProto::decode(answer).unwrap())
}

#[tokio::test]
async fn a_master_sees_nothing_but_ordinary_answers_and_its_asks_are_said_once_more() {
    let rm = Rm::start().await;
    let (node, am) = rm.with_am().await;
    allocate(&am, 0, vec![ask(1, 5), ask(2, 1)]).await.unwrap();
    rm.set_containers(vec![container(1)]);
    allocate(&am, 1, Vec::new()).await.unwrap();
    rm.forget();
    rm.set_containers(vec![container(2)]);
    let answer = allocate(&am, 2, vec![ask(3, 4)]).await.unwrap();
    let expected = AllocateResponseProto {
        response_id: Some(3),
        allocated_containers: vec![container(2)],
        ..AllocateResponseProto::default()
    };
    assert_eq!(answer, expected);
    let said = rm.last_said();
    assert_eq!(said.response_id, Some(0));
    assert_eq!(said.ask, [ask(1, 4), ask(2, 1), ask(3, 4)]);
    let again = &rm.scripted.calls()[4];
    assert_eq!(again.method, "registerApplicationMaster");
    assert_eq!(again.request, registration());
    for (id, at_rm) in [(3, 1), (4, 2)] {
        let answer = allocate(&am, id, Vec::new()).await.unwrap();
        assert_eq!(answer.response_id, Some(id + 1));
        let said = rm.last_said();
        assert_eq!((said.response_id, said.ask), (Some(at_rm), Vec::new()));
    }
    let observed = node.seen.all().into_iter();
    let again = observed.filter(|seen| matches!(seen, Observation::RegisteredAgain));
    assert_eq!(again.count(), 1);
}

#[tokio::test]
async fn a_call_that_is_repeated_has_the_same_answer_before_and_after_a_restart() {
    let rm = Rm::start().await;
    let (_node, am) = rm.with_am().await;
    for id in 0..3 {
        rm.set_containers(vec![container(id)]);
        let first = allocate(&am, id, Vec::new()).await.unwrap();
        assert_eq!(first.response_id, Some(id + 1));
        assert_eq!(allocate(&am, id, Vec::new()).await.unwrap(), first);
        if id == 1 {
            rm.forget();
            // The answer is lost with the ResourceManager; its response id is not.
            let again = allocate(&am, id, Vec::new()).await.unwrap();
            assert_eq!(again.response_id, Some(id + 1));
            assert_eq!(allocate(&am, id, Vec::new()).await.unwrap(), again);
        }
    }
}

#[tokio::test]
async fn a_wrong_number_is_refused_with_hadoops_text_before_at_and_after_a_restart() {
    let rm = Rm::start().await;
    let (_node, am) = rm.with_am().await;
    for id in 0..3 {
        allocate(&am, id, Vec::new()).await.unwrap();
    }
    let assert_refused = async |expected: i32, received: i32| {
        let refusal = allocate(&am, received, Vec::new()).await.unwrap_err();
        assert!(
            refusal.is(HadoopException::InvalidApplicationMasterRequest),
            "{refusal}"
        );
        assert_eq!(refusal.message, wrong_id(expected, received));
    };
    for received in [0, 1, 4, -7] {
        assert_refused(3, received).await;
    }
    rm.forget();
    for received in [0, 1, 4, -7] {
        assert_refused(3, received).await;
    }
    assert!(allocate(&am, 3, Vec::new()).await.is_ok());
    for received in [0, 1, 2, 5, -7] {
        assert_refused(4, received).await;
    }
    assert!(allocate(&am, 4, Vec::new()).await.is_ok());
}

#[tokio::test]
async fn a_master_finishes_at_a_resource_manager_that_has_forgotten_it() {
    let rm = Rm::start().await;
    let (_node, am) = rm.with_am().await;
    rm.forget();
    let request = FinishApplicationMasterRequestProto {
        diagnostics: Some("done".to_owned()),
        ..FinishApplicationMasterRequestProto::default()
    }
    .encode_to_vec();
    let answer = am.call("finishApplicationMaster", request.clone()).await;
    let answer = FinishApplicationMasterResponseProto::decode(answer.unwrap()).unwrap();
    assert_eq!(answer.is_unregistered, Some(true));
    let calls = rm.scripted.calls();
    assert_eq!(
        rm.methods()[1..],
        [
            "finishApplicationMaster",
            "registerApplicationMaster",
            "finishApplicationMaster"
        ]
    );
    assert_eq!(calls[3].request, request);
}

#[tokio::test]
async fn the_distributed_protocol_is_spoken_again_too() {
    let rm = Rm::start().await;
    let mut config = config(&[rm.scripted.address]);
    config.rm.distributed_scheduling = true;
    let node = Node::start(config).await;
    let am = rm.am_on(&node).await;
    allocate(&am, 0, vec![ask(1, 2)]).await.unwrap();
    rm.forget();
    let answer = allocate(&am, 1, Vec::new()).await.unwrap();
    assert_eq!(answer.response_id, Some(2));
    assert_eq!(
        rm.methods()[2..],
        [
            "allocateForDistributedScheduling",
            "registerApplicationMasterForDistributedScheduling",
            "allocateForDistributedScheduling"
        ]
    );
    let last = rm.scripted.calls().pop().unwrap().request;
    let said = DistributedSchedulingAllocateRequestProto::decode(last).unwrap();
    assert_eq!(said.allocate_request.unwrap().ask, [ask(1, 2)]);
}

#[tokio::test]
async fn a_master_that_says_more_than_is_remembered_registers_by_itself() {
    let rm = Rm::start().await;
    let (_node, am) = rm.with_am().await;
    let lines = (0..100_000).map(|priority| ask(priority, 1)).collect();
    allocate(&am, 0, lines).await.unwrap();
    rm.forget();
    let told = allocate(&am, 1, Vec::new()).await.unwrap_err();
    assert!(
        told.is(HadoopException::ApplicationMasterNotRegistered),
        "{told}"
    );
    register(&am).await;
    allocate(&am, 0, vec![ask(1, 2)]).await.unwrap();
    // From here on the attempt behaves like any other.
    rm.forget();
    allocate(&am, 1, Vec::new()).await.unwrap();
    assert_eq!(rm.last_said().ask, [ask(1, 2)]);
}

#[tokio::test]
async fn an_attempt_that_the_resource_manager_does_not_want_again_is_told_why() {
    let rm = Rm::start().await;
    let (_node, am) = rm.with_am().await;
    let gone = HadoopException::ApplicationAttemptNotFound;
    rm.scripted.set_script(answering(move |call| {
        if call.method == "registerApplicationMaster" {
            refused(gone, "gone")
        } else {
            refused(HadoopException::ApplicationMasterNotRegistered, "register")
        }
    }));
    let told = allocate(&am, 0, Vec::new()).await.unwrap_err();
    assert!(told.is(gone), "{told}");
}
