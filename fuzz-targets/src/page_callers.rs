//! What callers of pages send to prove who they are, and the rules that name them.

use web_auth::{Cookies, Mechanism, NameRules, Proven, negotiation};

use crate::{Memory, Target};

pub(crate) const TARGET: Target = Target {
    name: "page_callers",
    bytes_max: 256,
    // A repetition in a rule takes some bytes, and the memory of its pattern is bounded apart.
    memory: Memory {
        base: 64 << 20,
        per_byte: 1024,
    },
    run,
    seeds,
};

const SECRET: &[u8] = b"secret";
const REALM: &str = "NODES.TEST";
const EXPIRES_MS: i64 = 1_000;

/// The first line says what the rest is.
fn run(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    let Some((kind, text)) = text.split_once('\n') else {
        return;
    };
    match kind {
        "cookie" => read_cookie(text),
        "header" => read_header(text),
        _ => name_user(kind, text),
    }
}

/// Only what was signed proves somebody.
fn read_cookie(text: &str) {
    if let Ok(proven) = Cookies::new(SECRET).read(text, 0) {
        assert_eq!((proven, text), (alice(), cookie().as_str()));
    }
    let late = Cookies::new(SECRET).read(text, EXPIRES_MS);
    assert!(late.is_err(), "it has expired");
}

/// A token is what its answer's form would carry.
fn read_header(text: &str) {
    if let Some(token) = negotiation::token(text) {
        assert!(!token.is_empty() && token.len() < text.len());
        let again = negotiation::token(&negotiation::challenge(&token));
        assert_eq!(again, Some(token));
    }
}

/// Names are simple, whatever the rules say.
fn name_user(rules: &str, principal: &str) {
    if let Ok(rules) = NameRules::parse(rules, Mechanism::Hadoop)
        && let Ok(user) = rules.user(principal, REALM)
    {
        assert!(!user.is_empty() && !user.contains(['/', '@']), "{user}");
    }
}

fn alice() -> Proven {
    Proven {
        user: "alice".to_owned(),
        principal: format!("alice@{REALM}"),
    }
}

fn cookie() -> String {
    let cookie = Cookies::new(SECRET).write(&alice(), EXPIRES_MS);
    cookie.expect("the names are plain")
}

fn seeds() -> Vec<Vec<u8>> {
    [
        format!("cookie\n{}", cookie()),
        format!("header\n{}", negotiation::challenge(b"a token")),
        format!("RULE:[2:$1@$0](nm@.*)s/@.*/x/g/L DEFAULT\nnm/host@{REALM}"),
        format!("RULE:[1:$1](a.*)s/(l)(i)/$2$1/\nalice@{REALM}"),
        "DEFAULT\nnm/host".to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec()
}
