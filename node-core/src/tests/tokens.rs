//! Tokens of applications: which ones file systems get, and until when.

use launch_context::LaunchContext;
use wire::token::{Token, kind};

use super::*;

fn token_of(service: &str, password: u8) -> Token {
    Token {
        identifier: vec![1].into(),
        password: vec![password].into(),
        kind: kind::HDFS_DELEGATION_TOKEN.to_owned(),
        service: service.to_owned(),
    }
}

fn secure_node() -> Node {
    let mut node = Node::new();
    node.core.config.is_secure = true;
    node
}

/// Starts a container that brings these tokens.
fn start_with(node: &mut Node, n: i64, tokens: Vec<Token>) {
    let request = StartRequest {
        context: Ok(LaunchContext {
            file_system_tokens: tokens,
            ..LaunchContext::default()
        }),
        ..request(n)
    };
    let outcome = node.core.start(asker(), request, node.now);
    assert!(matches!(outcome, StartOutcome::Started), "{outcome:?}");
}

/// Takes the effects, and returns the tokens that were passed on, and whether some are forgotten.
fn passed(node: &mut Node) -> (Vec<Token>, bool) {
    let (mut passed, mut forgotten) = (Vec::new(), false);
    for effect in node.core.take_effects() {
        if let Effect::Tokens { id, tokens } = effect {
            assert_eq!(id, APP);
            passed.extend(tokens);
        } else if let Effect::ForgetTokens(id) = effect {
            assert_eq!(id, APP);
            forgotten = true;
        }
    }
    (passed, forgotten)
}

fn renew(node: &mut Node, tokens: Vec<(ApplicationId, Vec<Token>)>) {
    node.answered(HeartbeatOrders {
        tokens,
        ..HeartbeatOrders::default()
    });
}

#[test]
fn a_containers_tokens_are_passed_on_in_a_secure_cluster_alone() {
    let brought = vec![token_of("a:1", 1)];
    let mut node = Node::new();
    start_with(&mut node, 1, brought.clone());
    assert_eq!(passed(&mut node), (Vec::new(), false));
    let mut node = secure_node();
    start_with(&mut node, 1, brought.clone());
    assert_eq!(passed(&mut node), (brought, false));
    start_with(&mut node, 2, Vec::new());
    assert_eq!(passed(&mut node), (Vec::new(), false));
    node.launched(1);
    node.launched(2);
    node.exit(1, 0);
    node.exit(2, 0);
    node.finish_application();
    assert_eq!(passed(&mut node), (Vec::new(), true));
}

#[test]
fn tokens_that_the_resource_manager_got_anew_win_over_those_of_containers() {
    let mut node = secure_node();
    start_with(&mut node, 1, vec![token_of("a:1", 1), token_of("b:1", 1)]);
    let _of_the_start = passed(&mut node);
    let newer = token_of("a:1", 9);
    let elsewhere = ApplicationId::new(APP.cluster_timestamp, APP.id + 1);
    let all = vec![
        (APP, vec![newer.clone()]),
        (elsewhere, vec![token_of("a:1", 8)]),
    ];
    renew(&mut node, all);
    assert_eq!(passed(&mut node).0, std::slice::from_ref(&newer));
    // No new ones is no change.
    renew(&mut node, Vec::new());
    start_with(&mut node, 2, vec![token_of("a:1", 1), token_of("b:1", 2)]);
    assert_eq!(passed(&mut node).0, [newer.clone(), token_of("b:1", 2)]);
    // A container that brings none gets to read with them, too.
    start_with(&mut node, 3, Vec::new());
    assert_eq!(passed(&mut node).0, [newer]);
    renew(&mut node, vec![(elsewhere, vec![token_of("a:1", 7)])]);
    assert_eq!(
        passed(&mut node).0,
        [],
        "of an application that is not here"
    );
}
