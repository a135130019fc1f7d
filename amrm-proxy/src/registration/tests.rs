//! Tests of the registration alone, without a pipeline.

use std::collections::BTreeMap;

use prost::Message as _;
use records::{ContainerId, NodeId, Resource};
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerProto, ContainerStatusProto,
    ContainerUpdateTypeProto, ExecutionTypeProto, FinishApplicationMasterResponseProto,
    RegisterApplicationMasterRequestProto, ResourceBlacklistRequestProto, ResourceRequestProto,
    ResourceSizingProto, SchedulingRequestProto, UpdateContainerErrorProto,
    UpdateContainerRequestProto, UpdatedContainerProto,
};

use super::*;
use crate::testing::{ATTEMPT, allocate, answer, context, raw};

mod failed;
mod ids;
mod memory;
mod model;
mod nm_tokens;
mod outstanding;
mod stored;

/// A field that no message of Hadoop has: number 3000 with the text `new`.
const UNKNOWN: &[u8] = &[0xc2, 0xbb, 0x01, 3, b'n', b'e', b'w'];

/// An attempt whose calls the test makes and answers.
struct Attempt {
    registration: Registration,
    persisted: BTreeMap<Part, Option<Vec<u8>>>,
    now_ms: u64,
}

/// Makes a request of ApplicationMasterProtocol.
fn request(method: AmMethod, message: &impl prost::Message) -> Request {
    Request::new(method, raw(message))
}

fn not_registered() -> Outcome {
    let kind = HadoopException::ApplicationMasterNotRegistered;
    Err(RemoteException::new(kind, "AM should re-register."))
}

fn register_request() -> RegisterApplicationMasterRequestProto {
    RegisterApplicationMasterRequestProto {
        host: Some("am".to_owned()),
        rpc_port: Some(7),
        tracking_url: Some("http://first".to_owned()),
        ..RegisterApplicationMasterRequestProto::default()
    }
}

fn ask(priority: i32, place: &str, count: i32) -> ResourceRequestProto {
    ResourceRequestProto {
        priority: Some(priority.into()),
        resource_name: Some(place.to_owned()),
        capability: Some(Resource::new(1000, 1).into()),
        num_containers: Some(count),
        ..ResourceRequestProto::default()
    }
}

fn id(number: i64) -> ContainerId {
    ContainerId {
        attempt: ATTEMPT,
        id: number,
    }
}

/// Makes a container as the ResourceManager allocates it: larger than requested.
fn container(number: i64, priority: i32, host: &str) -> ContainerProto {
    ContainerProto {
        id: Some(id(number).into()),
        node_id: Some(
            NodeId {
                host: host.to_owned(),
                port: 1,
            }
            .into(),
        ),
        resource: Some(Resource::new(1024, 1).into()),
        priority: Some(priority.into()),
        ..ContainerProto::default()
    }
}

fn allocate_with(response_id: i32, ask: Vec<ResourceRequestProto>) -> AllocateRequestProto {
    AllocateRequestProto {
        response_id: Some(response_id),
        ask,
        ..AllocateRequestProto::default()
    }
}

fn answer_with(response_id: i32, allocated: Vec<ContainerProto>) -> AllocateResponseProto {
    AllocateResponseProto {
        response_id: Some(response_id),
        allocated_containers: allocated,
        ..AllocateResponseProto::default()
    }
}

fn sent(request: &Request) -> AllocateRequestProto {
    AllocateRequestProto::decode(request.message.encode()).unwrap()
}

impl Attempt {
    fn new() -> Self {
        Self {
            registration: Registration::default(),
            persisted: BTreeMap::new(),
            now_ms: 0,
        }
    }

    fn registered() -> Self {
        let mut attempt = Self::new();
        attempt.register(&register_request());
        attempt
    }

    fn take(&mut self, actions: Vec<Action>) {
        for action in actions {
            if let Action::Persist(part, value) = action {
                self.persisted.insert(part, value);
            }
        }
    }

    fn outcome(&mut self, request: &mut Request, outcome: Outcome) -> Step {
        self.now_ms += 10_000;
        let mut actions = Vec::new();
        let context = context(self.now_ms);
        let step = self
            .registration
            .on_outcome(request, outcome, &context, &mut actions);
        self.take(actions);
        step
    }

    fn register(&mut self, message: &RegisterApplicationMasterRequestProto) {
        let mut request = request(AmMethod::Register, message);
        assert!(!self.registration.on_request(&mut request));
        let outcome = Ok(Response::default());
        assert!(matches!(
            self.outcome(&mut request, outcome),
            Step::Done(Ok(_))
        ));
    }

    /// Begins a call and returns the request for the ResourceManager.
    fn begin(&mut self, message: &AllocateRequestProto) -> Request {
        let mut request = allocate(message);
        let _is_owed = self.registration.on_request(&mut request);
        request
    }

    fn done(
        &mut self,
        request: &mut Request,
        outcome: Outcome,
    ) -> Result<AllocateResponseProto, RemoteException> {
        match self.outcome(request, outcome) {
            Step::Done(outcome) => outcome
                .map(|response| AllocateResponseProto::decode(response.message.encode()).unwrap()),
            Step::Register(_) => panic!("the attempt is registered"),
        }
    }

    /// Makes a whole call and returns the AM's answer.
    fn call(
        &mut self,
        message: &AllocateRequestProto,
        gives: &AllocateResponseProto,
    ) -> AllocateResponseProto {
        let mut request = self.begin(message);
        self.done(&mut request, Ok(answer(gives))).unwrap()
    }

    /// Makes a call to a ResourceManager that has forgotten the attempt; returns the repeated
    /// request.
    fn forgotten(&mut self, message: &AllocateRequestProto) -> Request {
        let mut request = self.begin(message);
        let register = self.outcome(&mut request, not_registered());
        assert!(matches!(register, Step::Register(_)), "{register:?}");
        self.admit(&mut request, Ok(Response::default())).unwrap();
        request
    }

    fn admit(
        &mut self,
        request: &mut Request,
        outcome: Outcome,
    ) -> Result<Option<Response>, RemoteException> {
        let mut actions = Vec::new();
        let admitted = self
            .registration
            .on_registered(request, outcome, &mut actions);
        self.take(actions);
        admitted
    }

    /// Makes the same attempt as restored after a restart of the agent.
    fn restarted(&self) -> Self {
        let mut attempt = Self::new();
        let stored = self.persisted.iter();
        let parts =
            stored.filter_map(|(part, value)| Some((part.key().to_owned(), value.clone()?)));
        attempt.registration.restore(ATTEMPT, &parts.collect());
        attempt.persisted = self.persisted.clone();
        attempt
    }
}

#[test]
fn an_attempt_is_registered_again_with_the_same_bytes() {
    let message = [&register_request().encode_to_vec(), UNKNOWN].concat();
    let mut attempt = Attempt::new();
    let raw = RawMessage::parse(message.clone().into()).unwrap();
    let mut register = Request::new(AmMethod::Register, raw);
    let _ = attempt.registration.on_request(&mut register);
    let _ = attempt.outcome(&mut register, Ok(Response::default()));
    let mut request = attempt.begin(&allocate_with(0, Vec::new()));
    let Step::Register(again) = attempt.outcome(&mut request, not_registered()) else {
        panic!("the attempt can be registered again");
    };
    assert_eq!(again.method, AmMethod::Register);
    assert_eq!(again.message.encode(), message);
}

#[test]
fn what_is_outstanding_is_said_again_and_numbers_are_translated_from_then_on() {
    let mut attempt = Attempt::registered();
    attempt.call(
        &allocate_with(0, vec![ask(1, "*", 5), ask(1, "h1", 2)]),
        &answer_with(1, vec![]),
    );
    attempt.call(
        &allocate_with(1, vec![ask(2, "*", 1)]),
        &answer_with(2, vec![container(1, 1, "h1")]),
    );
    let mut again = attempt.forgotten(&allocate_with(2, vec![ask(2, "*", 3)]));
    let expected = allocate_with(0, vec![ask(1, "*", 4), ask(1, "h1", 1), ask(2, "*", 3)]);
    assert_eq!(sent(&again), expected);
    let told = attempt.done(&mut again, Ok(answer(&answer_with(1, vec![]))));
    assert_eq!(told.unwrap().response_id, Some(3));
    // Nothing is stated twice.
    let next = attempt.begin(&allocate_with(3, vec![]));
    assert_eq!(sent(&next), allocate_with(1, vec![]));
}

#[test]
fn an_empty_call_goes_as_it_came() {
    let mut attempt = Attempt::registered();
    let message = [&allocate_with(0, vec![]).encode_to_vec(), UNKNOWN].concat();
    let raw = RawMessage::parse(message.clone().into()).unwrap();
    let mut request = Request::new(AmMethod::Allocate, raw);
    assert!(!attempt.registration.on_request(&mut request));
    assert_eq!(request.message.encode(), message);
    attempt
        .done(&mut request, Ok(answer(&answer_with(1, vec![]))))
        .unwrap();
    assert!(attempt.registration.outstanding.is_none());
    assert!(!attempt.persisted.contains_key(&OUTSTANDING));
}

#[test]
fn a_wrong_number_is_not_made_right_by_a_restart() {
    let mut attempt = Attempt::registered();
    attempt.call(&allocate_with(0, vec![]), &answer_with(1, vec![]));
    attempt.call(&allocate_with(1, vec![]), &answer_with(2, vec![]));
    for received in [0, 3, 77, -1] {
        let mut request = attempt.begin(&allocate_with(received, vec![]));
        let refusal = attempt.done(&mut request, not_registered()).unwrap_err();
        assert!(refusal.is(HadoopException::InvalidApplicationMasterRequest));
        let text = format!(
            "Invalid responseId in AllocateRequest from application attempt: {ATTEMPT} expect responseId to be 2 but get {received}"
        );
        assert_eq!(refusal.message, text);
    }
    assert_eq!(
        sent(&attempt.forgotten(&allocate_with(2, vec![]))),
        allocate_with(0, vec![])
    );
}

#[test]
fn the_refusal_of_a_wrong_number_names_the_ams_numbers() {
    let mut attempt = Attempt::registered();
    for number in 0..5 {
        attempt.call(
            &allocate_with(number, vec![]),
            &answer_with(number + 1, vec![]),
        );
    }
    let mut again = attempt.forgotten(&allocate_with(5, vec![]));
    attempt
        .done(&mut again, Ok(answer(&answer_with(1, vec![]))))
        .unwrap();
    let mut request = attempt.begin(&allocate_with(9, vec![]));
    assert_eq!(sent(&request), allocate_with(4, vec![]));
    let refusal = unexpected_id(ATTEMPT, 1, 4);
    let told = attempt.done(&mut request, Err(refusal)).unwrap_err();
    assert_eq!(told, unexpected_id(ATTEMPT, 6, 9));
}

#[test]
fn a_lost_answer_to_the_registration_changes_nothing() {
    let mut attempt = Attempt::registered();
    attempt.call(
        &allocate_with(0, vec![ask(1, "*", 5)]),
        &answer_with(1, vec![]),
    );
    let mut request = attempt.begin(&allocate_with(1, vec![]));
    let _ = attempt.outcome(&mut request, not_registered());
    let kind = HadoopException::InvalidApplicationMasterRequest;
    let already = RemoteException::new(kind, "Application Master is already registered : app");
    assert!(attempt.admit(&mut request, Err(already)).unwrap().is_none());
    assert_eq!(sent(&request), allocate_with(0, vec![ask(1, "*", 5)]));
}

#[test]
fn what_is_owed_goes_with_the_next_call_when_this_one_fails() {
    let mut attempt = Attempt::registered();
    attempt.call(
        &allocate_with(0, vec![ask(1, "*", 5)]),
        &answer_with(1, vec![]),
    );
    let retriable = || RemoteException::new(HadoopException::Retriable, "later");
    let mut request = attempt.begin(&allocate_with(1, vec![]));
    let _ = attempt.outcome(&mut request, not_registered());
    assert!(attempt.admit(&mut request, Err(retriable())).is_err());
    let expected = allocate_with(0, vec![ask(1, "*", 5)]);
    for mut attempt in [attempt.restarted(), attempt] {
        let mut request = allocate(&allocate_with(1, vec![]));
        assert!(attempt.registration.on_request(&mut request));
        assert_eq!(sent(&request), expected);
        let told = attempt
            .done(&mut request, Ok(answer(&answer_with(1, vec![]))))
            .unwrap();
        assert_eq!(told.response_id, Some(2));
        assert_eq!(
            sent(&attempt.begin(&allocate_with(2, vec![]))),
            allocate_with(1, vec![])
        );
    }
}

#[test]
fn a_resource_manager_that_always_forgets_is_told_to_the_am() {
    let mut attempt = Attempt::registered();
    let mut request = attempt.begin(&allocate_with(0, vec![]));
    for _ in 0..REGISTRATIONS_PER_CALL_MAX {
        assert!(matches!(
            attempt.outcome(&mut request, not_registered()),
            Step::Register(_)
        ));
        attempt
            .admit(&mut request, Ok(Response::default()))
            .unwrap();
    }
    let told = attempt.done(&mut request, not_registered()).unwrap_err();
    assert!(told.is(HadoopException::ApplicationMasterNotRegistered));
}

#[test]
fn an_am_that_registers_by_itself_begins_anew() {
    let mut attempt = Attempt::registered();
    attempt.call(
        &allocate_with(0, vec![ask(1, "*", 5)]),
        &answer_with(1, vec![]),
    );
    let mut again = attempt.forgotten(&allocate_with(1, vec![]));
    attempt
        .done(&mut again, Ok(answer(&answer_with(1, vec![]))))
        .unwrap();
    attempt.register(&register_request());
    assert_eq!(attempt.persisted[&OUTSTANDING], None);
    assert_eq!(
        sent(&attempt.begin(&allocate_with(0, vec![]))),
        allocate_with(0, vec![])
    );
    assert_eq!(
        sent(&attempt.forgotten(&allocate_with(0, vec![]))),
        allocate_with(0, vec![])
    );
}

#[test]
fn an_attempt_that_never_registered_hears_so() {
    let mut attempt = Attempt::new();
    let mut request = attempt.begin(&allocate_with(0, vec![]));
    let told = attempt.done(&mut request, not_registered()).unwrap_err();
    assert!(told.is(HadoopException::ApplicationMasterNotRegistered));
}

#[test]
fn finishing_registers_again_until_it_is_on_record() {
    let mut attempt = Attempt::registered();
    let finish = || request(AmMethod::Finish, &allocate_with(0, vec![]));
    let answer = |is_unregistered| {
        Ok(Response {
            message: raw(&FinishApplicationMasterResponseProto {
                is_unregistered: Some(is_unregistered),
            }),
            ..Response::default()
        })
    };
    for is_unregistered in [false, true] {
        let mut request = finish();
        let _ = attempt.registration.on_request(&mut request);
        assert!(matches!(
            attempt.outcome(&mut request, not_registered()),
            Step::Register(_)
        ));
        attempt
            .admit(&mut request, Ok(Response::default()))
            .unwrap();
        assert_eq!(request.message.encode(), finish().message.encode());
        let _ = attempt.outcome(&mut request, answer(is_unregistered));
    }
    let mut request = finish();
    let _ = attempt.registration.on_request(&mut request);
    assert!(matches!(
        attempt.outcome(&mut request, not_registered()),
        Step::Done(Err(_))
    ));
    assert_eq!(attempt.persisted[&REGISTRATION], None);
}

/// Returns a first call that moves the master's page.
fn call_that_moves_to(url: &str) -> AllocateRequestProto {
    AllocateRequestProto {
        tracking_url: Some(url.to_owned()),
        ..allocate_with(0, vec![])
    }
}

/// Makes the second call to a ResourceManager that does not know the attempt, and expects its
/// registration with this page.
#[track_caller]
fn assert_registers_again_at(attempt: &mut Attempt, url: &str) {
    let mut request = attempt.begin(&allocate_with(1, vec![]));
    let Step::Register(again) = attempt.outcome(&mut request, not_registered()) else {
        panic!("the attempt can be registered again");
    };
    let expected = RegisterApplicationMasterRequestProto {
        tracking_url: Some(url.to_owned()),
        ..register_request()
    };
    assert_eq!(again.message.encode(), expected.encode_to_vec());
}

#[test]
fn an_address_given_later_is_registered_again() {
    let mut attempt = Attempt::registered();
    let moved = call_that_moves_to("http://second");
    attempt.call(&moved, &answer_with(1, vec![]));
    assert_registers_again_at(&mut attempt, "http://second");
}
