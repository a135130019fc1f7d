//! Ports on which each kind of AMRMToken is accepted.

use test_support::scripted::connect_scheduler;
use tests::client::Client;
use tests::cluster::STATE_DEADLINE;
use tests::{require, wait};
use wire::exception::HadoopException;
use wire::proto::hadoop_yarn::{ApplicationSubmissionContextProto, ContainerLaunchContextProto};
use wire::token::Token;

use crate::proxy_interop::cluster::{Cluster, here};
use crate::proxy_interop::{agent, distributed};

#[test]
fn a_nodes_token_opens_no_resource_manager_and_a_resource_managers_no_node() {
    require!(java, hadoop);
    let cluster = Cluster::start(&[agent()], distributed());
    let (node, launched) = cluster.launch();
    let proxy = here(node.site.ports.amrm_proxy);
    let scheduler = here(cluster.lab.rm_ports().scheduler);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let rms_own = unmanaged(&cluster);
    for (opens, token) in [(proxy, &launched.token), (scheduler, &rms_own)] {
        let refuses = if opens == proxy { scheduler } else { proxy };
        runtime.block_on(connect_scheduler(opens, token)).unwrap();
        let refusal = runtime
            .block_on(connect_scheduler(refuses, token))
            .unwrap_err();
        let refusal = refusal.remote().expect("a server says why");
        assert!(refusal.is(HadoopException::InvalidToken), "{refusal}");
    }
}

/// Returns the token of an unmanaged ApplicationMaster: its client gets it.
fn unmanaged(cluster: &Cluster) -> Token {
    let client = Client::connect(cluster.lab.rm_ports().client);
    let id = client.new_application();
    let submission = ApplicationSubmissionContextProto {
        application_id: Some(id.into()),
        am_container_spec: Some(ContainerLaunchContextProto::default()),
        unmanaged_am: Some(true),
        max_app_attempts: Some(1),
        resource: Some(records::Resource::new(128, 1).into()),
        ..ApplicationSubmissionContextProto::default()
    };
    client.submit(submission).unwrap();
    wait::until("the token of an unmanaged master", STATE_DEADLINE, || {
        let report = client.report(id).map_err(|error| error.to_string())?;
        report
            .am_rm_token
            .map(Token::from)
            .ok_or_else(|| "none".to_owned())
    })
}
