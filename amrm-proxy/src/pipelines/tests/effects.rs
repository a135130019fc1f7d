//! Order of what the interceptors, the store and the ResourceManager see, and ends of restored
//! attempts.

use test_support::scripted::{ScriptedScheduler, answering};
use wire::proto::hadoop_common::TokenProto;
use wire::rpc::SecretManager as _;

use super::*;
use std::convert::Infallible;

use crate::call::{Request, Response};
use crate::chain::Chain;
use crate::interceptor::{Action, Actions, Context, Interceptor, Pass};
use crate::link::pure;
use crate::store::{AttemptRecords, IdentityRecord, Part};

/// Events in their order. Also the store that notes what is written.
#[derive(Clone, Debug, Default)]
struct Trace(Arc<Mutex<Vec<String>>>);

impl Trace {
    fn note(&self, event: impl Into<String>) {
        self.0.lock().unwrap().push(event.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Store for Trace {
    fn put_keys(&self, _: Vec<u8>) {
        self.note("the keys are stored");
    }

    fn put_nodes(&self, _: Option<Vec<u8>>) {}

    fn attempt(&self, attempt: ApplicationAttemptId) -> Box<dyn AttemptRecords> {
        let trace = self.clone();
        Box::new(TracedRecords { trace, attempt })
    }
}

struct TracedRecords {
    trace: Trace,
    attempt: ApplicationAttemptId,
}

impl AttemptRecords for TracedRecords {
    fn put(&self, part: Part, _: Option<Vec<u8>>) {
        self.trace.note(format!("{} is stored", part.key()));
    }

    fn when_stored(&self, stored: Box<dyn FnOnce() + Send>) {
        stored();
    }

    fn end(&self) {
        let number = self.attempt.attempt_id;
        self.trace
            .note(format!("records of attempt {number} are removed"));
    }
}

/// Interceptor that notes its calls and stores a part in each.
#[derive(Debug)]
struct Noting(Trace);

impl Interceptor for Noting {
    type Effect = Infallible;
    type Event = Infallible;

    fn on_request(
        &mut self,
        request: &mut Request,
        _context: &Context<'_>,
        actions: &mut Actions<'_, Infallible>,
    ) -> Result<Pass, RemoteException> {
        let method = request.method.as_str();
        self.0.note(format!("the interceptor gets {method}"));
        actions.chain.push(Action::Persist(Part::new("asks"), None));
        Ok(Pass::default())
    }

    fn on_reregistered(
        &mut self,
        grant: Option<&Response>,
        _request: &mut Request,
        _context: &Context<'_>,
        actions: &mut Actions<'_, Infallible>,
    ) {
        let with = if grant.is_some() { "with" } else { "without" };
        let event = format!("the interceptor is registered again {with} a grant");
        self.0.note(event);
        actions
            .chain
            .push(Action::Persist(Part::new("limits"), None));
    }
}

/// Makes a pipeline whose only interceptor notes its calls.
fn noting_pipeline(proxy: &AmrmProxy, trace: &Trace, rm_token: Token) -> Arc<Pipeline> {
    let attempt = Attempt::new(AttemptIdentity {
        attempt: ATTEMPT,
        user: "alice".to_owned(),
        tags: Vec::new(),
        role_history: None,
    });
    let mut work = proxy.work(&attempt, rm_token);
    work.chain = Chain::new(vec![pure(Noting(trace.clone()))]);
    proxy.pipeline(attempt, work)
}

#[tokio::test]
async fn interceptors_and_store_know_of_a_new_resource_manager_before_its_next_call() {
    let trace = Trace::default();
    let of_rm = trace.clone();
    // Refusals of the first calls to allocate, the last one first.
    let refusals = Mutex::new(vec![
        HadoopException::YarnException,
        HadoopException::ApplicationMasterNotRegistered,
    ]);
    let script = answering(move |call| {
        of_rm.note(format!("the ResourceManager gets {}", call.method));
        if call.method != "allocate" {
            return Ok(Bytes::new());
        }
        match refusals.lock().unwrap().pop() {
            Some(kind) => Err(RemoteException::new(kind, "refused")),
            None => Ok(Bytes::new()),
        }
    });
    let rm = ScriptedScheduler::open(script).await;
    let store = Arc::new(trace.clone());
    let proxy = proxy_of(rm.address.to_string(), store, StoredState::default());
    let pipeline = noting_pipeline(&proxy, &trace, rm.token(ATTEMPT));
    let call = async |method: AmMethod| pipeline.call(method, b"", Bytes::new()).await;
    call(AmMethod::Register).await.unwrap();
    trace.take();
    assert!(call(AmMethod::Allocate).await.is_err());
    assert_eq!(
        trace.take(),
        [
            "the interceptor gets allocate",
            "asks is stored",
            "the ResourceManager gets allocate",
            "registration is stored",
            "the ResourceManager gets registerApplicationMaster",
            "the interceptor is registered again with a grant",
            "limits is stored",
            "the ResourceManager gets allocate",
        ]
    );
    call(AmMethod::Allocate).await.unwrap();
    assert_eq!(
        trace.take()[..5],
        [
            "the interceptor gets allocate",
            "asks is stored",
            "the interceptor is registered again without a grant",
            "limits is stored",
            "the ResourceManager gets allocate",
        ]
    );
}

/// Makes a proxy over these attempts, each with its identity record only.
fn restored(trace: &Trace, found: &[(ApplicationAttemptId, Vec<u8>)]) -> Arc<AmrmProxy> {
    let attempts = found.iter().map(|(attempt, identity)| {
        let parts = AttemptParts::from([(IDENTITY.key().to_owned(), identity.clone())]);
        (*attempt, parts)
    });
    let found = StoredState {
        keys: None,
        nodes: None,
        attempts: attempts.collect(),
    };
    proxy_of("127.0.0.1:1".to_owned(), Arc::new(trace.clone()), found)
}

#[test]
fn of_two_restored_attempts_of_an_application_the_earlier_one_ends() {
    let trace = Trace::default();
    let identity = IdentityRecord {
        user: "alice".to_owned(),
        rm_token: Some(TokenProto::from(renewed())),
        ..IdentityRecord::default()
    };
    let identity = identity.to_stored();
    let later = ATTEMPT.application_id.attempt(2);
    let proxy = restored(&trace, &[(ATTEMPT, identity.clone()), (later, identity)]);
    let tokens = proxy.tokens();
    let is_valid = |attempt| {
        let token = tokens.local().token_for(attempt);
        tokens.retrieve(&token.identifier).is_ok()
    };
    assert!(!is_valid(ATTEMPT), "its token opens nothing any more");
    assert!(is_valid(later));
    let removed = "records of attempt 1 are removed".to_owned();
    assert_eq!(trace.take().last(), Some(&removed));
}

#[test]
fn records_of_an_attempt_that_cannot_be_restored_are_removed() {
    let trace = Trace::default();
    let proxy = restored(&trace, &[(ATTEMPT, vec![1, 0xff])]);
    assert_eq!(proxy.snapshot().pipelines, 0);
    let removed = "records of attempt 1 are removed".to_owned();
    assert_eq!(trace.take().last(), Some(&removed));
}
