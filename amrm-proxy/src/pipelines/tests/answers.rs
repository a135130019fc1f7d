//! Answers of performers to a request, before it goes to the ResourceManager.

use std::collections::VecDeque;

use test_support::scripted::{ScriptedScheduler, answering};
use tokio::sync::oneshot;
use wire::rpc::BoxFuture;

use super::*;
use crate::call::Request;
use crate::chain::Chain;
use crate::fields::allocate_request;
use crate::interceptor::{Actions, Context, Interceptor, Pass, Performer};
use crate::link::link;

/// Interceptor that asks its performer about every request, and writes the answer into it.
#[derive(Debug)]
struct Asking;

/// Performer that answers in the order of its questions, when the test says so.
#[derive(Debug)]
struct Answering {
    replies: VecDeque<oneshot::Receiver<u64>>,
    asked: Option<oneshot::Receiver<u64>>,
}

impl Interceptor for Asking {
    type Effect = ();
    type Event = u64;

    fn on_request(
        &mut self,
        _request: &mut Request,
        _context: &Context<'_>,
        actions: &mut Actions<'_, ()>,
    ) -> Result<Pass, RemoteException> {
        actions.own.push(());
        Ok(Pass::default())
    }

    fn on_answer(
        &mut self,
        answer: u64,
        request: &mut Request,
        _context: &Context<'_>,
        _actions: &mut Actions<'_, ()>,
    ) {
        request
            .message
            .set_varint(allocate_request::RESPONSE_ID, answer);
    }
}

impl Performer<Asking> for Answering {
    fn perform(&mut self, (): ()) {
        self.asked = self.replies.pop_front();
    }

    fn answers(&mut self) -> Option<BoxFuture<'_, Vec<u64>>> {
        let asked = self.asked.take()?;
        Some(Box::pin(async { asked.await.into_iter().collect() }))
    }
}

/// Interceptor that refuses every request.
#[derive(Debug)]
struct Refusing;

impl Interceptor for Refusing {
    type Effect = std::convert::Infallible;
    type Event = std::convert::Infallible;

    fn on_request(
        &mut self,
        _request: &mut Request,
        _context: &Context<'_>,
        _actions: &mut Actions<'_, std::convert::Infallible>,
    ) -> Result<Pass, RemoteException> {
        Err(RemoteException::new(HadoopException::YarnException, "no"))
    }
}

/// Makes a pipeline whose only interceptor asks; returns the senders of its answers.
fn asking(
    proxy: &AmrmProxy,
    rm_token: Token,
    refuses: bool,
) -> (Arc<Pipeline>, Vec<oneshot::Sender<u64>>) {
    let attempt = Attempt::new(AttemptIdentity {
        attempt: ATTEMPT,
        user: "alice".to_owned(),
        tags: Vec::new(),
        role_history: None,
    });
    let (senders, replies): (Vec<_>, VecDeque<_>) = (0..2).map(|_| oneshot::channel()).unzip();
    let performer = Answering {
        replies,
        asked: None,
    };
    let mut links = vec![link(Asking, performer)];
    if refuses {
        links.push(crate::link::pure(Refusing));
    }
    let mut work = proxy.work(&attempt, rm_token);
    work.chain = Chain::new(links);
    (proxy.pipeline(attempt, work), senders)
}

#[tokio::test]
async fn a_request_goes_on_with_its_own_answer_and_an_abandoned_one_leaves_none() {
    let (told, mut arrived) = tokio::sync::mpsc::unbounded_channel();
    let script = answering(move |call| {
        let message = wire::raw_message::RawMessage::parse(call.request.clone()).unwrap();
        told.send(message.varint(allocate_request::RESPONSE_ID))
            .unwrap();
        Ok(Bytes::new())
    });
    let rm = ScriptedScheduler::open(script).await;
    let store = Arc::new(NoStore);
    let proxy = proxy_of(rm.address.to_string(), store, StoredState::default());
    let (pipeline, mut answers) = asking(&proxy, rm.token(ATTEMPT), false);
    let second = answers.pop().unwrap();
    {
        let call = pipeline.call(AmMethod::Allocate, b"", Bytes::new());
        tokio::pin!(call);
        assert!(
            futures_are_pending(&mut call).await,
            "it waits for its answer"
        );
    }
    let _nobody_waits = answers.pop().unwrap().send(6);
    second.send(7).unwrap();
    let call = pipeline.call(AmMethod::Allocate, b"", Bytes::new());
    call.await.unwrap();
    assert_eq!(arrived.recv().await, Some(Some(7)));
    assert!(
        arrived.try_recv().is_err(),
        "the abandoned call has not gone on"
    );
}

/// Polls a call until it waits for something outside; returns whether it still does.
async fn futures_are_pending<T>(call: &mut (impl Future<Output = T> + Unpin)) -> bool {
    tokio::select! {
        biased;
        _ = call => false,
        () = tokio::task::yield_now() => true,
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_another_interceptor_refuses_waits_for_no_answer() {
    let proxy = proxy(Arc::new(NoStore));
    let token = Token::sign(
        &MasterKey::new(1, Bytes::from_static(b"key")),
        Bytes::from_static(b"id"),
        kind::AM_RM_TOKEN,
        "",
    );
    let (pipeline, _never) = asking(&proxy, token, true);
    let call = pipeline.call(AmMethod::Allocate, b"", Bytes::new());
    let refused = tokio::time::timeout(Duration::from_secs(60), call).await;
    assert!(refused.expect("it does not wait").is_err());
}
