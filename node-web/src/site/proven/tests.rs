//! Callers with good and bad proofs, before a judge that knows the tokens of the test.

use std::sync::atomic::{AtomicU32, Ordering};

use web_auth::{FAILURES_PER_SECOND, Mechanism};

use super::*;

const NOW: EpochMillis = EpochMillis(1_700_000_000_000);
const SECRET: &[u8] = b"secret";

/// Judge of tokens that say what they are.
#[derive(Default)]
struct Judge {
    asked: AtomicU32,
}

impl TokenJudge for Judge {
    fn judge(&self, token: Vec<u8>) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let accepted = |principal: &str| Verdict::Accepted {
            principal: principal.to_owned(),
            answer: b"me".to_vec(),
        };
        let verdict = match token.as_slice() {
            b"alice" => accepted("alice@NODES.TEST"),
            b"stranger" => accepted("alice@ELSEWHERE"),
            b"more" => Verdict::Incomplete(b"go on".to_vec()),
            b"no key" => Verdict::Unavailable("no key".to_owned()),
            _ => Verdict::Refused("nonsense".to_owned()),
        };
        Box::pin(async { verdict })
    }
}

fn pages() -> (KerberosPages, Arc<Judge>) {
    let judge = Arc::new(Judge::default());
    let pages = KerberosPages {
        judge: Arc::clone(&judge) as _,
        rules: NameRules::parse("", Mechanism::Hadoop).unwrap(),
        default_realm: "NODES.TEST".to_owned(),
        cookies: Cookies::new(SECRET),
        validity: Duration::from_secs(10),
        cookie_attributes: "; Path=/; HttpOnly".to_owned(),
        open_paths: vec!["/metrics".to_owned()],
        failures: Failures::default(),
    };
    (pages, judge)
}

fn request(path: &str, headers: &[(&str, &str)]) -> Request<Bytes> {
    let request = Request::get(path);
    let request = headers.iter().fold(request, |request, (name, value)| {
        request.header(*name, *value)
    });
    request.body(Bytes::new()).unwrap()
}

fn header_of<'a>(answer: &'a Answer, name: &str) -> &'a str {
    let value = answer.headers().get(name);
    value.map_or("", |value| value.to_str().unwrap())
}

async fn asks(pages: &KerberosPages, headers: &[(&str, &str)]) -> Result<Caller, Answer> {
    pages.caller(&request("/node", headers), NOW).await
}

/// Returns the `Authorization` header of a token.
fn negotiate(token: &str) -> String {
    negotiation::challenge(token.as_bytes())
}

#[tokio::test]
async fn without_a_proof_every_path_but_the_open_ones_is_refused() {
    let (pages, judge) = pages();
    for path in [
        "/",
        "/node",
        "/ws/v1/node/info",
        "/health",
        "/static/x",
        "/metrics/",
        "/jmx",
    ] {
        let refusal = pages.caller(&request(path, &[]), NOW).await.unwrap_err();
        assert_eq!(refusal.status(), StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(header_of(&refusal, "www-authenticate"), "Negotiate");
        assert_eq!(
            header_of(&refusal, "set-cookie"),
            "hadoop.auth=; Path=/; HttpOnly"
        );
    }
    let open = pages.caller(&request("/metrics?x=y", &[]), NOW).await;
    assert_eq!(open.unwrap(), Caller::default());
    // A name alone proves nothing here.
    let named = pages
        .caller(&request("/node?user.name=root", &[]), NOW)
        .await;
    assert!(named.is_err());
    assert_eq!(judge.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_good_token_gets_a_name_a_cookie_and_the_servers_proof_and_the_cookie_counts_after_it() {
    let (pages, judge) = pages();
    let caller = asks(&pages, &[("authorization", &negotiate("alice"))])
        .await
        .unwrap();
    assert_eq!(caller.name.as_deref(), Some("alice"));
    assert_eq!(caller.challenge.unwrap(), negotiate("me").as_str());
    let cookie = caller.cookie.unwrap().to_str().unwrap().to_owned();
    let begin = "hadoop.auth=\"u=alice&p=alice@NODES.TEST&t=kerberos&e=1700000010000&s=";
    assert!(
        cookie.starts_with(begin) && cookie.ends_with("; Path=/; HttpOnly"),
        "{cookie}"
    );
    let sent = cookie.split(';').next().unwrap();
    let again = asks(&pages, &[("cookie", &format!("a=b; {sent}"))])
        .await
        .unwrap();
    assert_eq!((again.name.as_deref(), again.cookie), (Some("alice"), None));
    assert_eq!(judge.asked.load(Ordering::Relaxed), 1);
    let late = EpochMillis(NOW.0 + 10_000);
    let expired = pages
        .caller(&request("/node", &[("cookie", sent)]), late)
        .await;
    assert_eq!(expired.unwrap_err().status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn bad_proofs_get_hadoops_statuses() {
    let (pages, _judge) = pages();
    for (header, status) in [
        (negotiate("garbage"), StatusCode::FORBIDDEN),
        (negotiate("stranger"), StatusCode::FORBIDDEN),
        (negotiate("more"), StatusCode::UNAUTHORIZED),
        (negotiate("no key"), StatusCode::SERVICE_UNAVAILABLE),
        ("Negotiate ***".to_owned(), StatusCode::UNAUTHORIZED),
        ("Basic YTpi".to_owned(), StatusCode::UNAUTHORIZED),
    ] {
        let refusal = asks(&pages, &[("authorization", &header)])
            .await
            .unwrap_err();
        assert_eq!(refusal.status(), status, "{header}");
        if header == negotiate("more") {
            assert_eq!(header_of(&refusal, "www-authenticate"), negotiate("go on"));
        }
    }
    let other = Cookies::new(b"another").write(
        &Proven {
            user: "root".to_owned(),
            principal: "root@NODES.TEST".to_owned(),
        },
        i64::MAX,
    );
    let other = other.unwrap();
    for forged in [
        format!("hadoop.auth=\"{other}\""),
        "hadoop.auth=u=root&p=root&t=kerberos&e=9999999999999&s=AAAA".to_owned(),
        format!("hadoop.auth={}", "x".repeat(60_000)),
    ] {
        let refusal = asks(&pages, &[("cookie", &forged)]).await.unwrap_err();
        assert_eq!(refusal.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(
            header_of(&refusal, "set-cookie"),
            "hadoop.auth=; Path=/; HttpOnly"
        );
        // A good token counts beside it, as in Hadoop.
        let good = [
            ("cookie", forged.as_str()),
            ("authorization", &negotiate("alice")),
        ];
        assert!(asks(&pages, &good).await.is_ok());
    }
}

#[tokio::test]
async fn an_address_with_many_wrong_proofs_waits_while_cookies_and_others_are_served() {
    let (pages, judge) = pages();
    let bad = negotiate("garbage");
    let caller = asks(&pages, &[("authorization", &negotiate("alice"))])
        .await
        .unwrap();
    let cookie = caller.cookie.unwrap().to_str().unwrap().to_owned();
    let mut statuses = Vec::new();
    // The second may turn once on the way.
    for _ in 0..=2 * FAILURES_PER_SECOND {
        let refusal = asks(&pages, &[("authorization", &bad)]).await.unwrap_err();
        statuses.push(refusal.status());
        if refusal.status() == StatusCode::TOO_MANY_REQUESTS {
            break;
        }
    }
    assert_eq!(statuses.pop(), Some(StatusCode::TOO_MANY_REQUESTS));
    assert!(
        statuses
            .iter()
            .all(|status| *status == StatusCode::FORBIDDEN)
    );
    let judged = judge.asked.load(Ordering::Relaxed) as usize;
    assert_eq!(judged, statuses.len() + 1);
    let sent = cookie.split(';').next().unwrap();
    assert!(asks(&pages, &[("cookie", sent)]).await.is_ok());
    let mut elsewhere = request("/node", &[("authorization", &bad)]);
    elsewhere
        .extensions_mut()
        .insert(PeerKey::of([192, 0, 2, 1].into()));
    let refusal = pages.caller(&elsewhere, NOW).await.unwrap_err();
    assert_eq!(refusal.status(), StatusCode::FORBIDDEN);
}
