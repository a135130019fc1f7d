//! Who may use a protocol: asked about once per connection, before its first call, whether or not
//! the connection has a layer.

use refusals::Reason;
use wire::rpc::{Protection, RpcError};

use super::*;

const DENIED: &str = "this caller is not to pass";

/// A rule that lets one user pass, and notes whom it was asked about.
#[derive(Default)]
struct Rule {
    passes: bool,
    asked: Mutex<Vec<String>>,
}

impl Authorize for Rule {
    fn authorize<'a>(
        &'a self,
        caller: &'a Caller,
        protocol: &'a str,
    ) -> BoxFuture<'a, Result<(), RemoteException>> {
        Box::pin(async move {
            // A rule may have to wait, for a name server as an example.
            tokio::task::yield_now().await;
            let asked = format!("{} {protocol}", caller.user);
            self.asked.lock().unwrap().push(asked);
            if self.passes {
                return Ok(());
            }
            Err(RemoteException::with_code(
                HadoopException::Authorization,
                DENIED,
                RpcErrorCode::FatalUnauthorized,
            ))
        })
    }
}

async fn start_with_rule(passes: bool, levels: Protections) -> (Running, Arc<Rule>) {
    let rule = Arc::new(Rule {
        passes,
        ..Rule::default()
    });
    let asked: Arc<dyn Authorize> = Arc::clone(&rule) as _;
    let limits = ServerLimits::default();
    let server = start_authorizing(token_only(), limits, levels, Some(asked)).await;
    (server, rule)
}

fn all_levels() -> [Protections; 3] {
    Protection::ALL.map(Protections::from)
}

async fn connect_as(
    server: &Running,
    protocol: &'static str,
    levels: Protections,
) -> Result<RpcClient, RpcError> {
    let options = ClientOptions {
        protections: levels,
        ..ClientOptions::default()
    };
    RpcClient::connect(
        server.address,
        protocol,
        ClientAuth::Token(token()),
        &options,
    )
    .await
}

/// Makes a call on a new connection; returns the class and the text of the refusal.
async fn refusal(
    server: &Running,
    protocol: &'static str,
    levels: Protections,
) -> (String, String) {
    let failed = async {
        let client = connect_as(server, protocol, levels).await?;
        call(&client, "echo", b"once").await
    };
    match failed.await {
        Err(RpcError::Remote(error)) => (error.class_name, error.message),
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_caller_who_may_not_is_refused_before_the_first_call_on_each_level() {
    for levels in all_levels() {
        let (server, rule) = start_with_rule(false, levels.clone()).await;
        let (class, text) = refusal(&server, PROTOCOL, levels).await;
        assert_eq!(class, HadoopException::Authorization.as_class_name());
        assert_eq!(text, DENIED);
        let asked = rule.asked.lock().unwrap().clone();
        assert_eq!(asked, [format!("{ATTEMPT} {PROTOCOL}")]);
        refused::assert_counted(&server, Reason::Unauthorized).await;
    }
}

#[tokio::test]
async fn a_caller_who_may_is_asked_about_once_for_all_calls() {
    for levels in all_levels() {
        let (server, rule) = start_with_rule(true, levels.clone()).await;
        let client = connect_as(&server, PROTOCOL, levels).await.unwrap();
        for _ in 0..3 {
            assert_eq!(call(&client, "echo", b"again").await.unwrap(), "again");
        }
        assert_eq!(rule.asked.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_context_for_a_protocol_that_the_port_does_not_have_is_refused() {
    let (server, rule) = start_with_rule(true, Protections::default()).await;
    let long: &str = "x".repeat(10_000).leak();
    for protocol in ["org.example.OtherProtocolPB", "", long] {
        let (class, text) = refusal(&server, protocol, Protections::default()).await;
        assert_eq!(class, HadoopException::Authorization.as_class_name());
        assert!(
            text.starts_with("Unknown protocol: ") && text.len() < 300,
            "{text}"
        );
    }
    assert_eq!(rule.asked.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn a_context_without_a_protocol_is_refused_where_there_is_a_rule() {
    let (server, _rule) = start_with_rule(true, Protections::default()).await;
    let mut raw = Raw::connect(server.address).await;
    raw.authenticate(token()).await;
    let mut context = BytesMut::new();
    header::put_context(&mut context, &CLIENT_ID, None, PROTOCOL).unwrap();
    // The protocol is the last field: its tag becomes one that nobody knows.
    let tag = context.len() - PROTOCOL.len() - 2;
    assert_eq!(context[tag], 0x1a);
    context[tag] = 0x7a;
    raw.send(&context).await;
    let (call_id, exception) = raw.fatal().await;
    assert_eq!(call_id, header::CALL_ID_CONTEXT);
    assert_eq!(exception.code, RpcErrorCode::FatalUnauthorized);
    assert_eq!(exception.message, "Null protocol not authorized");
}
