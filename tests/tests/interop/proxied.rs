//! ApplicationMasters that reach the ResourceManager through their node's AMRMProxy.
//!
//! With one machine every master's `localhost` is the same, so each node's containers have a configuration with its own
//! proxy's port.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use tests::conf::Options;
use tests::distributed_shell::ContainerType;
use tests::rm::RmKind;
use tests::wait;
use wire::client::{ClientAuth, ClientOptions, RpcClient, RpcError};
use wire::credentials::Credentials;
use wire::exception::HadoopException;
use wire::protocol::application_master;
use wire::token::{Token, kind};

use crate::{Cluster, JOB_DEADLINE, STATE_DEADLINE};

fn proxied(options: Options) -> Options {
    options.with("yarn.nodemanager.amrmproxy.enabled", true)
}

/// A series of the node's metrics; 0 when it is not there.
fn metric(cluster: &Cluster, series: &str) -> Result<f64, String> {
    let text = cluster.node.get("/metrics")?.body;
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    let value = line.map_or("0", str::trim);
    value.parse().map_err(|_| format!("{series} is {value}"))
}

/// The AMRMTokens in the token file of an application's master.
fn master_tokens(cluster: &Cluster, application_id: &str) -> Vec<Token> {
    // There may be an epoch before it.
    let master = application_id.replace("application", "") + "_01_000001";
    let file = find(&cluster.node.site.local_dir(), &master)
        .map(|folder| folder.join("container_tokens"))
        .expect("a running master has a folder");
    let credentials = fs::read(file).expect("a running master has its tokens");
    let credentials = Credentials::read(&credentials).expect("a token file can be read");
    let tokens = credentials.tokens.into_values();
    tokens
        .filter(|token| token.kind == kind::AM_RM_TOKEN)
        .collect()
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?;
    let folders: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir())
        .collect();
    let found = folders.iter().find(|path| {
        let last = path.file_name().map(|last| last.to_string_lossy());
        last.is_some_and(|last| last.ends_with(name)) && path.join("container_tokens").exists()
    });
    found
        .cloned()
        .or_else(|| folders.iter().find_map(|path| find(path, name)))
}

/// Opens the door of a scheduler, or not.
fn knock(port: u16, token: Token) -> Result<(), RpcError> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let (auth, options) = (ClientAuth::Token(token), ClientOptions::default());
    let connecting = RpcClient::connect(address, application_master::PROTOCOL, auth, &options);
    runtime.block_on(connecting).map(|_| ())
}

with_each_rm!(
    a_job_of_guaranteed_containers_succeeds_and_its_master_holds_a_token_of_this_node_only,
);

fn a_job_of_guaranteed_containers_succeeds_and_its_master_holds_a_token_of_this_node_only(
    rm: &RmKind,
) {
    let cluster = Cluster::start(rm, 8, proxied(Options::default()));
    let gate = cluster.gate("gate");
    let mut shell = cluster.submit(
        "proxied",
        &gate.wait_command(),
        6,
        ContainerType::Guaranteed,
    );
    let id = shell.application_id();
    wait::until(
        "the master's heartbeats through the proxy",
        STATE_DEADLINE,
        || {
            let series = "nm_agent_amrmproxy_calls_total{method=\"allocate\",outcome=\"ok\"}";
            let calls = metric(&cluster, series)?;
            wait::check(calls >= 2.0, calls.to_string())
        },
    );
    assert_eq!(metric(&cluster, "nm_agent_amrmproxy_pipelines"), Ok(1.0));
    let mut tokens = master_tokens(&cluster, &id);
    assert_eq!(tokens.len(), 1, "{tokens:?}");
    let token = tokens.remove(0);
    assert_eq!(token.service, "");
    knock(cluster.node.site.ports.amrm_proxy, token.clone())
        .expect("the node's own token opens the proxy");
    let refusal =
        knock(cluster.lab.rm_ports().scheduler, token).expect_err("it opens nothing else");
    let refusal = refusal.remote().expect("the ResourceManager says why");
    assert!(refusal.is(HadoopException::InvalidToken), "{refusal}");
    gate.open();
    let outcome = shell.outcome(JOB_DEADLINE);
    assert!(outcome.succeeded, "{}", outcome.log);
    let statuses = cluster.node.logs(&id).exit_statuses_of_used();
    assert_eq!(statuses.len(), 6, "{statuses:?}");
    assert!(
        statuses.iter().all(|(_, status)| *status == 0),
        "{statuses:?}"
    );
    wait::until("the pipeline's end", STATE_DEADLINE, || {
        let pipelines = metric(&cluster, "nm_agent_amrmproxy_pipelines")?;
        wait::check(pipelines == 0.0, pipelines.to_string())
    });
}
