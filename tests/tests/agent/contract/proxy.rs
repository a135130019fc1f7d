//! Tokens and addresses that an ApplicationMaster is started with on a node with an AMRMProxy.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;

use records::ContainerId;
use test_support::LaunchContext;
use test_support::scripted::{Launched, always, connect_scheduler};
use tests::conf::Properties;
use tests::node_process::node_kind;
use tests::proxy_cluster::ProxyCluster;
use tests::scripted_cluster::ScriptedCluster;
use tests::{http, wait};
use wire::client::{ClientAuth, ClientOptions, RpcClient, RpcError};
use wire::credentials::Credentials;
use wire::exception::HadoopException;
use wire::protocol::application_master::{self, VERSION};
use wire::token::{Token, kind};

use crate::AGENT;
use crate::contract::cluster_with;

/// Enables the AMRMProxy, with a short wait for a ResourceManager that is absent.
fn proxied(site: &mut Properties) {
    site.set("yarn.nodemanager.amrmproxy.enabled", true)
        .set("yarn.nodemanager.amrmproxy.address", "127.0.0.1:0")
        .set("yarn.resourcemanager.scheduler.address", "127.0.0.1:9")
        .set("yarn.resourcemanager.connect.max-wait.ms", 200);
}

fn token(kind: &str, word: &'static str) -> Token {
    Token {
        identifier: word.as_bytes().into(),
        password: word.as_bytes().into(),
        kind: kind.to_owned(),
        service: word.to_owned(),
    }
}

/// Returns credentials with two AMRMTokens, as no ResourceManager writes them, and secrets of the
/// job's own.
fn credentials() -> Credentials {
    let tokens = [
        ("", token(kind::AM_RM_TOKEN, "one")),
        ("other", token(kind::AM_RM_TOKEN, "two")),
        ("hdfs", token("HDFS_DELEGATION_TOKEN", "files")),
    ];
    Credentials {
        tokens: tokens
            .map(|(alias, token)| (alias.to_owned(), token))
            .into(),
        secrets: BTreeMap::from([("spark".to_owned(), "secret".into())]),
    }
}

/// Returns the credentials in the container's token file.
fn given(cluster: &ScriptedCluster, id: ContainerId) -> Credentials {
    let folder = cluster.node.local_dir();
    // The file exists before all of it is written.
    wait::until("a whole token file", wait_deadline(), || {
        let file = walk(&folder, &id.to_string()).ok_or("no token file")?;
        let bytes = fs::read(file).map_err(|_| "not readable")?;
        Credentials::read(&bytes).map_err(|_| "not yet whole")
    })
}

fn wait_deadline() -> std::time::Duration {
    std::time::Duration::from_secs(30)
}

fn walk(folder: &std::path::Path, container: &str) -> Option<std::path::PathBuf> {
    fs::read_dir(folder).ok()?.flatten().find_map(|entry| {
        let path = entry.path();
        let tokens = path.join("container_tokens");
        if entry.file_name() == container && tokens.exists() {
            return Some(tokens);
        }
        walk(&path, container)
    })
}

fn proxy_address(cluster: &ScriptedCluster) -> SocketAddr {
    let log = cluster.node.process.log();
    let (_, rest) = log
        .split_once("the AMRMProxy listens address=")
        .expect("the node tells where its proxy is");
    let address = rest.split_whitespace().next().unwrap_or_default();
    address.parse().expect("it is an address")
}

fn connect(cluster: &ScriptedCluster, token: Token) -> Result<RpcClient, RpcError> {
    let address = proxy_address(cluster);
    let (auth, options) = (ClientAuth::Token(token), ClientOptions::default());
    let connecting = RpcClient::connect(address, application_master::PROTOCOL, auth, &options);
    cluster.rm.runtime().block_on(connecting)
}

fn allocate(cluster: &ScriptedCluster, am: &RpcClient) -> RpcError {
    let calling = am.call_raw("allocate", application_master::PROTOCOL, VERSION, "".into());
    let answer = cluster.rm.runtime().block_on(calling);
    answer.expect_err("there is no ResourceManager")
}

#[test]
fn a_master_gets_a_token_of_the_node_and_keeps_all_else_until_its_application_ends() {
    let cluster = cluster_with(proxied);
    let gate = cluster.gate("gate");
    let context =
        LaunchContext::command(&gate.then("true")).tokens(credentials().write_v0().into());
    let master = cluster.am.allocate().master();
    let id = cluster.am.try_start(&master, context).expect("it starts");
    let given = given(&cluster, id);
    assert_eq!(given.secrets, credentials().secrets);
    assert_eq!(given.tokens.len(), 2, "{given:?}");
    assert_eq!(given.tokens["hdfs"], credentials().tokens["hdfs"]);
    let local = given.tokens[""].clone();
    assert_eq!(
        (local.kind.as_str(), local.service.as_str()),
        (kind::AM_RM_TOKEN, "")
    );

    let am = connect(&cluster, local.clone()).expect("the token opens the proxy");
    let refusal = allocate(&cluster, &am);
    let refusal = refusal.remote().expect("the proxy answers");
    assert!(refusal.is(HadoopException::Retriable), "{refusal}");
    for other in ["", "other"] {
        let refused = connect(&cluster, credentials().tokens[other].clone());
        let refusal = refused.expect_err("it is not of this node");
        let refusal = refusal.remote().expect("the proxy says why");
        assert!(refusal.is(HadoopException::InvalidToken), "{refusal}");
    }

    cluster.rm.order(|answer| {
        let application = cluster.am.attempt().application_id;
        answer.applications_to_cleanup.push(application.into());
    });
    gate.open();
    wait::until("the end of the token", wait_deadline(), || {
        let refused = connect(&cluster, local.clone()).err();
        refused.map(|_| ()).ok_or("it still opens the proxy")
    });
    let refusal = allocate(&cluster, &am);
    let refusal = refusal.remote().expect("the proxy answers");
    assert!(
        refusal.is(HadoopException::ApplicationAttemptNotFound),
        "{refusal}"
    );
}

#[test]
fn containers_that_are_no_masters_keep_what_they_are_given() {
    let cluster = cluster_with(proxied);
    let gate = cluster.gate("gate");
    let context = || LaunchContext::command(&gate.then("true"));
    let task = cluster.am.allocate();
    let task = cluster
        .am
        .try_start(&task, context().tokens(credentials().write_v0().into()))
        .expect("it starts");
    assert_eq!(given(&cluster, task), credentials());
    // A master without an AMRMToken can call nobody.
    let mut own = credentials();
    own.remove_kind(kind::AM_RM_TOKEN);
    let master = cluster.am.allocate().master();
    let master = cluster
        .am
        .try_start(&master, context().tokens(own.write_v0().into()))
        .expect("it starts");
    assert_eq!(given(&cluster, master), own);
    gate.open();
}

#[test]
fn a_master_whose_start_is_refused_leaves_no_pipeline() {
    let cluster = cluster_with(proxied);
    let mut expired = cluster.am.allocate().master();
    expired.expires_ms = 1;
    let context = LaunchContext::command("true").tokens(credentials().write_v0().into());
    cluster
        .am
        .try_start(&expired, context)
        .expect_err("its token has expired");
    let broken = LaunchContext::command("true").tokens(bytes::Bytes::from_static(b"HDTS\x00\x7f"));
    cluster
        .am
        .try_start(&cluster.am.allocate().master(), broken)
        .expect_err("its credentials are broken");
    let registration = cluster.rm.wait_registrations(1);
    let port = registration.http_port();
    let metrics = http::get(&format!("http://127.0.0.1:{port}/metrics")).expect("it answers");
    let line = "nm_agent_amrmproxy_pipelines 0";
    assert!(metrics.body.contains(line), "{}", metrics.body);
    cluster.assert_serves();
}

#[test]
fn a_master_that_keeps_its_token_may_go_through_the_node_or_straight() {
    let cluster = ProxyCluster::start(&node_kind(AGENT), always(""), |site| {
        site.set("yarn.nodemanager.agent.amrmproxy.token", "keep");
    });
    let Launched { attempt, token, .. } = cluster.launch(1);
    assert_eq!(token, cluster.scheduler.token(attempt));
    let runtime = cluster.rm.runtime();
    let try_connect = |door, token: &Token| runtime.block_on(connect_scheduler(door, token));
    for door in [cluster.proxy, cluster.scheduler.address] {
        try_connect(door, &token).expect("the token opens both");
    }
    let foreign = cluster.scheduler.token(test_support::ids::attempt(9));
    let forged = Token {
        password: "a guess".into(),
        ..token
    };
    for refused in [foreign, forged] {
        let error = try_connect(cluster.proxy, &refused).expect_err("the node has not seen it");
        assert!(error.remote().is_some(), "{error}");
    }
}
