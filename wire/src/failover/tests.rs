use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use test_support::HeldPort;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::client::{ClientAuth, ClientOptions, Operation, RpcError};
use crate::dial::Dialer;
use crate::exception::RemoteException;
use crate::proto::hadoop_yarn::{GetNewApplicationRequestProto, GetNewApplicationResponseProto};
use crate::protocol::application_client::{
    self, ApplicationClientProtocol, ApplicationClientService, GetNewApplication,
};
use crate::rpc::Caller;
use crate::server::{RpcServer, ServerAuth};
use crate::testing::{Keys, am_token};

/// Refuses a number of calls with an exception, then answers.
struct Rm {
    exception: HadoopException,
    refusals: AtomicU32,
    calls: Arc<AtomicU32>,
}

impl ApplicationClientProtocol for Rm {
    async fn get_new_application(
        &self,
        _: &Caller,
        _: GetNewApplicationRequestProto,
    ) -> Result<GetNewApplicationResponseProto, RemoteException> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let less = |left: u32| left.checked_sub(1);
        let order = Ordering::Relaxed;
        if self.refusals.fetch_update(order, order, less).is_ok() {
            return Err(RemoteException::new(self.exception, "no"));
        }
        Ok(GetNewApplicationResponseProto::default())
    }
}

struct Served {
    address: SocketAddr,
    calls: Arc<AtomicU32>,
    _serving: AbortOnDropHandle<()>,
}

async fn serve(exception: HadoopException, refusals: u32) -> Served {
    serve_with(ServerAuth::Simple, exception, refusals).await
}

async fn serve_with(auth: ServerAuth, exception: HadoopException, refusals: u32) -> Served {
    let calls = Arc::new(AtomicU32::new(0));
    let rm = Rm {
        exception,
        refusals: refusals.into(),
        calls: Arc::clone(&calls),
    };
    let server = RpcServer::builder(auth).service(ApplicationClientService::new(Arc::new(rm)));
    let (server, address) = server.bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let serving = tokio::spawn(server.serve(CancellationToken::new()));
    Served {
        address,
        calls,
        _serving: AbortOnDropHandle::new(serving),
    }
}

fn config(addresses: &[SocketAddr]) -> LinkConfig {
    let addresses = addresses.iter().map(ToString::to_string).collect();
    LinkConfig {
        endpoints: Arc::new(Endpoints::new(addresses)),
        protocol: application_client::PROTOCOL,
        auth: ClientAuth::Simple {
            user: "u".to_owned(),
        },
        options: ClientOptions::default(),
    }
}

fn policy(give_up_after_ms: u64) -> Policy {
    Policy {
        pauses: Pauses::NODE,
        interval_max: Duration::from_millis(1),
        give_up_after: Some(Duration::from_millis(give_up_after_ms)),
        reactions: Reactions::REPEATABLE,
    }
}

fn client(addresses: &[SocketAddr], give_up_after_ms: u64) -> FailoverClient {
    FailoverClient::new(config(addresses), policy(give_up_after_ms))
}

async fn ask(client: &mut FailoverClient) -> Result<GetNewApplicationResponseProto, FailoverError> {
    let request = GetNewApplicationRequestProto::default();
    client.call::<GetNewApplication>(&request).await
}

#[tokio::test]
async fn a_standby_is_passed_over() {
    let standby = serve(HadoopException::Standby, u32::MAX).await;
    let active = serve(HadoopException::Standby, 0).await;
    let mut client = client(&[standby.address, active.address], 60_000);
    for _ in 0..3 {
        assert!(ask(&mut client).await.is_ok());
    }
    assert_eq!(standby.calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_client_begins_where_another_of_the_process_got_its_answer() {
    let standby = serve(HadoopException::Standby, u32::MAX).await;
    let active = serve(HadoopException::Standby, 0).await;
    let config = config(&[standby.address, active.address]);
    for _ in 0..2 {
        let mut client = FailoverClient::new(config.clone(), policy(60_000));
        assert!(ask(&mut client).await.is_ok());
    }
    assert_eq!(standby.calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn one_that_cannot_answer_now_is_asked_again() {
    let rm = serve(HadoopException::Retriable, 3).await;
    let mut client = client(&[rm.address], 60_000);
    let mut silence = client.silence();
    assert!(ask(&mut client).await.is_ok());
    assert!(silence.has_changed().unwrap());
    assert_eq!(*silence.borrow_and_update(), None);
}

#[tokio::test]
async fn a_refusal_is_final() {
    let rm = serve(HadoopException::YarnException, 1).await;
    let mut client = client(&[rm.address], 60_000);
    let error = ask(&mut client).await.unwrap_err();
    assert!(error.is(HadoopException::YarnException), "{error}");
    assert_eq!(rm.calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_refusal_keeps_the_connection_and_the_active_server() {
    let rm = serve(HadoopException::YarnException, 1).await;
    let dead = HeldPort::free();
    let mut client = client(&[rm.address, dead.address()], 0);
    assert!(ask(&mut client).await.is_err());
    assert!(client.link.is_open_to(0));
    assert_eq!(client.link.endpoints().active(), 0);
    assert!(ask(&mut client).await.is_ok());
    assert!(client.link.is_open_to(0) && !client.link.is_open_to(1));
}

#[tokio::test]
async fn a_busy_server_is_left_for_the_next_one() {
    let busy = serve(HadoopException::Retriable, u32::MAX).await;
    let next = serve(HadoopException::Standby, 0).await;
    let mut client = client(&[busy.address, next.address], 60_000);
    assert!(ask(&mut client).await.is_ok());
    let order = Ordering::Relaxed;
    assert_eq!((busy.calls.load(order), next.calls.load(order)), (1, 1));
}

#[test]
fn only_the_exception_of_a_resource_manager_is_one() {
    let asked = HadoopException::Standby;
    let failed = |source| {
        FailoverError::Call(Box::new(CallError {
            address: String::new(),
            method: "any",
            reused: false,
            source,
        }))
    };
    let remote = |exception| failed(RpcError::Remote(RemoteException::new(exception, "no")));
    assert!(remote(asked).is(asked));
    assert!(!remote(HadoopException::YarnException).is(asked));
    let silent = RpcError::Timeout {
        address: ([127, 0, 0, 1], 1).into(),
        operation: Operation::Call,
        after: Duration::ZERO,
    };
    assert!(!failed(silent).is(asked));
    let gave_up = FailoverError::GaveUp {
        waited: Duration::ZERO,
        source: None,
    };
    assert!(!gave_up.is(asked));
}

#[tokio::test]
async fn an_answer_and_a_refusal_both_end_a_silence() {
    for refusals in [0, 1] {
        let dead = HeldPort::free();
        let rm = serve(HadoopException::YarnException, refusals).await;
        let mut client = client(&[dead.address(), rm.address], 60_000);
        let silence = client.silence();
        assert_eq!(ask(&mut client).await.is_err(), refusals == 1);
        assert!(silence.has_changed().unwrap(), "it was silent at first");
        assert_eq!(*silence.borrow(), None);
        assert_eq!(client.plan.failing_for(Instant::now()), None);
    }
}

#[tokio::test]
async fn the_end_of_a_silence_is_published_and_nothing_without_one() {
    let rm = serve(HadoopException::Standby, 0).await;
    let mut client = client(&[rm.address], 0);
    let mut silence = client.silence();
    assert!(ask(&mut client).await.is_ok());
    assert!(!silence.has_changed().unwrap());
    client.silence.send_replace(Some(Duration::from_secs(1)));
    silence.mark_unchanged();
    assert!(ask(&mut client).await.is_ok());
    assert!(silence.has_changed().unwrap());
    assert_eq!(*silence.borrow(), None);
}

#[tokio::test]
async fn the_limit_ends_tries_that_nobody_answers() {
    let dead = HeldPort::free();
    let error = ask(&mut client(&[dead.address()], 20)).await.unwrap_err();
    let FailoverError::GaveUp { waited, .. } = error else {
        panic!("{error}");
    };
    assert!(waited >= Duration::from_millis(20), "{waited:?}");
}

#[tokio::test]
async fn the_deadline_cuts_a_try_off() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = config(&[silent.local_addr().unwrap()]);
    config.auth = ClientAuth::Token(am_token());
    let mut client = FailoverClient::new(config, policy(60_000));
    let call = RawCall::of::<GetNewApplication>(&GetNewApplicationRequestProto::default());
    let deadline = Instant::now() + Duration::from_millis(20);
    let decode = GetNewApplicationResponseProto::decode;
    let error = client.call_raw(&call, deadline, decode).await.unwrap_err();
    assert!(
        matches!(error, FailoverError::GaveUp { source: None, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_is_silent_until_the_deadline_is_left_before_the_next_call() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let active = serve(HadoopException::Standby, 0).await;
    let mut client = client(&[silent.local_addr().unwrap(), active.address], 60_000);
    let call = RawCall::of::<GetNewApplication>(&GetNewApplicationRequestProto::default());
    let decode = GetNewApplicationResponseProto::decode;
    let deadline = Instant::now() + Duration::from_millis(20);
    assert!(client.call_raw(&call, deadline, decode).await.is_err());
    let deadline = Instant::now() + Duration::from_secs(60);
    let answer = client.call_raw(&call, deadline, decode).await;
    assert!(answer.is_ok(), "{answer:?}");
}

#[tokio::test]
async fn each_call_with_a_deadline_has_the_whole_limit() {
    let dead = HeldPort::free();
    let mut client = client(&[dead.address()], 20);
    let call = RawCall::of::<GetNewApplication>(&GetNewApplicationRequestProto::default());
    for _ in 0..2 {
        let began = Instant::now();
        let deadline = began + Duration::from_secs(60);
        let decode = GetNewApplicationResponseProto::decode;
        let error = client.call_raw(&call, deadline, decode).await.unwrap_err();
        let FailoverError::GaveUp { waited, .. } = error else {
            panic!("{error}");
        };
        assert!(waited >= Duration::from_millis(20), "{waited:?}");
        assert!(waited <= began.elapsed(), "{waited:?}");
    }
}

#[tokio::test]
async fn a_client_with_a_connection_stays_when_others_turn_away() {
    let rm = serve(HadoopException::Standby, 0).await;
    let dead = HeldPort::free();
    let mut client = client(&[rm.address, dead.address()], 0);
    assert!(ask(&mut client).await.is_ok());
    client.link.endpoints().turn_from(0);
    assert!(ask(&mut client).await.is_ok());
}

#[tokio::test]
async fn a_connection_on_which_a_call_has_timed_out_is_closed() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = config(&[silent.local_addr().unwrap()]);
    config.options.call_timeout = Duration::from_millis(20);
    let mut link = Link::new(config);
    let request = GetNewApplicationRequestProto::default();
    let error = link
        .call::<GetNewApplication>(0, &request)
        .await
        .unwrap_err();
    assert!(
        matches!(error.source, RpcError::Timeout { .. }),
        "{error:?}"
    );
    assert!(!link.is_open_to(0));
}

#[tokio::test]
async fn a_dead_first_address_of_a_name_does_not_count_as_a_failure() {
    let rm = serve(HadoopException::Standby, 0).await;
    let mut config = config(&[]);
    config.endpoints = Arc::new(Endpoints::new(vec!["rm:8032".to_owned()]));
    let dead = HeldPort::free();
    config.options.dialer = Dialer::new(Arc::new(vec![dead.address(), rm.address]));
    let mut client = FailoverClient::new(config, policy(0));
    assert!(ask(&mut client).await.is_ok());
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_is_opened_anew_at_the_same_server() {
    let rm = serve(HadoopException::Standby, 0).await;
    let (first, mut server_side) = idle_closer(rm.address, Closes::AfterAnswer).await;
    let dead = HeldPort::free();
    let mut client = client(&[first, dead.address()], 0);
    assert!(ask(&mut client).await.is_ok());
    server_side.changed().await.unwrap();
    // Whether the loss shows before the call or with it: no failure counts, or the limit would end
    // the call.
    assert!(ask(&mut client).await.is_ok());
    assert_eq!(rm.calls.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_connection_that_is_lost_with_its_next_call_is_opened_anew_at_the_same_server() {
    let rm = serve(HadoopException::Standby, 0).await;
    let (first, _) = idle_closer(rm.address, Closes::AtNextCall).await;
    let dead = HeldPort::free();
    let mut client = client(&[first, dead.address()], 0);
    for _ in 0..2 {
        let answer = ask(&mut client).await;
        assert!(answer.is_ok(), "{answer:?}");
    }
    assert_eq!(rm.calls.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_lost_connection_is_of_no_use() {
    let rm = serve(HadoopException::Standby, 0).await;
    let (first, _) = idle_closer(rm.address, Closes::AfterAnswer).await;
    let mut client = client(&[first], 0);
    assert!(ask(&mut client).await.is_ok());
    let lost = async {
        while client.link.is_open_to(0) {
            tokio::task::yield_now().await;
        }
    };
    let lost = tokio::time::timeout(Duration::from_secs(60), lost).await;
    lost.expect("the loss shows before the next call");
}

/// Time at which the server's side of a connection closes it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Closes {
    AfterAnswer,
    AtNextCall,
}

/// A relay that closes its first connection once the first call is answered; the receiver hears
/// when.
async fn idle_closer(to: SocketAddr, closes: Closes) -> (SocketAddr, watch::Receiver<bool>) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (closed, hears) = watch::channel(false);
    tokio::spawn(async move {
        let (mut near, _) = listener.accept().await.unwrap();
        let mut far = tokio::net::TcpStream::connect(to).await.unwrap();
        let mut bytes = vec![0; 4096];
        let read = near.read(&mut bytes).await.unwrap();
        far.write_all(&bytes[..read]).await.unwrap();
        let read = far.read(&mut bytes).await.unwrap();
        near.write_all(&bytes[..read]).await.unwrap();
        if closes == Closes::AtNextCall {
            assert!(near.read(&mut bytes).await.unwrap() > 0);
        }
        drop(near);
        closed.send_replace(true);
        let (mut near, _) = listener.accept().await.unwrap();
        let mut far = tokio::net::TcpStream::connect(to).await.unwrap();
        let _ = copy_bidirectional(&mut near, &mut far).await;
    });
    (address, hears)
}

#[test]
fn a_token_that_is_sent_again_is_no_new_one() {
    let dead = HeldPort::free();
    let mut client = client(&[dead.address()], 0);
    let token = |identifier: &'static [u8]| Token {
        identifier: identifier.into(),
        ..am_token()
    };
    assert!(client.set_token(token(b"first")));
    assert!(!client.set_token(token(b"first")));
    assert!(client.set_token(token(b"second")));
}

#[tokio::test]
async fn only_a_new_token_closes_the_connection() {
    let auth = ServerAuth::Token(Arc::new(Keys));
    let rm = serve_with(auth, HadoopException::Standby, 0).await;
    let mut config = config(&[rm.address]);
    config.auth = ClientAuth::Token(am_token());
    let mut client = FailoverClient::new(config, policy(60_000));
    assert!(ask(&mut client).await.is_ok());
    assert!(!client.set_token(am_token()));
    assert!(client.link.is_open_to(0));
    let renewed = Token {
        identifier: Bytes::from_static(b"renewed"),
        ..am_token()
    };
    assert!(client.set_token(renewed));
    assert!(!client.link.is_open_to(0));
}

#[test]
fn many_clients_that_lose_one_server_turn_once() {
    let endpoints = Endpoints::new(vec![String::new(); 3]);
    for active in [1, 2, 0] {
        let lost = endpoints.active();
        for _ in 0..500 {
            endpoints.turn_from(lost);
        }
        assert_eq!(endpoints.active(), active);
    }
}

#[test]
fn a_late_loss_of_any_server_but_the_active_one_turns_nobody() {
    const SERVERS: usize = 4;
    for active in 0..SERVERS {
        let endpoints = Endpoints::new(vec![String::new(); SERVERS]);
        (0..active).for_each(|failed| endpoints.turn_from(failed));
        for late in (0..SERVERS).filter(|late| *late != active) {
            endpoints.turn_from(late);
            assert_eq!(endpoints.active(), active, "after a late loss of {late}");
        }
    }
}

#[tokio::test]
async fn a_client_that_loses_the_first_of_three_late_leaves_the_others_with_the_good_one() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let standby = serve(HadoopException::Standby, u32::MAX).await;
    let active = serve(HadoopException::Standby, 0).await;
    let addresses = [
        silent.local_addr().unwrap(),
        standby.address,
        active.address,
    ];
    let config = config(&addresses);
    let mut late = FailoverClient::new(config.clone(), policy(60_000));
    let call = RawCall::of::<GetNewApplication>(&GetNewApplicationRequestProto::default());
    let deadline = Instant::now() + Duration::from_millis(20);
    let waits = late.call_raw(&call, deadline, GetNewApplicationResponseProto::decode);
    // While it waits for the first server, others find the third.
    let others = async { [0, 1].map(|failed| config.endpoints.turn_from(failed)) };
    let (lost, _) = tokio::join!(waits, others);
    assert!(lost.is_err());
    let mut other = FailoverClient::new(config, policy(60_000));
    for client in [&mut other, &mut late] {
        assert!(ask(client).await.is_ok());
    }
    assert_eq!(standby.calls.load(Ordering::Relaxed), 0);
    assert_eq!(active.calls.load(Ordering::Relaxed), 2);
}
