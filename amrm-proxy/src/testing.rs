//! Fixtures shared by the tests of several interceptors.

use prost::Message;
use records::{ApplicationAttemptId, EpochMillis, MonoMillis, Now};
use sched::NodeList;
use wire::proto::hadoop_yarn::{AllocateRequestProto, AllocateResponseProto, RemoteNodeProto};
use wire::raw_message::RawMessage;

use crate::call::{AmMethod, Request, Response, Timing};
use crate::interceptor::{Action, Actions, Context};
use crate::node_lists::NodeLists;

/// Attempt that all these tests use.
pub(crate) const ATTEMPT: ApplicationAttemptId = test_support::ids::attempt(1);

/// Effects that the hooks of an interceptor have requested.
#[derive(Debug)]
pub(crate) struct Requested<E> {
    pub(crate) chain: Vec<Action>,
    pub(crate) own: Vec<E>,
}

impl<E> Requested<E> {
    pub(crate) const fn new() -> Self {
        Self {
            chain: Vec::new(),
            own: Vec::new(),
        }
    }

    pub(crate) fn actions(&mut self) -> Actions<'_, E> {
        Actions {
            chain: &mut self.chain,
            own: &mut self.own,
        }
    }
}

/// Makes the context of a hook at this time.
pub(crate) fn context(at_ms: u64) -> Context<'static> {
    Context {
        attempt: ATTEMPT,
        user: "alice",
        now: Now {
            mono: MonoMillis(at_ms),
            wall: EpochMillis(1_700_000_000_000),
        },
        keys: None,
        timing: Timing::default(),
        renewed_token: None,
    }
}

/// Parses a message as if it came from the wire.
pub(crate) fn raw(message: &impl Message) -> RawMessage {
    RawMessage::parse(message.encode_to_vec().into()).unwrap()
}

/// Makes an `allocate` request.
pub(crate) fn allocate(message: &AllocateRequestProto) -> Request {
    Request::new(AmMethod::Allocate, raw(message))
}

/// Makes a list of nodes as if it came from the wire.
pub(crate) fn node_list(nodes: &[RemoteNodeProto]) -> NodeList {
    let nodes = nodes.iter().map(|node| node.encode_to_vec().into());
    NodeLists::default().read(nodes)
}

/// Makes an answer to `allocate`.
pub(crate) fn answer(message: &AllocateResponseProto) -> Response {
    Response {
        message: raw(message),
        ..Response::default()
    }
}
