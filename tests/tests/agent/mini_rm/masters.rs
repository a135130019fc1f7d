//! Calls that masters may not make: each refusal has the class that Hadoop's masters decide on, and
//! affects no other master.

use std::net::SocketAddr;

use prost::Message as _;
use records::Resource;
use test_support::scripted::ScriptedAmRmClient;
use tests::client::Client;
use wire::exception::HadoopException;
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AmrmTokenIdentifierProto, ExecutionTypeProto,
    FinishApplicationMasterRequestProto, KillApplicationRequestProto,
    RegisterApplicationMasterRequestProto, ResourceBlacklistRequestProto, ResourceProto,
};
use wire::protocol::application_client::ForceKillApplication;
use wire::protocol::application_master::{
    self, Allocate, FinishApplicationMaster, RegisterApplicationMaster,
};
use wire::rpc::{ClientAuth, ClientOptions, Method, RpcClient, RpcError};
use wire::token::Token;

use crate::mini_rm::distributed::{Cluster, ENABLED, SIZE, runtime};

#[track_caller]
fn assert_is(error: &RpcError, exception: HadoopException) {
    let remote = error.remote().unwrap_or_else(|| panic!("{error}"));
    assert!(remote.is(exception), "{remote}");
}

/// Makes a call; expects that it is refused with this exception.
async fn refused<M: Method>(client: &RpcClient, request: &M::Request, exception: HadoopException)
where
    M::Response: std::fmt::Debug,
{
    let refusal = client.call::<M>(request).await;
    assert_is(&refusal.unwrap_err(), exception);
}

/// A registered master.
async fn assert_serves(master: &mut ScriptedAmRmClient) {
    let ask = ScriptedAmRmClient::ask(1, SIZE, ExecutionTypeProto::Guaranteed);
    let request = AllocateRequestProto {
        ask: vec![ask],
        ..AllocateRequestProto::default()
    };
    let answer = master.allocate(request).await.unwrap();
    assert_eq!(answer.allocated_containers.len(), 1);
}

async fn open(scheduler: SocketAddr, auth: ClientAuth) -> Result<RpcClient, RpcError> {
    let options = ClientOptions::default();
    RpcClient::connect(scheduler, application_master::PROTOCOL, auth, &options).await
}

/// Connects, and makes a call where only that is refused.
async fn refusal_of(scheduler: SocketAddr, auth: ClientAuth) -> RpcError {
    match open(scheduler, auth).await {
        Err(refusal) => refusal,
        Ok(client) => {
            let request = RegisterApplicationMasterRequestProto::default();
            let answer = client.call::<RegisterApplicationMaster>(&request).await;
            answer.unwrap_err()
        }
    }
}

#[test]
fn a_master_with_a_token_that_gives_no_right_is_refused() {
    runtime().block_on(async {
        let mut cluster = Cluster::start(&ENABLED).await;
        let scheduler = cluster.addresses.scheduler;
        let good = cluster.token.clone();

        let nobody = ClientAuth::Simple {
            user: "somebody".to_owned(),
        };
        assert_is(
            &refusal_of(scheduler, nobody).await,
            HadoopException::AccessControl,
        );

        let mut password = good.password.to_vec();
        password[0] ^= 1;
        let wrong = Token {
            password: password.into(),
            ..good.clone()
        };
        let refusal = refusal_of(scheduler, ClientAuth::Token(wrong)).await;
        assert_is(&refusal, HadoopException::Sasl);

        let other = |change: fn(&mut AmrmTokenIdentifierProto)| {
            let mut identifier = AmrmTokenIdentifierProto::decode(good.identifier.clone()).unwrap();
            change(&mut identifier);
            ClientAuth::Token(Token {
                identifier: identifier.encode_to_vec().into(),
                ..good.clone()
            })
        };
        for auth in [
            other(|identifier| {
                identifier.app_attempt_id.get_or_insert_default().attempt_id = Some(2);
            }),
            other(|identifier| identifier.app_attempt_id = None),
            other(|identifier| identifier.key_id = identifier.key_id.map(|id| id.wrapping_add(1))),
        ] {
            let refusal = refusal_of(scheduler, auth).await;
            assert_is(&refusal, HadoopException::InvalidToken);
        }

        // The rightful master is not affected.
        cluster.master.register().await;
        assert_serves(&mut cluster.master).await;
        cluster.stop.cancel();
    });
}

#[test]
fn a_master_whose_application_was_killed_is_told_so_and_cannot_come_back() {
    runtime().block_on(async {
        let mut cluster = Cluster::start(&ENABLED).await;
        cluster.master.register().await;
        assert_serves(&mut cluster.master).await;
        let id = cluster.master.attempt.application_id;
        let port = cluster.addresses.client.port();
        let kill = move || {
            let kill = KillApplicationRequestProto {
                application_id: Some(id.into()),
                ..KillApplicationRequestProto::default()
            };
            Client::connect(port)
                .call::<ForceKillApplication>(&kill)
                .unwrap()
        };
        let answer = tokio::task::spawn_blocking(kill).await.unwrap();
        assert!(answer.is_kill_completed());

        let exception = HadoopException::ApplicationAttemptNotFound;
        let client = cluster.master.client();
        refused::<Allocate>(client, &AllocateRequestProto::default(), exception).await;
        refused::<FinishApplicationMaster>(client, &Default::default(), exception).await;
        refused::<RegisterApplicationMaster>(client, &Default::default(), exception).await;
        let again = ClientAuth::Token(cluster.token.clone());
        let refusal = refusal_of(cluster.addresses.scheduler, again).await;
        assert_is(&refusal, HadoopException::InvalidToken);
        cluster.stop.cancel();
    });
}

#[test]
fn calls_before_the_registration_and_a_second_registration_are_refused() {
    runtime().block_on(async {
        let mut cluster = Cluster::start(&ENABLED).await;
        let client = cluster.master.client();
        let exception = HadoopException::ApplicationMasterNotRegistered;
        refused::<Allocate>(client, &AllocateRequestProto::default(), exception).await;
        refused::<FinishApplicationMaster>(client, &Default::default(), exception).await;
        cluster.master.register().await;
        let client = cluster.master.client();
        let exception = HadoopException::InvalidApplicationMasterRequest;
        refused::<RegisterApplicationMaster>(client, &Default::default(), exception).await;
        assert_serves(&mut cluster.master).await;
        cluster.stop.cancel();
    });
}

#[test]
fn a_call_out_of_turn_is_refused_and_counts_for_nothing() {
    runtime().block_on(async {
        let mut cluster = Cluster::start(&ENABLED).await;
        cluster.master.register().await;
        let exception = HadoopException::InvalidApplicationMasterRequest;
        for response_id in [7, -5, i32::MIN, i32::MAX - 1] {
            let request = AllocateRequestProto {
                ask: vec![ScriptedAmRmClient::ask(
                    5,
                    SIZE,
                    ExecutionTypeProto::Guaranteed,
                )],
                response_id: Some(response_id),
                ..AllocateRequestProto::default()
            };
            refused::<Allocate>(cluster.master.client(), &request, exception).await;
        }
        // One container, not the five of the call out of turn.
        assert_serves(&mut cluster.master).await;
        cluster.stop.cancel();
    });
}

#[test]
fn asks_that_cannot_be_are_refused_as_a_whole() {
    runtime().block_on(async {
        let mut cluster = Cluster::start(&ENABLED).await;
        cluster.master.register().await;
        let kind = ExecutionTypeProto::Guaranteed;
        let mut foreign = cluster.master.attempt;
        foreign.attempt_id += 1;
        let size = |memory: i64, virtual_cores: i32| {
            let mut ask = ScriptedAmRmClient::ask(1, SIZE, kind);
            ask.capability = Some(ResourceProto {
                memory: Some(memory),
                virtual_cores: Some(virtual_cores),
                ..ResourceProto::default()
            });
            ask
        };
        let mut nameless = ScriptedAmRmClient::ask(1, SIZE, kind);
        nameless.resource_name = None;
        let large = Resource::new(1 << 40, 1);
        let invalid = HadoopException::InvalidResourceRequest;
        let bad_asks = [
            (ScriptedAmRmClient::ask(-1, SIZE, kind), invalid),
            (ScriptedAmRmClient::ask(i32::MIN, SIZE, kind), invalid),
            (ScriptedAmRmClient::ask(1, large, kind), invalid),
            (size(-1, 1), invalid),
            (size(1024, i32::MIN), invalid),
            (size(i64::MAX, i32::MAX), invalid),
            (nameless, invalid),
        ];
        for (ask, exception) in bad_asks {
            let request = AllocateRequestProto {
                // The valid update is refused with the other.
                ask: vec![ScriptedAmRmClient::ask(5, SIZE, kind), ask],
                response_id: Some(0),
                ..AllocateRequestProto::default()
            };
            refused::<Allocate>(cluster.master.client(), &request, exception).await;
        }
        let release = AllocateRequestProto {
            release: vec![foreign.container(1).into()],
            response_id: Some(0),
            ..AllocateRequestProto::default()
        };
        let exception = HadoopException::InvalidContainerRelease;
        refused::<Allocate>(cluster.master.client(), &release, exception).await;
        let blacklist = AllocateRequestProto {
            blacklist_request: Some(ResourceBlacklistRequestProto {
                blacklist_additions: vec!["*".to_owned()],
                ..ResourceBlacklistRequestProto::default()
            }),
            response_id: Some(0),
            ..AllocateRequestProto::default()
        };
        let exception = HadoopException::InvalidResourceBlacklistRequest;
        refused::<Allocate>(cluster.master.client(), &blacklist, exception).await;
        assert_serves(&mut cluster.master).await;
        cluster.stop.cancel();
    });
}

#[test]
fn after_the_last_word_of_a_master_it_may_only_repeat_it() {
    runtime().block_on(async {
        let mut cluster = Cluster::start(&ENABLED).await;
        cluster.master.register().await;
        assert_serves(&mut cluster.master).await;
        cluster.master.finish().await;
        let client = cluster.master.client();
        let request = AllocateRequestProto {
            response_id: Some(1),
            ..AllocateRequestProto::default()
        };
        let exception = HadoopException::ApplicationAttemptNotFound;
        refused::<Allocate>(client, &request, exception).await;
        let exception = HadoopException::InvalidApplicationMasterRequest;
        refused::<RegisterApplicationMaster>(client, &Default::default(), exception).await;
        let again = FinishApplicationMasterRequestProto::default();
        let answer = client.call::<FinishApplicationMaster>(&again).await;
        assert!(answer.unwrap().is_unregistered());
        cluster.stop.cancel();
    });
}
